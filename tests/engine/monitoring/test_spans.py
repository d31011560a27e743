"""Executions as spans [12.12]."""

import threading
from collections.abc import Iterator, Sequence
from typing import Any

import pytest
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import StatusCode

from comfyrail.engine.definition import define_node
from comfyrail.engine.events import Event, NodeStarted
from comfyrail.engine.execution import ExecutionRequest
from comfyrail.engine.folders import Folders
from comfyrail.engine.interrupt import Interrupt
from comfyrail.engine.monitoring.span_export import SpanExport
from comfyrail.engine.registry import NodeRegistry
from tests.engine.engine_parts import Engine
from tests.engine.monitoring.metric_parts import NODES
from tests.engine.monitoring.test_node_metrics import HOSTILE_TYPES, chain, take


class Traced:
    """An engine whose spans are kept in memory."""

    def __init__(self, folders: Folders, registry: NodeRegistry, sampling: float = 1.0) -> None:
        self.kept = InMemorySpanExporter()
        self.export = SpanExport(SimpleSpanProcessor(self.kept), sampling)
        self.engine = Engine(folders, registry, options={"hooks": [self.export.hook]})

    def run(self, prompt: dict[str, Any], outputs: list[str], **options: Any) -> None:
        request = ExecutionRequest(prompt, outputs, options.get("extra", {}), "run-1")
        watch = options.get("watch", lambda _: None)
        self.engine.executor.run(request, watch, options.get("interrupt") or Interrupt())

    def spans(self) -> Sequence[ReadableSpan]:
        return self.kept.get_finished_spans()

    def by_name(self) -> dict[str, ReadableSpan]:
        return {span.name: span for span in self.spans()}


@pytest.fixture
def traced(folders: Folders) -> Iterator[Traced]:
    found = Traced(folders, NodeRegistry(NODES))
    yield found
    found.export.close()


def attributes(span: ReadableSpan) -> dict[str, Any]:
    return dict(span.attributes or {})


def test_nodes_are_spans_inside_of_their_graph(traced: Traced) -> None:
    traced.run(chain(("Nap", {"seconds": 0.02})), ["end"])
    spans = traced.by_name()
    graph = spans["execute_graph"]
    assert attributes(graph) == {"execution.id": "run-1", "status": "completed"}
    assert graph.parent is None
    assert set(spans) == {
        "execute_graph",
        "execute_node_Number",
        "execute_node_Nap",
        "execute_node_Show",
    }
    nap = spans["execute_node_Nap"]
    assert attributes(nap) == {
        "node.id": "1",
        "node.type": "Nap",
        "execution.id": "run-1",
        "status": "completed",
    }
    assert nap.parent is not None
    assert nap.parent.span_id == graph.context.span_id
    assert nap.context.trace_id == graph.context.trace_id
    assert nap.start_time is not None
    assert nap.end_time is not None
    assert 0.02e9 <= nap.end_time - nap.start_time < 5e9
    assert graph.start_time is not None
    assert graph.end_time is not None
    assert graph.start_time <= nap.start_time
    assert nap.end_time <= graph.end_time
    assert traced.spans()[0].resource.attributes["service.name"] == "comfyrail-worker"


def test_known_results_are_spans_without_length(traced: Traced) -> None:
    for _ in range(2):
        traced.run(chain(), ["end"])
    shown = [span for span in traced.spans() if span.name == "execute_node_Show"]
    assert [attributes(span)["status"] for span in shown] == ["completed", "cached"]
    assert shown[1].start_time == shown[1].end_time


def test_a_failure_is_the_failure_of_its_node_and_of_the_graph(traced: Traced) -> None:
    traced.run(chain(("Fail", {})), ["end"])
    spans = traced.by_name()
    for name in ("execute_node_Fail", "execute_graph"):
        assert attributes(spans[name])["status"] == "failed"
        assert spans[name].status.status_code is StatusCode.ERROR
    assert "execute_node_Show" not in spans


def test_what_was_under_way_when_it_was_stopped_is_interrupted(traced: Traced) -> None:
    interrupt = Interrupt()

    def stop(event: Event) -> None:
        if event == NodeStarted("1"):
            threading.Timer(0.05, interrupt.request).start()

    prompt = chain(("Wait", {"seconds": 60.0}))
    traced.run(prompt, ["end"], interrupt=interrupt, watch=stop)
    spans = traced.by_name()
    for name in ("execute_node_Wait", "execute_graph"):
        assert attributes(spans[name])["status"] == "interrupted"
        assert spans[name].status.status_code is StatusCode.UNSET


def test_a_node_that_is_tried_again_has_a_span_for_each_try(traced: Traced) -> None:
    policy = {"default_on_error": {"policy": "retry", "attempts": 3, "pause": 0}}
    traced.run(chain(("Fail", {})), ["end"], extra={"comfyrail": policy})
    tries = [span for span in traced.spans() if span.name == "execute_node_Fail"]
    assert [attributes(span)["status"] for span in tries] == ["failed"] * 3


def test_of_an_execution_that_is_not_sampled_there_is_nothing(folders: Folders) -> None:
    traced = Traced(folders, NodeRegistry(NODES), sampling=0.0)
    traced.run(chain(), ["end"])
    assert traced.spans() == ()
    traced.export.close()


def test_executions_are_sampled_whole(folders: Folders) -> None:
    traced = Traced(folders, NodeRegistry(NODES), sampling=0.5)
    for value in range(40):
        prompt = {**chain(), "0": {"class_type": "Number", "inputs": {"value": value}}}
        traced.run(prompt, ["end"])
    graphs = [span for span in traced.spans() if span.name == "execute_graph"]
    # All or none of 40 at one half each: 1 in 2 to the power of 39.
    assert 0 < len(graphs) < 40
    assert len(traced.spans()) == 3 * len(graphs)
    traced.export.close()


def test_names_of_spans_can_be_sent_whatever_they_are(folders: Folders) -> None:
    registry = NodeRegistry(
        define_node(name, take, required={"value": ("INT",)}, is_output=True)
        for name in HOSTILE_TYPES
    )
    traced = Traced(folders, registry)
    prompt = {
        f"{index}\ud800": {"class_type": name, "inputs": {"value": index}}
        for index, name in enumerate(HOSTILE_TYPES)
    }
    traced.run(prompt, list(prompt))
    assert len(traced.spans()) == len(HOSTILE_TYPES) + 1
    for span in traced.spans():
        span.name.encode()
        for value in attributes(span).values():
            value.encode()
    traced.export.close()
