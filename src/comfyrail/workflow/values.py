"""Whether a literal value fits an input, by ComfyUI's rules: convert first, then judge."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

from comfyrail.workflow.catalog import InputPort

FaultKind = Literal[
    "invalid_input_type", "value_smaller_than_min", "value_bigger_than_max", "value_not_in_list"
]

CONVERSIONS: dict[str, Callable[[Any], Any]] = {
    "INT": int,
    "FLOAT": float,
    "STRING": str,
    "BOOLEAN": bool,
}


@dataclass(frozen=True, slots=True)
class ValueFault:
    """Why a value does not fit; `kind` is ComfyUI's own name for it."""

    kind: FaultKind
    message: str
    value: Any


def unwrap(value: Any) -> Any:
    """`{"__value__": x}` stands for x: the way to give a literal list, which would be a link."""
    if isinstance(value, dict) and "__value__" in value:
        return value["__value__"]
    return value


def fit_value(port: InputPort, value: Any) -> Any | ValueFault:
    """The value converted to the port's type, or why it does not fit.

    Types that have no literal form are passed through: only a node can judge them.
    """
    convert = CONVERSIONS.get(port.type)
    if convert is not None:
        try:
            value = convert(value)
        except (ValueError, TypeError, OverflowError) as error:
            return ValueFault("invalid_input_type", str(error), value)
    if port.minimum is not None and _is_number(value) and value < port.minimum:
        message = f"Value {value} smaller than min of {port.minimum}"
        return ValueFault("value_smaller_than_min", message, value)
    if port.maximum is not None and _is_number(value) and value > port.maximum:
        message = f"Value {value} bigger than max of {port.maximum}"
        return ValueFault("value_bigger_than_max", message, value)
    if port.choices is not None and value not in port.choices:
        return ValueFault("value_not_in_list", "Value not in list", value)
    return value


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float)
