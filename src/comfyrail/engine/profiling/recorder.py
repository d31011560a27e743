"""Watches an executor and makes a report of each execution [12.9]."""

import time
from collections.abc import Mapping
from typing import Self

from comfyrail.engine.caching.result import CachedResult, measure_bytes
from comfyrail.engine.events import (
    Event,
    ExecutionFailed,
    ExecutionInterrupted,
    ExecutionSucceeded,
    NodesCached,
    Sink,
)
from comfyrail.engine.hooks import Hook, NodeVisit
from comfyrail.engine.profiling.evaluation import evaluate
from comfyrail.engine.profiling.meters import Meters
from comfyrail.engine.profiling.records import RunRecord
from comfyrail.engine.profiling.report import ProfileReport
from comfyrail.engine.profiling.surroundings import MeasuringSurroundings
from comfyrail.engine.surroundings import Surroundings


class Recorder(Hook):
    """Give it to an executor in three places: as a hook, its `surroundings`, and around the sink.

    Nodes that run in another process or on another machine are timed from outside: what they use
    there is not known. Close it in the end.
    """

    def __init__(self, surroundings: Surroundings | None = None) -> None:
        """`surroundings`: what the executor would have without it."""
        self.surroundings = MeasuringSurroundings(surroundings or Surroundings())
        self._meters = Meters()
        self._record: RunRecord | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self.surroundings.record = None
        self._meters.close()

    def report(self, strategy: str, cache_levels: Mapping[str, str]) -> ProfileReport | None:
        """Of the last execution, as far as it came; None where there was none.

        `cache_levels` says which level held the result of a node before the execution.
        """
        record = self._record
        if record is None:
            return None
        if record.ended is None:
            record.end()
        return evaluate(record, strategy, cache_levels)

    def watching(self, emit: Sink) -> Sink:
        """A sink that looks at the events and passes them on."""

        def watch(event: Event) -> None:
            record = self._record
            if record is not None:
                _note(record, event)
            emit(event)

        return watch

    def before_execution(self, execution_id: str) -> None:
        self._record = self.surroundings.record = RunRecord(self._meters, execution_id)

    def after_execution(self, execution_id: str, *, succeeded: bool) -> None:
        del execution_id, succeeded
        if self._record is not None:
            self._record.end()
        self.surroundings.record = None

    def before_node(self, visit: NodeVisit) -> None:
        if self._record is not None:
            node = self._record.node(visit.node_id)
            node.definition = visit.definition
            if node.ready_at is None:
                node.ready_at = time.perf_counter()

    def after_node(
        self,
        visit: NodeVisit,
        *,
        status: str,
        seconds: float,
        result: CachedResult | None = None,
    ) -> None:
        if self._record is None or status == "expanded":
            return
        node = self._record.node(visit.node_id)
        node.definition = visit.definition
        node.status = status
        node.finished_at = time.perf_counter()
        node.said_seconds = seconds
        if status == "failed":
            node.failures += 1
        if result is not None:
            node.output_bytes = measure_bytes(result.slots)


def _note(record: RunRecord, event: Event) -> None:
    match event:
        case NodesCached(node_ids=node_ids):
            record.known.update(dict.fromkeys(node_ids, time.perf_counter()))
        case ExecutionSucceeded():
            record.outcome = "completed"
        case ExecutionFailed(node_id=node_id, node_type=node_type, message=message):
            record.outcome = "failed"
            record.message = f"Node '{node_id}' ({node_type}): {message}" if node_id else message
        case ExecutionInterrupted():
            record.outcome = "interrupted"
        case _:
            pass
