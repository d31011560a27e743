"""A result as bytes that any process may read without trust: JSON and raw data, never code.

An entry is, in this order:

====================  ==========================================================================
8 bytes               ``CRLCACHE``
u32, u32, u64, i64    version; length of the header; length of the entry; when the result was made
header                JSON: the key, the tree of values, a table of the blobs; spaces up to 64 bytes
blobs                 raw data, each at a multiple of 64 bytes
16 bytes              BLAKE2b of all that comes before
====================  ==========================================================================

The checksum finds what a disk or a wire did to an entry. It does not tell who wrote the entry: who
may write to a shared level may store a wrong result under a key, but nothing that is executed.
"""

import hashlib
import struct
from mmap import mmap
from typing import Any

import msgspec

from comfyrail.clock import Instant
from comfyrail.engine.caching.faults import CorruptEntry, NotStorable
from comfyrail.engine.caching.result import CachedResult
from comfyrail.engine.caching.values import ALIGNMENT, Blob, ValueReader, ValueWriter, align

Data = bytes | memoryview | mmap
"""The bytes of an entry, however they came here."""

MAGIC = b"CRLCACHE"
VERSION = 1
DIGEST_BYTES = 16
LARGEST_HEADER = 64 << 20
LARGEST_ENTRY = 1 << 40

_PREFIX = struct.Struct("<8sIIQq")


class _Header(msgspec.Struct, forbid_unknown_fields=True):
    key: str
    values: list[Any]
    blobs: list[Blob]


_read_header = msgspec.json.Decoder(_Header).decode
_write_header = msgspec.json.Encoder().encode


def encode_result(
    result: CachedResult,
    key: str = "",
    *,
    created: Instant = Instant(0),  # noqa: B008 - a number
    max_bytes: int = LARGEST_ENTRY,
) -> list[bytes | memoryview]:
    """The parts of an entry, to be written one after the other; arrays are not copied.

    Raises NotStorable for a value with no safe form, and for more than `max_bytes` of data.
    """
    writer = ValueWriter(max_bytes)
    try:
        values = [writer.write(part) for part in _parts_of(result)]
        header = _write_header(_Header(key, values, writer.blobs))
    except (RuntimeError, MemoryError, UnicodeEncodeError) as error:
        # Too deep for Python, or torch cannot hand a tensor over.
        raise NotStorable(f"a structure that cannot be written: {error}") from error
    if len(header) > LARGEST_HEADER:
        raise NotStorable("too many small values")
    header = header.ljust(align(_PREFIX.size + len(header)) - _PREFIX.size)
    total = _PREFIX.size + len(header) + writer.extent + DIGEST_BYTES
    prefix = _PREFIX.pack(MAGIC, VERSION, len(header), total, created)
    parts: list[bytes | memoryview] = [prefix + header, *writer.contents]
    digest = hashlib.blake2b(digest_size=DIGEST_BYTES)
    for part in parts:
        digest.update(part)
    return [*parts, digest.digest()]


def decode_result(data: Data, key: str = "") -> CachedResult:
    """The result in an entry. NumPy arrays are read-only views on `data` where that is possible.

    Raises CorruptEntry for bytes that are not a whole entry under this key.
    """
    view = memoryview(data).toreadonly().cast("B")
    header_end = _check_frame(view)
    try:
        header = _read_header(view[_PREFIX.size : header_end])
        if header.key != key:
            raise CorruptEntry("the entry belongs to another key")
        reader = ValueReader(header.blobs, view[header_end:-DIGEST_BYTES])
        return _result_of([reader.read(node) for node in header.values])
    except (ValueError, TypeError, OverflowError, RuntimeError, MemoryError, struct.error) as e:
        # The checksum was right, so somebody wrote it like this.
        raise CorruptEntry(f"a header that cannot be true: {e}") from e
    except msgspec.MsgspecError as error:
        raise CorruptEntry(f"a header that cannot be read: {error}") from error


def created_at(data: Data) -> Instant:
    """When the result of an entry was made; for one that `decode_result` took."""
    return Instant(_PREFIX.unpack_from(data)[4])


def _check_frame(view: memoryview) -> int:
    """Where the header ends, once the frame and the checksum are found to be right."""
    if len(view) < _PREFIX.size + DIGEST_BYTES:
        raise CorruptEntry("too short")
    magic, version, header_length, total, _ = _PREFIX.unpack_from(view)
    if magic != MAGIC or version != VERSION:
        raise CorruptEntry("not an entry of this version")
    header_end = _PREFIX.size + int(header_length)
    if total != len(view) or header_end > total - DIGEST_BYTES or header_end % ALIGNMENT:
        raise CorruptEntry("cut off, or with a false length")
    digest = hashlib.blake2b(view[:-DIGEST_BYTES], digest_size=DIGEST_BYTES)
    if digest.digest() != view[-DIGEST_BYTES:]:
        raise CorruptEntry("the checksum is wrong")
    return header_end


def _parts_of(result: CachedResult) -> tuple[Any, Any, float, Any]:
    ui = None if result.ui is None else dict(result.ui)
    return result.slots, ui, float(result.seconds), dict(result.files)


def _result_of(parts: list[Any]) -> CachedResult:
    if len(parts) != 4:
        raise CorruptEntry("not the parts of a result")
    slots, ui, seconds, files = parts
    if not isinstance(slots, tuple) or not all(isinstance(slot, tuple) for slot in slots):
        raise CorruptEntry("outputs that are none")
    right = isinstance(ui, dict | None) and isinstance(seconds, float)
    if not right or not isinstance(files, dict):
        raise CorruptEntry("not the parts of a result")
    return CachedResult(slots, ui, seconds, files)
