"""Words as an index of texts knows them.

Chinese, Japanese and Korean are written without gaps, or with endings at their words: there every
character is a word, and a word that somebody looks for is a row of them.
"""

import re
from collections.abc import Sequence

MOST_WORDS = 20

_ALONE = re.compile(
    "[\u3005-\u3007\u3040-\u30ff\u31f0-\u31ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af"
    "\uf900-\ufaff\uff66-\uff9d\U00020000-\U0003ffff]"
)
_WORD = re.compile(r"\w+")
_LETTER_OR_DIGIT = re.compile(r"[^\W_]")


def apart(text: str) -> str:
    """The text with gaps around the characters that are words of their own."""
    return _ALONE.sub(r" \g<0> ", text)


def words_of(text: str) -> Sequence[str]:
    """The words that are looked for; each may be a row of words of the index. Only letters, digits
    and gaps are in them.
    """
    words = (" ".join(apart(word).split()) for word in _WORD.findall(text))
    return [word for word in words if _LETTER_OR_DIGIT.search(word)][:MOST_WORDS]
