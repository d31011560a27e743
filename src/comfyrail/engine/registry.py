"""The node types that an engine knows, and how it tells clients about them."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import structlog

from comfyrail.engine.definition import NodeDefinition
from comfyrail.engine.folders import Folders

log = structlog.get_logger(__name__)


DefinitionSource = Callable[[], NodeDefinition]
"""Makes a definition anew: choices such as file names may have changed since the last time."""


class BrokenNodeType(ValueError):
    """A foreign class does not say what it takes and gives."""


def _definition_of(name: str, source: "NodeDefinition | DefinitionSource") -> NodeDefinition:
    if isinstance(source, NodeDefinition):
        return source
    try:
        return source()
    except (Exception, SystemExit) as error:
        raise BrokenNodeType(
            f"The node type '{name}' does not say what it takes and gives: "
            f"{type(error).__name__}: {error}"
        ) from error


class NodeView:
    """Definitions as they are now, each made once: for the check or the run of one prompt."""

    def __init__(self, sources: Mapping[str, NodeDefinition | DefinitionSource]) -> None:
        self._sources = sources
        self._made: dict[str, NodeDefinition] = {}

    def __contains__(self, name: object) -> bool:
        return name in self._sources

    def __getitem__(self, name: str) -> NodeDefinition:
        made = self._made.get(name)
        if made is None:
            source = self._sources[name]
            made = _definition_of(name, source)
            self._made[name] = made
        return made


class NodeRegistry:
    """Node types by name. A later one takes the place of an earlier one of that name."""

    def __init__(self, definitions: Iterable[NodeDefinition] = ()) -> None:
        self._sources: dict[str, NodeDefinition | DefinitionSource] = {}
        for definition in definitions:
            self.add(definition)

    def add(self, definition: NodeDefinition) -> None:
        self._sources[definition.name] = definition

    def add_source(self, name: str, source: DefinitionSource) -> None:
        """A node type whose definition is made anew for every prompt."""
        self._sources[name] = source

    def view(self) -> NodeView:
        return NodeView(self._sources)

    def get(self, name: str) -> NodeDefinition | None:
        return self[name] if name in self._sources else None

    def __getitem__(self, name: str) -> NodeDefinition:
        return _definition_of(name, self._sources[name])

    def __contains__(self, name: object) -> bool:
        return name in self._sources

    def __iter__(self) -> Iterator[NodeDefinition]:
        return map(self.__getitem__, list(self._sources))

    def names(self) -> list[str]:
        return list(self._sources)

    def object_info(self, folders: Folders) -> dict[str, Any]:
        """All node types in the shape of ComfyUI's /object_info.

        A type that cannot be described now is left out, and the log says why.
        """
        described: dict[str, Any] = {}
        for name in self._sources:
            try:
                described[name] = describe_node(self[name], folders)
            except Exception as error:  # noqa: BLE001 - a foreign class may raise anything
                log.warning("node_type_not_described", node_type=name, error=str(error))
        return described


def describe_node(definition: NodeDefinition, folders: Folders) -> dict[str, Any]:
    """One entry of /object_info; the order of its keys is ComfyUI's."""
    if definition.described is not None:
        return dict(definition.described)
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
        "python_module": definition.python_module,
        "category": definition.category,
        "output_node": definition.is_output,
    }
    if definition.schema == "v3":
        entry |= {
            "deprecated": definition.deprecated,
            "experimental": definition.experimental,
            "api_node": False,
        }
    else:
        entry |= {"deprecated": True} if definition.deprecated else {}
        entry |= {"experimental": True} if definition.experimental else {}
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
