"""How wrong predictions were: relative to what an execution really took."""

from collections.abc import Sequence

SHORTEST = 1e-3
"""Seconds; an execution of less counts as this, or its relative error would mean nothing."""


def relative_error(predicted: float, taken: float) -> float:
    taken = max(taken, SHORTEST)
    return abs(predicted - taken) / taken


def quantile(ordered: Sequence[float], share: float) -> float:
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]
