"""What the types of a contract say that msgspec does not put into a schema: the docstrings below
their fields, and which texts are times.
"""

import ast
import inspect
import sys
from collections.abc import Iterable, Iterator, Mapping
from itertools import pairwise
from typing import Any

import msgspec


def describe_fields(schemas: Mapping[str, Any], kinds: Iterable[Any]) -> None:
    """Add them to the schemas of the structs that the types are made of, and say what is a time."""
    structs = {
        struct.cls.__name__: struct
        for info in msgspec.inspect.multi_type_info(kinds)
        for struct in _structs_in(info, set())
    }
    known: dict[str, dict[str, dict[str, str]]] = {}
    for name, struct in structs.items():
        properties = schemas.get(name, {}).get("properties", {})
        for field in struct.fields:
            if field.encode_name in properties and _is_time(field.type):
                properties[field.encode_name] = _with_format(properties[field.encode_name])
        for base in reversed(struct.cls.__mro__):
            module = base.__module__
            if module.startswith("comfyrail.") and module not in known:
                known[module] = _fields_said_in(module)
            _add(properties, known.get(module, {}).get(base.__name__, {}))


def _is_time(info: msgspec.inspect.Type) -> bool:
    kinds = info.types if isinstance(info, msgspec.inspect.UnionType) else (info,)
    return any(isinstance(kind, msgspec.inspect.DateTimeType) for kind in kinds)


def _with_format(schema: Mapping[str, Any]) -> dict[str, Any]:
    """All of ours have a zone, those of requests must have one."""
    if "anyOf" in schema:
        return {**schema, "anyOf": [_with_format(each) for each in schema["anyOf"]]}
    return {**schema, "format": "date-time"} if schema.get("type") == "string" else dict(schema)


def _add(properties: dict[str, Any], said: Mapping[str, str]) -> None:
    for name in properties.keys() & said.keys():
        # Keywords beside a reference count in OpenAPI 3.1.
        properties[name] = {**properties[name], "description": said[name]}


def _structs_in(info: Any, seen: set[type]) -> Iterator[msgspec.inspect.StructType]:
    """All structs of a description by msgspec, wherever they are in it."""
    if isinstance(info, msgspec.inspect.StructType):
        if info.cls in seen:
            return
        seen.add(info.cls)
        yield info
    if isinstance(info, tuple | list):
        for each in info:
            yield from _structs_in(each, seen)
    elif isinstance(info, msgspec.inspect.Type | msgspec.inspect.Field):
        for name in info.__struct_fields__:
            yield from _structs_in(getattr(info, name), seen)


def _fields_said_in(module: str) -> dict[str, dict[str, str]]:
    """By class and field. Empty where the program has come without its sources."""
    try:
        tree = ast.parse(inspect.getsource(sys.modules[module]))
    except (OSError, TypeError):
        return {}
    return {
        node.name: dict(_said(node.body)) for node in tree.body if isinstance(node, ast.ClassDef)
    }


def _said(body: list[ast.stmt]) -> Iterator[tuple[str, str]]:
    for field, text in pairwise(body):
        match field, text:
            case (
                ast.AnnAssign(target=ast.Name(id=name)),
                ast.Expr(value=ast.Constant(value=str(said))),
            ):
                yield name, " ".join(said.split())
