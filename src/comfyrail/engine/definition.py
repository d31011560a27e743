"""What a node type is: its ports, its function, and what the engine must know about it."""

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Literal

from comfyrail.engine.folders import Folders
from comfyrail.workflow.catalog import InputPort, OutputPort, read_input_port

NodeFunction = Callable[..., Any]
HiddenInput = Literal["PROMPT", "EXTRA_PNGINFO", "UNIQUE_ID"]
Specs = Mapping[str, Sequence[Any]]
Literals = Mapping[str, Any]

_NOTHING: Mapping[str, Any] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class NodeResult:
    """What a node function returns when it has more to give than values: `ui` is shown to clients.

    Each entry of `ui` is a list; an entry of such a list that has `filename`, `subfolder` and
    `type` names a file that the node wrote.
    """

    outputs: tuple[Any, ...] = ()
    ui: Mapping[str, Sequence[Any]] | None = None


@dataclass(frozen=True, slots=True)
class InputCheck:
    """A node's own judgement of the literal values of `inputs`, instead of range and choices.

    `find_fault` gets the values that are there and answers what is wrong with them, or None.
    """

    inputs: tuple[str, ...]
    find_fault: Callable[[Literals, Folders], str | None]


@dataclass(frozen=True, slots=True)
class NodeDefinition:
    """One node type. Build it with `define_node` or the decorator `node`."""

    name: str
    function: NodeFunction
    required: Specs
    optional: Specs
    hidden: Mapping[str, HiddenInput]
    outputs: tuple[OutputPort, ...]
    ports: Mapping[str, InputPort]
    is_output: bool = False
    category: str = ""
    display_name: str | None = None
    description: str = ""
    version: str = "1"
    schema: Literal["v1", "v3"] = "v1"
    """Which of the two shapes of /object_info ComfyUI gives this node."""
    deprecated: bool = False
    cacheable: bool = True
    """Whether equal inputs give equal outputs. If not, nothing downstream is reused either."""
    takes_context: bool = False
    takes_lists: bool = False
    """Whether the function runs once, with the list of all values of each input."""
    check: InputCheck | None = None
    fingerprint: Callable[[Literals, Folders], object] | None = None
    """What else the result depends on (a file's content), as a value that goes into the key."""
    listed_choices: Mapping[str, Callable[[Folders], Sequence[str]]] = field(
        default_factory=lambda: _NOTHING
    )
    """Choices that can be known only at the moment of asking, such as the files in a folder."""


def define_node(
    name: str,
    function: NodeFunction,
    *,
    required: Specs = _NOTHING,
    optional: Specs = _NOTHING,
    hidden: Mapping[str, HiddenInput] = _NOTHING,
    outputs: Sequence[str | OutputPort] = (),
    **about: Any,
) -> NodeDefinition:
    """A definition from ComfyUI's way of writing inputs: `{"width": ("INT", {"min": 1})}`.

    An output is a type, or a port where its name differs from its type. A parameter of `function`
    named `context` gets the NodeContext; all others get inputs by name.
    """
    ports = {
        port_name: read_input_port(port_name, spec, required=section is required)
        for section in (required, optional)
        for port_name, spec in section.items()
    }
    return NodeDefinition(
        name=name,
        function=function,
        required=required,
        optional=optional,
        hidden=hidden,
        outputs=tuple(
            port if isinstance(port, OutputPort) else OutputPort(port, port) for port in outputs
        ),
        ports=ports,
        takes_context="context" in inspect.signature(function).parameters,
        **about,
    )


def node(name: str, **about: Any) -> Callable[[NodeFunction], NodeDefinition]:
    """Make a node type of a plain function; the arguments are those of `define_node`."""

    def decorate(function: NodeFunction) -> NodeDefinition:
        return define_node(name, function, **about)

    return decorate
