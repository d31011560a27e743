"""Every strategy and every optimization gives the same outputs as plain sequence [12.2, 12.8]."""

import asyncio
import itertools
import os
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from comfyrail.engine.assembly import build_executor
from comfyrail.engine.caching.build import CacheConfig
from comfyrail.engine.configuration import (
    EngineConfiguration,
    ExecutionSection,
    ResourceSection,
)
from comfyrail.engine.definition import NodeResult, define_node, node
from comfyrail.engine.events import (
    Event,
    ExecutionFailed,
    ExecutionInterrupted,
    ExecutionSucceeded,
    NodeExecuted,
    NodeFinished,
    NodeStarted,
)
from comfyrail.engine.execution import ExecutionRequest
from comfyrail.engine.executor import Executor
from comfyrail.engine.folders import Folders
from comfyrail.engine.interrupt import Interrupt
from comfyrail.engine.options import OptimizerOptions
from comfyrail.engine.registry import NodeRegistry
from comfyrail.engine.resources.needs import ResourceNeeds
from comfyrail.engine.server.run import prepare_folders
from comfyrail.workflow.catalog import OutputPort
from tests.engine import process_nodes

Graph = dict[str, Any]

IMAGE = ("IMAGE",)

_fresh = itertools.count()


@node("Number", required={"value": ("INT",)}, outputs=("INT",), is_cheap=True)
def number(value: int) -> int:
    return value


@node("Add", required={"a": ("INT",), "b": ("INT",)}, outputs=("INT",), is_cheap=True)
def add(a: int, b: int) -> int:
    return (a + b) % 1000


@node("Count", required={"value": ("INT",)}, outputs=(OutputPort("INT", "INT", is_list=True),))
def count(value: int) -> tuple[list[int]]:
    return (list(range(value % 3 + 1)),)


@node("Image", required={"seed": ("INT",)}, outputs=IMAGE)
def image(seed: int) -> "np.ndarray[Any, Any]":
    return np.random.default_rng(seed).random((1, 4, 4, 3), np.float32)


@node("Invert", required={"image": IMAGE}, outputs=IMAGE, batches="image")
def invert(image: "np.ndarray[Any, Any]") -> "np.ndarray[Any, Any]":
    return 1.0 - image


@node(
    "Scale",
    required={"image": IMAGE, "by": ("FLOAT",)},
    outputs=(OutputPort("IMAGE", "IMAGE"), OutputPort("REST", "IMAGE")),
    batches="image",
)
def scale(image: "np.ndarray[Any, Any]", by: float) -> tuple[Any, Any]:
    return image * np.float32(by), image * np.float32(1 - by)


@node("Blend", required={"a": IMAGE, "b": IMAGE}, outputs=IMAGE)
def blend(a: Any, b: Any) -> Any:
    return (a + b) / 2


@node("Mean", required={"image": IMAGE}, outputs=("INT",))
def mean(image: "np.ndarray[Any, Any]") -> int:
    return int(image.mean() * 997) % 1000


@node("Later", required={"value": ("INT",)}, outputs=("INT",))
async def later(value: int) -> int:
    await asyncio.sleep(0)
    return value + 1


def _choose(flag: int, yes: Any = None, no: Any = None) -> Any:
    return yes if flag % 2 else no


def _needed(flag: int, yes: Any = None, no: Any = None) -> list[str]:
    wanted, there = ("yes", yes) if flag % 2 else ("no", no)
    return [wanted] if there is None else []


choose = define_node(
    "Choose",
    _choose,
    required={
        "flag": ("INT",),
        "yes": ("INT", {"lazy": True}),
        "no": ("INT", {"lazy": True}),
    },
    outputs=("INT",),
    check_lazy=_needed,
)


@node("Repeat", required={"value": ("INT",)}, outputs=("INT",), hidden={"name": "UNIQUE_ID"})
def repeat(value: int, name: str) -> NodeResult:
    """Expands into a chain; the ids must be new each time."""
    start = f"{name}-{value}-{next(_fresh)}"
    steps: Graph = {f"{start}-0": {"class_type": "Number", "inputs": {"value": value}}}
    for step in range(1, value % 4 + 1):
        inputs = {"a": [f"{start}-{step - 1}", 0], "b": step}
        steps[f"{start}-{step}"] = {"class_type": "Add", "inputs": inputs}
    return NodeResult(([list(steps)[-1], 0],), expand=steps)


@node("Show", required={"value": ("*",)}, is_output=True)
def show(value: Any) -> NodeResult:
    return NodeResult(ui={"value": [value.tolist() if isinstance(value, np.ndarray) else value]})


NODES = [number, add, count, image, invert, scale, blend, mean, later, choose, repeat, show]

NUMBERS = ("Number", "Add", "Count", "Mean", "Later", "Choose", "Repeat")
IMAGES = ("Image", "Invert", "Scale", "Blend")


@st.composite
def graphs(draw: st.DrawFn) -> Graph:
    """Any graph of these nodes, with some outputs, some dead nodes and some twins."""
    graph: Graph = {}
    links: dict[str, list[list[Any]]] = {"INT": [], "IMAGE": []}
    for index in range(draw(st.integers(2, 25))):
        kind = draw(st.sampled_from(NUMBERS + IMAGES))
        name = str(index)

        def number_link() -> Any:
            return draw(st.sampled_from([*links["INT"], 1, 2, 3]))

        def image_link() -> Any:
            return draw(st.sampled_from(links["IMAGE"]))

        if kind in {"Invert", "Scale", "Blend", "Mean"} and not links["IMAGE"]:
            kind = "Image"
        makers: dict[str, Callable[[], dict[str, Any]]] = {
            "Number": lambda: {"value": draw(st.integers(0, 5))},
            "Add": lambda: {"a": number_link(), "b": number_link()},
            "Count": lambda: {"value": number_link()},
            "Later": lambda: {"value": number_link()},
            "Repeat": lambda: {"value": number_link()},
            "Choose": lambda: {"flag": number_link(), "yes": number_link(), "no": number_link()},
            "Image": lambda: {"seed": draw(st.integers(0, 3))},
            "Invert": lambda: {"image": image_link()},
            "Scale": lambda: {"image": image_link(), "by": draw(st.sampled_from([0.25, 0.5]))},
            "Blend": lambda: {"a": image_link(), "b": image_link()},
            "Mean": lambda: {"image": image_link()},
        }
        graph[name] = {"class_type": kind, "inputs": makers[kind]()}
        links["INT" if kind in NUMBERS else "IMAGE"].append([name, 0])
        if kind == "Scale":
            links["IMAGE"].append([name, 1])
    for index in range(draw(st.integers(1, 4))):
        source = draw(st.sampled_from([*links["INT"], *links["IMAGE"]]))
        graph[f"out{index}"] = {"class_type": "Show", "inputs": {"value": source}}
    return graph


def outputs_of(graph: Graph) -> list[str]:
    return [name for name, entry in graph.items() if entry["class_type"] == "Show"]


def configured(strategy: Any = "sequential", **optimizer: bool) -> EngineConfiguration:
    execution = ExecutionSection(strategy=strategy, optimizer=optimizer, max_threads=4)
    room = ResourceSection(cpu_cores=4, memory_mb=8192, disk_space_mb=10000)
    return EngineConfiguration(execution=execution, resource_management=room)


@pytest.fixture(scope="module")
def shared_folders(tmp_path_factory: pytest.TempPathFactory) -> Folders:
    return prepare_folders(tmp_path_factory.mktemp("strategies"))


def run_on(
    executor: Executor,
    graph: Graph,
    outputs: list[str] | None = None,
    interrupt: Interrupt | None = None,
) -> list[Event]:
    events: list[Event] = []
    lock = threading.Lock()

    def take(event: Event) -> None:
        with lock:
            events.append(event)

    request = ExecutionRequest(graph, outputs or outputs_of(graph), {}, "x")
    executor.run(request, take, interrupt or Interrupt())
    return events


def run(
    folders: Folders,
    graph: Graph,
    configuration: EngineConfiguration,
    outputs: list[str] | None = None,
    **cache: Any,
) -> list[Event]:
    executor = build_executor(
        NodeRegistry([*NODES, *process_nodes.NODES]),
        folders,
        configuration,
        cache=CacheConfig(**cache),
    )
    try:
        return run_on(executor, graph, outputs)
    finally:
        executor.close()


def shown(events: list[Event]) -> dict[str, Any]:
    assert isinstance(events[-1], ExecutionSucceeded), events[-1]
    return {event.node_id: event.ui for event in events if isinstance(event, NodeExecuted)}


def story_of_each(events: list[Event], graph: Graph) -> dict[str, list[str]]:
    """What happened to each node of the graph, in order."""
    stories: dict[str, list[str]] = {}
    for event in events:
        if isinstance(event, NodeStarted | NodeExecuted | NodeFinished) and event.node_id in graph:
            stories.setdefault(event.node_id, []).append(repr(event))
    return stories


PLAIN = dict.fromkeys((item.name for item in fields(OptimizerOptions)), False)

many = settings(
    max_examples=60,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)


@pytest.mark.parametrize("switch", [*PLAIN, "all"])
@pytest.mark.parametrize("memory", [True, False], ids=["cache", "no cache"])
@settings(parent=many, max_examples=25)
@given(graph=graphs())
def test_an_optimization_changes_no_output(
    shared_folders: Folders, switch: str, memory: bool, graph: Graph
) -> None:
    plain = shown(run(shared_folders, graph, configured(**PLAIN), memory=memory))
    wanted = {name: plain[name] for name in outputs_of(graph)}
    switches = dict.fromkeys(PLAIN, True) if switch == "all" else {**PLAIN, switch: True}
    found = shown(run(shared_folders, graph, configured(**switches), memory=memory))
    assert {name: found[name] for name in wanted} == wanted


@pytest.mark.parametrize("strategy", ["lazy", "parallel"])
@many
@given(graph=graphs())
def test_a_strategy_changes_neither_outputs_nor_what_happens_to_a_node(
    shared_folders: Folders, strategy: str, graph: Graph
) -> None:
    # Without common subexpressions: which of two equal nodes runs depends on the order.
    switches = {"common_subexpressions": False, "batch": False}
    plain = run(shared_folders, graph, configured(**switches))
    found = run(shared_folders, graph, configured(strategy, **switches))
    assert shown(found) == shown(plain)
    assert story_of_each(found, graph) == story_of_each(plain, graph)


@settings(parent=many, max_examples=40)
@given(graph=graphs())
def test_parallel_with_all_optimizations_gives_the_same(
    shared_folders: Folders, graph: Graph
) -> None:
    plain = shown(run(shared_folders, graph, configured(**PLAIN)))
    found = shown(run(shared_folders, graph, configured("parallel")))
    assert found == plain


def sleepers(kind: str, how_many: int) -> Graph:
    graph: Graph = {
        str(index): {"class_type": kind, "inputs": {"value": index}} for index in range(how_many)
    }
    for index in range(how_many):
        graph[f"out{index}"] = {"class_type": "Show", "inputs": {"value": [str(index), 0]}}
    return graph


class Gate:
    """Counts how many are inside at once."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._inside = 0
        self.most = 0

    def enter(self, value: int) -> int:
        with self._lock:
            self._inside += 1
            self.most = max(self.most, self._inside)
        time.sleep(0.05)
        with self._lock:
            self._inside -= 1
        return value


@pytest.fixture
def folders(tmp_path: Path) -> Folders:
    return prepare_folders(tmp_path)


@pytest.fixture
def gate() -> Gate:
    return Gate()


@pytest.fixture
def close_later() -> Iterator[list[Executor]]:
    executors: list[Executor] = []
    yield executors
    for executor in executors:
        executor.close()


@pytest.mark.parametrize(
    ("cores", "needs", "most"),
    [(4, ResourceNeeds(cpu_cores=1), 4), (4, ResourceNeeds(cpu_cores=2), 2), (1, None, 1)],
)
def test_branches_run_side_by_side_within_what_there_is(
    folders: Folders,
    gate: Gate,
    close_later: list[Executor],
    cores: int,
    needs: ResourceNeeds | None,
    most: int,
) -> None:
    gated = define_node(
        "Gated",
        gate.enter,
        required={"value": ("INT",)},
        outputs=("INT",),
        needs=needs or ResourceNeeds(),
    )
    configuration = EngineConfiguration(
        execution=ExecutionSection(strategy="parallel", max_threads=4),
        resource_management=ResourceSection(cpu_cores=cores, memory_mb=8192),
    )
    executor = build_executor(NodeRegistry([gated, show]), folders, configuration)
    close_later.append(executor)
    assert len(shown(run_on(executor, sleepers("Gated", 12)))) == 12
    assert gate.most == most


def test_branches_can_be_kept_from_running_side_by_side(
    folders: Folders, gate: Gate, close_later: list[Executor]
) -> None:
    gated = define_node("Gated", gate.enter, required={"value": ("INT",)}, outputs=("INT",))
    executor = build_executor(
        NodeRegistry([gated, show]), folders, configured("parallel", branches=False)
    )
    close_later.append(executor)
    assert len(shown(run_on(executor, sleepers("Gated", 6)))) == 6
    assert gate.most == 1


def test_what_can_never_fit_is_a_resource_error(
    folders: Folders, close_later: list[Executor]
) -> None:
    huge = define_node(
        "Huge",
        lambda value: value,
        required={"value": ("INT",)},
        outputs=("INT",),
        needs=ResourceNeeds(gpu_count=9),
    )
    executor = build_executor(NodeRegistry([huge, show]), folders, configured("parallel"))
    close_later.append(executor)
    end = run_on(executor, sleepers("Huge", 1))[-1]
    assert isinstance(end, ExecutionFailed)
    assert (end.kind, end.node_id) == ("resource", "0")
    assert "gpu" in end.message


def test_a_node_that_says_so_runs_in_a_process_of_its_own(folders: Folders) -> None:
    graph = {
        "1": {"class_type": "ProcessId", "inputs": {"value": 5}},
        "out": {"class_type": "Show", "inputs": {"value": ["1", 0]}},
    }
    (found,) = shown(run(folders, graph, configured("parallel")))["out"]["value"]
    assert found != os.getpid()


def test_what_a_node_raises_in_its_process_is_its_failure(folders: Folders) -> None:
    graph = {
        "1": {"class_type": "FailInProcess", "inputs": {"value": 5}},
        "out": {"class_type": "Show", "inputs": {"value": ["1", 0]}},
    }
    end = run(folders, graph, configured("parallel"))[-1]
    assert isinstance(end, ExecutionFailed)
    assert (end.exception_type, end.message) == ("ValueError", "not 5")


@pytest.mark.parametrize(
    ("kind", "said"), [("DieInProcess", "exit code -9"), ("HangInProcess", "did not finish")]
)
def test_a_process_that_dies_or_hangs_does_not_take_the_engine_with_it(
    folders: Folders, close_later: list[Executor], kind: str, said: str
) -> None:
    executor = build_executor(
        NodeRegistry([*NODES, *process_nodes.NODES]), folders, configured("parallel")
    )
    close_later.append(executor)
    graph = {
        "1": {"class_type": kind, "inputs": {"value": 5}},
        "out": {"class_type": "Show", "inputs": {"value": ["1", 0]}},
    }
    end = run_on(executor, graph)[-1]
    assert isinstance(end, ExecutionFailed)
    assert said in end.message
    graph["1"]["class_type"] = "ProcessId"
    assert shown(run_on(executor, graph))


def test_an_interrupt_waits_for_threads_and_reports_nothing_after_the_end(
    folders: Folders, close_later: list[Executor]
) -> None:
    interrupt = Interrupt()
    ended = []

    def slow(value: int) -> int:
        interrupt.request()
        time.sleep(0.3)
        ended.append(value)
        return value

    definition = define_node("Slow", slow, required={"value": ("INT",)}, outputs=("INT",))
    executor = build_executor(NodeRegistry([definition, show]), folders, configured("parallel"))
    close_later.append(executor)
    events = run_on(executor, sleepers("Slow", 3), interrupt=interrupt)
    assert isinstance(events[-1], ExecutionInterrupted)
    assert ended


def test_lazy_makes_any_node_and_nothing_else(folders: Folders) -> None:
    graph = {
        "1": {"class_type": "Number", "inputs": {"value": 5}},
        "2": {"class_type": "Add", "inputs": {"a": ["1", 0], "b": 1}},
        "out": {"class_type": "Show", "inputs": {"value": ["2", 0]}},
        "other": {"class_type": "Show", "inputs": {"value": 1}},
    }
    executor = build_executor(NodeRegistry(NODES), folders, configured("lazy"))
    events: list[Event] = []
    try:
        values = executor.compute(graph, ["2"], events.append)
    finally:
        executor.close()
    assert values == {"2": ((6,),)}
    assert [event.node_id for event in events if isinstance(event, NodeStarted)] == ["1", "2"]
