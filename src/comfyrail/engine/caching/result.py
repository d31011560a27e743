"""What a node gave, as the cache keeps it, and how much memory that holds."""

import sys
from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any

import msgspec
import numpy as np

Slot = tuple[Any, ...]
"""The values of one output: one, or several where a node gives a list."""

_SEQUENCES = (list, tuple)
_PLAIN = frozenset((int, float, bool, str, bytes, type(None)))
_CONTAINER_BYTES = 256
"""About what two tuples and an array take beside the array's data."""


class CachedResult(msgspec.Struct, frozen=True):
    slots: tuple[Slot, ...]
    ui: Mapping[str, Sequence[Any]] | None = None
    seconds: float = 0.0
    """How long the node took."""
    files: Mapping[str, tuple[int, int]] = MappingProxyType({})
    """Size and time of change of each file that the node wrote: a file of the same name may be
    another one by now, or another machine's."""


def measure_bytes(value: Any) -> int:
    """About how much memory a value holds; arrays and tensors inside lists and mappings count.

    What appears twice is counted once. A view counts by its own extent, not by its base.
    """
    if _is_one_array(value):
        return int(value[0][0].nbytes) + _CONTAINER_BYTES
    if _is_one_plain_value(value):
        return sys.getsizeof(value[0][0]) + _CONTAINER_BYTES
    arrays: tuple[Any, ...] = (np.ndarray, *tensor_types())
    total = 0
    for part in _parts(value):
        total += part.nbytes if isinstance(part, arrays) else sys.getsizeof(part, 64)
    return total


def freeze_arrays(value: Any) -> None:
    """Make every array in a value read-only, so that no later node can change what is kept.

    Tensors have no such flag: they stay as they are.
    """
    if _is_one_array(value):
        _freeze(value[0][0])
        return
    if _is_one_plain_value(value):
        return
    for part in _parts(value):
        if isinstance(part, np.ndarray):
            _freeze(part)


def copy_containers(value: Any) -> Any:
    """The value with lists and mappings of its own; what is in them is shared.

    So a node may change a list that it is given, and nobody else's list changes.
    """
    kind = type(value)
    if kind is list:
        return [copy_containers(each) for each in value]
    if kind is dict:
        return {key: copy_containers(each) for key, each in value.items()}
    if kind is tuple:
        return tuple([copy_containers(each) for each in value])
    return value


def _freeze(array: Any) -> None:
    """A view and what it looks at: else the one would change when the other is written."""
    while isinstance(array, np.ndarray) and array.flags.writeable:
        array.flags.writeable = False
        array = array.base


def tensor_types() -> tuple[type, ...]:
    """torch.Tensor where torch is loaded, else nothing. Does not import torch."""
    tensor = getattr(sys.modules.get("torch"), "Tensor", None)
    return () if tensor is None else (tensor,)


def _is_one_plain_value(value: Any) -> bool:
    """Whether it is the slots of a node with one output, which has one number or text."""
    return (
        type(value) is tuple
        and len(value) == 1
        and type(value[0]) is tuple
        and len(value[0]) == 1
        and type(value[0][0]) in _PLAIN
    )


def _is_one_array(value: Any) -> bool:
    """Whether it is the slots of a node with one output, which has one array."""
    return (
        type(value) is tuple
        and len(value) == 1
        and type(value[0]) is tuple
        and len(value[0]) == 1
        and type(value[0][0]) is np.ndarray
    )


def _parts(value: Any) -> Iterator[Any]:
    """A value and all that is in it, each object once, so that a ring has an end."""
    waiting = [value]
    seen = set()
    while waiting:
        part = waiting.pop()
        if id(part) in seen:
            continue
        seen.add(id(part))
        yield part
        if isinstance(part, _SEQUENCES):
            waiting.extend(part)
        elif isinstance(part, dict):
            waiting.extend(part.values())
