"""Nodes of types that the catalog does not have: their own slots name some of their widgets."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from comfyrail.workflow.editor.model import EditorNode
from comfyrail.workflow.editor.node_inputs import HeldWidget, NodeInputs
from comfyrail.workflow.editor.widget_kinds import Widget

CONTROL_WORDS = frozenset({"fixed", "increment", "decrement", "randomize", "increment-wrap"})
UPLOAD = "IMAGEUPLOAD"


def guess_inputs(node: EditorNode) -> NodeInputs:
    """The inputs of a node as far as it names them itself."""
    named = node.named or (node.values if isinstance(node.values, Mapping) else {})
    if named:
        return _guessed(node, named.items())
    values = list(node.values)
    slots = [slot for slot in node.inputs if slot.widget is not None]
    names = [slot.widget for slot in slots if slot.widget and slot.type != UPLOAD]
    matched = _match(names, values)
    return _guessed(node, (), len(values)) if matched is None else _guessed(node, matched)


def _guessed(node: EditorNode, pairs: Iterable[tuple[str, Any]], unnamed: int = 0) -> NodeInputs:
    widgets = [_held(name, value) for name, value in pairs]
    return NodeInputs(node.inputs, widgets, is_known=False, unnamed=unnamed)


def _match(names: Sequence[str], values: Sequence[Any]) -> list[tuple[str, Any]] | None:
    """Names and values, one to one once the values that only the editor uses are left out."""
    if len(names) == len(values):
        return list(zip(names, values, strict=True))
    kept = list(_without_controls(values))
    if len(names) == len(kept):
        return list(zip(names, kept, strict=True))
    return None


def _without_controls(values: Sequence[Any]) -> Iterator[Any]:
    for place, value in enumerate(values):
        follows_number = place > 0 and isinstance(values[place - 1], int | float)
        if not (follows_number and isinstance(value, str) and value in CONTROL_WORDS):
            yield value


def _held(name: str, value: Any) -> HeldWidget:
    is_editors = value in CONTROL_WORDS if isinstance(value, str) else False
    sent = not (is_editors and name.endswith("control_after_generate"))
    return HeldWidget(Widget(name, "UNKNOWN", sent=sent, socket="*"), value)
