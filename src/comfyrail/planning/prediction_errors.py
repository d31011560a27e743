"""How wrong predictions were: relative to what an execution really took."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from statistics import median

SHORTEST = 1e-3
"""Seconds; an execution of less counts as this, or its relative error would mean nothing."""


@dataclass(frozen=True, slots=True)
class ErrorSummary:
    """Of |predicted - taken| / taken over some executions."""

    count: int
    median: float
    p90: float


def relative_error(predicted: float, taken: float) -> float:
    taken = max(taken, SHORTEST)
    return abs(predicted - taken) / taken


def summarise(errors: Iterable[float]) -> ErrorSummary | None:
    """None for no errors at all."""
    ordered = sorted(errors)
    if not ordered:
        return None
    return ErrorSummary(len(ordered), median(ordered), quantile(ordered, 0.9))


def quantile(ordered: Sequence[float], share: float) -> float:
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]
