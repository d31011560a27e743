"""What the tests of the cache have in common: keys, results, a clock, forged entries."""

import hashlib
import struct
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from comfyrail.clock import Instant, SystemClock
from comfyrail.engine.caching import CachedResult
from comfyrail.engine.caching.codec import encode_result

REPOSITORY = Path(__file__).parents[3]


class ShiftedClock(SystemClock):
    """The system's clock, set forward by as much as a test wants."""

    def __init__(self) -> None:
        self.ahead = 0.0

    def now(self) -> Instant:
        return Instant(super().now() + round(self.ahead * 1000))

    def monotonic(self) -> float:
        return super().monotonic() + self.ahead


def key_of(name: str) -> str:
    return hashlib.sha256(name.encode()).hexdigest()


def image_result(fill: float = 0.5, size: int = 16) -> CachedResult:
    image = np.full((1, size, size, 3), fill, np.float32)
    image.setflags(write=False)
    return CachedResult(((image,),), {"images": [{"filename": "a.png"}]}, 0.25)


def entry(result: CachedResult, key: str, created: Instant = Instant(0)) -> bytes:  # noqa: B008
    return b"".join(encode_result(result, key, created=created))


def same(one: Any, other: Any) -> bool:
    """Equal in type and content, also where there is NaN."""
    if type(one) is not type(other):
        return False
    if isinstance(one, list | tuple):
        return len(one) == len(other) and all(map(same, one, other))
    ours, theirs = _content_of(one), _content_of(other)
    return same(ours, theirs) if isinstance(ours, list) else bool(ours == theirs)


def _content_of(value: Any) -> Any:
    """A list of parts, or something that is equal for equal values."""
    if isinstance(value, CachedResult):
        return [value.slots, value.ui, value.seconds]
    if isinstance(value, dict):
        return list(value.items())
    if isinstance(value, np.ndarray | np.generic):
        return value.dtype, value.shape, value.tobytes()
    return struct.pack("<d", value) if isinstance(value, float) else value


def forge(header: Any, blobs: bytes = b"", *, total: int | None = None) -> bytes:
    """An entry with whatever header, and a checksum that is right."""
    text = header if isinstance(header, bytes) else msgspec.json.encode(header)
    text = text.ljust(-(-(32 + len(text)) // 64) * 64 - 32)
    length = 32 + len(text) + len(blobs) + 16
    prefix = struct.pack("<8sIIQq", b"CRLCACHE", 1, len(text), total or length, 0)
    body = prefix + text + blobs
    return body + hashlib.blake2b(body, digest_size=16).digest()


def header_of(value: Any, *blobs: Sequence[Any], key: str = "") -> dict[str, Any]:
    """The header of an entry with one output, `value` in the form that is stored."""
    values = [["tuple", ["tuple", value]], None, 0.0, ["map"]]
    return {"key": key, "values": values, "blobs": [list(blob) for blob in blobs]}
