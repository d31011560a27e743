"""Nodes on texts; results as ComfyUI's."""

from collections.abc import Callable

from comfyrail.engine.allocation import check_text_length
from comfyrail.engine.builtin.marks import CHEAP
from comfyrail.engine.definition import node
from comfyrail.workflow.catalog import OutputPort

_CATEGORY = "utils/string"
_TEXT = ("STRING", {"multiline": True})
_CASE_SENSITIVE = ("BOOLEAN", {"default": True})


def _choice(options: object) -> tuple[str, dict[str, object]]:
    return ("COMBO", {"multiselect": False, "options": options})


CASES: dict[str, Callable[[str], str]] = {
    "UPPERCASE": str.upper,
    "lowercase": str.lower,
    "Capitalize": str.capitalize,
    "Title Case": str.title,
}
TRIMS: dict[str, Callable[[str], str]] = {
    "Both": str.strip,
    "Left": str.lstrip,
    "Right": str.rstrip,
}
COMPARISONS: dict[str, Callable[[str, str], bool]] = {
    "Starts With": str.startswith,
    "Ends With": str.endswith,
    "Equal": str.__eq__,
}


@node(
    "StringConcatenate",
    required={
        "string_a": _TEXT,
        "string_b": _TEXT,
        "delimiter": ("STRING", {"default": "", "multiline": False}),
    },
    outputs=("STRING",),
    category=_CATEGORY,
    display_name="Concatenate",
    schema="v3",
    **CHEAP,
)
def concatenate(string_a: str, string_b: str, delimiter: str) -> str:
    check_text_length(len(string_a) + len(delimiter) + len(string_b))
    return delimiter.join((string_a, string_b))


@node(
    "StringSubstring",
    required={"string": _TEXT, "start": ("INT", {}), "end": ("INT", {})},
    outputs=("STRING",),
    category=_CATEGORY,
    display_name="Substring",
    schema="v3",
    **CHEAP,
)
def substring(string: str, start: int, end: int) -> str:
    """From `start` up to but not with `end`; negative places count from the end."""
    return string[start:end]


@node(
    "StringLength",
    required={"string": _TEXT},
    outputs=(OutputPort("length", "INT"),),
    category=_CATEGORY,
    display_name="Length",
    schema="v3",
    **CHEAP,
)
def text_length(string: str) -> int:
    return len(string)


@node(
    "CaseConverter",
    required={"string": _TEXT, "mode": _choice(list(CASES))},
    outputs=("STRING",),
    category=_CATEGORY,
    display_name="Case Converter",
    schema="v3",
    **CHEAP,
)
def convert_case(string: str, mode: str) -> str:
    return CASES[mode](string)


@node(
    "StringTrim",
    required={"string": _TEXT, "mode": _choice(list(TRIMS))},
    outputs=("STRING",),
    category=_CATEGORY,
    display_name="Trim",
    schema="v3",
    **CHEAP,
)
def trim(string: str, mode: str) -> str:
    return TRIMS[mode](string)


@node(
    "StringReplace",
    required={"string": _TEXT, "find": _TEXT, "replace": _TEXT},
    outputs=("STRING",),
    category=_CATEGORY,
    display_name="Replace",
    schema="v3",
    **CHEAP,
)
def replace_text(string: str, find: str, replace: str) -> str:
    check_text_length(len(string) + string.count(find) * (len(replace) - len(find)))
    return string.replace(find, replace)


@node(
    "StringContains",
    required={"string": _TEXT, "substring": _TEXT, "case_sensitive": _CASE_SENSITIVE},
    outputs=(OutputPort("contains", "BOOLEAN"),),
    category=_CATEGORY,
    display_name="Contains",
    schema="v3",
    **CHEAP,
)
def contains(string: str, substring: str, case_sensitive: bool) -> bool:
    if case_sensitive:
        return substring in string
    return substring.lower() in string.lower()


@node(
    "StringCompare",
    required={
        "string_a": _TEXT,
        "string_b": _TEXT,
        "mode": _choice(list(COMPARISONS)),
        "case_sensitive": _CASE_SENSITIVE,
    },
    outputs=("BOOLEAN",),
    category=_CATEGORY,
    display_name="Compare",
    schema="v3",
    **CHEAP,
)
def compare(string_a: str, string_b: str, mode: str, case_sensitive: bool) -> bool:
    if case_sensitive:
        return COMPARISONS[mode](string_a, string_b)
    return COMPARISONS[mode](string_a.lower(), string_b.lower())


NODES = (
    concatenate,
    substring,
    text_length,
    convert_case,
    trim,
    replace_text,
    contains,
    compare,
)
