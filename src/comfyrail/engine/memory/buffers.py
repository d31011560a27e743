"""The memory behind a value: which buffers, and how large."""

import sys
from mmap import mmap
from typing import Any, NamedTuple

import numpy as np

_CONTAINERS = (list, tuple, set, frozenset)
_LONG_TEXT = 1024
_UNKNOWN_BYTES = 64


class Footprint(NamedTuple):
    """Buffers by address, with their sizes; `loose` is the rest, which is not worth telling apart.

    Two values that show the same memory, as an array and a view of it do, have a buffer in common.
    With `is_elsewhere` some of the value lies on a device such as a GPU.
    """

    buffers: dict[int, int]
    loose: int
    is_elsewhere: bool = False

    @property
    def size(self) -> int:
        return sum(self.buffers.values()) + self.loose


def measure_footprint(value: Any) -> Footprint:
    """What keeping the value keeps in memory.

    A view keeps the whole of what it is a view of. What lies in a mapped file or on a GPU takes
    none. Sparse tensors, and what is inside of objects other than sequences, mappings and sets, are
    not seen.
    """
    buffers: dict[int, int] = {}
    loose = 0
    is_elsewhere = False
    tensors = tensor_types()
    waiting = [value]
    seen = set()
    while waiting:
        part = waiting.pop()
        if id(part) in seen:
            continue
        seen.add(id(part))
        if isinstance(part, np.ndarray):
            _add(buffers, _buffer_of_array(part))
        elif isinstance(part, str | bytes | bytearray) and len(part) >= _LONG_TEXT:
            _add(buffers, (id(part), sys.getsizeof(part)))
        elif tensors and isinstance(part, tensors):
            _add(buffers, _buffer_of_tensor(part))
            is_elsewhere = is_elsewhere or part.device.type != "cpu"
        else:
            loose += sys.getsizeof(part, _UNKNOWN_BYTES)
            if isinstance(part, _CONTAINERS):
                waiting.extend(part)
            elif isinstance(part, dict):
                waiting.extend(part.values())
    return Footprint(buffers, loose, is_elsewhere)


def _add(buffers: dict[int, int], buffer: tuple[int, int] | None) -> None:
    if buffer is not None and buffer[1]:
        buffers[buffer[0]] = max(buffers.get(buffer[0], 0), buffer[1])


def _buffer_of_array(array: np.ndarray[Any, Any]) -> tuple[int, int] | None:
    root = array
    owner = _owner_of(root)
    while isinstance(owner, np.ndarray):
        root = owner
        owner = _owner_of(root)
    if owner is None:
        return root.__array_interface__["data"][0], root.nbytes
    if isinstance(owner, mmap):
        return None
    if isinstance(owner, bytes | bytearray):
        return id(owner), sys.getsizeof(owner)
    if isinstance(owner, tensor_types()):
        return _buffer_of_tensor(owner)
    return root.__array_interface__["data"][0], root.nbytes


def _owner_of(array: np.ndarray[Any, Any]) -> Any:
    """What an array has its memory of; None where it is its own."""
    owner: Any = array.base
    if owner is None:
        return None
    while isinstance(owner, memoryview):
        owner = owner.obj
    # `as_strided` puts an object of its own between the array and the one it is a view of.
    inner = getattr(owner, "base", None)
    return inner if isinstance(inner, np.ndarray) else owner


def _buffer_of_tensor(tensor: Any) -> tuple[int, int] | None:
    if tensor.device.type != "cpu":
        return None
    try:
        storage = tensor.untyped_storage()
        return storage.data_ptr(), storage.nbytes()
    except (AttributeError, NotImplementedError, RuntimeError):
        # Sparse and other layouts have no single storage, and old versions no such method.
        return None


def tensor_types() -> tuple[Any, ...]:
    """torch.Tensor where torch is loaded, else nothing. Does not import torch."""
    tensor = getattr(sys.modules.get("torch"), "Tensor", None)
    return () if tensor is None else (tensor,)
