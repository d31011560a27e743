"""Expected duration of a job: learned from history, or a heuristic while there is none [3.2]."""

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from math import exp, log
from statistics import median
from typing import Literal

from comfyrail.planning.analysis import Analysis
from comfyrail.planning.caching_habits import CachingHabits
from comfyrail.planning.device_speeds import DeviceSpeeds, learn_speeds
from comfyrail.planning.measured_runs import LARGEST, SHORTEST, collect_runs
from comfyrail.planning.model_plan import learn_load_rate
from comfyrail.planning.node_costs import (
    DEFAULT_NODE_COSTS,
    NodeCosts,
    fit_node_costs,
    fit_overhead,
)
from comfyrail.planning.node_kinds import NodeCost, NodeKind
from comfyrail.planning.node_work import NodeWork
from comfyrail.planning.prediction_errors import quantile, relative_error
from comfyrail.planning.records import LONGEST_EXECUTION, ExecutionRecord, NodeRun
from comfyrail.planning.remaining import MINIMUM_REMAINING_SECONDS, remaining_seconds
from comfyrail.planning.similarity import LEAST_SIMILAR, SimilarExecutions, indices_of

SECONDS_PER_NODE = 5.0
MINIMUM_SECONDS = 30.0
HISTORY_LIMIT = 1000
MOST_NODES = 25_000
"""Of all executions that are learned from."""
DEFAULT_OVERHEAD = NodeCost(0.05, 0.0, 0.005, 0.0)
"""Of a job besides its nodes; its units are nodes."""
DEVICE_ROUNDS = 2
"""Node costs and the speeds of devices are found in turns."""
LATEST_OF_SIGNATURE = 12
WEIGHT_OF_TYPES = 0.3
"""How often a signature's own correction must have been seen to outweigh that of its types."""
WEIGHT_OF_NONE = 5.0
HELD_BACK = 0.2
LEAST_HELD_BACK = 10
WIDEST = log(3)
"""The range on either side, where no error has been measured yet."""
REMEMBERED_PREDICTIONS = 4096

Nodes = Sequence[NodeWork] | Sequence[NodeRun]


@dataclass(frozen=True, slots=True)
class Prediction:
    seconds: float
    low: float
    high: float
    """Eight of ten runs are between the two, as far as held-back history tells."""
    source: Literal["history", "heuristic"]
    similar: int
    """Past executions that were found similar."""
    median_error: float | None
    """The model's, on history that it had not seen; None until there is enough of it."""


@dataclass(frozen=True, slots=True)
class _Subject:
    """What a prediction is made from: of a workflow, or of an execution as if it were to come."""

    signature: str
    node_types: frozenset[str]
    complexity: float
    nodes: Nodes


def heuristic_seconds(node_count: int) -> float:
    """What holds until there is history to learn from [3.2]."""
    return max(MINIMUM_SECONDS, SECONDS_PER_NODE * node_count)


def newest(records: Iterable[ExecutionRecord]) -> list[ExecutionRecord]:
    """Those to learn from, from old to new: the latest, passing over what has too many nodes for
    the room that is left, so that a fit takes no longer for large workflows.
    """
    kept: list[ExecutionRecord] = []
    room = MOST_NODES
    ordered = sorted(records, key=lambda record: record.finished_at)
    for record in reversed(ordered[-HISTORY_LIMIT:]):
        if len(record.nodes) <= room:
            room -= len(record.nodes)
            kept.append(record)
    kept.reverse()
    return kept


class DurationModel:
    """What is learned from history. Without any it gives the heuristic and the default costs."""

    def __init__(self, records: Sequence[ExecutionRecord] = ()) -> None:
        """Learn from records, from old to new. `fit` gives a model that knows its error too."""
        self.executions = len(records)
        self.median_error: float | None = None
        """Of predictions at submission, |predicted - taken| / taken, on held-back history."""
        self.placed_error: float | None = None
        """The same once the worker is known."""
        self.baseline_error: float | None = None
        """The same of the mean of similar executions, to compare with."""
        self.costs: NodeCosts = DEFAULT_NODE_COSTS
        self.overhead = DEFAULT_OVERHEAD
        self.speeds = DeviceSpeeds()
        self.bytes_per_second = learn_load_rate(records)
        self._spreads = {False: (-WIDEST, WIDEST), True: (-WIDEST, WIDEST)}
        """Where the logarithm of taken to predicted lies: before and after a worker is chosen."""
        self._records = records
        self._similar = SimilarExecutions(records)
        self._habits = CachingHabits(records)
        self._residuals = self._learn()
        self._predictions: dict[tuple[str, str | None], Prediction] = {}
        self._corrections: dict[frozenset[str], float] = {}

    @classmethod
    def fit(cls, records: Sequence[ExecutionRecord]) -> "DurationModel":
        """Learn from the latest executions; measure the error on the last fifth of them with a
        model that has not seen these.
        """
        latest = newest(records)
        model = cls(latest)
        count = int(HELD_BACK * len(latest))
        if count >= LEAST_HELD_BACK:
            model._measure(cls(latest[:-count]), latest[-count:])
        return model

    def predict(
        self,
        analysis: Analysis,
        device: str | None = None,
        *,
        warm_models: Collection[str] | None = None,
    ) -> Prediction:
        """`device` and `warm_models` are those of the worker, once it is chosen."""
        key = (analysis.signature, device)
        known = self._predictions.get(key) if warm_models is None else None
        if known is not None:
            return known
        nodes = [work for work in analysis.works.values() if work.runs]
        subject = _Subject(analysis.signature, analysis.node_types, analysis.complexity, nodes)
        found = self._predict(subject, device, warm_models)
        if warm_models is None and len(self._predictions) < REMEMBERED_PREDICTIONS:
            self._predictions[key] = found
        return found

    def predict_again(self, record: ExecutionRecord, *, placed: bool = False) -> Prediction:
        """What this model would have said of an execution, without its outcome: when it was
        submitted, or when it was `placed` on a worker with known models.
        """
        subject = _Subject(record.signature, record.node_types, record.complexity, record.nodes)
        if not placed:
            return self._predict(subject, None, None)
        names = {node.model for node in record.nodes if node.model is not None}
        return self._predict(subject, record.device, () if record.is_cold else names)

    def mean_of_similar(self, record: ExecutionRecord) -> float:
        """The plain alternative to this model, for comparison."""
        similar = indices_of(
            self._similar.in_any_way(record.signature, record.node_types, record.complexity)
        )
        if len(similar) < LEAST_SIMILAR:
            return heuristic_seconds(len(record.nodes))
        return sum(self._records[index].seconds for index in similar) / len(similar)

    def node_seconds(self, analysis: Analysis, device: str | None = None) -> dict[str, float]:
        """Expected seconds of every node, were none known already; 0 for those that never run."""
        works = analysis.works
        factor = exp(self._slowness(device, list(works.values())))
        return {
            node_id: _bounded(factor * self.costs.seconds(work)) if work.runs else 0.0
            for node_id, work in works.items()
        }

    def _predict(
        self, subject: _Subject, device: str | None, warm_models: Collection[str] | None
    ) -> Prediction:
        is_placed = device is not None
        error = self.placed_error if is_placed else self.median_error
        similar = self._similar.in_any_way(
            subject.signature, subject.node_types, subject.complexity
        ).bit_count()
        if similar < LEAST_SIMILAR:
            seconds = heuristic_seconds(len(subject.nodes))
            low, high = seconds * exp(-WIDEST), seconds * exp(WIDEST)
            return Prediction(seconds, low, high, "heuristic", similar, error)
        to_run = [
            node
            for node in subject.nodes
            if not self._habits.is_known(subject.signature, node, warm_models)
        ]
        is_cold = any(node.kind is NodeKind.LOADER for node in to_run)
        level = self._slowness(device, subject.nodes) + self._correction(subject)
        expected = self._sum(to_run, len(subject.nodes), is_cold=is_cold)
        seconds = _bounded(exp(level) * expected)
        low, high = (_bounded(seconds * exp(part)) for part in self._spreads[is_placed])
        return Prediction(seconds, low, high, "history", similar, error)

    def _learn(self) -> list[float]:
        """Fit all parts. Gives the logarithm of taken to expected seconds of every execution."""
        residuals: list[float] = []
        measured = collect_runs(self._records)
        for _ in range(DEVICE_ROUNDS if self._records else 0):
            self.costs = fit_node_costs(measured, self.speeds.slowness)
            self.overhead = fit_overhead(measured, self.speeds.slowness, DEFAULT_OVERHEAD)
            residuals = [self._residual(record) for record in self._records]
            self.speeds = learn_speeds(self._records, residuals)
        return [
            residual - self.speeds.of_device(record.device)
            for record, residual in zip(self._records, residuals, strict=True)
        ]

    def _residual(self, record: ExecutionRecord) -> float:
        ran = [node for node in record.nodes if not node.is_cached]
        expected = self._sum(ran, len(record.nodes), is_cold=record.is_cold)
        return log(max(record.seconds, SHORTEST) / expected)

    def _sum(self, nodes: Iterable[NodeWork | NodeRun], count: int, *, is_cold: bool) -> float:
        """What the nodes and the job around them take on a device of usual speed."""
        total = self.overhead.base + self.overhead.per_unit * count
        for node in nodes:
            total += self.costs.seconds(node, is_cold=is_cold)
        return min(max(total, SHORTEST), LARGEST)

    def _slowness(self, device: str | None, nodes: Nodes) -> float:
        return self.speeds.expected(nodes) if device is None else self.speeds.of_device(device)

    def _correction(self, subject: _Subject) -> float:
        """How far off the sum of costs was for the same workflow, or else for similar ones."""
        same = indices_of(self._similar.with_signature(subject.signature))[-LATEST_OF_SIGNATURE:]
        of_types = self._corrections.get(subject.node_types)
        if of_types is None:
            near = indices_of(self._similar.with_types(subject.node_types))
            of_types = _middle([self._residuals[index] for index in near], WEIGHT_OF_NONE, 0.0)
            if len(self._corrections) < REMEMBERED_PREDICTIONS:
                self._corrections[subject.node_types] = of_types
        return _middle([self._residuals[index] for index in same], WEIGHT_OF_TYPES, of_types)

    def _measure(self, earlier: "DurationModel", held_back: Sequence[ExecutionRecord]) -> None:
        said = [
            (record, earlier.predict_again(record), earlier.predict_again(record, placed=True))
            for record in held_back
        ]
        said = [each for each in said if each[1].source == "history"]
        if len(said) < LEAST_HELD_BACK:
            return
        self.median_error = median(
            relative_error(found.seconds, record.seconds) for record, found, _ in said
        )
        self.placed_error = median(
            relative_error(found.seconds, record.seconds) for record, _, found in said
        )
        self.baseline_error = median(
            relative_error(earlier.mean_of_similar(record), record.seconds) for record, *_ in said
        )
        self._spreads = {
            False: _spread((record.seconds, found.seconds) for record, found, _ in said),
            True: _spread((record.seconds, found.seconds) for record, _, found in said),
        }


def _bounded(seconds: float) -> float:
    """Finite and more than 0 whatever was learned; what is no number counts as the shortest."""
    return min(max(SHORTEST, seconds), LONGEST_EXECUTION)


def _spread(pairs: Iterable[tuple[float, float]]) -> tuple[float, float]:
    """Of the logarithms of taken to predicted, the tenth and the ninetieth percentile."""
    ratios = sorted(log(max(taken, SHORTEST) / predicted) for taken, predicted in pairs)
    return min(0.0, quantile(ratios, 0.1)), max(0.0, quantile(ratios, 0.9))


def _middle(values: Sequence[float], weight: float, prior: float) -> float:
    """The median, drawn to the prior as if that had been seen `weight` times."""
    if not values:
        return prior
    return (len(values) * median(values) + weight * prior) / (len(values) + weight)


__all__ = [
    "HISTORY_LIMIT",
    "MINIMUM_REMAINING_SECONDS",
    "DurationModel",
    "Prediction",
    "heuristic_seconds",
    "remaining_seconds",
]
