"""What nodes took, sorted by type and by model or settings: the little that fits are made from.

However long a history is and whatever is in it, the number of fits and of their points is bounded:
what ran most often comes first. What is left out costs what its type or its kind does.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from heapq import nlargest
from itertools import islice
from math import exp
from statistics import median
from typing import NamedTuple, TypeVar

from comfyrail.planning.node_kinds import NodeKind
from comfyrail.planning.records import ExecutionRecord

SHORTEST = 1e-4
"""Seconds that nothing is measured below: messages take about as long."""
LARGEST = 1e15
"""Seconds. What is worked out from histories that make no sense may be without end."""
LATEST_RUNS = 15
"""Runs of the same work that count: machines change."""
MOST_POINTS_OF_ONE = 64
MOST_POINTS = 3000
"""Of all types together, and again of all types with a model or settings."""
MOST_FITS = 300
"""Of each of the two."""
MOST_WEIGHT = 6.0
"""Of one point, however often it was measured: the others say more about the slope."""

CostKey = tuple[str, str | None]
"""A type, and its model or settings; None for the type with any."""
Key = TypeVar("Key")
_Work = tuple[float, float, float]
"""Steps, units, and 1 where models were loaded for it."""
_Run = tuple[float, str]
"""Seconds, and the device."""
_Runs = defaultdict[_Work, list[_Run]]


class Point(NamedTuple):
    """How long a certain work took: the median of its latest runs."""

    steps: float
    units: float
    cold: float
    seconds: float
    weight: float


class Sample(NamedTuple):
    """The latest runs of a certain work, and how many there were, as far as that counts."""

    work: _Work
    runs: Sequence[_Run]
    weight: float


@dataclass(frozen=True, slots=True)
class MeasuredRuns:
    kind_of: Mapping[str, NodeKind]
    """Of the types that have a fit of their own."""
    types: Mapping[str, Sequence[Sample]]
    variants: Mapping[CostKey, Sequence[Sample]]
    """Of these types with a model or settings."""
    overhead: Sequence[Sample]
    """What jobs took besides their nodes; the number of those is the work."""


def collect_runs(records: Iterable[ExecutionRecord]) -> MeasuredRuns:
    """`records` from old to new."""
    kind_of: dict[str, NodeKind] = {}
    types: defaultdict[str, _Runs] = defaultdict(_runs)
    variants: defaultdict[CostKey, _Runs] = defaultdict(_runs)
    overhead = _runs()
    for record in records:
        device = record.device
        cold = float(record.is_cold)
        rest = record.seconds
        is_whole = True
        for node in record.nodes:
            seconds = node.seconds
            if seconds is None:
                is_whole = is_whole and node.is_cached
                continue
            rest -= seconds
            kind_of[node.class_type] = node.kind
            work = (node.steps, node.units, 0.0 if node.model is None else cold)
            run = (seconds, device)
            types[node.class_type][work].append(run)
            variant = node.model or node.settings
            if variant is not None:
                variants[node.class_type, variant][work].append(run)
        if is_whole:
            overhead[0.0, float(len(record.nodes)), 0.0].append((rest, device))
    chosen = _samples(types)
    return MeasuredRuns(
        {class_type: kind_of[class_type] for class_type in chosen},
        chosen,
        _samples({key: runs for key, runs in variants.items() if key[0] in chosen}),
        _latest(overhead, MOST_POINTS_OF_ONE),
    )


def points_of(samples: Iterable[Sample], paces: Mapping[str, float]) -> list[Point]:
    """`paces` are what the seconds on each device are taken times."""
    return [
        Point(
            *work,
            median([max(seconds * paces.get(device, 1.0), SHORTEST) for seconds, device in runs]),
            weight,
        )
        for work, runs, weight in samples
    ]


def paces_of(slowness: Mapping[str, float]) -> dict[str, float]:
    """`slowness` is the logarithm of each device's factor."""
    return {device: exp(-slow) for device, slow in slowness.items()}


def _runs() -> _Runs:
    return defaultdict(list)


def _samples(runs: dict[Key, _Runs]) -> dict[Key, list[Sample]]:
    """Of those that ran most often, of equal ones the latest; the more there are the fewer each."""
    keys = nlargest(MOST_FITS, reversed(runs), key=lambda key: sum(map(len, runs[key].values())))
    most = min(MOST_POINTS_OF_ONE, MOST_POINTS // max(1, len(keys)))
    return {key: _latest(runs[key], most) for key in keys}


def _latest(runs: _Runs, most: int) -> list[Sample]:
    """The latest works first measured, each with its latest runs."""
    return [
        Sample(work, found[-LATEST_RUNS:], min(float(len(found)), MOST_WEIGHT))
        for work, found in islice(runs.items(), max(0, len(runs) - most), None)
    ]
