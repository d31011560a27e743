"""Stage 1: every node by itself, against the ports of its type."""

from collections.abc import Iterator

from comfyrail.validation.findings import Finding
from comfyrail.workflow.catalog import InputPort, NodeCatalog
from comfyrail.workflow.graph import Node, Workflow
from comfyrail.workflow.nearest import Suggestions, did_you_mean, shown
from comfyrail.workflow.values import ValueFault, fit_value, unwrap


def check_syntax(workflow: Workflow, catalog: NodeCatalog) -> Iterator[Finding]:
    suggestions = Suggestions()
    for node in workflow.nodes.values():
        node_type = catalog.get(node.class_type)
        if node_type is None:
            near = suggestions.near(node.class_type, catalog.types)
            yield Finding(
                "syntax",
                "error",
                "UNKNOWN_NODE_TYPE",
                f"Node '{node.id}': no worker knows the node type {shown(node.class_type)}."
                f"{did_you_mean(near)}",
                node_id=node.id,
                path=f"{node.id}.class_type",
                details={"class_type": node.class_type[:200], "nearest": near},
            )
            continue
        for name, value in node.inputs.items():
            port = node_type.inputs.get(name)
            # A link is for the semantic stage; a file name only the worker can judge.
            if port is None or isinstance(value, list) or port.takes_upload:
                continue
            fault = fit_value(port, unwrap(value))
            if isinstance(fault, ValueFault):
                yield _describe_fault(node, port, fault, suggestions)


def _describe_fault(
    node: Node, port: InputPort, fault: ValueFault, suggestions: Suggestions
) -> Finding:
    value = node.inputs[port.name]
    where = f"Node '{node.id}' ({node.class_type}), input '{port.name}'"
    choices = [str(choice) for choice in port.choices or ()]
    near = suggestions.near(value, choices) if choices and isinstance(value, str) else []
    got = shown(value)
    messages = {
        "invalid_input_type": f"expected {port.type}, got {got}.",
        "value_smaller_than_min": f"{got} is smaller than the minimum {port.minimum}.",
        "value_bigger_than_max": f"{got} is bigger than the maximum {port.maximum}.",
        "value_not_in_list": f"{got} is none of the {len(choices)} choices." + did_you_mean(near),
    }
    return Finding(
        "syntax",
        "error",
        "SCHEMA_VALIDATION_ERROR",
        f"{where}: {messages[fault.kind]}",
        node_id=node.id,
        path=f"{node.id}.inputs.{port.name}",
        details={"reason": fault.kind, "nearest": near},
    )
