"""What each node type takes and gives: ports, learned from the shape of ComfyUI's /object_info."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

Made = TypeVar("Made")

COMBO = "COMBO"
CUSTOM_NODES = "custom_nodes."
ANY_TYPES = frozenset(("*", "COMFY_MATCHTYPE_V3"))
"""The second is decided by what else is linked to a node: only its editor checks it."""
UPLOAD_FLAGS = ("image_upload", "video_upload", "audio_upload", "file_upload")


@dataclass(frozen=True, slots=True)
class InputPort:
    """One input of a node type. `spec` is the entry of /object_info that it was read from."""

    name: str
    type: str
    required: bool
    default: Any = None
    choices: tuple[Any, ...] | None = None
    minimum: float | None = None
    maximum: float | None = None
    spec: tuple[Any, ...] = ()
    takes_upload: bool = False
    """The value names a file in the worker's input folder: the choices are a sample."""


@dataclass(frozen=True, slots=True)
class OutputPort:
    """One output. `cacheable`: the value may be kept for later runs. `broadcast`: a list is given
    whole to whoever takes it, where the items of any other list are given one by one.
    """

    name: str
    type: str
    is_list: bool = False
    cacheable: bool = True
    broadcast: bool = False


@dataclass(frozen=True, slots=True)
class NodeType:
    name: str
    inputs: Mapping[str, InputPort]
    outputs: tuple[OutputPort, ...]
    is_output: bool = False
    display_name: str | None = None
    category: str = ""
    python_module: str = ""
    """Where the worker has it from; empty where it does not say."""
    hidden: frozenset[str] = frozenset()
    """What it is given besides its inputs: `PROMPT`, `UNIQUE_ID` and the like."""
    description: str = ""

    @property
    def pack(self) -> str | None:
        """The pack of custom nodes that it is from; None for those that come with the worker."""
        if not self.python_module.startswith(CUSTOM_NODES):
            return None
        return self.python_module.removeprefix(CUSTOM_NODES).partition(".")[0]


class Prepared(dict[str, Made | None], Generic[Made]):
    """What has been made of the node types of a catalog, each when it is first asked for."""

    def __init__(self, types: Mapping[str, NodeType], make: Callable[[NodeType], Made]) -> None:
        super().__init__()
        self._types = types
        self._make = make

    def __missing__(self, name: str) -> Made | None:
        node_type = self._types.get(name)
        if node_type is None:
            return None  # not remembered: names that are not there come from outside
        made = self._make(node_type)
        self[name] = made
        return made


@dataclass(frozen=True)
class NodeCatalog:
    """Node types by name. Empty means that nothing is known, not that nothing exists."""

    types: Mapping[str, NodeType] = field(default_factory=dict)
    _prepared: dict[Callable[..., Any], Prepared[Any]] = field(
        default_factory=dict, init=False, repr=False, compare=False
    )

    def prepared(self, make: Callable[[NodeType], Made]) -> Prepared[Made]:
        """What `make` makes of each node type, by name: made once, kept with the catalog.

        `make` is a function of a module, so that those who ask again get the same.
        """
        known = self._prepared.get(make)
        if known is None:
            known = self._prepared[make] = Prepared(self.types, make)
        return known

    def __contains__(self, name: str) -> bool:
        return name in self.types

    def __bool__(self) -> bool:
        return bool(self.types)

    def get(self, name: str) -> NodeType | None:
        return self.types.get(name)


def parse_object_info(raw: object) -> NodeCatalog:
    """Read /object_info. It comes from a worker, so entries that make no sense are left out."""
    if not isinstance(raw, Mapping):
        return NodeCatalog()
    types: dict[str, NodeType] = {}
    for name, entry in raw.items():
        if isinstance(name, str) and isinstance(entry, Mapping):
            types[name] = _read_node_type(name, entry)
    return NodeCatalog(types)


def _read_node_type(name: str, entry: Mapping[str, Any]) -> NodeType:
    sections = entry.get("input")
    inputs: dict[str, InputPort] = {}
    for section, required in (("required", True), ("optional", False)):
        ports = sections.get(section) if isinstance(sections, Mapping) else None
        for port_name, spec in (ports or {}).items() if isinstance(ports, Mapping) else ():
            inputs[str(port_name)] = read_input_port(str(port_name), spec, required=required)
    output_types = _as_list(entry.get("output"))
    names = _as_list(entry.get("output_name"))
    lists = _as_list(entry.get("output_is_list"))
    outputs = tuple(
        OutputPort(
            name=str(names[index]) if index < len(names) else _type_name(output_type),
            type=_type_name(output_type),
            is_list=bool(lists[index]) if index < len(lists) else False,
        )
        for index, output_type in enumerate(output_types)
    )
    display_name = entry.get("display_name")
    description = entry.get("description")
    return NodeType(
        name=name,
        inputs=inputs,
        outputs=outputs,
        is_output=entry.get("output_node") is True,
        display_name=display_name if isinstance(display_name, str) else None,
        category=str(entry.get("category") or ""),
        python_module=str(entry.get("python_module") or ""),
        hidden=_hidden_kinds(sections.get("hidden") if isinstance(sections, Mapping) else None),
        description=description if isinstance(description, str) else "",
    )


def _hidden_kinds(hidden: object) -> frozenset[str]:
    """Of `{"prompt": "PROMPT"}`, or in the newer form `{"prompt": ["PROMPT"]}`."""
    if not isinstance(hidden, Mapping):
        return frozenset()
    kinds = (each[0] if isinstance(each, list) and each else each for each in hidden.values())
    return frozenset(kind for kind in kinds if isinstance(kind, str))


def read_input_port(name: str, spec: object, *, required: bool) -> InputPort:
    """Read one input's specification: `[type or list of choices, options?]`."""
    parts = tuple(spec) if isinstance(spec, list | tuple) and spec else ("*",)
    options = parts[1] if len(parts) > 1 and isinstance(parts[1], Mapping) else {}
    choices: tuple[Any, ...] | None = None
    if isinstance(parts[0], list | tuple):
        choices = tuple(parts[0])
    elif parts[0] == COMBO and isinstance(options.get("options"), list | tuple):
        choices = tuple(options["options"])
    return InputPort(
        name=name,
        type=_type_name(parts[0]),
        required=required,
        default=options.get("default"),
        choices=choices,
        minimum=_number(options.get("min")),
        maximum=_number(options.get("max")),
        spec=parts,
        takes_upload=any(options.get(flag) for flag in UPLOAD_FLAGS),
    )


def types_match(received: str, expected: str) -> bool:
    """ComfyUI's rule: equal, any type on either side, or comma-separated sets that overlap."""
    if received == expected or not ANY_TYPES.isdisjoint((received, expected)):
        return True
    return not {part.strip() for part in received.split(",")}.isdisjoint(
        part.strip() for part in expected.split(",")
    )


def _type_name(value: object) -> str:
    return COMBO if isinstance(value, list | tuple) else str(value)


def _as_list(value: object) -> list[Any]:
    return list(value) if isinstance(value, list | tuple) else []


def _number(value: object) -> float | None:
    return value if isinstance(value, int | float) and not isinstance(value, bool) else None
