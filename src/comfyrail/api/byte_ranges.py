"""Which bytes of a file a client asks for."""

import re
from collections.abc import Sequence

from comfyrail.errors import RangeNotSatisfiable

MOST_RANGES = 20
MOST_DIGITS = 18

_RANGE = re.compile(
    rf"\d{{1,{MOST_DIGITS}}}-\d{{0,{MOST_DIGITS}}}|-\d{{1,{MOST_DIGITS}}}", re.ASCII
)

Span = tuple[int, int]
"""The first byte, and the one behind the last."""


def wanted_spans(given: str, size: int) -> Sequence[Span]:
    """What of a Range header a file of this size has, in the file's order, those that touch as one.
    None: the header is passed over, as RFC 9110 has it for what is not understood: another unit,
    another form, an end before its beginning, very many ranges. Raises RangeNotSatisfiable where
    the file has nothing of it.
    """
    unit, _, ranges = given.partition("=")
    parts = [part.strip() for part in ranges.split(",") if part.strip()]
    if unit.strip().lower() != "bytes" or not 0 < len(parts) <= MOST_RANGES:
        return ()
    found: list[Span] = []
    for part in parts:
        first, _, last = part.partition("-")
        if not _RANGE.fullmatch(part) or (first and last and int(last) < int(first)):
            return ()
        start = int(first) if first else max(0, size - int(last))
        stop = min(int(last) + 1, size) if first and last else size
        if start < stop:
            found.append((start, stop))
    if not found:
        raise RangeNotSatisfiable(
            f"The file has {size} bytes: the range is behind its end.", details={"size": size}
        )
    return _merged(sorted(found))


def _merged(spans: Sequence[Span]) -> list[Span]:
    merged = [spans[0]]
    for start, stop in spans[1:]:
        before, end = merged[-1]
        if start <= end:
            merged[-1] = before, max(end, stop)
        else:
            merged.append((start, stop))
    return merged
