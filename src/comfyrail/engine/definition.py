"""What a node type is: its ports, its function, and what the engine must know about it."""

import inspect
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Literal, NamedTuple, Protocol

import msgspec

from comfyrail.engine.folders import Folders
from comfyrail.engine.policies import ErrorPolicy
from comfyrail.engine.resources.needs import ResourceNeeds
from comfyrail.workflow.catalog import InputPort, OutputPort, read_input_port

NodeFunction = Callable[..., Any]
HiddenInput = Literal[
    "PROMPT",
    "DYNPROMPT",
    "EXTRA_PNGINFO",
    "UNIQUE_ID",
    "AUTH_TOKEN_COMFY_ORG",
    "API_KEY_COMFY_ORG",
]
Specs = Mapping[str, Sequence[Any]]
Literals = Mapping[str, Any]

_NOTHING: Mapping[str, Any] = MappingProxyType({})
_DEFAULT_NEEDS = ResourceNeeds()


class NodeResult(msgspec.Struct, frozen=True):
    """What a node function returns when it has more to give than values.

    `ui` is shown to clients: each entry of it is a list; an entry of such a list that has
    `filename`, `subfolder` and `type` names a file that the node wrote. `expand` is a graph in the
    API format that takes the node's place: an item of `outputs` may then be a link into it.
    """

    outputs: tuple[Any, ...] = ()
    ui: Mapping[str, Sequence[Any]] | None = None
    expand: Mapping[str, Any] | None = None


@dataclass(frozen=True, slots=True)
class NodeInputs:
    """What is known of a node's inputs before anything has run.

    `links` are the inputs that come from other nodes, with the type that they receive where that
    is known.
    """

    node_id: str
    literals: Literals
    links: Mapping[str, str | None]
    folders: Folders


class InputFault(NamedTuple):
    """`reason` is None where the node only says that the input is wrong."""

    input: str
    reason: str | None


class NodeCheck(Protocol):
    """A node's own judgement of its inputs."""

    @property
    def judges_types(self) -> bool:
        """Whether it also judges the types of linked inputs, so that the engine does not."""
        ...

    def judges(self, name: str) -> bool:
        """Whether range and choices of this input are left to it."""
        ...

    def find_faults(
        self, inputs: NodeInputs
    ) -> Sequence[InputFault] | Awaitable[Sequence[InputFault]]:
        """What is wrong; nothing when all is well."""
        ...


@dataclass(frozen=True, slots=True)
class InputCheck:
    """Judges the literal values of `inputs`: `find_fault` says what is wrong, or None."""

    inputs: tuple[str, ...]
    find_fault: Callable[[Literals, Folders], str | None]
    judges_types: bool = False

    def judges(self, name: str) -> bool:
        return name in self.inputs

    def find_faults(self, inputs: NodeInputs) -> Sequence[InputFault]:
        literals = {name: inputs.literals[name] for name in self.inputs if name in inputs.literals}
        reason = self.find_fault(literals, inputs.folders) if literals else None
        return [] if reason is None else [InputFault(name, reason) for name in literals]


class NodeMethods(NamedTuple):
    """The functions of one node of a graph: of a definition, or of an object with a state."""

    run: NodeFunction
    check_lazy: NodeFunction | None


@dataclass(frozen=True, slots=True)
class NodeDefinition:
    """One node type. Build it with `define_node` or the decorator `node`."""

    name: str
    function: NodeFunction
    """Takes inputs by name; may be a coroutine function, then it overlaps with other nodes."""
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
    experimental: bool = False
    cacheable: bool = True
    """Whether equal inputs give equal outputs. If not, nothing downstream is reused either."""
    keyed_by_id: bool = False
    """Whether a result is reused for this very node of a graph only, not for an equal one."""
    is_async: bool = False
    takes_context: bool = False
    takes_lists: bool = False
    """Whether the function runs once, with the list of all values of each input."""
    takes_undeclared: bool = False
    """Whether links to inputs that it does not declare are given to it all the same."""
    lazy_inputs: frozenset[str] = frozenset()
    """Inputs that are made only when `check_lazy` asks for them."""
    expands: bool = False
    """Whether it may put other nodes in its place. What they take must last until then."""
    raw_links: frozenset[str] = frozenset()
    """Inputs that get the link itself, not what it leads to."""
    check_lazy: NodeFunction | None = None
    """Gets the inputs, None where one is not there yet, and gives the names that it needs."""
    instantiate: Callable[[], NodeMethods] | None = None
    """Makes the methods of a node that keeps a state; called once for each id of a graph."""
    dynamic_ports: Callable[[Literals], Mapping[str, InputPort]] | None = None
    """The ports as they are for these inputs, where their number depends on them."""
    check: NodeCheck | None = None
    fingerprint: Callable[[NodeInputs], object] | None = None
    """What else the result depends on (a file's content), as a value that goes into the key.
    May be a coroutine function."""
    listed_choices: Mapping[str, Callable[[Folders], Sequence[str]]] = field(
        default_factory=lambda: _NOTHING
    )
    """Choices that can be known only at the moment of asking, such as the files in a folder."""
    needs: ResourceNeeds = _DEFAULT_NEEDS
    runs_in: Literal["thread", "process"] = "thread"
    """Where the parallel strategy runs it: a process for what holds the interpreter's lock long.
    The function must then be importable by its module and name."""
    is_local: bool = False
    """Whether it reads or writes this machine's folders, so that it is not sent elsewhere."""
    is_cheap: bool = False
    """Whether handing it to another thread or machine costs more than running it."""
    batches: str | None = None
    """The image input along whose first axis calls with equal other inputs may be joined."""
    timeout: float | None = None
    """Seconds after which a run of it is a failure."""
    on_error: ErrorPolicy | None = None
    python_module: str = "comfyrail"
    described: Mapping[str, Any] | None = None
    """Its entry of /object_info, where another program made the node type."""

    def ports_for(self, inputs: Literals) -> Mapping[str, InputPort]:
        """The ports of a node that has these inputs in a prompt."""
        return self.ports if self.dynamic_ports is None else self.dynamic_ports(inputs)

    @property
    def keeps(self) -> bool:
        """Whether its results may be kept for other runs at all."""
        return self.cacheable and all(port.cacheable for port in self.outputs)


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
    named `context` gets the NodeContext; all others get inputs by name. The options `lazy` and
    `rawLink` of an input mean what they mean in ComfyUI.
    """
    ports = {
        port_name: read_input_port(port_name, spec, required=section is required)
        for section in (required, optional)
        for port_name, spec in section.items()
    }
    takes_context = "context" in inspect.signature(function).parameters
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
        is_async=inspect.iscoroutinefunction(function),
        takes_context=takes_context,
        lazy_inputs=ports_with_option(ports, "lazy"),
        raw_links=ports_with_option(ports, "rawLink"),
        **{"is_local": takes_context, **about},
    )


def node(name: str, **about: Any) -> Callable[[NodeFunction], NodeDefinition]:
    """Make a node type of a plain function; the arguments are those of `define_node`."""

    def decorate(function: NodeFunction) -> NodeDefinition:
        return define_node(name, function, **about)

    return decorate


def ports_with_option(ports: Mapping[str, InputPort], option: str) -> frozenset[str]:
    """The names of the ports whose specification has this option set."""
    return frozenset(
        name
        for name, port in ports.items()
        if len(port.spec) > 1 and isinstance(port.spec[1], Mapping) and port.spec[1].get(option)
    )
