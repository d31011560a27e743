"""Read and write files of tensors in the safetensors format: a JSON header, and the plain values.

https://huggingface.co/docs/safetensors
"""

import json
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt

from comfyrail.engine.allocation import check_room_for
from comfyrail.engine.pixels import FloatArray

LONGEST_HEADER = 100_000_000
_LENGTH_BYTES = 8
_METADATA = "__metadata__"
_BFLOAT16 = "BF16"
_TYPES: dict[str, np.dtype[Any]] = {
    "F64": np.dtype("<f8"),
    "F32": np.dtype("<f4"),
    "F16": np.dtype("<f2"),
    _BFLOAT16: np.dtype("<u2"),
    "I64": np.dtype("<i8"),
    "I32": np.dtype("<i4"),
    "I16": np.dtype("<i2"),
    "I8": np.dtype("i1"),
    "U8": np.dtype("u1"),
    "BOOL": np.dtype("?"),
}


class TensorFileBroken(ValueError):
    """The file is not what its header says, or has none."""


class _Entry(msgspec.Struct, forbid_unknown_fields=True):
    dtype: str
    shape: tuple[int, ...]
    data_offsets: tuple[int, int]


def encode_tensors(tensors: Mapping[str, FloatArray], metadata: Mapping[str, str]) -> bytes:
    header: dict[str, Any] = {_METADATA: dict(metadata)} if metadata else {}
    parts = []
    start = 0
    for name, tensor in tensors.items():
        content = tensor.astype("<f4", copy=False).tobytes()
        offsets = [start, start + len(content)]
        header[name] = {"dtype": "F32", "shape": list(tensor.shape), "data_offsets": offsets}
        parts.append(content)
        start += len(content)
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % _LENGTH_BYTES)
    return b"".join([len(text).to_bytes(_LENGTH_BYTES, "little"), text, *parts])


class TensorFile:
    """The tensors of a file; their values are read when they are asked for."""

    def __init__(self, path: Path) -> None:
        """Raises TensorFileBroken, and OSError where the file cannot be read."""
        self._path = path
        with path.open("rb") as file:
            length = int.from_bytes(file.read(_LENGTH_BYTES), "little")
            if not 2 <= length <= min(LONGEST_HEADER, path.stat().st_size - _LENGTH_BYTES):
                raise TensorFileBroken(f"{path.name} has no header of tensors.")
            text = file.read(length)
        self._start = _LENGTH_BYTES + length
        try:
            header = msgspec.json.decode(text, type=dict[str, Any])
            header.pop(_METADATA, None)
            self._entries = msgspec.convert(header, dict[str, _Entry])
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            raise TensorFileBroken(f"The header of {path.name} cannot be read: {error}") from error

    def __contains__(self, name: object) -> bool:
        return name in self._entries

    def read_floats(self, name: str) -> FloatArray:
        """One tensor as 32-bit floats. Raises TensorFileBroken where there is no such tensor."""
        entry = self._entries.get(name)
        if entry is None:
            raise TensorFileBroken(f"{self._path.name} has no tensor '{name}'.")
        kind = _TYPES.get(entry.dtype)
        first, last = entry.data_offsets
        if kind is None or min(entry.shape, default=0) < 0 or first < 0:
            raise TensorFileBroken(f"'{name}' of {self._path.name} is of no known kind.")
        size = math.prod(entry.shape) * kind.itemsize
        if last - first != size or self._start + last > self._path.stat().st_size:
            raise TensorFileBroken(f"'{name}' of {self._path.name} is cut short.")
        check_room_for(entry.shape)
        with self._path.open("rb") as file:
            file.seek(self._start + first)
            values = np.frombuffer(file.read(size), kind).reshape(entry.shape)
        return _from_bfloat16(values) if entry.dtype == _BFLOAT16 else values.astype(np.float32)


def _from_bfloat16(halves: npt.NDArray[Any]) -> FloatArray:
    """The upper halves of 32-bit floats."""
    return (halves.astype(np.uint32) << 16).view(np.float32)
