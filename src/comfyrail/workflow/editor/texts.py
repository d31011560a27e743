"""What the editor does to texts on their way out: choices `{a|b}` are made, comments go, and
`%date:…%` and `%Node.widget%` in file names are filled in.
"""

import re
import secrets
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime

SAVE_TYPES = frozenset(
    {
        "SaveImage",
        "SaveImageAdvanced",
        "SaveVideo",
        "SaveAnimatedWEBP",
        "SaveAnimatedPNG",
        "SaveWEBM",
        "SaveSVGNode",
        "SaveAudio",
        "SaveAudioMP3",
        "SaveAudioOpus",
        "SaveAudioAdvanced",
        "SaveGLB",
        "Save3DAdvanced",
        "SaveGaussianSplat",
        "SavePointCloud",
        "SaveLatent",
        "CLIPSave",
        "VAESave",
        "ModelSave",
        "LoraSave",
    }
)
FILE_NAME_WIDGET = "filename_prefix"

_COMMENT = re.compile(r"/\*|//[^\n\r\u2028\u2029]*")
_ESCAPED = re.compile(r"\\([{}|])")
_MARK = re.compile(r"\\.|[{}|]", re.DOTALL)
_PLACEHOLDER = re.compile(r"%([^%]+)%")
_NOT_IN_FILE_NAMES = re.compile(r'[/?<>\\:*|"\x00-\x1f\x7f]')
_DATE_PART = re.compile(r"dd?|MM?|hh?|mm?|ss?|yyy?y?")


LONGEST_IN_FILE_NAME = 1_000
LONGEST_IN_TEXT = 10_000

FindWidget = Callable[[str, str], object]
"""The value of a node's widget by the names of both; None where there is none."""


def local_now() -> datetime:
    return datetime.now(UTC).astimezone()


@dataclass(frozen=True, slots=True)
class Moment:
    """What an export depends on besides the file: chance and the time of day.

    `choose` gives the place of the chosen one out of so many.
    """

    choose: Callable[[int], int] = secrets.randbelow
    now: Callable[[], datetime] = local_now


def make_choices(text: str, choose: Callable[[int], int]) -> str:
    """A text with one option of every `{a|b}` chosen, comments removed and escapes undone.

    As in the editor a block that is not closed runs to the end. Linear in the text, however
    deeply it nests.
    """
    if "{" not in text and "\\" not in text and "/" not in text:
        return text
    made: list[str] = []
    waiting: list[str | _Block] = [*reversed(_parse(_without_comments(text)))]
    while waiting:
        part = waiting.pop()
        if isinstance(part, str):
            made.append(part)
        else:
            waiting.extend(reversed(part.options[choose(len(part.options))]))
    return _ESCAPED.sub(r"\1", "".join(made))


@dataclass(slots=True)
class _Block:
    """What stands between braces: options, each of texts and further blocks."""

    options: "list[list[str | _Block]]"


def _parse(text: str) -> list[str | _Block]:
    whole: list[str | _Block] = []
    parts, at = whole, 0
    open_blocks: list[_Block] = []
    enclosing: list[list[str | _Block]] = []
    for match in _MARK.finditer(text):
        mark = match[0]
        if len(mark) > 1 or (mark != "{" and not open_blocks):
            continue
        parts.append(text[at : match.start()])
        at = match.end()
        if mark == "{":
            block = _Block([[]])
            parts.append(block)
            open_blocks.append(block)
            enclosing.append(parts)
            parts = block.options[0]
        elif mark == "|":
            parts = []
            open_blocks[-1].options.append(parts)
        else:
            open_blocks.pop()
            parts = enclosing.pop()
    parts.append(text[at:])
    return whole


def _without_comments(text: str) -> str:
    """Without `/* … */` and `// …`. A regular expression would look for the end again and again."""
    kept: list[str] = []
    at = 0
    last_end = text.rfind("*/")
    while (match := _COMMENT.search(text, at)) is not None:
        if match[0] != "/*":
            kept.append(text[at : match.start()])
            at = match.end()
        elif match.end() <= last_end:
            kept.append(text[at : match.start()])
            at = text.index("*/", match.end()) + 2
        else:  # never closed, so no comment
            kept.append(text[at : match.start() + 1])
            at = match.start() + 1
    kept.append(text[at:])
    return "".join(kept)


def escape_choices(text: str) -> str:
    """A text that the editor sends as it is here, as far as its notation can say that."""
    return re.sub(r"(?<!\\)([{}])", r"\\\1", text)


def fill_placeholders(
    text: str,
    find: FindWidget,
    now: Callable[[], datetime],
    longest: int = LONGEST_IN_FILE_NAME,
) -> str | None:
    """A text with its placeholders filled; `find` gives the value of a node's widget, by the
    name of the node and of the widget, and None where there is none.

    None where a value is longer than `longest`, all are longer than ten such, or one is no plain
    value: a small file could ask for one long text a million times.
    """
    made: list[str] = []
    at = 0
    left = 10 * longest
    for match in _PLACEHOLDER.finditer(text):
        filling = _filling(match[1], find, now, longest)
        if filling is None:
            continue
        left -= len(filling)
        if len(filling) > longest or left < 0:
            return None
        made += [text[at : match.start()], filling]
        at = match.end()
    return "".join((*made, text[at:])) if made else text


def _filling(
    placeholder: str, find: FindWidget, now: Callable[[], datetime], longest: int
) -> str | None:
    """What goes in the place of a placeholder; None where it means nothing and stays."""
    parts = placeholder.split(".")
    if len(parts) != 2:
        is_date = parts[0].startswith("date:")
        return _format_date(parts[0].removeprefix("date:"), now()) if is_date else None
    value = find(*parts)
    if value is None:
        return None
    return _NOT_IN_FILE_NAMES.sub("_", _written(value, longest))


def _written(value: object, longest: int) -> str:
    """As text, of which no more is looked at than tells that it is too long."""
    if isinstance(value, str):
        return value[: longest + 1]
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    return str(value) if isinstance(value, int | float) else " " * (longest + 1)


def _format_date(pattern: str, moment: datetime) -> str:
    numbers = {
        "d": moment.day,
        "M": moment.month,
        "h": moment.hour,
        "m": moment.minute,
        "s": moment.second,
    }

    def part(match: re.Match[str]) -> str:
        letters = match[0]
        if letters == "yy":
            return f"{moment.year}"[2:]
        if letters == "yyyy":
            return f"{moment.year}"
        if letters[0] in numbers:
            return f"{numbers[letters[0]]:0{len(letters)}d}"
        return letters

    return _DATE_PART.sub(part, pattern)
