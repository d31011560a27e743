"""A widget's value as the editor sends it, which is not always what it shows."""

import re
from collections.abc import Mapping
from typing import Any

from comfyrail.workflow.catalog import COMBO
from comfyrail.workflow.editor.node_inputs import HeldWidget
from comfyrail.workflow.editor.text_writer import TextWriter
from comfyrail.workflow.editor.texts import FILE_NAME_WIDGET, SAVE_TYPES
from comfyrail.workflow.editor.widget_kinds import ABSENT
from comfyrail.workflow.editor.widgets import PICTURE_UPLOADS

SAMPLER_TYPES = frozenset({"KSampler", "KSamplerAdvanced"})
_ANNOTATED = re.compile(r"\[(input|output|temp)\]", re.IGNORECASE)


def settle(held: HeldWidget, class_type: str) -> Any:
    """What the editor's widget makes of a saved value when a file is opened."""
    widget, value = held.widget, held.value
    if value is ABSENT:
        return value
    if widget.kind == COMBO and any(widget.options.get(flag) is True for flag in PICTURE_UPLOADS):
        return _picture_name(value, widget.default, widget.options)
    if widget.kind == "STRING" and widget.options.get("multiline"):
        return _text_area(value)
    if widget.name == "sampler_name" and class_type in SAMPLER_TYPES and isinstance(value, str):
        return value.removeprefix("sample_")
    return value


def outgoing_value(held: HeldWidget, class_type: str, texts: TextWriter) -> Any:
    """What goes into the API format for a widget; lists are wrapped, or they would be links."""
    widget, value = held.widget, held.value
    if isinstance(value, str):
        if widget.name == FILE_NAME_WIDGET and class_type in SAVE_TYPES:
            return texts.fill_file_name(value)
        if widget.kind == "STRING" and widget.options.get("dynamicPrompts"):
            return texts.choose(value)
    if widget.kind == "CURVE" and value is not None:
        return {"__type__": "CURVE", "__value__": value}
    return wrap_list(value)


def wrap_list(value: Any) -> Any:
    return {"__value__": value} if isinstance(value, list) else value


def _picture_name(value: Any, default: Any, options: Mapping[str, Any]) -> Any:
    """A file's name, marked with its folder where that is not the input folder."""
    if not value:
        return default
    folder = options.get("image_folder", "input")
    if isinstance(value, list):
        names = [_annotated(each, folder) for each in value]
        return names if options.get("allow_batch") else names[0]
    return _annotated(value, folder)


def _annotated(name: Any, folder: object) -> Any:
    if not isinstance(name, str) or folder == "input" or _ANNOTATED.search(name):
        return name
    return f"{name} [{folder}]"


def _text_area(value: Any) -> Any:
    """A text field holds text with plain line ends, whatever is put into it."""
    if value is None:
        return ""
    if isinstance(value, str):
        return value.replace("\r\n", "\n").replace("\r", "\n") if "\r" in value else value
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value) if isinstance(value, int | float) else value
