"""What the caller may have meant."""

import difflib
import reprlib
from collections.abc import Callable, Iterable
from itertools import islice
from typing import TypeVar

Found = TypeVar("Found")

NAME_LIMIT = 100
KNOWN_LIMIT = 5000
SEARCH_LIMIT = 10
LONGEST_SHOWN_NUMBER = 256
"""Bits: Python refuses to write out numbers of thousands of digits."""


def nearest_names(name: str, known: Iterable[str], limit: int = 3) -> list[str]:
    """The known names most like `name`, best first; case does not count."""
    if len(name) > NAME_LIMIT:
        return []
    by_folded: dict[str, str] = {}
    for candidate in islice(known, KNOWN_LIMIT):
        by_folded.setdefault(candidate.casefold(), candidate)
    close = difflib.get_close_matches(name.casefold(), by_folded, n=limit, cutoff=0.7)
    return [by_folded[folded] for folded in close]


class Suggestions:
    """Looks for near names a few times: a search is slow, and a caller may err a thousand times."""

    def __init__(self, searches: int = SEARCH_LIMIT) -> None:
        self._left = searches

    def near(self, name: str, known: Iterable[str]) -> list[str]:
        return self.search(lambda: nearest_names(name, known))

    def search(self, find: Callable[[], list[Found]]) -> list[Found]:
        """What another kind of search finds, as long as some are left."""
        if self._left <= 0:
            return []
        self._left -= 1
        return find()


def did_you_mean(names: list[str]) -> str:
    """A sentence to append to a message: ' Did you mean …?', or nothing."""
    if not names:
        return ""
    quoted = [f"'{name}'" for name in names]
    choice = quoted[0] if len(quoted) == 1 else f"{', '.join(quoted[:-1])} or {quoted[-1]}"
    return f" Did you mean {choice}?"


_AS_JSON = {None: "null", True: "true", False: "false"}


def shown(value: object, limit: int = 80) -> str:
    """A value as a message shows it, never longer than a line."""
    if isinstance(value, str):
        text = repr(value[:limit])
        return text if len(value) <= limit else f"{text[:-1]}…'"
    if value is None or isinstance(value, bool):
        return _AS_JSON[value]
    if isinstance(value, int) and value.bit_length() > LONGEST_SHOWN_NUMBER:
        return f"a number of {value.bit_length()} bits"
    text = _short.repr(value) if isinstance(value, list | dict) else repr(value)
    return text if len(text) <= limit else text[:limit] + "…"


def printable(text: str, limit: int = 200) -> str:
    """A name as data of a message: short, and without halves of characters, which have no UTF-8."""
    return text[:limit].encode("utf-8", "backslashreplace").decode("utf-8")


class _ShortForm(reprlib.Repr):
    """Of values that may be deep, long or huge: what is cut away is not looked at."""

    def __init__(self) -> None:
        super().__init__()
        self.maxlevel = 4
        self.maxlist = self.maxdict = 20
        self.maxstring = self.maxother = 80

    def repr_int(self, value: int, level: int) -> str:
        too_long = value.bit_length() > LONGEST_SHOWN_NUMBER
        return "…" if too_long else super().repr_int(value, level)


_short = _ShortForm()
