"""Which line of a picture a stretch of time belongs to."""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

MAIN = "main"
THREAD = "thread"
COROUTINE = "coroutine"
PROCESS = "process"
ELSEWHERE = "elsewhere"
_ORDER = (MAIN, THREAD, COROUTINE, PROCESS, ELSEWHERE)


class Span(NamedTuple):
    began: float
    ended: float


def name_lane(kind: str, number: int) -> str:
    return kind if kind == MAIN else f"{kind} {number}"


def lane_order(lane: str) -> tuple[int, int]:
    """What lanes are sorted by: the executing thread first."""
    kind, _, number = lane.partition(" ")
    return (_ORDER.index(kind) if kind in _ORDER else len(_ORDER), int(number or 0))


def spread(spans: Sequence[Span]) -> list[int]:
    """A number for each of the spans, such that those of one number do not overlap."""
    numbers = [0] * len(spans)
    ends: list[float] = []
    for index in sorted(range(len(spans)), key=lambda each: spans[each]):
        span = spans[index]
        free = next((place for place, end in enumerate(ends) if end <= span.began), len(ends))
        if free == len(ends):
            ends.append(span.ended)
        else:
            ends[free] = span.ended
        numbers[index] = free + 1
    return numbers


def number_threads(threads: Iterable[int], main: int) -> dict[int, str]:
    """A name for each thread, in the order in which they come."""
    names = {main: MAIN}
    for thread in threads:
        if thread not in names:
            names[thread] = name_lane(THREAD, len(names))
    return names
