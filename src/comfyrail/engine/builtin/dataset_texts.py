"""Nodes on the texts of a dataset.

As in ComfyUI they give a list of one text where others give the text itself. Here they also take
such a list, so that one can follow the other.
"""

from collections.abc import Callable
from typing import Any

from comfyrail.engine.allocation import check_text_length
from comfyrail.engine.builtin.dataset_images import DATASET
from comfyrail.engine.builtin.descriptions import describe_as
from comfyrail.engine.builtin.marks import CHEAP
from comfyrail.engine.definition import NodeDefinition, define_node
from comfyrail.workflow.catalog import OutputPort

_TEXT = ("STRING", {"multiline": False})
_EMPTY = ("STRING", {"default": "", "multiline": False})

Change = Callable[..., str]


def as_text(text: str | list[str]) -> str:
    """The text itself, or that of a list that has only one."""
    return text[0] if isinstance(text, list) and len(text) == 1 else str(text)


def _text_node(name: str, display_name: str, change: Change, **inputs: Any) -> NodeDefinition:
    def run(texts: str | list[str], **values: Any) -> tuple[list[str]]:
        return ([change(as_text(texts), **values)],)

    return _described(name, display_name, run, inputs)


def _merge(texts: list[str]) -> tuple[list[list[str]]]:
    return ([texts],)


def _described(
    name: str, display_name: str, run: Callable[..., Any], inputs: dict[str, Any], **about: Any
) -> NodeDefinition:
    definition = define_node(
        name,
        run,
        required={"texts": _TEXT, **inputs},
        outputs=(OutputPort("texts", "STRING"),),
        category="dataset/text",
        display_name=display_name,
        **DATASET,
        **CHEAP,
        **about,
    )
    return describe_as(definition, output_is_list=[None])


def _truncate(text: str, max_length: int) -> str:
    return text[:max_length]


def _add_prefix(text: str, prefix: str) -> str:
    check_text_length(len(prefix) + len(text))
    return prefix + text


def _add_suffix(text: str, suffix: str) -> str:
    check_text_length(len(text) + len(suffix))
    return text + suffix


def _replace(text: str, find: str, replace: str) -> str:
    check_text_length(len(text) + text.count(find) * (len(replace) - len(find)))
    return text.replace(find, replace)


NODES = (
    _text_node("TextToLowercase", "Text to Lowercase", str.lower),
    _text_node("TextToUppercase", "Text to Uppercase", str.upper),
    _text_node(
        "TruncateText",
        "Truncate Text",
        _truncate,
        max_length=("INT", {"default": 77, "min": 1, "max": 10000}),
    ),
    _text_node("AddTextPrefix", "Add Text Prefix", _add_prefix, prefix=_EMPTY),
    _text_node("AddTextSuffix", "Add Text Suffix", _add_suffix, suffix=_EMPTY),
    _text_node("ReplaceText", "Replace Text", _replace, find=_EMPTY, replace=_EMPTY),
    _text_node("StripWhitespace", "Strip Whitespace", str.strip),
    _described("MergeTextLists", "Merge Text Lists", _merge, {}, takes_lists=True),
)
