"""The sockets and widgets that the editor gives to a node of a type, in its order."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from comfyrail.workflow.catalog import COMBO, InputPort, NodeType
from comfyrail.workflow.dynamic_inputs import AUTOGROW, DYNAMIC_SLOT, MATCH_TYPE
from comfyrail.workflow.editor.growing import Growing
from comfyrail.workflow.editor.widget_kinds import WIDGET_MAKERS, InputSpec, Widget

PLAYER_TYPES = frozenset(
    {"LoadAudio", "SaveAudio", "PreviewAudio", "SaveAudioMP3", "SaveAudioOpus"}
)
MODEL_VIEWER_TYPES = frozenset({"Preview3D", "SaveGLB"})
PICTURE_UPLOADS = ("image_upload", "video_upload", "animated_image_upload")


class Socket(NamedTuple):
    """An input that takes links only. A list that grows has one for all items without a widget."""

    name: str
    type: str
    grows: bool = False


class Declared(NamedTuple):
    """What one level of inputs gives. The editor puts the sockets first, and the widgets of lists
    that have grown last.
    """

    sockets: list[Socket]
    widgets: list[Widget]
    growing: list[Growing]


def declared_inputs(node_type: NodeType) -> Declared:
    """Sockets and widgets of a new node of a type; a choice that brings inputs is one widget."""
    return _declare(_specs_of(node_type))


def inputs_of_choice(widget: Widget, value: object) -> Declared:
    """What the chosen option of a dynamic combo brings, with dotted names."""
    options = widget.options.get("options")
    for option in options if isinstance(options, list | tuple) else ():
        if isinstance(option, Mapping) and option.get("key") == value:
            return _declare(_sub_specs(option.get("inputs"), widget.name))
    return Declared([], [], [])


def places_of_forced_inputs(node_type: NodeType, values: int) -> list[int]:
    """Where old files have a value for inputs that today take links only.

    The editor leaves these out where a node has exactly as many values as it had widgets then.
    """
    seen: list[InputSpec] = []
    count = 0
    for spec in _specs_of(node_type):
        if spec.takes_links_only or spec.type in WIDGET_MAKERS:
            seen.append(spec)
            count += 2 if spec.has_control else 1
    if count != values:
        return []
    return [place for place, spec in enumerate(seen) if spec.takes_links_only]


def takes_picture(port: InputPort) -> bool:
    """Whether the editor lets a user upload a picture or video for this choice of files."""
    return port.type == COMBO and any(_is_set(port, flag) for flag in PICTURE_UPLOADS)


def _is_set(port: InputPort, option: str) -> bool:
    return InputSpec.read(port.name, port.spec).options.get(option) is True


def _specs_of(node_type: NodeType) -> list[InputSpec]:
    declared = [InputSpec.read(name, port.spec) for name, port in node_type.inputs.items()]
    added = (InputSpec.read(name, (kind,)) for name, kind in _added_by_editor(node_type))
    return [*declared, *added]


def _added_by_editor(node_type: NodeType) -> Iterator[tuple[str, str]]:
    """Inputs that the editor's own extensions add to a type: players, viewers, upload buttons."""
    if node_type.name in PLAYER_TYPES:
        yield "audioUI", "AUDIO_UI"
    required = [port for port in node_type.inputs.values() if port.required]
    if any(port.name == "audio" and _is_set(port, "audio_upload") for port in required):
        yield "upload", "AUDIOUPLOAD"
    elif any(takes_picture(port) for port in required):
        yield "upload", "IMAGEUPLOAD"
    if node_type.name in MODEL_VIEWER_TYPES and "image" not in node_type.inputs:
        yield "image", "PREVIEW_3D"


def _declare(specs: Sequence[InputSpec]) -> Declared:
    declared = Declared([], [], [])
    for spec in specs:
        if spec.has_widget:
            declared.widgets.extend(spec.widgets())
            continue
        declared.sockets.append(_socket(spec))
        growing = Growing.read(spec) if spec.type == AUTOGROW else None
        if growing is not None:
            declared.growing.append(growing)
            declared.widgets.extend(growing.first_widgets())
    return declared


def _socket(spec: InputSpec) -> Socket:
    if spec.type == MATCH_TYPE:
        template = spec.options.get("template")
        allowed = template.get("allowed_types") if isinstance(template, Mapping) else None
        return Socket(spec.name, allowed if isinstance(allowed, str) else "*")
    if spec.type == DYNAMIC_SLOT:
        kind = spec.options.get("slotType")
        return Socket(spec.name, kind if isinstance(kind, str) else "*")
    return Socket(spec.name, spec.type, grows=spec.type == AUTOGROW)


def _sub_specs(sections: Any, prefix: str) -> list[InputSpec]:
    found: list[InputSpec] = []
    for section in ("required", "optional"):
        inputs = sections.get(section) if isinstance(sections, Mapping) else None
        for name, spec in inputs.items() if isinstance(inputs, Mapping) else ():
            found.append(InputSpec.read(f"{prefix}.{name}", spec))
    return found
