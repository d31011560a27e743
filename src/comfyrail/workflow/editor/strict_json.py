"""JSON that anyone may have written: every doubt is a refusal, in bounded time and memory."""

import json
import math
import re
from collections import Counter
from collections.abc import Iterator
from typing import Any, NoReturn

import msgspec

from comfyrail.errors import MalformedWorkflow
from comfyrail.workflow.nearest import shown

DEPTH_LIMIT = 200
VALUE_LIMIT = 5_000_000
SMALLEST_INTEGER = -(2**63)
LARGEST_INTEGER = 2**64 - 1
QUICK_LIMIT = 1 << 16
_UNSURE = object()
DOUBTFUL = (b" :", b"\t:", b"\n:", b"\r:", b"\\ud", b"\\uD")
"""Space before a colon, and what may be halves of characters."""
_decode_quickly = msgspec.json.Decoder().decode
_HALF_CHARACTER = re.compile(r"\\u[dD][89a-fA-F]")


def read_json(text: str | bytes, *, allow_nan: bool = False) -> Any:
    """Parse JSON. Raises MalformedWorkflow for what is not JSON, for an object that has a name
    twice, numbers that no other program could read, halves of characters, and more nesting or
    values than a workflow can have.

    `allow_nan`: NaN and infinities count as null. ComfyUI writes them into the prompts of pictures.
    """
    if isinstance(text, bytes):
        quick = _read_quickly(text)
        if quick is not _UNSURE:
            return quick
    text = _decode(text)
    refuse_too_many(text)
    try:
        value = json.loads(
            text,
            object_pairs_hook=_object,
            parse_int=_integer,
            parse_float=_float,
            parse_constant=_null if allow_nan else _refuse_constant,
        )
    except RecursionError as error:
        raise _malformed(f"{error}; at most {DEPTH_LIMIT} levels are read") from error
    except ValueError as error:
        raise _malformed(str(error)) from error
    if text.count("[") + text.count("{") > DEPTH_LIMIT:
        _refuse_deep(value)
    if _HALF_CHARACTER.search(text):
        _refuse_half_characters(value)
    return value


def _read_quickly(text: bytes) -> Any:
    """The same for a text without anything doubtful, ten times as fast; else `_UNSURE`.

    A fast reader does not tell of a name that is given twice. But where every `":` of the text is
    the end of a name that came out of it, none was.
    """
    if len(text) > QUICK_LIMIT or any(part in text for part in DOUBTFUL):
        return _UNSURE
    if text.count(b"[") + text.count(b"{") > DEPTH_LIMIT:
        return _UNSURE
    try:
        value = _decode_quickly(text)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return _UNSURE
    return value if text.count(b'":') == _count_names(value) else _UNSURE


def _count_names(value: Any) -> int:
    """How many names all objects have together; -1 where a number has more than 64 bits."""
    total = 0
    waiting: list[Any] = [[value]]
    while waiting:
        each = waiting.pop()
        if type(each) is dict:
            total += len(each)
            each = each.values()
        elif type(each) is not list:
            continue
        for inner in each:
            kind = type(inner)
            if kind is dict or kind is list:
                waiting.append(inner)
            elif kind is int and not SMALLEST_INTEGER <= inner <= LARGEST_INTEGER:
                return -1
    return total


def _decode(text: str | bytes) -> str:
    if isinstance(text, str):
        return text.removeprefix("\ufeff")
    try:
        return text.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise _malformed(f"byte {error.start} is no UTF-8") from error


def refuse_too_many(text: str) -> None:
    """Empty lists take 3 bytes in a file and 64 in memory, so their number is what counts."""
    if text.count(",") + text.count("[") + text.count("{") > VALUE_LIMIT:
        raise _malformed(f"it has more than {VALUE_LIMIT} values")


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    made = dict(pairs)
    if len(made) != len(pairs):
        # Every other way to read it would quietly lose one of the two.
        counts = Counter(name for name, _ in pairs)
        raise ValueError(f"an object has the name {shown(counts.most_common(1)[0][0])} twice")
    return made


def _integer(digits: str) -> int:
    if len(digits) <= 18:
        return int(digits)
    number = int(digits) if len(digits) <= 40 else LARGEST_INTEGER + 1
    if not SMALLEST_INTEGER <= number <= LARGEST_INTEGER:
        raise ValueError(f"the number {shown(digits)} has more than 64 bits")
    return number


def _float(digits: str) -> float:
    number = float(digits)
    if not math.isfinite(number):
        raise ValueError(f"the number {shown(digits)} is too large")
    return number


def _null(_: str) -> None:
    return None


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is no JSON number")


def _refuse_deep(value: Any) -> None:
    level = [value] if isinstance(value, dict | list) else []
    for _ in range(DEPTH_LIMIT):
        level = [inner for outer in level for inner in _containers_in(outer)]
        if not level:
            return
    raise _malformed(f"it is nested more than {DEPTH_LIMIT} deep")


def _containers_in(value: dict[str, Any] | list[Any]) -> Iterator[Any]:
    for inner in value.values() if isinstance(value, dict) else value:
        if isinstance(inner, dict | list):
            yield inner


def _refuse_half_characters(value: Any) -> None:
    """An escape may give half of a character, which nothing can store or send."""
    try:
        json.dumps(value, ensure_ascii=False).encode()
    except UnicodeEncodeError as error:
        half = f"U+{ord(error.object[error.start]):04X}"
        raise _malformed(f"{half} is half a character (a lone surrogate)") from error


def _malformed(reason: str) -> MalformedWorkflow:
    return MalformedWorkflow(f"This is not JSON: {reason}.", details={"path": "", "reason": reason})
