"""How much memory the objects hold that ComfyUI's nodes pass on: models above all."""

from collections.abc import Iterator
from typing import Any

MOST_PARTS = 64


def held_bytes(value: Any) -> int | None:
    """The bytes of a model, known by what such objects have in common; None for no model.

    Copies of one model share its weights, so the sum over several values is an upper bound.
    """
    size = _own_size(value)
    if size is not None:
        return size
    sizes = [size for part in _parts_of(value) if (size := _own_size(part)) is not None]
    return max(sizes, default=None)


def _own_size(value: Any) -> int | None:
    measure = getattr(value, "model_size", None)
    if callable(measure):
        # A patcher: it knows the size of the model that it patches.
        try:
            return int(measure())
        except (TypeError, ValueError, AttributeError):
            return None
    parameters, buffers = getattr(value, "parameters", None), getattr(value, "buffers", None)
    if callable(parameters) and callable(buffers):
        try:
            return sum(int(each.nbytes) for kind in (parameters, buffers) for each in kind())
        except (TypeError, AttributeError):
            return None
    return None


def _parts_of(value: Any) -> Iterator[Any]:
    """What an object refers to: a text encoder has a patcher, a description has a module."""
    members = getattr(value, "__dict__", None)
    if isinstance(value, type) or not isinstance(members, dict):
        return
    for index, part in enumerate(list(members.values())):
        if index >= MOST_PARTS:
            return
        yield part
