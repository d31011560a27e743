"""The node types that an engine knows, and how it tells clients about them."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from comfyrail.engine.definition import NodeDefinition
from comfyrail.engine.folders import Folders


class NodeRegistry:
    """Definitions by name. A later definition takes the place of an earlier one of that name."""

    def __init__(self, definitions: Iterable[NodeDefinition] = ()) -> None:
        self._definitions: dict[str, NodeDefinition] = {}
        for definition in definitions:
            self.add(definition)

    def add(self, definition: NodeDefinition) -> None:
        self._definitions[definition.name] = definition

    def get(self, name: str) -> NodeDefinition | None:
        return self._definitions.get(name)

    def __getitem__(self, name: str) -> NodeDefinition:
        return self._definitions[name]

    def __contains__(self, name: object) -> bool:
        return name in self._definitions

    def __iter__(self) -> Iterator[NodeDefinition]:
        return iter(self._definitions.values())

    def names(self) -> list[str]:
        return list(self._definitions)

    def object_info(self, folders: Folders) -> dict[str, Any]:
        """All node types in the shape of ComfyUI's /object_info."""
        return {definition.name: describe_node(definition, folders) for definition in self}


def describe_node(definition: NodeDefinition, folders: Folders) -> dict[str, Any]:
    """One entry of /object_info; the order of its keys is ComfyUI's."""
    sections: dict[str, Mapping[str, Any]] = {
        "required": _with_listed_choices(definition, folders),
        "optional": definition.optional,
        "hidden": _hidden_inputs(definition),
    }
    shown = {name: dict(ports) for name, ports in sections.items() if ports or name == "required"}
    entry: dict[str, Any] = {
        "input": shown,
        "input_order": {name: list(ports) for name, ports in shown.items()},
        "output": [port.type for port in definition.outputs],
        "output_is_list": [port.is_list for port in definition.outputs],
        "output_name": [port.name for port in definition.outputs],
    }
    if definition.schema == "v3":
        entry["output_matchtypes"] = None
    entry |= {
        "name": definition.name,
        "display_name": definition.display_name or _fallback_display_name(definition),
        "description": definition.description,
        "python_module": "comfyrail",
        "category": definition.category,
        "output_node": definition.is_output,
    }
    if definition.schema == "v3":
        entry |= {"deprecated": definition.deprecated, "experimental": False, "api_node": False}
    elif definition.deprecated:
        entry["deprecated"] = True
    return entry


def _hidden_inputs(definition: NodeDefinition) -> Mapping[str, Any]:
    if definition.schema == "v3":
        return {name: [kind] for name, kind in definition.hidden.items()}
    return definition.hidden


def _fallback_display_name(definition: NodeDefinition) -> str | None:
    return definition.name if definition.schema == "v1" else None


def _with_listed_choices(definition: NodeDefinition, folders: Folders) -> dict[str, Sequence[Any]]:
    shown = dict(definition.required)
    for name, list_choices in definition.listed_choices.items():
        shown[name] = [list_choices(folders), *shown[name][1:]]
    return shown
