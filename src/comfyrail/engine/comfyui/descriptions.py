"""Entries of /object_info for ComfyUI's node classes, in ComfyUI's own form."""

from collections.abc import Callable, Iterator, Mapping
from functools import cached_property
from typing import Any


class Description(Mapping[str, Any]):
    """An entry that is made when somebody looks: most definitions are never described."""

    def __init__(self, make: Callable[[], Mapping[str, Any]]) -> None:
        self._make = make

    @cached_property
    def _entry(self) -> Mapping[str, Any]:
        return self._make()

    def __getitem__(self, key: str) -> Any:
        return self._entry[key]

    def __iter__(self) -> Iterator[str]:
        return iter(self._entry)

    def __len__(self) -> int:
        return len(self._entry)


def describe_class(
    name: str, node_class: Any, declared: Mapping[str, Any], python_module: str, display_name: str
) -> dict[str, Any]:
    """The entry of a class with INPUT_TYPES; keys that it does not set are left out as there."""
    outputs = node_class.RETURN_TYPES
    entry: dict[str, Any] = {
        "input": declared,
        "input_order": {section: list(inputs.keys()) for section, inputs in declared.items()},
        "output": outputs,
        "output_is_list": getattr(node_class, "OUTPUT_IS_LIST", [False] * len(outputs)),
        "output_name": getattr(node_class, "RETURN_NAMES", outputs),
        "name": name,
        "display_name": display_name,
        "description": getattr(node_class, "DESCRIPTION", ""),
        "python_module": python_module,
        "category": getattr(node_class, "CATEGORY", "sd"),
        "output_node": bool(getattr(node_class, "OUTPUT_NODE", False) == True),  # noqa: E712
    }
    if hasattr(node_class, "OUTPUT_TOOLTIPS"):
        entry["output_tooltips"] = node_class.OUTPUT_TOOLTIPS
    for flag in ("DEPRECATED", "EXPERIMENTAL"):
        if getattr(node_class, flag, False):
            entry[flag.lower()] = True
    if hasattr(node_class, "API_NODE"):
        entry["api_node"] = node_class.API_NODE
    return entry
