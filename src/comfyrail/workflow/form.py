"""How a workflow can be filled in: its nodes, and the values that a person may set in each.

What the catalog says comes from workers, and what the workflow says from anyone: all that is told
is counted, and what is too much is left out.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any, Literal

import msgspec

from comfyrail.errors import CyclicWorkflow
from comfyrail.workflow.catalog import COMBO, InputPort, NodeCatalog, NodeType
from comfyrail.workflow.declared_values import LARGEST_INTEGER, SMALLEST_INTEGER
from comfyrail.workflow.dynamic_inputs import DYNAMIC_COMBO, DYNAMIC_TYPES, ports_of
from comfyrail.workflow.editor.widget_kinds import SEED_NAMES, InputSpec
from comfyrail.workflow.file_inputs import FILE_CHOICES, USUAL_LOADERS
from comfyrail.workflow.graph import Area, Node, Workflow, is_link
from comfyrail.workflow.parameters import KEY_LIMIT

MOST_NODES = 5000
MOST_PARTS = 100_000
"""Fields and links of all nodes."""
MOST_PORTS = 1000
"""Of one node type."""
MOST_CHOICES = 5000
MOST_CHARACTERS = 8 << 20
"""Of all that workers say: choices, defaults, explanations."""
LONGEST_CHOICE = 1000
LONGEST_TEXT = 2000
LONGEST_DEFAULT = 10_000
LONGEST_TITLE = 500
LARGEST_EXACT = (1 << 53) - 1
"""Up to here a browser keeps all digits of a number."""
LONG_TEXT = 80

Upload = Literal["image", "video", "audio", "file"]

UPLOADS: Mapping[str, Upload] = {
    "image_upload": "image",
    "video_upload": "video",
    "audio_upload": "audio",
    "file_upload": "file",
}
UPLOADS_OF_UNKNOWN: Mapping[str, Upload] = {
    **dict.fromkeys(USUAL_LOADERS, "file"),
    "LoadImage": "image",
    "LoadImageMask": "image",
    "LoadAudio": "audio",
    "LoadVideo": "video",
}
MASK_LOADERS = frozenset({"LoadImage", "LoadImageMask"})
NOT_FILLED_IN = frozenset({"IMAGEUPLOAD", "AUDIOUPLOAD", "AUDIO_UI", "IMAGECOMPARE"})
"""Buttons and players: the editor has them for widgets, and they have no value."""


@dataclass(frozen=True, slots=True)
class FormPosition:
    """Where a node stands in the editor."""

    x: int
    y: int
    width: int
    height: int


@dataclass(frozen=True, slots=True)
class FormLink:
    """The input gets what this output of another node gives."""

    input: str
    node_id: str
    output: int


@dataclass(frozen=True, slots=True)
class FormField:
    """A value that can be set as the parameter `<node_id>.<name>`.

    `given`: the workflow sets it; else the value is the default, if there is one.
    `value_text` is the value once more where it is a whole number that a browser would round.
    `choices` may be cut: `choices_total` is how many there are. `upload`: what kind of file it
    names; `mask`: the node gives that picture's mask too.
    """

    name: str
    type: str
    value: Any
    given: bool = True
    value_text: str | None = None
    default: Any = None
    required: bool = False
    minimum: float | None = None
    maximum: float | None = None
    step: float | None = None
    choices: tuple[str | float | bool, ...] | None = None
    choices_total: int | None = None
    multiline: bool = False
    seed: bool = False
    upload: Upload | None = None
    mask: bool = False
    tooltip: str | None = None


@dataclass(frozen=True, slots=True)
class FormNode:
    """`known`: some worker has its type; else its fields are guessed from their values."""

    node_id: str
    class_type: str
    title: str
    known: bool
    output_node: bool
    description: str
    position: FormPosition | None
    links: list[FormLink]
    fields: list[FormField]


def form_nodes(workflow: Workflow, catalog: NodeCatalog) -> list[FormNode]:
    """The nodes of a workflow, each after all that feed it; those of a level as they stand.

    The first ones only, where there are very many or they have very much to fill in.
    """
    return list(_Form(workflow, catalog).nodes())


@dataclass(frozen=True, slots=True)
class _Widget:
    """What is told of one input of every node of a type, whatever value it has."""

    field: FormField
    has_widget: bool
    """False: the editor takes links only. It is a field where a value was written all the same."""
    characters: int
    cut_choices: frozenset[Any] = frozenset()
    """Those that are not told."""

    @property
    def is_shown_unset(self) -> bool:
        return self.has_widget and (self.field.required or self.field.default is not None)


class _Allowance:
    """What may still be told."""

    def __init__(self) -> None:
        self.parts = MOST_PARTS
        self._characters = MOST_CHARACTERS

    def take_part(self) -> bool:
        self.parts -= 1
        return self.parts >= 0

    def take_characters(self, count: int) -> bool:
        if count > self._characters:
            return False
        self._characters -= count
        return True


class _Form:
    def __init__(self, workflow: Workflow, catalog: NodeCatalog) -> None:
        self._workflow = workflow
        self._catalog = catalog
        self._widgets = catalog.prepared(_widgets_of)
        self._allowance = _Allowance()
        self._has_dots = any("." in node_id for node_id in workflow.nodes)

    def nodes(self) -> Iterator[FormNode]:
        for node_id in islice(_by_levels(self._workflow), MOST_NODES):
            if self._allowance.parts <= 0:
                return
            yield self._node(self._workflow.nodes[node_id])

    def _node(self, node: Node) -> FormNode:
        node_type = self._catalog.get(node.class_type)
        said = node_type.description[:LONGEST_TEXT] if node_type else ""
        usual = (node_type.display_name or "")[:LONGEST_TITLE] if node_type else ""
        is_told = self._allowance.take_characters(len(said) + len(usual))
        return FormNode(
            node_id=node.id,
            class_type=node.class_type[:LONGEST_TITLE],
            title=(node.title or (usual if is_told else "") or node.class_type)[:LONGEST_TITLE],
            known=node_type is not None,
            output_node=node_type is not None and node_type.is_output,
            description=said if is_told else "",
            position=_position(self._workflow.layout.get(node.id)),
            links=list(self._links(node)),
            fields=list(self._fields(node, node_type)),
        )

    def _links(self, node: Node) -> Iterator[FormLink]:
        """Those that lead somewhere."""
        for edge in node.edges():
            if edge.source in self._workflow.nodes and edge.slot >= 0:
                if not self._allowance.take_part():
                    return
                yield FormLink(edge.input[:LONGEST_TITLE], edge.source, edge.slot)

    def _fields(self, node: Node, node_type: NodeType | None) -> Iterator[FormField]:
        found = _guessed(node) if node_type is None else self._known(node, node_type)
        for field in found:
            if not self._is_meant(node, field.name):
                continue
            if not self._allowance.take_part():
                return
            yield field

    def _is_meant(self, node: Node, name: str) -> bool:
        """Whether the parameter is this node's: an id with a dot may begin as another one does."""
        if len(node.id) + 1 + len(name) > KEY_LIMIT:
            return False
        if not self._has_dots or "." not in node.id:
            return True
        starts = (node.id[:at] for at, sign in enumerate(node.id) if sign == ".")
        return not any(start in self._workflow.nodes for start in starts)

    def _known(self, node: Node, node_type: NodeType) -> Iterator[FormField]:
        if any(port.type in DYNAMIC_TYPES for port in node_type.inputs.values()):
            widgets: Sequence[_Widget] = _widgets_of_node(node_type, node)
        else:
            widgets = self._widgets[node.class_type] or ()
        for widget in widgets:
            name = widget.field.name
            if name not in node.inputs:
                if widget.is_shown_unset:
                    yield replace(self._filled(widget, widget.field.default), given=False)
                continue
            value = node.inputs[name]
            if not is_link(value) and (widget.has_widget or _is_plain(value)):
                yield self._filled(widget, value)

    def _filled(self, widget: _Widget, value: Any) -> FormField:
        field = replace(widget.field, value=value, value_text=_exact_text(value))
        if not self._allowance.take_characters(widget.characters):
            return replace(field, choices=None if field.choices is None else (), tooltip=None)
        if _is_plain(value) and value in widget.cut_choices:
            return replace(field, choices=(*(field.choices or ()), value))
        return field


def _by_levels(workflow: Workflow) -> Sequence[str]:
    """As they stand where a circle leaves no order."""
    try:
        order = workflow.order
    except CyclicWorkflow:
        return tuple(workflow.nodes)
    levels: dict[str, int] = {}
    for node_id in order:
        feeds = workflow.sources[node_id]
        levels[node_id] = 1 + max((levels[each] for each in feeds), default=0)
    return sorted(workflow.nodes, key=levels.__getitem__)


def _position(area: Area | None) -> FormPosition | None:
    return None if area is None else FormPosition(*area)


def _widgets_of(node_type: NodeType) -> tuple[_Widget, ...]:
    return tuple(_widgets(node_type, node_type.inputs.values()))


def _widgets_of_node(node_type: NodeType, node: Node) -> tuple[_Widget, ...]:
    """Of a type whose inputs depend on each other."""
    ports = dict(ports_of(node_type, node.inputs))
    for name, port in node_type.inputs.items():
        if port.type == DYNAMIC_COMBO:
            ports.setdefault(name, port)  # a choice that was not made, or that there is not
    return tuple(_widgets(node_type, ports.values()))


def _widgets(node_type: NodeType, ports: Iterable[InputPort]) -> Iterator[_Widget]:
    gives_mask = any(output.type == "MASK" for output in node_type.outputs)
    for port in islice(ports, MOST_PORTS):
        spec = InputSpec.read(port.name, port.spec)
        if spec.type not in NOT_FILLED_IN:
            yield _widget(node_type.name, port, spec, gives_mask=gives_mask)


def _widget(class_type: str, port: InputPort, spec: InputSpec, *, gives_mask: bool) -> _Widget:
    options = spec.options
    kind = spec.type if spec.has_widget else port.type
    told, cut, total = _choices(port, spec)
    tooltip = options.get("tooltip")
    step = _number(options.get("step"))
    upload = _upload(class_type, port, options)
    default = _default(options.get("default"))
    field = FormField(
        name=port.name,
        type=kind[:LONGEST_TEXT],
        value=None,
        default=default,
        required=port.required,
        minimum=_number(port.minimum),
        maximum=_number(port.maximum),
        step=1 if step is None and kind == "INT" else step,
        choices=told,
        choices_total=total,
        multiline=kind == "STRING" and options.get("multiline") is True,
        seed=kind == "INT" and spec.has_control,
        upload=upload,
        mask=upload == "image" and gives_mask,
        tooltip=tooltip[:LONGEST_TEXT] if isinstance(tooltip, str) else None,
    )
    written = (*(told or ()), field.type, field.tooltip or "", "" if default is None else default)
    return _Widget(field, spec.has_widget, sum(map(_length, written)), cut)


def _choices(
    port: InputPort, spec: InputSpec
) -> tuple[tuple[str | float | bool, ...] | None, frozenset[Any], int | None]:
    """Those that are told, those that are not, and how many there are."""
    given: Sequence[Any] | None = port.choices
    if spec.type == DYNAMIC_COMBO:
        given = [each.get("key") for each in spec.choices if isinstance(each, Mapping)]
    if given is None:
        return ((), frozenset(), 0) if spec.type == COMBO else (None, frozenset(), None)
    plain = [each for each in given if _is_plain(each) and _length(each) <= LONGEST_CHOICE + 8]
    return tuple(plain[:MOST_CHOICES]), frozenset(plain[MOST_CHOICES:]), len(given)


def _upload(class_type: str, port: InputPort, options: Mapping[str, Any]) -> Upload | None:
    if options.get("image_folder") not in (None, "input"):
        return None  # what was made before, and not what is given
    for flag, kind in UPLOADS.items():
        if options.get(flag):
            return kind
    is_file = port.takes_upload or (class_type, port.name) in FILE_CHOICES
    return "file" if is_file else None


def _guessed(node: Node) -> Iterator[FormField]:
    """The plain values of a node whose type nobody knows."""
    for name, value in node.inputs.items():
        if not _is_plain(value):
            continue
        kind = _kind(value)
        is_file = kind == "STRING" and USUAL_LOADERS.get(node.class_type) == name
        yield FormField(
            name=name,
            type=kind,
            value=value,
            value_text=_exact_text(value),
            step=1 if kind == "INT" else None,
            multiline=isinstance(value, str) and ("\n" in value or len(value) > LONG_TEXT),
            seed=kind == "INT" and name in SEED_NAMES,
            upload=UPLOADS_OF_UNKNOWN[node.class_type] if is_file else None,
            mask=is_file and node.class_type in MASK_LOADERS,
        )


def _kind(value: Any) -> str:
    if isinstance(value, bool):
        return "BOOLEAN"
    if isinstance(value, int):
        return "INT"
    return "FLOAT" if isinstance(value, float) else "STRING"


def _is_plain(value: object) -> bool:
    """Whether it is a text, a boolean, or a number that can be written as JSON."""
    return isinstance(value, str | bool) or _number(value) is not None


def _number(value: object) -> float | None:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    if isinstance(value, int):
        return value if SMALLEST_INTEGER <= value <= LARGEST_INTEGER else None
    return value if abs(value) < float("inf") else None


def _exact_text(value: object) -> str | None:
    is_long = isinstance(value, int) and abs(value) > LARGEST_EXACT
    return str(value) if is_long else None


def _default(value: Any) -> Any:
    """None for one that cannot be written, or is long."""
    if isinstance(value, str):
        return value if len(value) <= LONGEST_DEFAULT else None
    if isinstance(value, list | dict):
        try:
            return value if len(msgspec.json.encode(value)) <= LONGEST_DEFAULT else None
        except (ValueError, TypeError, OverflowError, RecursionError):
            return None
    return value if _is_plain(value) else None


def _length(value: object) -> int:
    """About how much it is as JSON."""
    if isinstance(value, list | dict):
        return len(msgspec.json.encode(value))
    return 8 + (len(value) if isinstance(value, str) else 8)
