"""Where a link really comes from: through reroutes, bypassed nodes and the walls of subgraphs."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from comfyrail.errors import MalformedWorkflow
from comfyrail.workflow.editor.bypass import bypass_input
from comfyrail.workflow.editor.front_end_nodes import (
    NAMED_SOURCES,
    PRIMITIVE,
    REROUTE_TYPES,
)
from comfyrail.workflow.editor.model import (
    BYPASSED,
    MUTED,
    SUBGRAPH_INPUTS,
    EditorGraph,
    EditorLink,
    EditorNode,
    InputSlot,
)
from comfyrail.workflow.editor.notes import BAD_LINK, Notes
from comfyrail.workflow.editor.scopes import Scope
from comfyrail.workflow.editor.widget_kinds import ABSENT
from comfyrail.workflow.nearest import shown

STEP_LIMIT = 3_000_000
CHARACTERS_A_STEP = 32


@dataclass(frozen=True, slots=True)
class FromNode:
    """The output of a node that will be in the workflow."""

    scope: Scope
    node: str
    slot: int


@dataclass(frozen=True, slots=True)
class GivenValue:
    """A value that is set on the outside of a subgraph."""

    value: Any


Source = FromNode | GivenValue | None


@dataclass(frozen=True, slots=True)
class _Output:
    scope: Scope
    node: EditorNode
    slot: int
    wanted: str


@dataclass(frozen=True, slots=True)
class _Input:
    """`wanted` is the type of the taker at the end of reroutes, where it is not the slot's."""

    scope: Scope
    node: EditorNode
    place: int
    wanted: str | None = None


class LinkResolver:
    """Follows links without recursion; what was found is kept, so that a chain is walked once."""

    def __init__(
        self,
        subgraphs: Mapping[str, EditorGraph],
        slots_of: Callable[[EditorGraph, EditorNode], Sequence[InputSlot]],
        output_types: Callable[[EditorNode], Sequence[str]],
        notes: Notes,
    ) -> None:
        self._subgraphs = subgraphs
        self._slots_of = slots_of
        self._output_types = output_types
        self._notes = notes
        self._found: dict[tuple[int, str, int, str], Source] = {}
        self._named_sources: dict[tuple[str, str], dict[str | None, EditorNode]] = {}
        self._steps = 0

    def resolve(self, scope: Scope, node: EditorNode, place: int) -> Source:
        """What feeds an input: a node's output, a value, or nothing."""
        start = _Input(scope, node, place)
        walked: dict[tuple[int, str, int, str], None] = {}
        result = self._walk(start, walked)
        for key in walked:
            self._found[key] = result
        return result

    def _walk(self, start: _Input, walked: dict[tuple[int, str, int, str], None]) -> Source:
        at: _Input | _Output | Source = start
        while True:
            self._steps += 1
            if self._steps > STEP_LIMIT:
                raise MalformedWorkflow(
                    "The links of the workflow are too entangled to be followed.",
                    details={"path": "links"},
                )
            if isinstance(at, _Input):
                at = self._before_input(at)
            elif isinstance(at, _Output):
                key = (id(at.scope), at.node.id, at.slot, at.wanted)
                if key in walked:
                    self._note(at.scope, at.node, "leads in a circle")
                    return None
                if key in self._found:
                    return self._found[key]
                walked[key] = None
                at = self._before_output(at)
            else:
                return at

    def _before_input(self, at: _Input) -> _Input | _Output | Source:
        """Up from an input of a subgraph's instances to what is linked, or the value set there."""
        scope, node, place = at.scope, at.node, at.place
        given: Any = ABSENT
        while True:
            slot = self._slots_of(scope.graph, node)[place]
            if slot.link is None:
                return None if given is ABSENT else GivenValue(given)
            link = scope.graph.links.get(slot.link)
            if link is None:
                self._note(
                    scope, node, f"{shown(slot.name)} has a link {slot.link} that is not there"
                )
                return None
            if link.origin != SUBGRAPH_INPUTS or scope.parent is None or scope.instance is None:
                climbed = scope is not at.scope or node is not at.node
                wanted = slot.type if climbed or at.wanted is None else at.wanted
                return self._origin(scope, node, link, wanted, climbed=climbed)
            if not 0 <= link.origin_slot < len(scope.slots):
                self._note(scope, node, f"{shown(slot.name)} is linked to no input of its subgraph")
                return None
            self._steps += 1
            outer = scope.slots[link.origin_slot]
            given = scope.shown.get(outer.name, given)
            place, node, scope = link.origin_slot, scope.instance, scope.parent

    def _origin(
        self, scope: Scope, node: EditorNode, link: EditorLink, wanted: str, *, climbed: bool
    ) -> _Output | Source:
        origin = scope.graph.nodes.get(link.origin)
        if origin is None or link.origin_slot < 0:
            self._note(scope, node, f"is linked to output {link.origin_slot} of {link.origin}")
            return None
        if origin.role == PRIMITIVE and climbed:
            value = primitive_value(origin)
            return None if value is ABSENT else GivenValue(value)
        return _Output(scope, origin, link.origin_slot, wanted)

    def _before_output(self, at: _Output) -> _Input | _Output | Source:
        if at.node.mode == BYPASSED:
            return self._through_bypass(at)
        if at.node.mode == MUTED:
            return None
        if at.node.type in self._subgraphs:
            return self._into_subgraph(at)
        if at.node.role:
            return self._through_front_end(at)
        return FromNode(at.scope, at.node.id, at.slot)

    def _through_front_end(self, at: _Output) -> _Input | None:
        if at.node.role in NAMED_SOURCES:
            return self._from_named(at)
        slots = self._slots_of(at.scope.graph, at.node)
        if at.node.role in REROUTE_TYPES and at.slot < len(slots):
            return _Input(at.scope, at.node, at.slot, at.wanted)
        return None

    def _through_bypass(self, at: _Output) -> _Input | None:
        types = self._output_types(at.node)
        output_type = types[at.slot] if at.slot < len(types) else "*"
        slots = self._slots_of(at.scope.graph, at.node)
        # Each is looked at, and its type compared with both others.
        compared = 1 + (len(output_type) + len(at.wanted)) // CHARACTERS_A_STEP
        self._steps += len(types) + compared * len(slots)
        self._steps += sum(len(slot.type) for slot in slots) // CHARACTERS_A_STEP
        place = bypass_input(slots, at.slot, output_type, at.wanted)
        return None if place is None else _Input(at.scope, at.node, place)

    def _into_subgraph(self, at: _Output) -> _Input | _Output | None:
        inner = at.scope.inner.get(at.node.id)
        outputs = inner.graph.outputs if inner else ()
        if inner is None or at.slot >= len(outputs) or not outputs[at.slot].links:
            return None
        link = inner.graph.links.get(outputs[at.slot].links[0])
        if link is None or link.origin_slot < 0:
            return None
        if link.origin == SUBGRAPH_INPUTS:
            is_there = link.origin_slot < len(inner.slots)
            return _Input(at.scope, at.node, link.origin_slot, at.wanted) if is_there else None
        origin = inner.graph.nodes.get(link.origin)
        return None if origin is None else _Output(inner, origin, link.origin_slot, at.wanted)

    def _from_named(self, at: _Output) -> _Input | None:
        graph = at.scope.graph
        sought = NAMED_SOURCES[at.node.role]
        known = self._named_sources.get((graph.id, sought))
        if known is None:
            known = {_label(node): node for node in graph.nodes.values() if node.role == sought}
            self._named_sources[graph.id, sought] = known
        label = _label(at.node)
        source = known.get(label) if label is not None else None
        if source is None or not source.inputs:
            return None
        return _Input(at.scope, source, 0, at.wanted)

    def _note(self, scope: Scope, node: EditorNode, what: str) -> None:
        self._steps += len(scope.prefix) // CHARACTERS_A_STEP
        self._notes.add(
            BAD_LINK,
            f"Node {scope.prefix}{node.id} ({node.type}) {what}: this link is left out.",
            f"{scope.prefix}{node.id}",
        )


def primitive_value(node: EditorNode) -> Any:
    """The value that a primitive gives to the widgets it is linked to, or ABSENT."""
    values = node.values
    first = next(iter(values.values() if isinstance(values, Mapping) else values), ABSENT)
    return node.named.get("value", first)


def _label(node: EditorNode) -> str | None:
    """The name that joins nodes which give to those that take; None where it is no name."""
    value = primitive_value(node)
    return None if isinstance(value, list | Mapping) else str(value)
