"""Values as bytes in a file of this process, and back without a copy.

A file is: the length of the header (u64), the header as JSON padded to 64 bytes, then the raw data.
There is no checksum, unlike in the cache: only this process reads the file, and soon.
"""

import struct
import sys
from collections.abc import Sequence
from mmap import mmap
from typing import Any, Protocol

import msgspec

from comfyrail.engine.caching.faults import CorruptEntry, NotStorable
from comfyrail.engine.caching.result import Slot
from comfyrail.engine.caching.values import Blob, ValueReader, ValueWriter, align

Slots = tuple[Slot, ...]


class CannotSpill(Exception):
    """The value has no form outside of this process, or one that is far too large."""


class SpillCodec(Protocol):
    def encode(self, slots: Slots, max_bytes: int) -> Sequence[bytes | memoryview]:
        """Parts to be written one after the other. Raises CannotSpill, also past `max_bytes`."""
        ...

    def decode(self, data: mmap) -> Slots:
        """The values, as views on the file where they can be. Raises ValueError for nonsense."""
        ...


class _Header(msgspec.Struct):
    values: Any
    blobs: list[Blob]


_LENGTH = struct.Struct("<Q")
_read_header = msgspec.json.Decoder(_Header).decode
_write_header = msgspec.json.Encoder().encode


class _MappedReader(ValueReader):
    """Lets tensors, too, lie in the file: what is written to them stays in this process."""

    def _read_blob(self, blob: Blob) -> Any:
        torch = sys.modules.get("torch")
        if blob.kind != "torch" or torch is None or not blob.size:
            return super()._read_blob(blob)
        content = self._data[blob.start : blob.start + blob.size]
        elements = torch.frombuffer(content, dtype=torch.uint8)
        return elements.view(getattr(torch, blob.dtype)).reshape(blob.shape)


class ResultCodec:
    """The cache's form of values: plain Python data, NumPy arrays, tensors."""

    def encode(self, slots: Slots, max_bytes: int) -> Sequence[bytes | memoryview]:
        writer = ValueWriter(max_bytes)
        try:
            header = _write_header(_Header(writer.write(slots), writer.blobs))
        except (NotStorable, RecursionError, UnicodeEncodeError) as error:
            raise CannotSpill(str(error)) from error
        start = align(_LENGTH.size + len(header))
        head = _LENGTH.pack(start) + header
        return [head.ljust(start), *writer.contents]

    def decode(self, data: mmap) -> Slots:
        view = memoryview(data)
        try:
            (start,) = _LENGTH.unpack_from(view)
            header = _read_header(view[_LENGTH.size : start])
            slots: Slots = _MappedReader(header.blobs, view[start:]).read(header.values)
        except (CorruptEntry, msgspec.MsgspecError, struct.error, TypeError) as error:
            raise ValueError(str(error)) from error
        return slots
