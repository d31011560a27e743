"""Nodes that search texts with regular expressions; results as ComfyUI's."""

import re
from collections.abc import Callable

from comfyrail.engine import bounded_regex
from comfyrail.engine.bounded_regex import Groups, PatternInvalid
from comfyrail.engine.context import NodeContext
from comfyrail.engine.definition import node
from comfyrail.workflow.catalog import OutputPort

_CATEGORY = "utils/string"
_TEXT = ("STRING", {"multiline": True})
_FLAGS = {
    "case_insensitive": ("BOOLEAN", {"default": True}),
    "multiline": ("BOOLEAN", {"default": False}),
    "dotall": ("BOOLEAN", {"default": False}),
}
_MODES = ("First Match", "All Matches", "First Group", "All Groups")


def _flags(*, case_insensitive: bool, multiline: bool, dotall: bool) -> int:
    flags = re.IGNORECASE if case_insensitive else re.NOFLAG
    flags |= re.MULTILINE if multiline else re.NOFLAG
    flags |= re.DOTALL if dotall else re.NOFLAG
    return int(flags)


@node(
    "RegexMatch",
    required={"string": _TEXT, "regex_pattern": _TEXT, **_FLAGS},
    outputs=(OutputPort("matches", "BOOLEAN"),),
    category=_CATEGORY,
    display_name="Regex Match",
    schema="v3",
)
def regex_match(
    *,
    string: str,
    regex_pattern: str,
    case_insensitive: bool,
    multiline: bool,
    dotall: bool,
    context: NodeContext,
) -> bool:
    """Whether the pattern is found anywhere; one that cannot be read is found nowhere."""
    flags = _flags(case_insensitive=case_insensitive, multiline=multiline, dotall=dotall)
    try:
        found = bounded_regex.search(regex_pattern, string, flags, context.check_interrupt)
    except PatternInvalid:
        return False
    return found is not None


@node(
    "RegexExtract",
    required={
        "string": _TEXT,
        "regex_pattern": _TEXT,
        "mode": ("COMBO", {"multiselect": False, "options": list(_MODES)}),
        **_FLAGS,
        "group_index": ("INT", {"default": 1, "min": 0, "max": 100}),
    },
    outputs=("STRING",),
    category=_CATEGORY,
    display_name="Regex Extract",
    schema="v3",
)
def regex_extract(
    *,
    string: str,
    regex_pattern: str,
    mode: str,
    case_insensitive: bool,
    multiline: bool,
    dotall: bool,
    group_index: int,
    context: NodeContext,
) -> tuple[str | None]:
    """What was found, a line each; nothing for a pattern that cannot be read."""
    flags = _flags(case_insensitive=case_insensitive, multiline=multiline, dotall=dotall)
    arguments = (regex_pattern, string, flags, context.check_interrupt)
    try:
        if mode.startswith("First"):
            found = bounded_regex.search(*arguments)
            index = 0 if mode == "First Match" else group_index
            return (_group(found, index),)
        matches = bounded_regex.find_all(*arguments)
    except PatternInvalid:
        return ("",)
    pick = _first_of_findall if mode == "All Matches" else _pick_group(group_index)
    return ("\n".join(pick(matches)),)


def _group(found: Groups | None, index: int) -> str | None:
    """A group; None where it took no part in the match, as ComfyUI gives it."""
    return "" if found is None or index >= len(found) else found[index]


def _first_of_findall(matches: list[Groups]) -> list[str]:
    """The first group of each match, or all of the match where the pattern has no groups."""
    return [found[min(1, len(found) - 1)] or "" for found in matches]


def _pick_group(index: int) -> Callable[[list[Groups]], list[str]]:
    def pick(matches: list[Groups]) -> list[str]:
        groups = [found[index] for found in matches if len(found) > 1 and index < len(found)]
        if None in groups:
            raise ValueError(f"Group {index} took no part in match {groups.index(None) + 1}.")
        return [group for group in groups if group is not None]

    return pick


@node(
    "RegexReplace",
    required={"string": _TEXT, "regex_pattern": _TEXT, "replace": _TEXT},
    optional={**_FLAGS, "count": ("INT", {"default": 0, "min": 0, "max": 100})},
    outputs=("STRING",),
    category=_CATEGORY,
    display_name="Regex Replace",
    schema="v3",
)
def regex_replace(
    *,
    string: str,
    regex_pattern: str,
    replace: str,
    case_insensitive: bool = True,
    multiline: bool = False,
    dotall: bool = False,
    count: int = 0,
    context: NodeContext,
) -> str:
    return bounded_regex.replace(
        regex_pattern,
        replace,
        string,
        flags=_flags(case_insensitive=case_insensitive, multiline=multiline, dotall=dotall),
        count=count,
        check=context.check_interrupt,
    )


NODES = (regex_match, regex_extract, regex_replace)
