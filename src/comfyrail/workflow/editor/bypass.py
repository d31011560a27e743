"""Which input a bypassed node passes on: the editor's rule, slot by slot."""

from collections.abc import Sequence

from comfyrail.workflow.editor.model import InputSlot

ANY_TYPES = frozenset({"", "*", "0"})


def bypass_input(
    inputs: Sequence[InputSlot], slot: int, output_type: str, wanted: str
) -> int | None:
    """The place of the input that stands in for output `slot`, for a taker of type `wanted`.

    The input across is preferred, then the first of exactly that type, then the first that can be
    linked to both. A taker of any type gets the input across, or the first.
    """
    if not inputs:
        return None
    across = inputs[slot] if slot < len(inputs) else None
    if wanted in ANY_TYPES:
        return slot if across is not None else 0
    if across is not None and _joins(across.type, output_type, wanted):
        return slot
    for place, each in enumerate(inputs):
        if each.type == wanted:
            return place
    for place, each in enumerate(inputs):
        if _joins(each.type, output_type, wanted):
            return place
    return None


def can_link(one: str, other: str) -> bool:
    """Whether the editor would link slots of these types: case and order do not count."""
    if one in ANY_TYPES or other in ANY_TYPES or one == other:
        return True
    first, second = (set(each.lower().split(",")) for each in (one, other))
    return not first.isdisjoint(second) or not ANY_TYPES.isdisjoint(first | second)


def _joins(kind: str, output_type: str, wanted: str) -> bool:
    return can_link(kind, output_type) and can_link(kind, wanted)
