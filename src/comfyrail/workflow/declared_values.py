"""Whether a value fits a declared input: what people mean is converted, nothing is cut."""

import math
import re
from collections.abc import Callable, Sequence
from typing import Any, Protocol

from comfyrail.workflow.nearest import did_you_mean, nearest_names, shown
from comfyrail.workflow.values import FaultKind, ValueFault

SMALLEST_INTEGER = -(1 << 63)
LARGEST_INTEGER = (1 << 64) - 1
"""What JSON readers of workers take; seeds use all of it above 0."""

_INTEGER = re.compile(r"[+-]?[0-9]{1,20}")
_TRUTHS = {"true": True, "false": False}


class _Declared(Protocol):
    """What is asked of a declared input here."""

    @property
    def type(self) -> str: ...
    @property
    def minimum(self) -> float | None: ...
    @property
    def maximum(self) -> float | None: ...
    @property
    def choices(self) -> Sequence[Any] | None: ...


class _NotThis(Exception):
    """The value cannot be read as the type."""


def fit_declared_value(declared: _Declared, value: Any) -> Any | ValueFault:
    """The value as the input's type, or why it is none: the rest of a sentence about it."""
    convert, wanted = _TYPES[declared.type]
    try:
        fitted = convert(value)
    except _NotThis:
        return ValueFault("invalid_input_type", f"must be {wanted}, not {shown(value)}.", value)
    if declared.choices is not None:
        return _chosen(declared.choices, fitted)
    return _in_range(declared, fitted)


def _chosen(choices: Sequence[Any], value: Any) -> Any | ValueFault:
    for choice in choices:
        # 1 == True, and neither means the other.
        if choice == value and isinstance(choice, bool) == isinstance(value, bool):
            return choice
    if not isinstance(value, str):
        # A command line reads 42 as a number, where the choice may be the text.
        text = str(value).lower() if isinstance(value, bool) else str(value)
        if text in choices:
            return text
    texts = [choice for choice in choices if isinstance(choice, str)]
    near = did_you_mean(nearest_names(value, texts)) if isinstance(value, str) else ""
    message = f"is none of the {len(choices)} choices: {shown(value)}.{near}"
    return ValueFault("value_not_in_list", message, value)


def _in_range(declared: _Declared, value: Any) -> Any | ValueFault:
    lowest, highest = declared.minimum, declared.maximum
    if declared.type == "seed":
        lowest = 0 if lowest is None else lowest
    if lowest is not None and value < lowest:
        return _beyond("value_smaller_than_min", value, "smaller than the minimum", lowest)
    if highest is not None and value > highest:
        return _beyond("value_bigger_than_max", value, "bigger than the maximum", highest)
    return value


def _beyond(kind: FaultKind, value: Any, how: str, bound: float) -> ValueFault:
    return ValueFault(kind, f"is {how} {bound}: {shown(value)}.", value)


def _text(value: Any) -> str:
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        raise _NotThis
    return value if isinstance(value, str) else str(value)


def _integer(value: Any) -> int:
    is_written = isinstance(value, str) and _INTEGER.fullmatch(value)
    if is_written or (isinstance(value, float) and value.is_integer()):
        value = int(value)
    if isinstance(value, bool) or not isinstance(value, int):
        raise _NotThis
    if not SMALLEST_INTEGER <= value <= LARGEST_INTEGER:
        raise _NotThis
    return value


def _number(value: Any) -> int | float:
    if isinstance(value, str):
        try:
            value = float(value)
        except ValueError as error:
            raise _NotThis from error
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise _NotThis
    if isinstance(value, int):
        return _integer(value)
    if not math.isfinite(value):
        raise _NotThis
    return value


def _boolean(value: Any) -> bool:
    truth = _TRUTHS.get(value.lower()) if isinstance(value, str) else value
    if not isinstance(truth, bool):
        raise _NotThis
    return truth


def _choice(value: Any) -> Any:
    if not isinstance(value, str | int | float):
        raise _NotThis
    return value


def _file(value: Any) -> str:
    if not isinstance(value, str) or not value:
        raise _NotThis
    return value


_FILE = (_file, "the name of an input file")
_TYPES: dict[str, tuple[Callable[[Any], Any], str]] = {
    "text": (_text, "a text"),
    "integer": (_integer, "a whole number"),
    "seed": (_integer, "a whole number"),
    "number": (_number, "a number"),
    "boolean": (_boolean, "true or false"),
    "choice": (_choice, "one of the choices"),
    "image": _FILE,
    "mask": _FILE,
    "video": _FILE,
    "audio": _FILE,
    "any": (lambda value: value, "a value"),
}
