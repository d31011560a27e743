"""Which values mean the same after a way through JSON."""

import math
from typing import Any

DEEPEST = 64
_WHOLE_NUMBERS = range(-(2**63), 2**64)


def is_plain(value: Any) -> bool:
    """Whether JSON gives back an equal value of the same types.

    A tuple comes back as a list and NaN as null, so they are not plain. A ring is not either.
    """
    waiting: list[tuple[Any, int]] = [(value, 0)]
    while waiting:
        part, depth = waiting.pop()
        kind = type(part)
        if kind in {list, dict}:
            if depth >= DEEPEST or (kind is dict and not all(map(_is_text, part))):
                return False
            items = part if kind is list else part.values()
            waiting.extend((item, depth + 1) for item in items)
        elif not _is_plain_scalar(part, kind):
            return False
    return True


def _is_plain_scalar(value: Any, kind: type) -> bool:
    if value is None or kind is bool:
        return True
    if kind is str:
        return _is_text(value)
    if kind is int:
        return value in _WHOLE_NUMBERS
    return kind is float and math.isfinite(value)


def _is_text(value: Any) -> bool:
    """False also for a text with half a surrogate pair, which has no UTF-8."""
    if type(value) is not str:
        return False
    try:
        value.encode()
    except UnicodeEncodeError:
        return False
    return True
