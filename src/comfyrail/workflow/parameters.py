"""`input_params`: values that the caller sets into a workflow's nodes."""

from collections.abc import Iterator, Mapping
from typing import Any

from comfyrail.errors import UnknownParameter
from comfyrail.workflow.catalog import NodeCatalog
from comfyrail.workflow.graph import Node, Workflow
from comfyrail.workflow.nearest import Suggestions, did_you_mean, shown

KEY_LIMIT = 500


def apply_parameters(
    workflow: Workflow, parameters: Mapping[str, Any], catalog: NodeCatalog | None = None
) -> Workflow:
    """The workflow with each parameter set.

    A key is `"<node id>.<input>"` or `"<node title>.<input>"`; `{"<node>": {"<input>": value}}` is
    the same in another form. A node id is tried before a title. An input that the node does not
    have yet is accepted when the catalog knows it. Raises UnknownParameter with the nearest names,
    naming all keys that lead nowhere.
    """
    findings: list[dict[str, Any]] = []
    suggestions = Suggestions()
    changes: dict[str, dict[str, Any]] = {}
    for key, value in _flatten(workflow, parameters):
        target = _resolve(workflow, key, catalog or NodeCatalog(), suggestions)
        if isinstance(target, str):
            findings.append(_finding(key, target))
            continue
        node, input_name = target
        changes.setdefault(node.id, {})[input_name] = value
    if findings:
        message = " ".join(finding["message"] for finding in findings[:3])
        raise UnknownParameter(message, findings=findings)
    return workflow.with_inputs(changes)


def _flatten(workflow: Workflow, parameters: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    for key, value in parameters.items():
        if isinstance(value, Mapping) and (key in workflow.nodes or _titled(workflow, key)):
            for input_name, inner in value.items():
                yield f"{key}.{input_name}", inner
        else:
            yield key, value


def _resolve(
    workflow: Workflow, key: str, catalog: NodeCatalog, suggestions: Suggestions
) -> tuple[Node, str] | str:
    """The node and input that a key means, or a message that says why it means none."""
    if len(key) > KEY_LIMIT:
        return f"The parameter {shown(key)} is longer than {KEY_LIMIT} characters."
    splits = [(key[:at], key[at + 1 :]) for at, char in enumerate(key) if char == "."]
    matches = [(workflow.nodes[left], right) for left, right in splits if left in workflow.nodes]
    if not matches:
        titled = [(_titled(workflow, left), left, right) for left, right in splits]
        for nodes, title, _ in titled:
            if len(nodes) > 1:
                ids = ", ".join(node.id for node in nodes)
                return f"The title '{title}' belongs to nodes {ids}: use a node id instead."
        matches = [(nodes[0], right) for nodes, _, right in titled if nodes]
    for node, input_name in matches:
        if input_name in _inputs_of(node, catalog):
            return node, input_name
    if matches:
        node, input_name = matches[0]
        near = did_you_mean(suggestions.near(input_name, _inputs_of(node, catalog)))
        return f"Node '{node.id}' ({node.class_type}) has no input '{input_name}'.{near}"
    near = did_you_mean(suggestions.near(key, _all_targets(workflow)))
    return f"No node is meant by the parameter '{key}'.{near}"


def _titled(workflow: Workflow, title: str) -> list[Node]:
    return [node for node in workflow.nodes.values() if node.title == title]


def _inputs_of(node: Node, catalog: NodeCatalog) -> list[str]:
    node_type = catalog.get(node.class_type)
    return list(dict.fromkeys([*node.inputs, *(node_type.inputs if node_type else ())]))


def _all_targets(workflow: Workflow) -> Iterator[str]:
    for node in workflow.nodes.values():
        for name in node.inputs:
            yield f"{node.id}.{name}"
            if node.title:
                yield f"{node.title}.{name}"


def _finding(key: str, message: str) -> dict[str, Any]:
    return {
        "stage": "syntax",
        "severity": "error",
        "error_code": UnknownParameter.code,
        "message": message,
        "node_id": None,
        "path": f"input_params.{key}",
        "details": {},
    }
