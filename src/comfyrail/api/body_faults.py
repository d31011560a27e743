"""What to say of a body that does not fit its type: where, and what would be right.

The decoder says what is wrong and where. What may stand there the type itself knows: the values of
a choice, the fields of an object, and whether a field that is not there is one of an inner object.
"""

import re
from collections.abc import Iterator
from functools import lru_cache
from typing import Any

import msgspec
from msgspec import inspect as types

from comfyrail.workflow.nearest import did_you_mean, nearest_names, printable

TIME = "2026-11-16T09:30:00Z"
MOST_LISTED = 40
"""Names or values in a message."""
ENGINE_FIELD = "engine"
ENGINE_OPTIONS = frozenset({"strategy", "optimizer", "checkpoint", "on_error", "default_on_error"})
"""Where v2 has an object for them, which may hold anything."""

_SAID = re.compile(r"(?P<fault>.*?)(?: - at `(?P<path>.*)`)?", re.DOTALL)
_UNKNOWN = re.compile(r"Object contains unknown field `(.*)`", re.DOTALL)
_STEP = re.compile(r"\.([^.\[\]]+)|\[[^\]]*\]")


def explain(error: msgspec.ValidationError, kind: Any) -> tuple[str, dict[str, Any]]:
    """A sentence, and data for programs. `kind`: what the body should have been."""
    said = _SAID.fullmatch(str(error))
    fault, path = (said["fault"], said["path"] or "$") if said else (str(error), "$")
    details: dict[str, Any] = {"path": printable(path)}
    found = tuple(_at(_info(kind), path))
    more = ""
    unknown = _UNKNOWN.fullmatch(fault)
    if unknown is not None:
        more, known = _of_unknown(unknown[1], found, path)
        details |= {"field": printable(unknown[1]), "known": known}
    elif allowed := _allowed(found):
        listed = ", ".join(map(str, allowed[:MOST_LISTED]))
        more = f" Use one of {listed}." if len(allowed) > 1 else f" Only {listed} will do."
        details["allowed"] = allowed
    elif any(isinstance(each, types.DateTimeType) for each in found):
        more = f" Write a time with its zone, such as {TIME}."
        details["example"] = TIME
    return f"The request body is not right: {error}.{more}", details


@lru_cache(maxsize=256)
def _info(kind: Any) -> types.Type:
    return types.type_info(kind)


def _choices(info: types.Type) -> Iterator[types.Type]:
    """The types that a value may have."""
    if isinstance(info, types.Metadata):
        yield from _choices(info.type)
    elif isinstance(info, types.UnionType):
        for each in info.types:
            yield from _choices(each)
    else:
        yield info


def _at(info: types.Type, path: str) -> Iterator[types.Type]:
    """The types at a path such as `$.execution_config.priority` or `$.items[...].name`."""
    found = list(_choices(info))
    for step in _STEP.finditer(path):
        found = [
            choice
            for each in found
            for inner in _inside(each, step[1])
            for choice in _choices(inner)
        ]
    yield from found


def _inside(info: types.Type, name: str | None) -> Iterator[types.Type]:
    """The types of a field, or of every item where no name is given."""
    match info:
        case types.StructType() if name is not None:
            yield from (each.type for each in info.fields if each.encode_name == name)
        case types.DictType() if name is None:
            yield info.value_type
        case types.CollectionType() if name is None:
            yield info.item_type
        case types.TupleType() if name is None:
            yield from info.item_types


def _allowed(found: tuple[types.Type, ...]) -> list[Any]:
    """All values, where nothing but certain ones will do."""
    values: list[Any] = []
    for each in found:
        if isinstance(each, types.LiteralType):
            values += each.values
        elif isinstance(each, types.EnumType):
            values += [member.value for member in each.cls]
        elif not isinstance(each, types.NoneType):
            return []
    return values


def _of_unknown(name: str, found: tuple[types.Type, ...], path: str) -> tuple[str, list[str]]:
    """Where a field belongs that is not one, or which there are."""
    structs = [each for each in found if isinstance(each, types.StructType)]
    known = [field.encode_name for each in structs for field in each.fields]
    before = path.removeprefix("$").lstrip(".")
    deeper = [
        f"{before}.{inner}" if before else inner
        for each in structs
        for inner in _places(name, each)
    ]
    if deeper:
        return f" It goes into {' or '.join(f'`{each}`' for each in deeper)}.", known
    near = did_you_mean(nearest_names(name, known))
    return near or f" There are {', '.join(f'`{each}`' for each in known[:MOST_LISTED])}.", known


def _places(name: str, struct: types.StructType) -> Iterator[str]:
    """Fields of this name in the objects that it has."""
    for field in struct.fields:
        if field.encode_name == ENGINE_FIELD and name in ENGINE_OPTIONS:
            yield f"{ENGINE_FIELD}.{name}"
        for inner in _choices(field.type):
            if isinstance(inner, types.StructType) and any(
                each.encode_name == name for each in inner.fields
            ):
                yield f"{field.encode_name}.{name}"
