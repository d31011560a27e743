"""Stage 2: the nodes together: links, their types, required inputs, cycles, outputs, models."""

from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any

from comfyrail.errors import CyclicWorkflow
from comfyrail.validation.context import ValidationContext
from comfyrail.validation.findings import Finding
from comfyrail.validation.missing_models import find_missing_models
from comfyrail.validation.node_checks import ExaminedNode, NodeCheck
from comfyrail.workflow import catalog as node_catalog
from comfyrail.workflow.catalog import InputPort
from comfyrail.workflow.graph import Node, Workflow, is_link
from comfyrail.workflow.nearest import Suggestions, did_you_mean, printable, shown
from comfyrail.workflow.order import find_cycles

MOST_CYCLES = 20
MOST_NAMED = 20

types_match = lru_cache(maxsize=4096)(node_catalog.types_match)


def check_semantics(
    workflow: Workflow, examined: Sequence[ExaminedNode], context: ValidationContext
) -> list[Finding]:
    """All faults of the stage; of nodes whose type is not known, what can be said of them."""
    findings: list[Finding] = []
    suggestions = Suggestions()
    checks = {each.node.id: each.check for each in examined}
    for each in examined:
        node, check = each.node, each.check
        inputs = node.inputs
        if check is not None:
            findings.extend(
                _missing_input(node, port, check, suggestions)
                for port in check.required
                if port.name not in inputs
            )
        for name, value in inputs.items():
            if type(value) is list and not _is_right_link(value, name, check, checks):
                findings.extend(_judge_link(workflow, node, name, checks, suggestions))
    findings.extend(_find_cycles(workflow))
    if context.catalog and not any(each.check is None or _is_output(each) for each in examined):
        findings.append(_no_output())
    findings.extend(find_missing_models(examined, context, suggestions))
    return findings


def _is_right_link(
    link: list[Any],
    name: str,
    check: NodeCheck | None,
    checks: Mapping[str, NodeCheck | None],
) -> bool:
    """Whether a link is right at first sight: nearly all are."""
    if len(link) != 2 or type(link[0]) is not str or type(link[1]) is not int:
        return False
    source = checks.get(link[0])
    if source is None or not 0 <= link[1] < len(source.output_types):
        return False
    port = None if check is None else check.ports.get(name)
    return port is None or types_match(source.output_types[link[1]], port.type)


def _judge_link(
    workflow: Workflow,
    node: Node,
    name: str,
    checks: Mapping[str, NodeCheck | None],
    suggestions: Suggestions,
) -> Iterator[Finding]:
    link = node.inputs[name]
    if not is_link(link):
        yield _not_a_link(workflow, node, name, link)
        return
    source_id, slot = link[0], int(link[1])
    if source_id not in workflow.nodes:
        yield _missing_source(workflow, node, name, source_id, suggestions)
        return
    source = checks[source_id]
    if source is None:
        if slot < 0:
            yield _missing_slot(workflow, node, name, None)
        return
    if not 0 <= slot < len(source.output_types):
        yield _missing_slot(workflow, node, name, len(source.output_types))
        return
    check = checks[node.id]
    port = None if check is None else check.ports.get(name)
    actual = source.output_types[slot]
    if port is not None and not types_match(actual, port.type):
        yield _wrong_type(node, port, source, source_id, actual)


def _missing_input(
    node: Node, port: InputPort, check: NodeCheck, suggestions: Suggestions
) -> Finding:
    strangers = [name for name in node.inputs if name not in check.ports]
    near = suggestions.near(port.name, strangers) if strangers else []
    misspelt = f" Is '{near[0]}' meant to be it?" if near else ""
    return Finding(
        "semantic",
        "error",
        "MISSING_REQUIRED_INPUT",
        f"Node '{node.id}' ({node.class_type}) needs the input '{port.name}' ({port.type})."
        f"{misspelt}",
        node_id=node.id,
        path=f"{node.id}.inputs.{port.name}",
        details={"input": port.name, "expected_type": port.type, "nearest": near},
    )


def _bad_link(node: Node, name: str, text: str, **details: Any) -> Finding:
    return Finding(
        "semantic",
        "error",
        "BAD_LINK",
        f"Node '{node.id}', input '{name}': {text}",
        node_id=node.id,
        path=f"{node.id}.inputs.{name}",
        details=details,
    )


def _not_a_link(workflow: Workflow, node: Node, name: str, value: list[Any]) -> Finding:
    advice = ' A literal list is written {"__value__": [...]}.'
    if len(value) == 2 and type(value[0]) is int and str(value[0]) in workflow.nodes:
        advice = f' Node ids are texts: write ["{value[0]}", {shown(value[1])}].'
    text = f'a link is ["node id", output number], not {shown(value)}.{advice}'
    return _bad_link(node, name, text, reason="not_a_link")


def _missing_source(
    workflow: Workflow, node: Node, name: str, source: str, suggestions: Suggestions
) -> Finding:
    near = suggestions.near(source, workflow.nodes)
    text = f"there is no node {shown(source)}.{did_you_mean(near)}"
    return _bad_link(
        node, name, text, reason="no_such_node", from_node=printable(source), nearest=near
    )


def _missing_slot(workflow: Workflow, node: Node, name: str, outputs: int | None) -> Finding:
    source, slot = node.inputs[name]
    known = "outputs are counted from 0"
    if outputs is not None:
        known = f"it has {outputs} output{'' if outputs == 1 else 's'} (counted from 0)"
    kind = printable(workflow.nodes[source].class_type, 80)
    text = f"node '{source}' ({kind}) has no output number {shown(slot)}: {known}."
    return _bad_link(node, name, text, reason="no_such_output", from_node=source, outputs=outputs)


def _wrong_type(
    node: Node, port: InputPort, source: NodeCheck, source_id: str, actual: str
) -> Finding:
    return Finding(
        "semantic",
        "error",
        "TYPE_MISMATCH",
        f"Node '{node.id}', input '{port.name}' takes {port.type}, but node '{source_id}' "
        f"({source.type.name}) gives {actual}.",
        node_id=node.id,
        path=f"{node.id}.inputs.{port.name}",
        details={"from_node": source_id, "expected_type": port.type, "actual_type": actual},
    )


def _find_cycles(workflow: Workflow) -> Iterator[Finding]:
    try:
        workflow.order  # noqa: B018 - reading it is the check
    except CyclicWorkflow:
        for cycle in find_cycles(workflow.sources, MOST_CYCLES):
            yield _cycle(cycle)


def _cycle(cycle: Sequence[str]) -> Finding:
    named = [*cycle[:MOST_NAMED], "…"] if len(cycle) > MOST_NAMED else [*cycle]
    return Finding(
        "semantic",
        "error",
        "CIRCULAR_DEPENDENCY",
        f"The workflow has a cycle: {' → '.join([*named, cycle[0]])}. Remove one of these links.",
        node_id=cycle[0],
        path=cycle[0],
        details={"cycle": list(cycle)},
    )


def _is_output(each: ExaminedNode) -> bool:
    return each.check is not None and each.check.type.is_output


def _no_output() -> Finding:
    return Finding(
        "semantic",
        "error",
        "NO_OUTPUT_NODE",
        "The workflow has no output node: nothing would be kept. Add one, such as SaveImage.",
    )
