"""What the caller may have meant."""

import heapq
import reprlib
from collections.abc import Callable, Iterable, Mapping
from itertools import islice
from typing import TypeVar

Found = TypeVar("Found")

NAME_LIMIT = 100
KNOWN_LIMIT = 5000
SEARCH_LIMIT = 10
CHARACTER_LIMIT = 500_000
"""Of names that are compared, for one caller: what is beyond is not looked at."""
LEAST_LIKENESS = 0.7
LONGEST_SHOWN_NUMBER = 256
"""Bits: Python refuses to write out numbers of thousands of digits."""


class SearchBudget:
    """How many characters may still be compared: the names come from outside, and so many."""

    def __init__(self, characters: int = CHARACTER_LIMIT) -> None:
        self.left = characters

    def spend(self, characters: int) -> bool:
        """Whether there was enough left."""
        self.left -= characters
        return self.left >= 0


def nearest_names(
    name: str, known: Iterable[str], limit: int = 3, budget: SearchBudget | None = None
) -> list[str]:
    """The known names most like `name`, best first; case does not count."""
    if not name or len(name) > NAME_LIMIT:
        return []
    budget = budget or SearchBudget()
    folded = name.casefold()
    places = _places(folded)
    found: dict[str, tuple[float, str]] = {}
    for candidate in islice(known, KNOWN_LIMIT):
        length = len(candidate)
        if 2 * min(length, len(name)) < LEAST_LIKENESS * (length + len(name)):
            continue
        if not budget.spend(length):
            break
        other = candidate.casefold()
        likeness = 2 * common_length(places, len(folded), other) / (len(folded) + len(other))
        if likeness >= LEAST_LIKENESS:
            found.setdefault(other, (likeness, candidate))
    best = heapq.nlargest(limit, found.values(), key=lambda each: each[0])
    return [candidate for _, candidate in best]


def _places(text: str) -> dict[str, int]:
    """By character, a number that has a bit for each place where it stands."""
    places: dict[str, int] = {}
    for index, character in enumerate(text):
        places[character] = places.get(character, 0) | 1 << index
    return places


def common_length(places: Mapping[str, int], length: int, other: str) -> int:
    """How long the longest text is that both have in them, with gaps. Linear in the length of
    `other` (Hyyrö's way to count in the bits of a number), whatever the texts are.
    """
    full = (1 << length) - 1
    unmatched = full
    for character in other:
        matches = unmatched & places.get(character, 0)
        unmatched = ((unmatched + matches) | (unmatched - matches)) & full
    return length - unmatched.bit_count()


class Suggestions:
    """Looks for near names a few times: a search is slow, and a caller may err a thousand times."""

    def __init__(self, searches: int = SEARCH_LIMIT) -> None:
        self._left = searches
        self._budget = SearchBudget()

    def near(self, name: str, known: Iterable[str]) -> list[str]:
        return self.search(lambda budget: nearest_names(name, known, budget=budget))

    def search(self, find: Callable[[SearchBudget], list[Found]]) -> list[Found]:
        """What another kind of search finds, as long as some are left."""
        if self._left <= 0 or self._budget.left <= 0:
            return []
        self._left -= 1
        return find(self._budget)


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
