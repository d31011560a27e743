"""What IS_CHANGED answers, as a value that goes into a cache key."""

import hashlib
import math
from collections.abc import Mapping, Sequence
from typing import Any

NEVER_EQUAL = math.nan


class _NotPlain(Exception):
    pass


def fingerprint_of(answer: Any) -> object:
    """Equal for equal plain data; never equal for NaN and for what is no plain data."""
    try:
        text = _text_of(answer)
    except (_NotPlain, RecursionError):
        return NEVER_EQUAL
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def _text_of(value: Any) -> str:
    if isinstance(value, float) and math.isnan(value):
        raise _NotPlain
    if value is None or isinstance(value, bool | int | float | str | bytes):
        return repr(value)
    if isinstance(value, Mapping):
        members = sorted(f"{_text_of(key)}={_text_of(item)}" for key, item in value.items())
        return f"{{{','.join(members)}}}"
    if isinstance(value, Sequence):
        return f"[{','.join(map(_text_of, value))}]"
    raise _NotPlain
