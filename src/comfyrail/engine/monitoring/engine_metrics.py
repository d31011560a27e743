"""What an executor has and uses, looked up when someone asks for the metrics."""

import threading
from collections.abc import Iterator, Mapping

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from comfyrail.engine.executor import Executor
from comfyrail.engine.monitoring.node_metrics import NodeMetrics
from comfyrail.engine.monitoring.process_usage import ProcessUsage

_CACHE_COUNTS = {
    "hits": ("cache_hits", "Results that a level gave."),
    "misses": ("cache_misses", "Results that were looked for in a level, which did not have them."),
    "evictions": ("cache_evictions", "Results that a level let go of to make room."),
    "dropped": ("cache_dropped_writes", "Results that a level could not take."),
}
_CACHE_AMOUNTS = {
    "entries": ("cache_entries", "Results that a level holds."),
    "bytes": ("cache_bytes", "Bytes of results that a level holds."),
}


class EngineMetrics(Collector):
    """Read by any thread while the executor works."""

    def __init__(self, executor: Executor, nodes: NodeMetrics) -> None:
        self._executor = executor
        self._nodes = nodes
        self._process = ProcessUsage(executor.folders.output)
        self._counts = _GrowingCounts()

    def collect(self) -> Iterator[Metric]:
        in_process = self._process.percent()
        yield self._resources(in_process)
        yield GaugeMetricFamily(
            "memory_pressure_ratio",
            "Part of the memory limit that values take; of the machine's memory that the process "
            "takes, where no limit is set.",
            self._pressure(in_process),
        )
        yield from self._cache()

    def _resources(self, in_process: Mapping[str, float]) -> Metric:
        family = GaugeMetricFamily(
            "resource_usage_percent",
            "What running nodes hold of what there is to hand out; what the process uses, where "
            "the strategy hands nothing out.",
            labels=["resource_type"],
        )
        handed_out = self._executor.resource_figures()
        used = in_process if handed_out is None else handed_out.percent()
        for kind, percent in used.items():
            family.add_metric([kind], percent)
        return family

    def _pressure(self, in_process: Mapping[str, float]) -> float:
        budget = self._executor.budget
        return in_process.get("memory_mb", 0.0) / 100 if budget is None else budget.pressure

    def _cache(self) -> Iterator[Metric]:
        levels = self._executor.cache.figures().levels
        # A level counts what is read from it. What no level has is never read, but run.
        not_there = {"misses": self._nodes.runs_of_cacheable}
        for field, (name, explained) in _CACHE_COUNTS.items():
            counter = CounterMetricFamily(name, explained, labels=["cache_level"])
            for level, figures in levels.items():
                count = self._counts.grown((field, level), getattr(figures, field))
                counter.add_metric([level], count + not_there.get(field, 0))
            yield counter
        for field, (name, explained) in _CACHE_AMOUNTS.items():
            gauge = GaugeMetricFamily(name, explained, labels=["cache_level"])
            for level, figures in levels.items():
                amount = getattr(figures, field)
                if amount is not None:
                    gauge.add_metric([level], amount)
            yield gauge


class _GrowingCounts:
    """Counts that go on growing when what they are read from begins anew at zero."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._last: dict[tuple[str, str], int] = {}
        self._before: dict[tuple[str, str], int] = {}

    def grown(self, key: tuple[str, str], count: int) -> int:
        with self._lock:
            last = self._last.get(key, 0)
            if count < last:
                self._before[key] = self._before.get(key, 0) + last
            self._last[key] = count
            return self._before.get(key, 0) + count
