"""What is counted of nodes, as a scraper sees it [12.12]."""

import threading
import time
from pathlib import Path
from typing import Any

import pytest

from comfyrail.engine.context import NodeContext
from comfyrail.engine.definition import NodeResult, define_node, node
from comfyrail.engine.events import Event, NodeStarted
from comfyrail.engine.folders import Folders
from comfyrail.engine.interrupt import Interrupt
from comfyrail.engine.monitoring.labels import LONGEST_LABEL, OTHER, NodeTypeLabels
from comfyrail.engine.monitoring.node_metrics import NodeMetrics
from comfyrail.engine.registry import NodeRegistry
from tests.engine.engine_parts import Engine
from tests.engine.monitoring.metric_parts import NODES, exposed, read_samples, value_of

HOSTILE_TYPES = [
    'quote"} 1\nevil_metric{a="b',
    "back\\slash\\",
    "new\nline\r\n# TYPE x counter",
    "half \ud800 character",
    "nul \x00 and \x1b[31m",
    "line\u2028separator\x85",
    "x" * 5000,
    "",
    "漢字 🎨",
]


@pytest.fixture
def metrics() -> NodeMetrics:
    return NodeMetrics(NodeRegistry(NODES))


@pytest.fixture
def engine(folders: Folders, metrics: NodeMetrics) -> Engine:
    return Engine(folders, NodeRegistry(NODES), options={"hooks": [metrics]})


def chain(*links: tuple[str, dict[str, Any]]) -> dict[str, Any]:
    """A number through some nodes into an output."""
    prompt: dict[str, Any] = {"0": {"class_type": "Number", "inputs": {"value": 7}}}
    for index, (node_type, inputs) in enumerate(links, start=1):
        linked = {"value": [str(index - 1), 0], **inputs}
        prompt[str(index)] = {"class_type": node_type, "inputs": linked}
    prompt["end"] = {"class_type": "Show", "inputs": {"value": [str(len(links)), 0]}}
    return prompt


def executions(metrics: NodeMetrics) -> dict[tuple[str, str], float]:
    found = {}
    for (name, labels), count in read_samples(exposed(metrics)).items():
        if name == "node_executions_total":
            by_name = dict(labels)
            found[by_name["node_type"], by_name["status"]] = count
    return found


def test_runs_and_known_results_are_counted_apart(engine: Engine, metrics: NodeMetrics) -> None:
    for _ in range(3):
        engine.run(chain(), ["end"])
    assert executions(metrics) == {
        ("Number", "completed"): 1,
        ("Number", "cached"): 2,
        ("Show", "completed"): 1,
        ("Show", "cached"): 2,
    }
    samples = read_samples(exposed(metrics))
    counted = "node_execution_duration_seconds_count"
    assert value_of(samples, counted, node_type="Show", status="completed") == 1
    assert value_of(samples, counted, node_type="Show", status="cached") is None


def test_failed_nodes_count_with_the_time_that_they_took(
    engine: Engine, metrics: NodeMetrics
) -> None:
    engine.run(chain(("Nap", {"seconds": 0.05}), ("Fail", {})), ["end"])
    assert executions(metrics) == {
        ("Number", "completed"): 1,
        ("Nap", "completed"): 1,
        ("Fail", "failed"): 1,
    }
    samples = read_samples(exposed(metrics))
    sums = "node_execution_duration_seconds_sum"
    slept = value_of(samples, sums, node_type="Nap", status="completed")
    failed = value_of(samples, sums, node_type="Fail", status="failed")
    assert slept is not None
    assert failed is not None
    assert 0.05 <= slept < 5
    assert 0 < failed < slept


def test_buckets_hold_what_took_at_most_so_long(engine: Engine, metrics: NodeMetrics) -> None:
    engine.run(chain(("Nap", {"seconds": 0.03}), ("Nap", {"seconds": 0.15})), ["end"])
    samples = read_samples(exposed(metrics))
    labels = {"node_type": "Nap", "status": "completed"}
    bucket = "node_execution_duration_seconds_bucket"
    assert value_of(samples, bucket, le="0.02", **labels) == 0
    assert value_of(samples, bucket, le="+Inf", **labels) == 2
    counts = [
        count
        for (name, found), count in samples.items()
        if name == bucket and {"node_type": "Nap"}.items() <= dict(found).items()
    ]
    assert counts == sorted(counts)


def test_a_node_under_way_when_it_is_stopped_is_interrupted(
    engine: Engine, metrics: NodeMetrics
) -> None:
    interrupt = Interrupt()

    def stop(event: Event) -> None:
        if event == NodeStarted("1"):
            threading.Timer(0.05, interrupt.request).start()

    engine.run(chain(("Wait", {"seconds": 60.0})), ["end"], interrupt=interrupt, watch=stop)
    assert executions(metrics) == {("Number", "completed"): 1, ("Wait", "interrupted"): 1}
    total = "node_execution_duration_seconds_sum"
    took = value_of(read_samples(exposed(metrics)), total, node_type="Wait", status="interrupted")
    assert took is not None
    assert 0.04 < took < 5


def test_an_execution_after_a_stopped_one_begins_anew(engine: Engine, metrics: NodeMetrics) -> None:
    interrupt = Interrupt()
    interrupt.request()
    engine.run(chain(), ["end"], interrupt=interrupt)
    engine.run(chain(), ["end"])
    assert executions(metrics) == {("Number", "completed"): 1, ("Show", "completed"): 1}


@pytest.mark.parametrize("strategy", ["sequential", "parallel"])
def test_all_nodes_are_counted_whatever_the_strategy(tmp_path: Path, strategy: str) -> None:
    from comfyrail.engine.assembly import build_executor
    from comfyrail.engine.execution import ExecutionRequest
    from comfyrail.engine.server.run import prepare_folders

    registry = NodeRegistry(NODES)
    metrics = NodeMetrics(registry)
    executor = build_executor(registry, prepare_folders(tmp_path), hooks=[metrics])
    prompt = {
        **{str(n): {"class_type": "Number", "inputs": {"value": n}} for n in range(20)},
        **{f"s{n}": {"class_type": "Show", "inputs": {"value": [str(n), 0]}} for n in range(20)},
    }
    outputs = [f"s{n}" for n in range(20)]
    asked = {"comfyrail": {"strategy": strategy}}
    executor.run(ExecutionRequest(prompt, outputs, asked), lambda _: None, Interrupt())
    executor.close()
    assert executions(metrics) == {("Number", "completed"): 20, ("Show", "completed"): 20}


def test_hostile_names_of_node_types_cannot_break_the_format(folders: Folders) -> None:
    registry = NodeRegistry(
        define_node(name, take, required={"value": ("INT",)}, is_output=True)
        for name in HOSTILE_TYPES
    )
    metrics = NodeMetrics(registry)
    engine = Engine(folders, registry, options={"hooks": [metrics]})
    prompt = {
        str(index): {"class_type": name, "inputs": {"value": index}}
        for index, name in enumerate(HOSTILE_TYPES)
    }
    engine.run(prompt, list(prompt))
    text = exposed(metrics)
    assert "evil_metric" not in {name for name, _ in read_samples(text)}
    found = executions(metrics)
    assert sum(found.values()) == len(HOSTILE_TYPES)
    assert ("漢字 🎨", "completed") in found
    assert max(len(name) for name, _ in found) == LONGEST_LABEL
    for line in text.splitlines():
        assert line.startswith(("#", "node_execution"))


def take(value: int) -> None:
    del value


def test_types_that_the_registry_does_not_have_are_one() -> None:
    labels = NodeTypeLabels(NodeRegistry(NODES))
    assert labels.of("Show") == "Show"
    assert {labels.of(f"unknown {number}") for number in range(10_000)} == {OTHER}


def test_labels_are_bounded_however_many_types_there_are() -> None:
    registry = NodeRegistry()
    for number in range(6000):
        registry.add_source(f"Type {number}", lambda: NODES[0])
    labels = NodeTypeLabels(registry)
    given = [labels.of(name) for name in registry.names()]
    assert len(set(given)) == 5001
    assert given[0] == "Type 0"
    assert given[-1] == OTHER


def test_reading_while_nodes_run_gives_whole_figures(engine: Engine, metrics: NodeMetrics) -> None:
    texts: list[str] = []
    done = threading.Event()

    def scrape() -> None:
        while not done.is_set():
            texts.append(exposed(metrics))
            time.sleep(0.001)

    thread = threading.Thread(target=scrape)
    thread.start()
    for value in range(30):
        engine.run({**chain(("Nap", {"seconds": 0.001})), "0": number_node(value)}, ["end"])
    done.set()
    thread.join()
    counts = [
        value_of(read_samples(text), "node_executions_total", node_type="Nap", status="completed")
        for text in texts
    ]
    seen = [count for count in counts if count is not None]
    assert seen == sorted(seen)
    assert executions(metrics)["Nap", "completed"] == 30


def number_node(value: int) -> dict[str, Any]:
    return {"class_type": "Number", "inputs": {"value": value}}


def test_what_a_node_measures_is_among_the_metrics(folders: Folders) -> None:
    @node("Measured", required={"value": ("INT",)}, outputs=("INT",), cacheable=False)
    def measured(value: int, context: NodeContext) -> int:
        assert [port.type for port in context.outputs] == ["INT"]
        context.measure("tiles\nodd", value)
        return value

    @node("End", required={"value": ("INT",)}, is_output=True)
    def end(value: int) -> NodeResult:
        return NodeResult(ui={"value": [value]})

    registry = NodeRegistry([measured, end])
    metrics = NodeMetrics(registry)
    engine = Engine(folders, registry=registry, options={"hooks": [metrics]})
    for value in (3, 5):
        prompt = {
            "1": {"class_type": "Measured", "inputs": {"value": value}},
            "2": {"class_type": "End", "inputs": {"value": ["1", 0]}},
        }
        engine.run(prompt, ["2"])
    lines = [line for line in exposed(metrics).splitlines() if line.startswith("node_measurement{")]
    assert len(lines) == 1
    assert lines[0].startswith('node_measurement{name="tiles')
    assert lines[0].endswith("5.0")
