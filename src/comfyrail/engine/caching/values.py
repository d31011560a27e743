"""A tree of values as JSON with numbered blobs beside it, and back.

None, booleans, whole numbers, finite floats and short texts stand in the JSON as they are. All else
is a JSON array that begins with a tag. Bytes, long texts, arrays and tensors are blobs: what is
there twice is stored once and comes back as one object.
"""

import math
import re
import struct
from collections.abc import Callable, Sequence
from typing import Any, Literal

import msgspec
import numpy as np

from comfyrail.engine.caching import arrays
from comfyrail.engine.caching.faults import CorruptEntry, NotStorable
from comfyrail.engine.caching.result import tensor_types

ALIGNMENT = 64
DEEPEST = 64
MOST_VALUES = 200_000
LONGEST_INLINE_TEXT = 1024

LIST, TUPLE, MAP, INTEGER, FLOAT, BLOB = "list", "tuple", "map", "int", "float", "blob"

BlobKind = Literal["bytes", "text", "numpy", "scalar", "torch"]

_SMALL_INTEGERS = range(-(2**63), 2**64)
_HEXADECIMAL = re.compile(r"-?0x[0-9a-f]+")


class Blob(msgspec.Struct, frozen=True, forbid_unknown_fields=True, array_like=True):
    """Bytes outside the JSON: what they are, and where, counted from the end of the header."""

    kind: BlobKind
    dtype: str
    shape: tuple[int, ...]
    start: int
    size: int


class ValueWriter:
    """Takes values apart. Raises NotStorable for what has no safe form, and past `max_bytes`."""

    def __init__(self, max_bytes: int) -> None:
        self.blobs: list[Blob] = []
        self.contents: list[bytes | memoryview] = []
        self.extent = 0
        self._max_bytes = max_bytes
        self._values_left = MOST_VALUES
        self._known: dict[tuple[Any, ...], int] = {}
        self._tensor_types = tensor_types()

    def write(self, value: Any, depth: int = 0) -> Any:
        self._values_left -= 1
        if depth > DEEPEST or self._values_left < 0:
            raise NotStorable("a structure that is too deep or has too many parts")
        kind = type(value)
        if value is None or kind is bool:
            return value
        write = _WRITERS.get(kind)
        return [BLOB, self._blob_of(value, kind)] if write is None else write(self, value, depth)

    def _integer(self, value: int, _: int) -> Any:
        return value if value in _SMALL_INTEGERS else [INTEGER, hex(value)]

    def _float(self, value: float, _: int) -> Any:
        return value if math.isfinite(value) else [FLOAT, struct.pack("<d", value).hex()]

    def _list(self, value: list[Any], depth: int) -> Any:
        return [LIST, *(self.write(item, depth + 1) for item in value)]

    def _tuple(self, value: tuple[Any, ...], depth: int) -> Any:
        return [TUPLE, *(self.write(item, depth + 1) for item in value)]

    def _map(self, value: dict[Any, Any], depth: int) -> Any:
        node: list[Any] = [MAP]
        for key, item in value.items():
            if not _is_simple(key):
                raise NotStorable(f"a mapping with a key of type {type(key).__name__}")
            node += (self.write(key, depth + 1), self.write(item, depth + 1))
        return node

    def _text(self, value: str, _: int) -> Any:
        if len(value) <= LONGEST_INLINE_TEXT and (value.isascii() or _has_utf8(value)):
            return value
        content = value.encode("utf-8", "surrogatepass")
        return [BLOB, self._add(("text", value), "text", len(content), lambda: content)]

    def _blob_of(self, value: Any, kind: type) -> int:
        if kind is bytes:
            return self._add(("bytes", value), "bytes", len(value), lambda: value)
        if kind is np.ndarray:
            return self._add_array(arrays.numpy_identity(value), "numpy", value)
        if isinstance(value, np.generic):
            return self._add_scalar(value)
        if kind in self._tensor_types:
            return self._add_tensor(value)
        raise NotStorable(f"a value of type {kind.__module__}.{kind.__qualname__}")

    def _add_array(
        self, identity: tuple[Any, ...], kind: BlobKind, array: np.ndarray[Any, Any]
    ) -> int:
        return self._add(
            identity,
            kind,
            array.nbytes,
            lambda: arrays.numpy_bytes(array),
            arrays.numpy_dtype_name(array.dtype),
            array.shape,
        )

    def _add_scalar(self, value: np.generic) -> int:
        array = np.asarray(value)
        dtype = arrays.numpy_dtype_name(array.dtype)
        if array.dtype.kind in "SU" and array[()] != value:  # NumPy drops zeros at the end
            raise NotStorable("a text of NumPy's that ends in zeros")
        return self._add_array(("scalar", dtype, array.tobytes()), "scalar", array)

    def _add_tensor(self, tensor: Any) -> int:
        dtype = arrays.torch_dtype_name(tensor)
        return self._add(
            arrays.torch_identity(tensor),
            "torch",
            tensor.nbytes,
            lambda: arrays.torch_bytes(tensor),
            dtype,
            tuple(tensor.shape),
        )

    def _add(
        self,
        identity: tuple[Any, ...],
        kind: BlobKind,
        size: int,
        read: Callable[[], bytes | memoryview],
        dtype: str = "",
        shape: tuple[int, ...] = (),
    ) -> int:
        """The number of the blob; its content is read only where it is new and fits."""
        number = self._known.get(identity)
        if number is not None:
            return number
        start = align(self.extent)
        if start + size > self._max_bytes:
            raise NotStorable(f"more than {self._max_bytes} bytes")
        if start > self.extent:
            self.contents.append(bytes(start - self.extent))
        self.contents.append(read())
        self.extent = start + size
        self.blobs.append(Blob(kind, dtype, shape, start, size))
        number = self._known[identity] = len(self.blobs) - 1
        return number


_WRITERS: dict[type, Callable[[ValueWriter, Any, int], Any]] = {
    str: ValueWriter._text,  # noqa: SLF001 - the table belongs to the class
    int: ValueWriter._integer,  # noqa: SLF001
    float: ValueWriter._float,  # noqa: SLF001
    list: ValueWriter._list,  # noqa: SLF001
    tuple: ValueWriter._tuple,  # noqa: SLF001
    dict: ValueWriter._map,  # noqa: SLF001
}


class ValueReader:
    """Puts values together again. Raises CorruptEntry for whatever the writer would not write."""

    def __init__(self, blobs: Sequence[Blob], data: memoryview) -> None:
        self._blobs = blobs
        self._data = data
        self._read: dict[int, Any] = {}

    def read(self, node: Any, depth: int = 0) -> Any:
        if not isinstance(node, list):
            if isinstance(node, dict):
                raise CorruptEntry("a JSON object where a value should be")
            return node
        if depth > DEEPEST or not node:
            raise CorruptEntry("a structure that is empty or too deep")
        tag, parts = node[0], node[1:]
        if tag == LIST:
            return [self.read(part, depth + 1) for part in parts]
        if tag == TUPLE:
            return tuple(self.read(part, depth + 1) for part in parts)
        if tag == MAP:
            return self._read_map(parts, depth + 1)
        if len(parts) != 1:
            raise CorruptEntry(f"{len(parts)} parts after the tag {tag!r}")
        return self._read_tagged(tag, parts[0])

    def _read_map(self, parts: list[Any], depth: int) -> dict[Any, Any]:
        if len(parts) % 2:
            raise CorruptEntry("a key without a value")
        keys = [self.read(part, depth) for part in parts[::2]]
        values = [self.read(part, depth) for part in parts[1::2]]
        if not all(map(_is_simple, keys)):
            raise CorruptEntry("a mapping with an odd key")
        mapping = dict(zip(keys, values, strict=True))
        if len(mapping) != len(keys):
            raise CorruptEntry("a mapping with a key twice")
        return mapping

    def _read_tagged(self, tag: Any, part: Any) -> Any:
        if tag == BLOB and type(part) is int and 0 <= part < len(self._blobs):
            if part not in self._read:
                self._read[part] = self._read_blob(self._blobs[part])
            return self._read[part]
        if tag == INTEGER and isinstance(part, str) and _HEXADECIMAL.fullmatch(part):
            return int(part, 16)
        if tag == FLOAT and isinstance(part, str):
            number: float = struct.unpack("<d", bytes.fromhex(part))[0]
            return number
        raise CorruptEntry(f"the tag {tag!r} with {type(part).__name__}")

    def _read_blob(self, blob: Blob) -> Any:
        end = blob.start + blob.size
        if not 0 <= blob.start <= end <= len(self._data) or blob.start % ALIGNMENT:
            raise CorruptEntry("a blob that does not lie in the entry")
        content = self._data[blob.start : end]
        match blob.kind:
            case "bytes":
                return bytes(content)
            case "text":
                return str(content, "utf-8", "surrogatepass")
            case "numpy":
                return arrays.read_numpy(content, blob.dtype, blob.shape)
            case "scalar":
                return arrays.read_numpy(content, blob.dtype, ())[()]
            case "torch":
                return arrays.read_torch(content, blob.dtype, blob.shape)


def align(position: int) -> int:
    return -(-position // ALIGNMENT) * ALIGNMENT


def _has_utf8(text: str) -> bool:
    """False for a text with half a surrogate pair."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _is_simple(key: Any) -> bool:
    """A key whose hash and equality are those of its content."""
    if type(key) is tuple:
        return all(map(_is_simple, key))
    return key is None or type(key) in {bool, int, float, str, bytes}
