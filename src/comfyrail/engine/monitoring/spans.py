"""Executions and their nodes as spans. Imported only where OpenTelemetry is installed."""

import time

from opentelemetry.trace import Span, StatusCode, Tracer, set_span_in_context

from comfyrail.engine.caching.result import CachedResult
from comfyrail.engine.hooks import Hook, NodeVisit
from comfyrail.engine.monitoring.labels import clean_label

_SECOND = 1_000_000_000


class NodeSpans(Hook):
    """A span `execute_graph` for each execution, and in it `execute_node_<type>` for each node.

    Whether an execution is recorded is decided once, with its own span; of one that is not, the
    nodes cost nothing. An execution that is stopped ends the spans of nodes that were under way.
    """

    def __init__(self, tracer: Tracer) -> None:
        self._tracer = tracer
        self._graph: Span | None = None
        self._nodes: dict[str, Span] = {}
        self._failed: set[str] = set()

    def before_execution(self, execution_id: str) -> None:
        self._end_all(succeeded=False)
        span = self._tracer.start_span(
            "execute_graph", attributes={"execution.id": clean_label(execution_id)}
        )
        if span.is_recording():
            self._graph = span

    def after_execution(self, execution_id: str, *, succeeded: bool) -> None:
        del execution_id
        self._end_all(succeeded=succeeded)

    def before_node(self, visit: NodeVisit) -> None:
        if self._graph is not None and visit.node_id not in self._nodes:
            self._nodes[visit.node_id] = self._start(self._graph, visit, time.time_ns())

    def after_node(
        self,
        visit: NodeVisit,
        *,
        status: str,
        seconds: float,
        result: CachedResult | None = None,
    ) -> None:
        del result
        if self._graph is None or status == "expanded":
            return
        now = time.time_ns()
        span = self._nodes.pop(visit.node_id, None)
        if status == "failed":
            self._failed.add(visit.node_id)
        else:
            self._failed.discard(visit.node_id)
        if span is None:
            # It was not announced: its result was known, or this was another try.
            took = 0 if status == "cached" else int(seconds * _SECOND)
            span = self._start(self._graph, visit, now - took)
        _end(span, status, now)

    def _start(self, graph: Span, visit: NodeVisit, began: int) -> Span:
        node_type = clean_label(visit.definition.name)
        return self._tracer.start_span(
            f"execute_node_{node_type}",
            set_span_in_context(graph),
            attributes={
                "node.id": clean_label(visit.node_id),
                "node.type": node_type,
                "execution.id": clean_label(visit.execution_id),
            },
            start_time=began,
        )

    def _end_all(self, *, succeeded: bool) -> None:
        now = time.time_ns()
        is_stopped = bool(self._nodes) and not self._failed
        for span in self._nodes.values():
            _end(span, "interrupted", now)
        if self._graph is not None:
            ending = "interrupted" if is_stopped else "failed"
            _end(self._graph, "completed" if succeeded else ending, now)
        self._graph = None
        self._nodes.clear()
        self._failed.clear()


def _end(span: Span, status: str, now: int) -> None:
    span.set_attribute("status", status)
    if status == "failed":
        span.set_status(StatusCode.ERROR)
    span.end(now)
