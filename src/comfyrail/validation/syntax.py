"""Stage 1: every node by itself, against the ports of its type."""

from collections.abc import Iterator, Sequence
from typing import Any

from comfyrail.validation.findings import Finding
from comfyrail.validation.literals import (
    LiteralFault,
    find_fault,
    find_unsoundness,
    is_sound_text,
)
from comfyrail.validation.node_checks import ExaminedNode, NodeCheck, dynamic_choices
from comfyrail.workflow.catalog import InputPort, NodeCatalog
from comfyrail.workflow.graph import Node
from comfyrail.workflow.nearest import Suggestions, did_you_mean, printable, shown

LONGEST_NAME = 500
LONGEST_LIST = 120
CHOICES_KEPT = 50


def check_syntax(examined: Sequence[ExaminedNode], catalog: NodeCatalog) -> list[Finding]:
    """All faults of the stage. With an empty catalog only what needs none is checked."""
    findings: list[Finding] = []
    suggestions = Suggestions()
    for each in examined:
        node, check = each.node, each.check
        if not _is_proper_name(node.id):
            findings.append(_bad_id(node))
            continue
        if check is None:
            if catalog:
                findings.append(_unknown_type(node, catalog, suggestions))
            findings.extend(_find_unsound_inputs(node))
            continue
        tests = check.tests
        for name, value in node.inputs.items():
            test = tests.get(name)
            if test is None or not (type(value) is list or test(value)):
                findings.extend(_look_closely(node, check, name, value, suggestions))
    return findings


def _look_closely(
    node: Node, check: NodeCheck, name: str, value: Any, suggestions: Suggestions
) -> Iterator[Finding]:
    port = check.ports.get(name)
    if port is None and not _is_proper_name(name):
        yield _bad_input_name(node, name)
        return
    if port is None:
        declared = check.type.inputs.get(name)
        keys = None if declared is None else dynamic_choices(declared)
        # Which inputs there are depends on it, so it is a plain literal: no link, no wrapper.
        if declared is not None and keys is not None and value not in keys:
            yield _not_a_choice(node, declared, value, [str(key) for key in keys], suggestions)
            return
    if type(value) is list:
        return
    fault = find_fault(node.class_type, port, value)
    if fault is not None and fault.reason == "value_not_in_list" and port is not None:
        choices = [str(choice) for choice in port.choices or ()]
        yield _not_a_choice(node, port, value, choices, suggestions)
    elif fault is not None:
        yield _finding(node, name, fault)


def _find_unsound_inputs(node: Node) -> Iterator[Finding]:
    for name, value in node.inputs.items():
        if not _is_proper_name(name):
            yield _bad_input_name(node, name)
        elif type(value) is not list:
            fault = find_unsoundness(value)
            if fault is not None:
                yield _finding(node, name, fault)


def _is_proper_name(name: object) -> bool:
    """Whether messages can name it."""
    return is_sound_text(name) and len(str(name)) <= LONGEST_NAME


def _unknown_type(node: Node, catalog: NodeCatalog, suggestions: Suggestions) -> Finding:
    near = suggestions.near(node.class_type, catalog.types)
    return Finding(
        "syntax",
        "error",
        "UNKNOWN_NODE_TYPE",
        f"Node '{node.id}': no worker knows the node type {shown(node.class_type)}."
        f"{did_you_mean(near)}",
        node_id=node.id,
        path=f"{node.id}.class_type",
        details={"class_type": printable(node.class_type), "nearest": near},
    )


def _not_a_choice(
    node: Node, port: InputPort, value: Any, choices: Sequence[str], suggestions: Suggestions
) -> Finding:
    near = suggestions.near(value, choices) if isinstance(value, str) else []
    text = f"{shown(value)} is none of {_listed(choices)}.{did_you_mean(near)}"
    fault = LiteralFault("value_not_in_list", text)
    few = [printable(choice) for choice in choices[:CHOICES_KEPT]]
    return _finding(node, port.name, fault, nearest=near, choices=few)


def _listed(choices: Sequence[str]) -> str:
    """The choices where they are few and short, else how many there are."""
    listed = ", ".join(shown(choice) for choice in choices)
    if not choices or len(listed) > LONGEST_LIST:
        return f"the {len(choices)} choices"
    return f"the choices {listed}" if len(choices) > 1 else f"the choices, of which {listed} is all"


def _finding(node: Node, name: str, fault: LiteralFault, **details: Any) -> Finding:
    where = f"Node '{node.id}' ({printable(node.class_type, 80)}), input '{name}'"
    return Finding(
        "syntax",
        "warning" if fault.is_warning else "error",
        "AMBIGUOUS_VALUE" if fault.is_warning else "SCHEMA_VALIDATION_ERROR",
        f"{where}: {fault.text}",
        node_id=node.id,
        path=f"{node.id}.inputs.{name}",
        details={"reason": fault.reason, **details},
    )


def _bad_id(node: Node) -> Finding:
    shown_id = printable(shown(node.id))
    return Finding(
        "syntax",
        "error",
        "SCHEMA_VALIDATION_ERROR",
        f"The node id {shown(node.id)} is no text, too long or not UTF-8.",
        node_id=shown_id,
        path=shown_id,
        details={"reason": "bad_name"},
    )


def _bad_input_name(node: Node, name: object) -> Finding:
    return Finding(
        "syntax",
        "error",
        "SCHEMA_VALIDATION_ERROR",
        f"Node '{node.id}': the name {shown(name)} of an input is no text, too long or not UTF-8.",
        node_id=node.id,
        path=f"{node.id}.inputs",
        details={"reason": "bad_name"},
    )
