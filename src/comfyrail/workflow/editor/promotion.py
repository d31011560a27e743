"""Widgets of inner nodes that a subgraph shows on its outside, and the values they have there."""

import re
from collections import ChainMap
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from comfyrail.workflow.editor.model import EditorGraph, EditorNode, InputSlot
from comfyrail.workflow.editor.node_inputs import NodeInputs, values_by_name
from comfyrail.workflow.editor.widget_kinds import ABSENT

PROXIES = "proxyWidgets"
SET_ASIDE = "proxyWidgetErrorQuarantine"
OWN_INPUT = "-1"
NAME_LIMIT = 1_000
NO_WIDGET = object()
_PREFIXED = re.compile(r"\s*(\d{1,15})\s*:\s*(.+)", re.DOTALL)

Overrides = dict[str, dict[str, Any]]
"""Values of widgets by their name, by the id of their node."""


@dataclass(frozen=True, slots=True)
class Shown:
    """What a subgraph shows: by the names of its inputs the values that the widgets inside have,
    and which input stands for a widget, by its node and name.
    """

    values: dict[str, Any]
    inputs: Mapping[tuple[str, str], str]


@dataclass(frozen=True, slots=True)
class Given:
    """What one use of a subgraph gives to its inputs, and to widgets inside."""

    values: ChainMap[str, Any]
    overrides: Overrides


class ShownWidgets:
    """Which inputs of subgraphs lead to a widget inside: such an input has a widget outside too,
    with the same value until another is given there.

    What nodes say is looked at once, however often the subgraph that they are in is used.
    """

    def __init__(
        self,
        subgraphs: Mapping[str, EditorGraph],
        inputs_of: Callable[[EditorGraph, EditorNode], NodeInputs],
    ) -> None:
        self._subgraphs = subgraphs
        self._inputs_of = inputs_of
        self._known: dict[str, Shown] = {}
        self._own: dict[tuple[str, str], Mapping[str, Any]] = {}
        self._given: dict[tuple[str, str], Given] = {}

    def of(self, graph: EditorGraph) -> Shown:
        """Nesting is bounded where subgraphs are unfolded, so this goes as deep at most."""
        known = self._known.get(graph.id)
        if known is None:
            known = self._known[graph.id] = self._look(graph)
        return known

    def slots(self, graph: EditorGraph, node: EditorNode) -> Sequence[InputSlot]:
        return self._inputs_of(graph, node).slots

    def given(
        self,
        graph: EditorGraph,
        node: EditorNode,
        definition: EditorGraph,
        outer: Mapping[str, Any],
    ) -> Given:
        """What a node that stands for `definition` gives.

        `outer` are values that the graph around gives to widgets of this node: these count most.
        Null means that nothing is said.
        """
        key = (graph.id, node.id)
        said = self._given.get(key)
        if said is None:
            said = self._given[key] = self._said(graph, node, definition)
        if not outer:
            return said
        inside = self.of(definition)
        given = Given(
            said.values.new_child(), {owner: {**each} for owner, each in said.overrides.items()}
        )
        entries = _entries(node.properties.get(PROXIES))
        owners = {name: owner for owner, name in reversed(entries)}
        for name, value in outer.items():
            is_input = name in inside.values
            owner, inner = (OWN_INPUT, name) if is_input else _inner_widget(name, owners)
            _give(given, inside, owner, inner, value)
        return given

    def _said(self, graph: EditorGraph, node: EditorNode, definition: EditorGraph) -> Given:
        inside = self.of(definition)
        own = dict(self._own_values(graph, node, definition))
        given = Given(ChainMap(own, inside.values), {})
        listed = () if isinstance(node.values, Mapping) else node.values
        entries = _entries(node.properties.get(PROXIES))
        for (owner, name), value in zip(entries, listed, strict=False):
            if value is not None:
                _give(given, inside, owner, name, value)
        given.values.update(_set_aside(node.properties.get(SET_ASIDE)))
        return given

    def _own_values(
        self, graph: EditorGraph, node: EditorNode, definition: EditorGraph
    ) -> Mapping[str, Any]:
        key = (graph.id, node.id)
        known = self._own.get(key)
        if known is None:
            known = self._own[key] = dict(_own_values(node, self.of(definition).values))
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
            own = self._own_values(graph, node, definition)
            inner = self.of(definition).values
            return own[slot.name] if slot.name in own else inner.get(slot.name, NO_WIDGET)
        if slot.widget is None:
            return NO_WIDGET
        held = self._inputs_of(graph, node).by_name.get(slot.widget)
        return ABSENT if held is None else held.value


def _give(given: Given, inside: Shown, owner: str, name: str, value: Any) -> None:
    shown_as = name if owner == OWN_INPUT else inside.inputs.get((owner, name))
    if shown_as is not None:
        given.values[shown_as] = value
    else:
        given.overrides.setdefault(owner, {})[name] = value


def _own_values(node: EditorNode, shown: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    named = values_by_name(node)
    pairs = (
        zip(shown, node.values, strict=False)
        if named is None
        else ((name, value) for name, value in named.items() if name in shown)
    )
    return ((name, value) for name, value in pairs if value is not None)


def _entries(raw: object) -> list[tuple[str, str]]:
    """Nodes and their widgets. One that makes no sense keeps its place, for the others' sake."""
    return [_entry(each) for each in (raw if isinstance(raw, list) else ())]


def _entry(raw: object) -> tuple[str, str]:
    if not isinstance(raw, list) or len(raw) < 2:
        return "", ""
    owner, name = raw[:2]
    is_name = isinstance(name, str) and len(name) <= NAME_LIMIT
    if not is_name or not isinstance(owner, str | int):
        return "", ""
    return str(owner), name


def _set_aside(raw: object) -> Iterator[tuple[str, Any]]:
    """Values that the editor could not place when it brought an old file up to date."""
    for entry in reversed(raw) if isinstance(raw, list) else ():
        if not isinstance(entry, Mapping) or entry.get("hostValue") is None:
            continue
        owner, name = _entry(entry.get("originalEntry"))
        if owner == OWN_INPUT:
            yield name, entry["hostValue"]


def _inner_widget(name: str, owners: Mapping[str, str]) -> tuple[str, str]:
    """The inner node and widget that a name on the outside means: 'text' or '6: text'."""
    prefixed = _PREFIXED.fullmatch(name)
    if prefixed is not None:
        return prefixed[1], prefixed[2]
    return owners.get(name, ""), name
