"""The kinds of widgets: what one input brings, with its companions such as a seed's control.

A widget may have a place among the saved values of a node, be sent to the worker, both or neither:
a button is saved and not sent, a player is sent (empty) and not saved.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, Final, NamedTuple

from comfyrail.workflow.catalog import COMBO
from comfyrail.workflow.dynamic_inputs import DYNAMIC_COMBO

SEED_NAMES = frozenset({"seed", "noise_seed"})
CONTROL = "CONTROL"


class Absent(Enum):
    """No value at all, which is not null."""

    ABSENT = "absent"


ABSENT: Final = Absent.ABSENT


class InputSpec(NamedTuple):
    """One input of a node type, as /object_info has it. `type` is that of its widget, which may
    differ from `link_type`; `choices` are those of a combo.
    """

    name: str
    type: str
    link_type: str
    options: Mapping[str, Any]
    choices: Sequence[Any]

    @classmethod
    def read(cls, name: str, spec: object) -> "InputSpec":
        parts = spec if isinstance(spec, list | tuple) and spec else ("*",)
        options = parts[1] if len(parts) > 1 and isinstance(parts[1], Mapping) else {}
        is_list = isinstance(parts[0], list | tuple)
        link_type = COMBO if is_list else str(parts[0])
        choices = parts[0] if is_list else options.get("options")
        return cls(
            name,
            str(options.get("widgetType") or link_type),
            link_type,
            options,
            choices if isinstance(choices, list | tuple) else (),
        )

    @property
    def takes_links_only(self) -> bool:
        return bool(self.options.get("forceInput"))

    @property
    def has_widget(self) -> bool:
        return self.type in WIDGET_MAKERS and not self.takes_links_only

    def widgets(self) -> "Iterator[Widget]":
        """The widget of this input and its companions; nothing where it takes links only."""
        return WIDGET_MAKERS[self.type](self) if self.has_widget else iter(())

    @property
    def has_control(self) -> bool:
        return bool(self.options.get("control_after_generate")) or self.name in SEED_NAMES


@dataclass(frozen=True, slots=True)
class Widget:
    """`saved`: has a place in widgets_values. `sent`: goes into the API format. `socket`: the
    type of the input slot that it has as well; None where nothing can be linked to it.
    """

    name: str
    kind: str
    default: Any = ABSENT
    saved: bool = True
    sent: bool = True
    socket: str | None = None
    options: Mapping[str, Any] = field(default_factory=dict)


Maker = Callable[[InputSpec], Iterator[Widget]]


def _widget(spec: InputSpec, default: Any, *, saved: bool = True, sent: bool = True) -> Widget:
    socket = None if spec.options.get("socketless") else spec.link_type
    return Widget(spec.name, spec.type, default, saved, sent, socket, spec.options)


def _with_default(otherwise: Any) -> Maker:
    def make(spec: InputSpec) -> Iterator[Widget]:
        given = spec.options.get("default")
        yield _widget(spec, otherwise if given is None else given)

    return make


def _unsaved(default: Any) -> Maker:
    def make(spec: InputSpec) -> Iterator[Widget]:
        yield _widget(spec, default, saved=False)

    return make


def _unsent(default: Any) -> Maker:
    def make(spec: InputSpec) -> Iterator[Widget]:
        yield _widget(spec, default, sent=False)

    return make


def _number(spec: InputSpec) -> Iterator[Widget]:
    given = spec.options.get("default")
    yield _widget(spec, 0 if given is None else given)
    control = spec.options.get("control_after_generate")
    if control is None and spec.type != "FLOAT":
        control = spec.name in SEED_NAMES
    if control:
        yield _control(control)


def _combo(spec: InputSpec) -> Iterator[Widget]:
    remote = spec.options.get("remote")
    yield _widget(spec, _first_choice(spec))
    if isinstance(remote, Mapping):
        yield Widget("Auto-refresh after generation", "TOGGLE", default=False, sent=False)
        if remote.get("refresh_button"):
            yield Widget("refresh", "BUTTON", "refresh")
    control = spec.options.get("control_after_generate")
    if control:
        yield _control(control)
        if not spec.options.get("multi_select"):
            yield Widget("control_filter_list", "FILTER", "", sent=False)


def _first_choice(spec: InputSpec) -> Any:
    if spec.options.get("multi_select"):
        return []
    if spec.options.get("default"):
        return spec.options["default"]
    if spec.choices:
        return spec.choices[0]
    return "Loading..." if spec.options.get("remote") else ABSENT


def _dynamic_combo(spec: InputSpec) -> Iterator[Widget]:
    keys = [each.get("key") for each in spec.choices if isinstance(each, Mapping)]
    yield _widget(spec, spec.options.get("default") or (keys[0] if keys else ABSENT))


def _control(name: object) -> Widget:
    shown = name if isinstance(name, str) else "control_after_generate"
    return Widget(shown, CONTROL, "randomize", sent=False)


def _recorder(spec: InputSpec) -> Iterator[Widget]:
    yield _widget(spec, "")
    yield Widget(spec.name, "BUTTON", "", sent=False)


def _model_loader(spec: InputSpec) -> Iterator[Widget]:
    yield Widget("upload 3d model", "BUTTON", "upload3dmodel")
    yield Widget("upload extra resources", "BUTTON", "uploadExtraResources")
    yield Widget("clear", "BUTTON", "clear")
    yield _widget(spec, "")


def _bounding_box(spec: InputSpec) -> Iterator[Widget]:
    given = spec.options.get("default")
    box = given if isinstance(given, Mapping) else {"x": 0, "y": 0, "width": 512, "height": 512}
    yield _widget(spec, dict(box))
    for side in ("x", "y", "width", "height"):
        yield Widget(side, "NUMBER", box.get(side, 0), sent=False)


WIDGET_MAKERS: Final[Mapping[str, Maker]] = {
    "INT": _number,
    "FLOAT": _number,
    "BOOLEAN": _with_default(otherwise=False),
    "STRING": _with_default(""),
    "MARKDOWN": _with_default(""),
    "TEXTAREA": _with_default(""),
    COMBO: _combo,
    DYNAMIC_COMBO: _dynamic_combo,
    "COLOR": _with_default("#000000"),
    "COLORS": _with_default([]),
    "CHART": _with_default({}),
    "GALLERIA": _with_default([]),
    "PAINTER": _with_default(""),
    "COMPOSITOR": _with_default({}),
    "CURVE": _with_default({"points": [[0, 0], [1, 1]], "interpolation": "monotone_cubic"}),
    "RANGE": _with_default({"min": 0.0, "max": 1.0}),
    "VIDEO_EDIT": _with_default({}),
    "BOUNDING_BOX": _bounding_box,
    "BOUNDING_BOXES": _with_default([]),
    "IMAGECOMPARE": _unsaved(["", ""]),
    "IMAGEUPLOAD": _unsent("image"),
    "AUDIOUPLOAD": _unsent(""),
    "AUDIO_UI": _unsaved(""),
    "AUDIO_RECORD": _recorder,
    "WEBCAM": _with_default(""),
    "LOAD_3D": _model_loader,
    "PREVIEW_3D": _with_default(""),
}
"""By the type of an input (or its `widgetType`). Inputs of all other types take links only."""
