"""What a text input is for, judged by its name and its declaration: that decides what is dangerous.

A text to be read or drawn (a prompt, a title) may say anything, also `eval(` or a URL. A text that
something acts on may not. The rule, the first that holds:

1. An input that takes an upload means a file (PATH).
2. A word of its name says it: `command`, `cmd` … (COMMAND); `code`, `script`, `expression` …
   (CODE); `url`, `webhook` … (URL); `path`, `file`, `folder` … (PATH).
3. An input of several lines, one that takes anything, or one whose name has a word such as
   `text`, `prompt` or `title`, is TEXT, and so is one of a node type that nobody has described.
4. Any other text of one line is PLAIN: nobody knows what becomes of it, so what is surely code and
   what is as a whole a URL is judged.

A choice means nothing: it is one of those that the worker offers. Where a node passes texts on
(its output is a text), what the text means is decided by those who take it: see `text_flow`.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from functools import lru_cache

from comfyrail.validation.literals import is_left_to_the_worker
from comfyrail.workflow.catalog import InputPort, NodeType


class Meaning(Enum):
    TEXT = "text"
    PLAIN = "plain"
    PATH = "path"
    URL = "url"
    CODE = "code"
    COMMAND = "command"


JUDGED_AT_THE_END = frozenset((Meaning.PATH, Meaning.URL, Meaning.CODE, Meaning.COMMAND))
"""The meanings that a text has because of where it goes."""

_TELLING: Mapping[Meaning, str] = {
    Meaning.COMMAND: "command commands cmd shell bash terminal",
    Meaning.CODE: "code pycode script python javascript js expression expressions expr exp eval "
    "exec formula lambda html",
    Meaning.URL: "url urls uri href endpoint webhook website weburl imageurl",
    Meaning.PATH: "path paths file files filename filenames filepath folder folders directory "
    "directories dir subfolder",
    Meaning.TEXT: "text texts prompt prompts negative positive caption captions title description "
    "tags tag lyrics string strings instructions instruction message note notes label labels query "
    "question answer words",
}
_WORDS = {meaning: frozenset(words.split()) for meaning, words in _TELLING.items()}
_PATHS_BY_CLASS = frozenset((("SaveLoRA", "prefix"),))
_WORD = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])")
_TEXT_TYPES = frozenset(("STRING", "*"))


@dataclass(frozen=True, slots=True)
class InputMeanings:
    """Of a node type: what its texts mean, and whether it passes texts on."""

    meanings: Mapping[str, Meaning | None]
    """By input; None for one that holds no free text."""
    passes_text: bool

    def of(self, name: str) -> Meaning | None:
        """Dotted parts of dynamic inputs are judged by their names."""
        return self.meanings[name] if name in self.meanings else meaning_by_name(name)


UNKNOWN_TYPE = InputMeanings({}, passes_text=False)


def prepare_meanings(node_type: NodeType) -> InputMeanings:
    return InputMeanings(
        {name: _meaning_of(node_type.name, port) for name, port in node_type.inputs.items()},
        passes_text=any(output.type in _TEXT_TYPES for output in node_type.outputs),
    )


@lru_cache(maxsize=4096)
def meaning_by_name(name: str) -> Meaning:
    """The meaning that the words of a name tell; TEXT where they do not."""
    words = {word.lower() for word in _WORD.findall(name)}
    for meaning, telling in _WORDS.items():
        if not words.isdisjoint(telling):
            return meaning
    return Meaning.TEXT


def _meaning_of(class_type: str, port: InputPort) -> Meaning | None:
    if port.takes_upload or (class_type, port.name) in _PATHS_BY_CLASS:
        return Meaning.PATH
    if port.choices is not None:
        return Meaning.PATH if is_left_to_the_worker(class_type, port) else None
    if port.type in {"INT", "FLOAT", "BOOLEAN"}:
        return None
    told = meaning_by_name(port.name)
    if told is not Meaning.TEXT or port.type not in _TEXT_TYPES:
        return told
    words = {word.lower() for word in _WORD.findall(port.name)}
    is_told = not words.isdisjoint(_WORDS[Meaning.TEXT])
    return Meaning.TEXT if is_told or port.type == "*" or _is_prose(port) else Meaning.PLAIN


def _is_prose(port: InputPort) -> bool:
    options = port.spec[1] if len(port.spec) > 1 and isinstance(port.spec[1], Mapping) else {}
    return bool(options.get("multiline") or options.get("dynamicPrompts"))
