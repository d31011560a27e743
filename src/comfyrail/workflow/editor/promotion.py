"""Widgets of inner nodes that a subgraph shows on its outside, and the values they have there."""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from comfyrail.workflow.editor.model import EditorGraph, EditorNode, InputSlot
from comfyrail.workflow.editor.node_inputs import NodeInputs, values_by_name
from comfyrail.workflow.editor.widget_kinds import ABSENT

OWN_INPUT = "-1"
NO_WIDGET = object()
_PREFIXED = re.compile(r"\s*(\d{1,15})\s*:\s*(.+)", re.DOTALL)

Overrides = dict[str, dict[str, Any]]
"""Values of widgets by their name, by the id of their node."""


@dataclass(frozen=True, slots=True)
class Shown:
    """What a subgraph shows: by the names of its inputs the values that the widgets inside have,
    and which input stands for a widget, by its node and name.
    """

    values: Mapping[str, Any]
    inputs: Mapping[tuple[str, str], str]


class ShownWidgets:
    """Which inputs of subgraphs lead to a widget inside: such an input has a widget outside too,
    with the same value until another is given there.
    """

    def __init__(
        self,
        subgraphs: Mapping[str, EditorGraph],
        inputs_of: Callable[[EditorGraph, EditorNode], NodeInputs],
    ) -> None:
        self._subgraphs = subgraphs
        self._inputs_of = inputs_of
        self._known: dict[str, Shown] = {}

    def of(self, graph: EditorGraph) -> Shown:
        """Nesting is bounded where subgraphs are unfolded, so this goes as deep at most."""
        known = self._known.get(graph.id)
        if known is None:
            known = self._known[graph.id] = self._look(graph)
        return known

    def _look(self, graph: EditorGraph) -> Shown:
        ends = {
            slot.link: (node, slot)
            for node in graph.nodes.values()
            for slot in self._inputs_of(graph, node).slots
            if slot.link is not None
        }
        values: dict[str, Any] = {}
        inputs: dict[tuple[str, str], str] = {}
        for declared in graph.inputs:
            for node, slot in (ends[link] for link in declared.links if link in ends):
                value = self._value_at(graph, node, slot)
                if value is not NO_WIDGET:
                    values.setdefault(declared.name, value)
                    inputs.setdefault((node.id, slot.widget or slot.name), declared.name)
        return Shown(values, inputs)

    def _value_at(self, graph: EditorGraph, node: EditorNode, slot: InputSlot) -> Any:
        definition = self._subgraphs.get(node.type)
        if definition is not None:
            inner = self.of(definition).values
            own = dict(_own_values(node, list(inner)))
            return own.get(slot.name, inner.get(slot.name, NO_WIDGET))
        if slot.widget is None:
            return NO_WIDGET
        held = self._inputs_of(graph, node).by_name.get(slot.widget)
        return ABSENT if held is None else held.value


def shown_values(
    node: EditorNode, definition: EditorGraph, widgets: ShownWidgets, outer: Mapping[str, Any]
) -> tuple[dict[str, Any], Overrides]:
    """The values that a use of a subgraph gives to its inputs, and to widgets inside.

    `outer` are values that the graph around gives to widgets of this node: these count most. Null
    means that nothing is said.
    """
    inside = widgets.of(definition)
    entries = list(_entries(node.properties.get("proxyWidgets")))
    values = {**inside.values, **dict(_own_values(node, list(inside.values)))}
    overrides: Overrides = {}

    def give(owner: str, name: str, value: Any) -> None:
        shown_as = name if owner == OWN_INPUT else inside.inputs.get((owner, name))
        if shown_as is not None:
            values[shown_as] = value
        else:
            overrides.setdefault(owner, {})[name] = value

    listed = () if isinstance(node.values, Mapping) else node.values
    for (owner, name), value in zip(entries, listed, strict=False):
        if value is not None:
            give(owner, name, value)
    values.update(_set_aside(node.properties.get("proxyWidgetErrorQuarantine")))
    owners = {name: owner for owner, name in reversed(entries)}
    for name, value in outer.items():
        is_input = name in inside.values
        give(*((OWN_INPUT, name) if is_input else _inner_widget(name, owners)), value)
    return values, overrides


def _own_values(node: EditorNode, names: Sequence[str]) -> Iterator[tuple[str, Any]]:
    named = values_by_name(node)
    pairs = (
        zip(names, node.values, strict=False)
        if named is None
        else ((name, named.get(name)) for name in names)
    )
    return ((name, value) for name, value in pairs if value is not None)


def _entries(raw: object) -> Iterator[tuple[str, str]]:
    for entry in raw if isinstance(raw, list) else ():
        if isinstance(entry, list) and len(entry) >= 2:
            yield str(entry[0]), str(entry[1])
        else:
            yield "", ""  # keeps the places of the others


def _set_aside(raw: object) -> Iterator[tuple[str, Any]]:
    """Values that the editor could not place when it brought an old file up to date."""
    for entry in reversed(raw) if isinstance(raw, list) else ():
        if not isinstance(entry, Mapping) or entry.get("hostValue") is None:
            continue
        for owner, name in _entries([entry.get("originalEntry")]):
            if owner == OWN_INPUT:
                yield name, entry["hostValue"]


def _inner_widget(name: str, owners: Mapping[str, str]) -> tuple[str, str]:
    """The inner node and widget that a name on the outside means: 'text' or '6: text'."""
    prefixed = _PREFIXED.fullmatch(name)
    if prefixed is not None:
        return prefixed[1], prefixed[2]
    return owners.get(name, ""), name
