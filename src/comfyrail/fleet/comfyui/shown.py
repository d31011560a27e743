"""What nodes show at their end: files of every kind, texts and other values."""

from collections.abc import Iterator
from dataclasses import dataclass
from math import isfinite
from typing import Any

from comfyrail.fleet.comfyui.decoding import shorten

NAME_LIMIT = 200
NESTING_LIMIT = 4
TEXTS_APART = 20
FLAGS = frozenset({"animated"})
"""Says of the files beside it that they move: no output of its own."""


@dataclass(frozen=True, slots=True)
class WorkerFile:
    """A file that a node reports; fetched by /view."""

    node_id: str
    kind: str
    filename: str
    subfolder: str
    folder_type: str


@dataclass(frozen=True, slots=True)
class ShownValue:
    """A text, a number or other JSON that a node reports in place of a file. `number` counts those
    of one name from 1.
    """

    node_id: str
    name: str
    number: int
    value: Any


Shown = WorkerFile | ShownValue


def read_shown(outputs: object) -> tuple[Shown, ...]:
    """The `outputs` of a history entry, in their order: `{node id: {name: [item, …]}}`."""
    found: list[Shown] = []
    for node_id, shown in outputs.items() if isinstance(outputs, dict) else ():
        node = shorten(str(node_id), NAME_LIMIT)
        for name, given in shown.items() if isinstance(shown, dict) else ():
            if name in FLAGS:
                continue
            values: list[Any] = []
            for item in _items(given):
                file = _file(node, str(name), item)
                if file is not None:
                    found.append(file)
                elif _says_something(item):
                    values.append(item)
            found.extend(_values(node, shorten(str(name), NAME_LIMIT), values))
    return tuple(found)


def _values(node_id: str, name: str, values: list[Any]) -> Iterator[ShownValue]:
    """A few texts are one output each; anything else of one name is one together."""
    are_texts = len(values) <= TEXTS_APART and all(isinstance(value, str) for value in values)
    apart = values if are_texts or len(values) == 1 else [values] if values else []
    for number, value in enumerate(apart, 1):
        yield ShownValue(node_id, name, number, value)


def _items(given: Any, depth: int = 0) -> Iterator[Any]:
    """Lists are opened as far as there are files in them; a list of plain values is a value."""
    if not isinstance(given, list):
        yield given
        return
    for item in given:
        if isinstance(item, list) and depth < NESTING_LIMIT and _has_files(item, depth + 1):
            yield from _items(item, depth + 1)
        else:
            yield item


def _has_files(items: list[Any], depth: int) -> bool:
    return any(
        _is_file(item)
        or (isinstance(item, list) and depth < NESTING_LIMIT and _has_files(item, depth + 1))
        for item in items
    )


def _is_file(item: Any) -> bool:
    return isinstance(item, dict) and isinstance(item.get("filename"), str)


def _file(node_id: str, kind: str, item: Any) -> WorkerFile | None:
    if not _is_file(item):
        return None
    return WorkerFile(
        node_id=node_id,
        kind=shorten(kind, NAME_LIMIT),
        filename=item["filename"],
        subfolder=str(item.get("subfolder") or ""),
        folder_type=str(item.get("type") or "output"),
    )


def _says_something(item: Any) -> bool:
    if isinstance(item, float):
        return isfinite(item)
    return item is not None and item not in ({}, [])
