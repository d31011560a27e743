"""Lazy inputs, expansion, blockers and coroutines: graphs that change while they run [12.1]."""

import asyncio
import threading
import time
from collections.abc import Mapping
from typing import Any

import pytest

from comfyrail.engine.blocking import ExecutionBlocker
from comfyrail.engine.caching.build import CacheConfig, build_cache
from comfyrail.engine.definition import NodeMethods, NodeResult, define_node, node
from comfyrail.engine.events import (
    Event,
    ExecutionFailed,
    ExecutionInterrupted,
    ExecutionSucceeded,
    NodeBlocked,
    NodeExecuted,
    NodeFinished,
    NodesAdded,
    NodesCached,
    NodeStarted,
)
from comfyrail.engine.folders import Folders
from comfyrail.engine.interrupt import Interrupt
from comfyrail.engine.registry import NodeRegistry
from comfyrail.workflow.catalog import OutputPort
from tests.engine.engine_parts import Engine, nodes_run

ANY = ("*",)


@node("Number", required={"value": ("INT",)}, outputs=("INT",))
def number(value: int) -> int:
    return value


@node("Numbers", required={"count": ("INT",)}, outputs=(OutputPort("INT", "INT", is_list=True),))
def numbers(count: int) -> tuple[list[int]]:
    return (list(range(count)),)


@node("Add", required={"a": ANY, "b": ANY}, outputs=("INT",))
def add(a: int, b: int) -> int:
    return a + b


@node("Show", required={"value": ANY}, is_output=True)
def show(value: Any) -> NodeResult:
    return NodeResult(ui={"value": [value]})


def _choose(choice: bool, yes: Any = None, no: Any = None) -> Any:
    return yes if choice else no


def _needed(choice: bool, yes: Any = None, no: Any = None) -> list[str]:
    return ["yes"] if choice and yes is None else ["no"] if not choice and no is None else []


choose = define_node(
    "Choose",
    _choose,
    required={
        "choice": ("BOOLEAN",),
        "yes": ("*", {"lazy": True}),
        "no": ("*", {"lazy": True}),
    },
    outputs=("*",),
    check_lazy=_needed,
)


@node("Fail", required={"value": ANY}, outputs=("INT",))
def fail(value: Any) -> int:
    raise RuntimeError(f"no {value}")


@node("Block", required={"value": ANY, "message": ("STRING",)}, outputs=("INT",))
def block(value: Any, message: str) -> Any:
    return ExecutionBlocker(message or None) if value % 2 else value


@node("Sum", required={"values": ANY}, outputs=("INT",), takes_lists=True)
def total(values: list[int]) -> int:
    return sum(values)


@node("CountDown", required={"value": ("INT",)}, outputs=("INT",), expands=True)
def count_down(value: int) -> Any:
    """Loops by expanding into itself."""
    if value == 0:
        return 0
    graph = {
        f"down{value}": {"class_type": "CountDown", "inputs": {"value": value - 1}},
        f"plus{value}": {"class_type": "Add", "inputs": {"a": [f"down{value}", 0], "b": 1}},
    }
    return NodeResult(([f"plus{value}", 0],), expand=graph)


@node("Sleep", required={"value": ANY, "seconds": ("FLOAT",)}, outputs=("*",), cacheable=False)
async def sleep(value: Any, seconds: float) -> Any:
    await asyncio.sleep(seconds)
    return value


NODES = [number, numbers, add, show, choose, fail, block, total, count_down, sleep]


@pytest.fixture
def engine(folders: Folders) -> Engine:
    return Engine(folders, registry=NodeRegistry(NODES))


@pytest.fixture(params=["with a cache", "without"])
def any_engine(folders: Folders, request: pytest.FixtureRequest) -> Engine:
    cache = build_cache(CacheConfig(memory=request.param == "with a cache"))
    return Engine(folders, registry=NodeRegistry(NODES), cache=cache)


def made(kind: str, **inputs: Any) -> dict[str, Any]:
    return {"class_type": kind, "inputs": inputs}


def shown(events: list[Event], node_id: str = "out") -> Any:
    assert isinstance(events[-1], ExecutionSucceeded), events[-1]
    (found,) = [
        event for event in events if isinstance(event, NodeExecuted) and event.node_id == node_id
    ]
    return list(found.ui["value"])


def choice(value: Any) -> dict[str, Any]:
    return {
        "1": made("Number", value=1),
        "2": made("Number", value=2),
        "fail": made("Fail", value=["2", 0]),
        "choose": made("Choose", choice=value, yes=["1", 0], no=["fail", 0]),
        "out": made("Show", value=["choose", 0]),
    }


def test_what_a_lazy_node_does_not_ask_for_does_not_run(any_engine: Engine) -> None:
    events = any_engine.run(choice(True), ["out"])
    assert shown(events) == [1]
    assert nodes_run(events) == ["choose", "1", "choose", "out"]


def test_what_a_lazy_node_asks_for_runs_with_all_it_needs(engine: Engine) -> None:
    events = engine.run(choice(False), ["out"])
    assert isinstance(events[-1], ExecutionFailed)
    assert (events[-1].node_id, events[-1].message) == ("fail", "no 2")


def test_a_lazy_node_is_asked_for_each_item_of_a_list(any_engine: Engine) -> None:
    prompt = choice(True)
    prompt["flags"] = made("Numbers", count=2)
    prompt["choose"]["inputs"] |= {"choice": ["flags", 0], "no": ["2", 0]}
    assert shown(any_engine.run(prompt, ["out"])) == [2, 1]


def test_a_lazy_node_that_asks_for_what_there_is_not_fails(folders: Folders) -> None:
    odd = define_node(
        "Odd", lambda a: a, required={"a": ANY}, outputs=("INT",), check_lazy=lambda **_: ["b"]
    )
    engine = Engine(folders, registry=NodeRegistry([odd, show]))
    events = engine.run({"1": made("Odd", a=1), "out": made("Show", value=["1", 0])}, ["out"])
    assert isinstance(events[-1], ExecutionFailed)
    assert (events[-1].kind, events[-1].node_id) == ("dependency", "1")
    assert "'b'" in events[-1].message


def test_a_node_expands_into_a_graph_again_and_again(any_engine: Engine) -> None:
    prompt = {"1": made("CountDown", value=5), "out": made("Show", value=["1", 0])}
    events = any_engine.run(prompt, ["out"])
    assert shown(events) == [5]
    added = [event for event in events if isinstance(event, NodesAdded)]
    assert added[0].displays == {"down5": "1", "plus5": "1"}
    assert added[1].parent_id == "down5"
    assert added[1].displays == {"down4": "1", "plus4": "1"}
    finished = [event.node_id for event in events if isinstance(event, NodeFinished)]
    assert finished[-2:] == ["1", "out"]


def test_a_known_expansion_is_not_made_again(engine: Engine) -> None:
    prompt = {"1": made("CountDown", value=5), "out": made("Show", value=["1", 0])}
    engine.run(prompt, ["out"])
    prompt["out"]["inputs"]["note"] = "again"
    events = engine.run(prompt, ["out"])
    assert (shown(events), nodes_run(events)) == ([5], ["out"])


def test_a_long_loop_of_expansions_does_not_overflow(engine: Engine) -> None:
    prompt = {"1": made("CountDown", value=2000), "out": made("Show", value=["1", 0])}
    assert shown(engine.run(prompt, ["out"])) == [2000]


def expanding(graph: Mapping[str, Any], outputs: tuple[Any, ...] = (0,)) -> Any:
    return define_node(
        "Expand",
        lambda value=None: NodeResult(outputs, expand=graph),  # noqa: ARG005 - an input to wait for
        optional={"value": ANY},
        outputs=("INT",) * len(outputs),
        expands=True,
    )


def test_output_nodes_of_an_expansion_show_their_results(folders: Folders) -> None:
    expand = expanding({"shown": made("Show", value=7)})
    engine = Engine(folders, registry=NodeRegistry([*NODES, expand]))
    prompt = {"1": made("Expand"), "out": made("Show", value=["1", 0])}
    for _ in range(2):
        events = engine.run(prompt, ["out"])
        assert shown(events) == [0]
    assert shown(engine.run({"1": made("Expand"), "out": made("Show", value=["1", 0])}, ["out"]))


@pytest.mark.parametrize(
    ("graph", "outputs", "said"),
    [
        ({"x": made("Nonsense")}, (["x", 0],), "Nonsense"),
        ({"x": made("Number", value=1)}, (["y", 0],), "no node 'y'"),
        ({"out": made("Number", value=1)}, (["out", 0],), "has already"),
        ({"x": made("Add", a=["y", 0], b=1), "y": made("Add", a=["x", 0], b=1)}, (["x", 0],), "x"),
    ],
)
def test_an_expansion_that_is_no_good_graph_is_its_nodes_failure(
    folders: Folders, graph: dict[str, Any], outputs: tuple[Any, ...], said: str
) -> None:
    engine = Engine(folders, registry=NodeRegistry([*NODES, expanding(graph, outputs)]))
    events = engine.run({"1": made("Expand"), "out": made("Show", value=["1", 0])}, ["out"])
    assert isinstance(events[-1], ExecutionFailed)
    assert events[-1].node_id == "1"
    assert said in events[-1].message


def test_a_cycle_made_by_an_expansion_is_named(folders: Folders) -> None:
    graph = {"x": made("Add", a=["out0", 0], b=1)}
    registry = NodeRegistry([*NODES, expanding(graph, (["x", 0],))])
    prompt = {
        "1": made("Expand"),
        "out0": made("Add", a=["1", 0], b=1),
        "out": made("Show", value=["out0", 0]),
    }
    events = Engine(folders, registry=registry).run(prompt, ["out"])
    assert isinstance(events[-1], ExecutionFailed)
    assert events[-1].exception_type == "graph.DependencyCycleError"
    assert (events[-1].kind, events[-1].node_id) == ("dependency", "1")


def blocked(message: str) -> dict[str, Any]:
    return {
        "n": made("Numbers", count=4),
        "b": made("Block", value=["n", 0], message=message),
        "a": made("Add", a=["b", 0], b=10),
        "out": made("Show", value=["a", 0]),
        "free": made("Show", value=["n", 0]),
    }


def test_what_takes_a_blocked_value_does_not_run_and_the_rest_does(any_engine: Engine) -> None:
    events = any_engine.run(blocked(""), ["out", "free"])
    assert shown(events) == [10, 12]
    assert shown(events, "free") == [0, 1, 2, 3]
    assert not [event for event in events if isinstance(event, NodeBlocked)]


def test_the_first_node_that_is_stopped_tells_the_message(engine: Engine) -> None:
    events = engine.run(blocked("too odd"), ["out"])
    told = [event for event in events if isinstance(event, NodeBlocked)]
    assert [(event.node_id, event.message) for event in told] == [("a", "too odd")] * 2
    assert isinstance(events[-1], ExecutionSucceeded)


def test_a_node_that_takes_lists_is_stopped_by_any_blocked_item(engine: Engine) -> None:
    prompt = blocked("")
    prompt["a"] = made("Sum", values=["b", 0])
    events = engine.run(prompt, ["out"])
    assert isinstance(events[-1], ExecutionSucceeded)
    assert not [event for event in events if isinstance(event, NodeExecuted)]


def test_coroutines_overlap(engine: Engine) -> None:
    prompt = {
        **{name: made("Sleep", value=1, seconds=0.3) for name in "abcd"},
        "ab": made("Add", a=["a", 0], b=["b", 0]),
        "cd": made("Add", a=["c", 0], b=["d", 0]),
        "sum": made("Add", a=["ab", 0], b=["cd", 0]),
        "out": made("Show", value=["sum", 0]),
    }
    began = time.monotonic()
    assert shown(engine.run(prompt, ["out"])) == [4]
    assert time.monotonic() - began < 1.0


def test_calls_of_one_coroutine_over_a_list_overlap(engine: Engine) -> None:
    prompt = {
        "n": made("Numbers", count=5),
        "s": made("Sleep", value=["n", 0], seconds=0.2),
        "out": made("Show", value=["s", 0]),
    }
    began = time.monotonic()
    assert shown(engine.run(prompt, ["out"])) == [0, 1, 2, 3, 4]
    assert time.monotonic() - began < 0.9


def test_an_interrupt_ends_a_coroutine_that_waits(engine: Engine) -> None:
    prompt = {"s": made("Sleep", value=1, seconds=60.0), "out": made("Show", value=["s", 0])}
    interrupt = Interrupt()

    def on(event: Event) -> None:
        if isinstance(event, NodeStarted):
            threading.Timer(0.05, interrupt.request).start()

    began = time.monotonic()
    events = engine.run(prompt, ["out"], interrupt=interrupt, watch=on)
    assert isinstance(events[-1], ExecutionInterrupted)
    assert time.monotonic() - began < 5


def test_a_failure_ends_coroutines_that_run_beside_it(engine: Engine) -> None:
    prompt = {
        "s": made("Sleep", value=1, seconds=60.0),
        "f": made("Fail", value=1),
        "sum": made("Add", a=["s", 0], b=["f", 0]),
        "out": made("Show", value=["sum", 0]),
    }
    began = time.monotonic()
    events = engine.run(prompt, ["out"])
    assert isinstance(events[-1], ExecutionFailed)
    assert time.monotonic() - began < 5


def test_nodes_that_must_give_the_same_run_once(engine: Engine) -> None:
    prompt = {
        "a": made("Add", a=1, b=2),
        "b": made("Add", a=1, b=2),
        "sum": made("Add", a=["a", 0], b=["b", 0]),
        "out": made("Show", value=["sum", 0]),
    }
    events = engine.run(prompt, ["out"])
    assert shown(events) == [6]
    assert nodes_run(events) == ["a", "sum", "out"]
    assert [event.node_id for event in events if isinstance(event, NodeFinished)] == [
        "a",
        "b",
        "sum",
        "out",
    ]


def test_an_object_keeps_its_state_from_run_to_run(folders: Folders) -> None:
    class Counter:
        def __init__(self) -> None:
            self.count = 0

        def run(self, step: int) -> int:
            self.count += step
            return self.count

    counter = define_node(
        "Counter",
        lambda step: step,
        required={"step": ("INT",)},
        outputs=("INT",),
        cacheable=False,
        instantiate=lambda: NodeMethods(Counter().run, None),
    )
    engine = Engine(folders, registry=NodeRegistry([counter, show]))
    prompt = {"1": made("Counter", step=2), "out": made("Show", value=["1", 0])}
    assert [shown(engine.run(prompt, ["out"])) for _ in range(3)] == [[2], [4], [6]]
    prompt = {"2": made("Counter", step=2), "out": made("Show", value=["2", 0])}
    assert shown(engine.run(prompt, ["out"])) == [2]


def test_a_raw_link_is_given_as_it_is(folders: Folders) -> None:
    raw = define_node(
        "Raw", lambda link: f"{link}", required={"link": ("*", {"rawLink": True})}, outputs=("*",)
    )
    engine = Engine(folders, registry=NodeRegistry([*NODES, raw]))
    prompt = {
        "n": made("Number", value=1),
        "r": made("Raw", link=["n", 0]),
        "out": made("Show", value=["r", 0]),
    }
    events = engine.run(prompt, ["out"])
    assert shown(events) == ["['n', 0]"]
    assert nodes_run(events) == ["n", "r", "out"]
    prompt["n"] = made("Number", value=2)
    assert nodes_run(engine.run(prompt, ["out"])) == ["n", "r", "out"]


def test_a_list_that_is_broadcast_is_given_whole(folders: Folders) -> None:
    whole = define_node(
        "Whole",
        lambda: ([1, 2, 3],),
        outputs=(OutputPort("INT", "INT", is_list=True, broadcast=True),),
    )
    engine = Engine(folders, registry=NodeRegistry([whole, show]))
    prompt = {"1": made("Whole"), "out": made("Show", value=["1", 0])}
    assert shown(engine.run(prompt, ["out"])) == [[1, 2, 3]]


def test_an_output_that_may_not_be_kept_is_made_anew(folders: Folders) -> None:
    calls = []

    @node("Fresh", outputs=(OutputPort("INT", "INT", cacheable=False),))
    def fresh() -> int:
        calls.append(1)
        return 1

    engine = Engine(folders, registry=NodeRegistry([fresh, add, show]))
    prompt = {
        "1": made("Fresh"),
        "2": made("Add", a=["1", 0], b=1),
        "out": made("Show", value=["2", 0]),
    }
    engine.run(prompt, ["out"])
    events = engine.run({**prompt, "out": made("Show", value=["2", 0], note="x")}, ["out"])
    (known,) = [event for event in events if isinstance(event, NodesCached)]
    assert list(known.node_ids) == ["2"]
    prompt["3"] = made("Add", a=["1", 0], b=5)
    engine.run({**prompt, "out": made("Show", value=["3", 0])}, ["out"])
    assert len(calls) == 2
