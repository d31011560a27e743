"""How often nodes run and how long they take, by node type and by how they ended [12.12]."""

import time
from bisect import bisect_left
from collections.abc import Iterator

from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    Metric,
)
from prometheus_client.registry import Collector

from comfyrail.engine.caching.result import CachedResult
from comfyrail.engine.definition import NodeDefinition
from comfyrail.engine.hooks import Hook, NodeVisit
from comfyrail.engine.monitoring.labels import OTHER, NodeTypeLabels, clean_label
from comfyrail.engine.registry import NodeRegistry

BOUNDS = (0.001, 0.005, 0.02, 0.1, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0, 1800.0)
"""Upper ends of the buckets in seconds: from a cheap node to a long sampling."""

MOST_MEASUREMENTS = 1000

_BOUND_LABELS = (*map(str, BOUNDS), "+Inf")
_LABELS = ("node_type", "status")


class _Cell:
    """The counts of one node type and one status."""

    __slots__ = ("buckets", "is_of_cacheable", "seconds", "without_time")

    def __init__(self, *, is_of_cacheable: bool) -> None:
        self.is_of_cacheable = is_of_cacheable
        self.buckets = [0] * len(_BOUND_LABELS)
        self.seconds = 0.0
        self.without_time = 0
        """How many did not run at all, because the result was known."""


class NodeMetrics(Hook, Collector):
    """Counted by the one thread that executes, read by any.

    The cells are plain numbers: the library's own counters take a lock for each of the three
    additions that a node makes, and cost several times as much. An expanded node counts when the
    nodes in its place have run, with the time that this took. Nodes under way when an execution
    fails or is stopped are `interrupted`.
    """

    def __init__(self, registry: NodeRegistry) -> None:
        self._labels = NodeTypeLabels(registry)
        self._cells: dict[tuple[str, str], _Cell] = {}
        self._cells_by_name: dict[tuple[str, str], _Cell] = {}
        self._begun: dict[str, tuple[NodeDefinition, float]] = {}
        self._measured: dict[tuple[str, str], float] = {}

    def before_execution(self, execution_id: str) -> None:
        del execution_id
        self._begun.clear()

    def before_node(self, visit: NodeVisit) -> None:
        self._begun[visit.node_id] = (visit.definition, time.perf_counter())

    def after_node(
        self,
        visit: NodeVisit,
        *,
        status: str,
        seconds: float,
        result: CachedResult | None = None,
    ) -> None:
        del result
        if status == "expanded":
            return
        begun = self._begun.pop(visit.node_id, None)
        definition = visit.definition
        cell = self._cells_by_name.get((definition.name, status)) or self._cell(definition, status)
        if status == "cached":
            cell.without_time += 1
            return
        if seconds <= 0.0 and begun is not None:
            seconds = time.perf_counter() - begun[1]
        cell.buckets[bisect_left(BOUNDS, seconds)] += 1
        cell.seconds += seconds

    def after_execution(self, execution_id: str, *, succeeded: bool) -> None:
        del execution_id
        if not succeeded:
            now = time.perf_counter()
            for definition, began in self._begun.values():
                cell = self._cell(definition, "interrupted")
                cell.buckets[bisect_left(BOUNDS, now - began)] += 1
                cell.seconds += now - began
        self._begun.clear()

    def measured(self, definition: NodeDefinition, name: str, value: float) -> None:
        labels = (self._labels.of(definition.name), clean_label(name))
        if labels in self._measured or len(self._measured) < MOST_MEASUREMENTS:
            self._measured[labels] = value

    @property
    def runs_of_cacheable(self) -> int:
        """How many nodes ran although their results may be kept: no level had them."""
        cells = list(self._cells.values())
        return sum(sum(cell.buckets) for cell in cells if cell.is_of_cacheable)

    def collect(self) -> Iterator[Metric]:
        durations = HistogramMetricFamily(
            "node_execution_duration_seconds",
            "How long nodes took. Nodes whose result was known did not run and are not in here.",
            labels=_LABELS,
        )
        executions = CounterMetricFamily(
            "node_executions", "Nodes that were run, or whose result was known.", labels=_LABELS
        )
        for labels, cell in sorted(self._cells.copy().items()):
            running = 0
            cumulative = []
            for bound, count in zip(_BOUND_LABELS, list(cell.buckets), strict=True):
                running += count
                cumulative.append((bound, float(running)))
            executions.add_metric(labels, running + cell.without_time)
            if running:
                durations.add_metric(labels, cumulative, cell.seconds)
        yield durations
        yield executions
        measurements = GaugeMetricFamily(
            "node_measurement",
            "What nodes measure themselves: the newest value.",
            labels=("node_type", "name"),
        )
        for (node_type, name), value in sorted(self._measured.copy().items()):
            measurements.add_metric((node_type, name), value)
        yield measurements

    def _cell(self, definition: NodeDefinition, status: str) -> _Cell:
        """The cell of a node type, made when it is needed. Those without a label share one."""
        label = self._labels.of(definition.name)
        cell = self._cells.get((label, status))
        if cell is None:
            cell = self._cells[label, status] = _Cell(is_of_cacheable=definition.keeps)
        if label != OTHER:
            self._cells_by_name[definition.name, status] = cell
        return cell
