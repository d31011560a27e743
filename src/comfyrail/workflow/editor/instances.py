"""The inputs of nodes that stand for subgraphs."""

from collections.abc import Mapping, Sequence
from typing import overload

from comfyrail.workflow.editor.model import EditorGraph, EditorNode, InputSlot, SubgraphSlot


class InstanceSlots(Sequence[InputSlot]):
    """The inputs of a node that stands for a subgraph, in the order of the subgraph's own.

    A slot is made when it is asked for: there may be thousands, in each of thousands of uses.
    """

    def __init__(self, node: EditorNode, definition: EditorGraph) -> None:
        self._declared: Sequence[SubgraphSlot] = definition.inputs
        self._links: Mapping[int, str | None] = _links_by_place(node, definition)

    def __len__(self) -> int:
        return len(self._declared)

    @overload
    def __getitem__(self, place: int) -> InputSlot: ...
    @overload
    def __getitem__(self, place: slice) -> list[InputSlot]: ...
    def __getitem__(self, place: int | slice) -> InputSlot | list[InputSlot]:
        if isinstance(place, slice):
            return [self[each] for each in range(*place.indices(len(self)))]
        declared = self._declared[place]
        return InputSlot(declared.name, declared.type, self._links.get(place % len(self)))


def _links_by_place(node: EditorNode, definition: EditorGraph) -> dict[int, str | None]:
    """Slots of the same name are taken in their order."""
    links: dict[int, str | None] = {}
    seen: dict[str, int] = {}
    for slot in node.inputs:
        places = definition.places_of_inputs.get(slot.name, ())
        number = seen.get(slot.name, 0)
        seen[slot.name] = number + 1
        if number < len(places):
            links[places[number]] = slot.link
    return links
