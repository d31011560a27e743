"""Words as an index of texts knows them.

Chinese, Japanese and Korean are written without gaps, or with endings at their words: there every
character is a word, and a word that somebody looks for is a row of them.
"""

import re
import unicodedata
from collections.abc import Iterator, Sequence
from typing import Any

import msgspec

MOST_WORDS = 20
LONGEST_TEXT = 20_000
"""Characters of a job's texts that can be found."""

_ALONE = re.compile(
    "[\u3005-\u3007\u3040-\u30ff\u31f0-\u31ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af"
    "\uf900-\ufaff\uff66-\uff9d\U00020000-\U0003ffff]"
)
_WORD = re.compile(r"\w+")
_LETTER_OR_DIGIT = re.compile(r"[^\W_]")
_INDEXED = re.compile(r"[^\W_]+")


def apart(text: str) -> str:
    """The text with gaps around the characters that are words of their own."""
    return _ALONE.sub(r" \g<0> ", text)


def words_of(text: str) -> Sequence[str]:
    """The words that are looked for; each may be a row of words of the index. Only letters, digits
    and gaps are in them.
    """
    words = (" ".join(apart(word).split()) for word in _WORD.findall(text))
    return [word for word in words if _LETTER_OR_DIGIT.search(word)][:MOST_WORDS]


def has_words(text: str, words: Sequence[str]) -> bool:
    """Whether a text that is not in the index has all the words, the last one as a beginning."""
    *others, last = (_row(word) for word in words)
    row = f" {_row(text)} "
    return f" {last}" in row and all(f" {word} " in row for word in others)


def _row(text: str) -> str:
    """Its words as the index would have them: small, without accents."""
    parts = unicodedata.normalize("NFD", text.lower())
    plain = "".join(part for part in parts if not unicodedata.combining(part))
    return " ".join(_INDEXED.findall(apart(unicodedata.normalize("NFC", plain))))


def text_of(prompt: bytes) -> str:
    """All texts among the inputs of a graph's nodes, and the nodes' types and titles."""
    try:
        nodes = msgspec.json.decode(prompt, type=dict[str, dict[str, Any]])
    except msgspec.DecodeError:
        return ""
    pieces: list[str] = []
    length = 0
    for piece in _pieces(nodes):
        if length + len(piece) > LONGEST_TEXT:
            pieces.append(piece[: LONGEST_TEXT - length])
            break
        pieces.append(piece)
        length += len(piece)
    return "\n".join(pieces)


def _pieces(nodes: dict[str, dict[str, Any]]) -> Iterator[str]:
    for node in nodes.values():
        inputs = node.get("inputs")
        values = inputs.values() if isinstance(inputs, dict) else ()
        yield from (value for value in values if isinstance(value, str))
    for node in nodes.values():
        meta = node.get("_meta")
        title = meta.get("title") if isinstance(meta, dict) else None
        yield from (each for each in (title, node.get("class_type")) if isinstance(each, str))
