"""What a text input is for, judged by its name and its declaration: that decides what is dangerous.

A text to be read or drawn (a prompt, a title) may say anything, also `eval(` or a URL. A text that
something acts on may not. The rule, the first that holds:

1. An input that takes an upload means a file (PATH).
2. A word of its name says it: `command`, `cmd` … (COMMAND); `code`, `expression` … (CODE);
   `script` (CODE, or SCRIPT where it has several lines: then an actor may speak it); `url`,
   `webhook` … (URL); `path`, `file`, `folder` … (PATH). A `shell_color` is a colour.
3. An input of several lines, one that takes anything, or one whose name has a word such as
   `text`, `prompt` or `title`, is TEXT, and so is one of a node type that nobody has described.
4. Any other text of one line is PLAIN: nobody knows what becomes of it, so what is surely code and
   what is as a whole a URL is judged.

A choice means nothing: it is one of those that the worker offers. ComfyUI's own nodes that do
nothing but pass texts on (primitives, joins) have no meaning of their own: those who take the text
decide, see `text_flow`. So do they for the texts of any other node that gives one, besides what the
node's own inputs mean.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from functools import lru_cache

from comfyrail.validation.literals import is_left_to_the_worker
from comfyrail.workflow.catalog import ANY_TYPES, InputPort, NodeType, types_match
from comfyrail.workflow.dynamic_inputs import DYNAMIC_TYPES, MATCH_TYPE, ports_of
from comfyrail.workflow.graph import Node


class Meaning(Enum):
    TEXT = "text"
    PLAIN = "plain"
    PATH = "path"
    URL = "url"
    CODE = "code"
    SCRIPT = "script"
    COMMAND = "command"


JUDGED_AT_THE_END = frozenset(
    (Meaning.PATH, Meaning.URL, Meaning.CODE, Meaning.SCRIPT, Meaning.COMMAND)
)
"""The meanings that a text has because of where it goes."""

_TELLING: Mapping[Meaning, str] = {
    Meaning.COMMAND: "command commands cmd shell bash terminal",
    Meaning.CODE: "code pycode python javascript js expression expressions expr exp eval exec "
    "formula lambda html",
    Meaning.SCRIPT: "script scripts",
    Meaning.URL: "url urls uri href endpoint webhook website weburl imageurl",
    Meaning.PATH: "path paths file files filename filenames filepath folder folders directory "
    "directories dir subfolder",
    Meaning.TEXT: "text texts prompt prompts negative positive caption captions title description "
    "tags tag lyrics string strings instructions instruction message note notes label labels query "
    "question answer words",
}
_PROMPT = frozenset(("prompt", "prompts", "instruction", "instructions", "question"))
_WORDS = {meaning: frozenset(words.split()) for meaning, words in _TELLING.items()}
_RUN = frozenset((Meaning.COMMAND, Meaning.CODE, Meaning.SCRIPT))
_QUALITIES = frozenset(("color", "colour", "colors", "colours", "style", "texture", "language"))
"""What a name is about that ends so, whatever it is a quality of."""
_PATHS_BY_CLASS = frozenset((("SaveLoRA", "prefix"),))
_WORD = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])")
_OWN_WORDS = frozenset((("CustomCombo", "choice"),))
"""Choices that the user of the workflow writes."""
_LITERAL_TYPES = frozenset(("INT", "FLOAT", "BOOLEAN"))

_ONLY_PASSING = """
AddTextPrefix AddTextSuffix CaseConverter ComfySwitchNode CustomCombo MergeTextLists PreviewAny
PrimitiveString PrimitiveStringMultiline RegexExtract RegexMatch RegexReplace ReplaceText
ShuffleImageTextDataset StringCompare StringConcatenate StringContains StringLength StringReplace
StringSubstring StringTrim StripWhitespace TextToLowercase TextToUppercase TruncateText
"""
ONLY_PASSING = frozenset(_ONLY_PASSING.split())
"""ComfyUI's own nodes that act on no text: they make another one of it, or show it."""

_PASSED_INPUTS: Mapping[str, tuple[str, ...]] = {
    "ComfySwitchNode": ("on_false", "on_true"),
    "CustomCombo": ("choice",),
    "PrimitiveFloat": ("value",),
    "PrimitiveInt": ("value",),
    "PrimitiveString": ("value",),
    "PrimitiveStringMultiline": ("value",),
}
"""By node type, the inputs one of which it gives on as it is."""


@dataclass(frozen=True, slots=True)
class InputMeanings:
    """Of a node type: what its texts mean, and what it does with them besides."""

    meanings: Mapping[str, Meaning | None]
    """By input; None for one that holds no free text."""
    text_outputs: frozenset[int] | None
    """The outputs that may be a text; None where nobody knows."""
    passed: tuple[str, ...]
    """The inputs one of which the node surely gives on as it is; none where it makes something."""
    only_passes: bool
    """It acts on no text of its own."""
    dynamic: NodeType | None = None
    """The type, where the inputs depend on each other."""

    def of(self, name: str) -> Meaning | None:
        """Inputs that the type does not have are judged by their names: some nodes take any."""
        return self.meanings[name] if name in self.meanings else meaning_by_name(name)

    def gives_text(self, slot: int) -> bool:
        return self.text_outputs is None or slot in self.text_outputs


def meanings_of(node: Node, prepared: Mapping[str, InputMeanings | None]) -> InputMeanings:
    """What the inputs that a node has mean. `prepared` is a catalog's, by `prepare_meanings`."""
    known = prepared[node.class_type]
    if known is None:
        return _of_unknown_type(node)
    if known.dynamic is None:
        return known
    return _meanings(known.dynamic, ports_of(known.dynamic, node.inputs))


def prepare_meanings(node_type: NodeType) -> InputMeanings:
    return _meanings(node_type, node_type.inputs)


def _of_unknown_type(node: Node) -> InputMeanings:
    """Nobody has described it, so it may do anything with what it has."""
    alone = tuple(node.inputs) if len(node.inputs) == 1 else ()
    passed = _PASSED_INPUTS.get(node.class_type, alone)
    meanings = dict.fromkeys(passed, Meaning.TEXT) if node.class_type in ONLY_PASSING else {}
    return InputMeanings(meanings, None, passed, node.class_type in ONLY_PASSING)


def _meanings(node_type: NodeType, ports: Mapping[str, InputPort]) -> InputMeanings:
    own = node_type.pack is None
    is_dynamic = any(port.type in DYNAMIC_TYPES for port in node_type.inputs.values())
    return InputMeanings(
        {name: _meaning_of(node_type.name, port) for name, port in ports.items()},
        frozenset(
            slot for slot, output in enumerate(node_type.outputs) if _may_give(output.type, ports)
        ),
        _passed_inputs(node_type, ports),
        only_passes=own and node_type.name in ONLY_PASSING,
        dynamic=node_type if is_dynamic else None,
    )


def _passed_inputs(node_type: NodeType, ports: Mapping[str, InputPort]) -> tuple[str, ...]:
    """Those of ComfyUI's nodes, or the only input of a node that gives nothing but its type."""
    if node_type.pack is None and node_type.name in _PASSED_INPUTS:
        return _PASSED_INPUTS[node_type.name]
    is_editor = node_type.name in ONLY_PASSING
    if is_editor or len(ports) != 1 or len(node_type.outputs) != 1:
        return ()
    [port] = ports.values()
    return (port.name,) if types_match(node_type.outputs[0].type, port.type) else ()


def _may_be_text(type_name: str) -> bool:
    if type_name in ANY_TYPES or type_name == "STRING":
        return True
    return "," in type_name and "STRING" in {part.strip() for part in type_name.split(",")}


def _may_give(type_name: str, ports: Mapping[str, InputPort]) -> bool:
    """Whether an output may be a text: what a match type allows stands at the inputs."""
    if type_name == "COMBO":
        return True
    if type_name != MATCH_TYPE:
        return _may_be_text(type_name)
    allowed = [_allowed_types(port) for port in ports.values()]
    return all(each is None or _may_be_text(each) for each in allowed)


def _allowed_types(port: InputPort) -> str | None:
    options = port.spec[1] if port.spec[:1] == (MATCH_TYPE,) and len(port.spec) > 1 else None
    template = options.get("template") if isinstance(options, Mapping) else None
    allowed = template.get("allowed_types") if isinstance(template, Mapping) else None
    return allowed if isinstance(allowed, str) else None


@lru_cache(maxsize=4096)
def meaning_by_name(name: str) -> Meaning:
    """The meaning that the words of a name tell; TEXT where they do not."""
    listed = [word.lower() for word in _WORD.findall(name)]
    words = frozenset(listed)
    for meaning, telling in _WORDS.items():
        if not words.isdisjoint(telling) and not (meaning in _RUN and listed[-1] in _QUALITIES):
            return meaning
    return Meaning.TEXT


@lru_cache(maxsize=4096)
def is_prompt(name: str) -> bool:
    """Whether an input tells a model what to do: what it gives is not made of these words."""
    return not _PROMPT.isdisjoint(word.lower() for word in _WORD.findall(name))


def _meaning_of(class_type: str, port: InputPort) -> Meaning | None:
    if port.takes_upload or (class_type, port.name) in _PATHS_BY_CLASS:
        return Meaning.PATH
    if (class_type, port.name) in _OWN_WORDS:
        return Meaning.TEXT
    if port.choices is not None:
        return Meaning.PATH if is_left_to_the_worker(class_type, port) else None
    return None if port.type in _LITERAL_TYPES else _meaning_of_text(port)


def _meaning_of_text(port: InputPort) -> Meaning:
    told = meaning_by_name(port.name)
    if told is Meaning.SCRIPT and not _is_prose(port):
        return Meaning.CODE
    if told is not Meaning.TEXT or not _may_be_text(port.type):
        return told
    words = {word.lower() for word in _WORD.findall(port.name)}
    is_told = not words.isdisjoint(_WORDS[Meaning.TEXT])
    takes_anything = port.type in ANY_TYPES
    return Meaning.TEXT if is_told or takes_anything or _is_prose(port) else Meaning.PLAIN


def _is_prose(port: InputPort) -> bool:
    options = port.spec[1] if len(port.spec) > 1 and isinstance(port.spec[1], Mapping) else {}
    return bool(options.get("multiline") or options.get("dynamicPrompts"))
