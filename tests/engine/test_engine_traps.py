"""Traps that an attack found: wrong results, hangs and workers that end."""

import asyncio
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml

from comfyrail.engine.assembly import build_executor
from comfyrail.engine.caching.build import CacheConfig
from comfyrail.engine.configuration import load_configuration, read_configuration
from comfyrail.engine.context import NodeContext
from comfyrail.engine.definition import NodeDefinition, NodeResult, define_node, node
from comfyrail.engine.events import (
    Event,
    ExecutionFailed,
    ExecutionInterrupted,
    ExecutionSucceeded,
    NodeExecuted,
)
from comfyrail.engine.execution import ExecutionRequest
from comfyrail.engine.executor import Executor
from comfyrail.engine.folders import Folders
from comfyrail.engine.hooks import Hook, NodeVisit
from comfyrail.engine.interrupt import Interrupt
from comfyrail.engine.registry import NodeRegistry
from comfyrail.engine.resources.needs import ResourceNeeds
from comfyrail.errors import ConfigurationError
from tests.engine.engine_parts import serving
from tests.engine.process_nodes import sleep_in_process
from tests.engine.test_engine_server_hostile import only, registry_with
from tests.engine.worker_client import simple_graph

INT = ("INT",)


@node("Show", required={"value": ("*",)}, is_output=True)
def show(value: Any) -> NodeResult:
    return NodeResult(ui={"value": [value]})


@node("Add", required={"a": INT, "b": INT}, outputs=INT, is_cheap=True)
def add(a: int, b: int) -> int:
    return a + b


def made(kind: str, **inputs: Any) -> dict[str, Any]:
    return {"class_type": kind, "inputs": inputs}


@pytest.fixture
def executors() -> Iterator[list[Executor]]:
    made_here: list[Executor] = []
    yield made_here
    for executor in made_here:
        executor.close()


@pytest.fixture
def build(folders: Folders, executors: list[Executor]) -> Callable[..., Executor]:
    def make(*nodes: NodeDefinition, **cache: Any) -> Executor:
        executor = build_executor(
            NodeRegistry([show, add, *nodes]), folders, cache=CacheConfig(**cache)
        )
        executors.append(executor)
        return executor

    return make


def run(
    executor: Executor,
    prompt: dict[str, Any],
    outputs: tuple[str, ...] = ("out",),
    interrupt: Interrupt | None = None,
    **options: Any,
) -> list[Event]:
    events: list[Event] = []
    request = ExecutionRequest(prompt, outputs, {"comfyrail": options} if options else {}, "x")
    executor.run(request, events.append, interrupt or Interrupt())
    return events


def shown(events: list[Event], node_id: str = "out") -> Any:
    assert isinstance(events[-1], ExecutionSucceeded), events[-1]
    return [
        event.ui["value"][0]
        for event in events
        if isinstance(event, NodeExecuted) and event.node_id == node_id
    ]


# Checkpoints


def counting(cacheable: bool = False) -> NodeDefinition:
    calls: list[int] = []

    def count() -> int:
        calls.append(1)
        return len(calls)

    return define_node("Count", count, outputs=INT, cacheable=cacheable)


def test_a_checkpoint_that_ended_well_makes_nothing_reusable(
    build: Callable[..., Executor],
) -> None:
    executor = build(counting())
    prompt = {
        "c": made("Count"),
        "p": made("Add", a=["c", 0], b=100),
        "out": made("Show", value=["p", 0]),
    }
    found = [shown(run(executor, prompt, checkpoint="job")) for _ in range(3)]
    assert found == [[101], [102], [103]]
    assert shown(run(executor, prompt)) == [104]


def test_a_node_is_not_given_what_another_graph_wrote_down(build: Callable[..., Executor]) -> None:
    @node("Steps", required={"n": INT}, outputs=INT)
    def steps(n: int, context: NodeContext) -> int:
        begun = context.saved_state or 0
        context.save_state(begun + n)
        if n == 1000:
            raise RuntimeError("cut short")
        return int(begun + n)

    executor = build(steps)
    for n, wanted in ((1000, None), (1, [1])):
        prompt = {"1": made("Steps", n=n), "out": made("Show", value=["1", 0])}
        events = run(executor, prompt, checkpoint="same")
        assert wanted is None or shown(events) == wanted


def test_what_was_shown_before_a_halt_is_shown_after_it(build: Callable[..., Executor]) -> None:
    fails = [True]

    def shaky(value: int) -> int:
        if fails.pop() if fails else False:
            raise OSError("once")
        return value

    definition = define_node("Shaky", shaky, required={"value": INT}, outputs=INT)
    executor = build(definition, memory=False)
    prompt = {
        "first": made("Show", value=5),
        "1": made("Shaky", value=2),
        "out": made("Show", value=["1", 0]),
    }
    wanted = ("first", "out")
    end = run(executor, prompt, wanted, default_on_error="halt")[-1]
    assert isinstance(end, ExecutionFailed)
    events = run(executor, prompt, wanted, checkpoint=end.checkpoint)
    assert (shown(events, "first"), shown(events)) == ([5], [2])


# Policies


@pytest.mark.parametrize("asynchronous", [False, True])
def test_a_node_that_is_tried_again_asks_for_its_inputs_again(
    build: Callable[..., Executor], asynchronous: bool
) -> None:
    fails = [True]

    def needed(a: int | None = None) -> list[str]:
        if fails:
            fails.pop()
            raise OSError("not now")
        return ["a"] if a is None else []

    async def needed_later(a: int | None = None) -> list[str]:
        return needed(a)

    lazy = define_node(
        "Lazy",
        lambda a=None: -1 if a is None else a,
        required={"a": ("INT", {"lazy": True})},
        outputs=INT,
        check_lazy=needed_later if asynchronous else needed,
    )
    prompt = {
        "n": made("Add", a=1, b=2),
        "1": made("Lazy", a=["n", 0]),
        "out": made("Show", value=["1", 0]),
    }
    events = run(build(lazy), prompt, on_error={"1": {"policy": "retry", "pause": 0}})
    assert shown(events) == [3]


def test_an_expansion_that_fails_is_tried_as_often_as_the_policy_says(
    build: Callable[..., Executor],
) -> None:
    calls = []

    def expand() -> NodeResult:
        calls.append(1)
        return NodeResult((["nowhere", 0],), expand={"x": made("Add", a=1, b=1)})

    executor = build(define_node("Expand", expand, outputs=INT, expands=True))
    prompt = {"1": made("Expand"), "out": made("Show", value=["1", 0])}
    policy = {"policy": "retry", "attempts": 3, "pause": 0}
    assert isinstance(run(executor, prompt, on_error={"1": policy})[-1], ExecutionFailed)
    assert len(calls) == 3


def test_a_failure_does_not_set_the_callers_interrupt(build: Callable[..., Executor]) -> None:
    async def wait() -> int:
        await asyncio.sleep(60)
        return 1

    def fail() -> int:
        raise RuntimeError("no")

    executor = build(define_node("Wait", wait, outputs=INT), define_node("Fail", fail, outputs=INT))
    prompt = {
        "w": made("Wait"),
        "f": made("Fail"),
        "s": made("Add", a=["w", 0], b=["f", 0]),
        "out": made("Show", value=["s", 0]),
    }
    interrupt = Interrupt()
    assert isinstance(run(executor, prompt, interrupt=interrupt)[-1], ExecutionFailed)
    assert not interrupt.requested


# Optimizations


def image_node(function: Callable[..., Any], **about: Any) -> NodeDefinition:
    return define_node(
        "Image",
        function,
        required={"image": ("IMAGE",), "x": ("*",)},
        outputs=("IMAGE",),
        batches="image",
        **about,
    )


@node("Pixel", required={"value": INT}, outputs=("IMAGE",))
def pixel(value: int) -> Any:
    return np.full((1, 1, 1, 1), value, np.float32)


@node("Read", required={"image": ("IMAGE",)}, outputs=("FLOAT",))
def read(image: Any) -> float:
    return float(image[0, 0, 0, 0])


def two_images(first: Any, second: Any) -> dict[str, Any]:
    graph: dict[str, Any] = {}
    for name, x in (("a", first), ("b", second)):
        graph[f"{name}p"] = made("Pixel", value=ord(name))
        graph[f"{name}i"] = made("Image", image=[f"{name}p", 0], x=x)
        graph[f"{name}r"] = made("Read", image=[f"{name}i", 0])
        graph[f"out{name}"] = made("Show", value=[f"{name}r", 0])
    return graph


def test_calls_with_values_of_different_types_are_not_joined(
    build: Callable[..., Executor],
) -> None:
    tell = image_node(lambda image, x: image * 0 + (2 if x is True else 1))
    executor = build(tell, pixel, read)
    executor.compute(two_images(1, True), ["ap", "bp"])
    events = run(executor, two_images(1, True), ("outa", "outb"))
    assert (shown(events, "outa"), shown(events, "outb")) == ([1.0], [2.0])


def test_calls_that_know_their_node_or_have_a_timeout_are_not_joined(
    build: Callable[..., Executor],
) -> None:
    sizes: list[int] = []

    def tell(image: Any, x: int, uid: str = "") -> Any:  # noqa: ARG001 - they must only come
        sizes.append(len(image))
        return image

    for about in ({"hidden": {"uid": "UNIQUE_ID"}}, {"timeout": 30.0}):
        executor = build(image_node(tell, **about), pixel, read)
        executor.compute(two_images(1, 1), ["ap", "bp"])
        shown(run(executor, two_images(1, 1), ("outa", "outb")), "outa")
    assert sizes == [1, 1, 1, 1]


def test_alike_calls_are_joined(build: Callable[..., Executor]) -> None:
    sizes: list[int] = []

    def tell(image: Any, x: int) -> Any:
        sizes.append(len(image))
        return image + x

    executor = build(image_node(tell), pixel, read)
    executor.compute(two_images(1, 1), ["ap", "bp"])
    events = run(executor, two_images(1, 1), ("outa", "outb"))
    assert (shown(events, "outa"), shown(events, "outb"), sizes) == ([98.0], [99.0], [2])


def test_a_fused_chain_obeys_policies_and_missing_slots(build: Callable[..., Executor]) -> None:
    greedy = define_node(
        "Greedy",
        lambda value: value,
        required={"value": INT},
        outputs=INT,
        is_cheap=True,
        needs=ResourceNeeds(gpu_count=64),
    )
    prompt = {
        "1": made("Greedy", value=1),
        "2": made("Add", a=["1", 0], b=1),
        "out": made("Show", value=["2", 0]),
    }
    events = run(
        build(greedy),
        prompt,
        strategy="parallel",
        on_error={"Greedy": {"policy": "fallback", "value": 7}},
    )
    assert shown(events) == [8]


def test_a_raw_link_stays_a_link_in_a_chain(build: Callable[..., Executor]) -> None:
    raw = define_node(
        "Raw",
        lambda link: f"{link}",
        required={"link": ("*", {"rawLink": True})},
        outputs=("*",),
        is_cheap=True,
    )
    executor = build(raw)
    for name in ("1", "other"):
        prompt = {
            name: made("Add", a=1, b=2),
            "r": made("Raw", link=[name, 0]),
            "out": made("Show", value=["r", 0]),
        }
        assert shown(run(executor, prompt, strategy="parallel")) == [f"['{name}', 0]"]


# Values


def test_a_node_may_change_the_lists_it_is_given(build: Callable[..., Executor]) -> None:
    make = define_node("Make", lambda: ({"items": [1]},), outputs=("*",))

    def grow(value: dict[str, Any]) -> int:
        value["items"].append(2)
        return len(value["items"])

    executor = build(
        make, define_node("Grow", grow, required={"value": ("*",)}, outputs=INT, cacheable=False)
    )
    prompt = {
        "1": made("Make"),
        "2": made("Grow", value=["1", 0]),
        "out": made("Show", value=["2", 0]),
    }
    assert [shown(run(executor, prompt)) for _ in range(3)] == [[2]] * 3
    found = executor.compute(prompt, ["1"])["1"][0][0]
    found["items"].append(9)
    assert executor.compute(prompt, ["1"])["1"][0][0] == {"items": [1]}


def test_a_view_of_a_buffer_cannot_change_behind_its_back(build: Callable[..., Executor]) -> None:
    buffer = np.zeros(4, np.float32)

    def fill(value: int) -> Any:
        buffer[:] = value
        return buffer[:]

    fill_node = define_node("Fill", fill, required={"value": INT}, outputs=("IMAGE",))
    executor = build(fill_node)
    first = executor.compute({"1": made("Fill", value=1)}, ["1"])["1"][0][0]
    events: list[Event] = []
    with pytest.raises(Exception, match="read-only"):
        executor.compute({"1": made("Fill", value=2)}, ["1"], events.append)
    assert list(first) == [1, 1, 1, 1]


def test_every_wanted_value_is_given_whatever_the_cache_keeps(
    build: Callable[..., Executor],
) -> None:
    executor = build(memory_entries=1)
    prompt = {name: made("Add", a=number, b=1) for number, name in enumerate("abc")}
    for _ in range(3):
        found = executor.compute(prompt, ["a", "b", "c"])
        assert found == {"a": ((1,),), "b": ((2,),), "c": ((3,),)}


def test_a_node_that_expands_again_puts_the_same_nodes_in(build: Callable[..., Executor]) -> None:
    def expand(value: int) -> NodeResult:
        return NodeResult((["e.x", 0],), expand={"e.x": made("Add", a=value, b=1)})

    @node("Slow", required={"a": INT, "b": INT}, outputs=INT)
    def slow(a: int, b: int) -> int:
        return a * b

    executor = build(
        define_node("Expand", expand, required={"value": INT}, outputs=INT, expands=True),
        slow,
        memory_entries=2,
    )
    prompt = {
        "e": made("Expand", value=1),
        **{f"s{i}": made("Slow", a=["e", 0], b=i) for i in range(5)},
        "t": made("Add", a=["s0", 0], b=["s1", 0]),
        "u": made("Add", a=["s2", 0], b=["t", 0]),
        "v": made("Add", a=["s3", 0], b=["u", 0]),
        "w": made("Add", a=["s4", 0], b=["v", 0]),
        "out": made("Show", value=["w", 0]),
    }
    for _ in range(4):
        events = run(executor, {**prompt, "out": made("Show", value=["w", 0], note=time.time())})
        assert shown(events) == [20]


def test_a_hook_sees_no_node_of_an_expansion_that_nobody_needs(
    folders: Folders, executors: list[Executor]
) -> None:
    def expand(value: int) -> NodeResult:
        graph = {"e.x": made("Add", a=value, b=1), "e.dead": made("Add", a=value, b=2)}
        return NodeResult((["e.x", 0],), expand=graph)

    class Seen(Hook):
        def __init__(self) -> None:
            self.nodes: list[tuple[str, str]] = []

        def after_node(self, visit: NodeVisit, *, status: str, **_: Any) -> None:
            self.nodes.append((visit.node_id, status))

    seen = Seen()
    expanding = define_node("Expand", expand, required={"value": INT}, outputs=INT, expands=True)
    executor = build_executor(NodeRegistry([show, add, expanding]), folders, hooks=[seen])
    executors.append(executor)
    for note in (1, 2):
        prompt = {"e": made("Expand", value=4), "out": made("Show", value=["e", 0], note=note)}
        assert shown(run(executor, prompt)) == [5]
    assert seen.nodes == [
        ("e.x", "completed"),
        ("e", "completed"),
        ("out", "completed"),
        ("e", "cached"),
        ("out", "completed"),
    ]


def test_nodes_that_expand_without_an_end_are_stopped(
    build: Callable[..., Executor], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("comfyrail.engine.live_graph.MOST_ADDED", 500)

    def expand(value: int) -> NodeResult:
        name = f"n{value}"
        return NodeResult(([name, 0],), expand={name: made("Expand", value=value + 1)})

    executor = build(
        define_node("Expand", expand, required={"value": INT}, outputs=INT, expands=True)
    )
    end = run(executor, {"1": made("Expand", value=0), "out": made("Show", value=["1", 0])})[-1]
    assert isinstance(end, ExecutionFailed)
    assert (end.kind, "500 nodes" in end.message) == ("dependency", True)


# Hangs


def test_a_reservation_that_comes_too_late_is_let_go(
    folders: Folders, executors: list[Executor], tmp_path: Path
) -> None:
    def fail() -> int:
        raise RuntimeError("no")

    slow = define_node("Slow", lambda: 1, outputs=INT)
    executor = build_executor(
        NodeRegistry([show, add, slow, define_node("Fail", fail, outputs=INT, is_cheap=True)]),
        folders,
        cache=CacheConfig(disk_path=tmp_path / "cache"),
    )
    executors.append(executor)
    reserve = executor.cache.reserve

    def reserve_slowly(key: str) -> Any:
        time.sleep(0.3)
        return reserve(key)

    executor.cache.reserve = reserve_slowly  # type: ignore[method-assign]
    prompt = {
        "s": made("Slow"),
        "f": made("Fail"),
        "t": made("Add", a=["s", 0], b=["f", 0]),
        "out": made("Show", value=["t", 0]),
    }
    assert isinstance(run(executor, prompt)[-1], ExecutionFailed)
    interrupt = Interrupt()
    limit = threading.Timer(10, interrupt.request)
    limit.start()
    good = {"s": made("Slow"), "out": made("Show", value=["s", 0])}
    assert shown(run(executor, good, interrupt=interrupt)) == [1]
    limit.cancel()


def test_an_interrupt_kills_a_node_in_its_process(
    folders: Folders, executors: list[Executor]
) -> None:
    executor = build_executor(NodeRegistry([show, sleep_in_process]), folders)
    executors.append(executor)
    prompt = {"1": made("SleepInProcess", value=30), "out": made("Show", value=["1", 0])}
    interrupt = Interrupt()
    threading.Timer(1.0, interrupt.request).start()
    began = time.monotonic()
    end = run(executor, prompt, interrupt=interrupt, strategy="parallel")[-1]
    assert isinstance(end, ExecutionInterrupted)
    assert time.monotonic() - began < 10


# Hostile nodes in a worker


async def test_what_a_node_shows_and_json_cannot_say_ends_the_prompt(folders: Folders) -> None:
    ring: list[Any] = []
    ring.append(ring)

    @node("Ring", is_output=True)
    def show_ring() -> NodeResult:
        return NodeResult(ui={"text": ring})

    async with serving(folders, registry=registry_with(show_ring)) as worker:
        status = (await worker.run(only("Ring")))["status"]
        assert status["status_str"] == "error"
        assert "cannot be written as JSON" in status["messages"][-1][1]["exception_message"]
        assert (await worker.run(simple_graph()))["status"]["completed"]


async def test_a_node_type_that_cannot_describe_itself_is_named(folders: Folders) -> None:
    def leave() -> NodeDefinition:
        raise SystemExit(6)

    registry = registry_with()
    registry.add_source("Broken", leave)
    async with serving(folders, registry=registry) as worker:
        status, body = await worker.post("/prompt", {"prompt": only("Broken")})
        assert (status, body["error"]["type"]) == (400, "invalid_request")
        assert "'Broken'" in body["error"]["message"] + body["error"]["details"]
        assert "Broken" not in (await worker.get("/object_info"))[1]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("resource_management: {memory_limit_mb: -1}", "memory_limit_mb"),
        ("resource_management: {memory_limit_mb: 0}", "memory_limit_mb"),
        ("resource_management: {cpu_cores: .nan}", "cpu_cores"),
        ("resource_management: {gpus_mb: [-1]}", "gpus_mb"),
        ("caching: {ttl_seconds: .inf}", "ttl_seconds"),
        ("execution: {on_error: {X: {policy: skip, kind: x}}}", "kind"),
        ("execution: {default_on_error: hope}", "hope"),
        ("execution: {x: 2001-13-45}", "is not YAML"),
        ("[" * 3000, "is not YAML"),
        ("execution: {what: 1}", "what"),
        ("- 1", "object"),
    ],
)
def test_a_configuration_that_is_wrong_says_where(tmp_path: Path, text: str, said: str) -> None:
    path = tmp_path / "engine.yaml"
    path.write_text(text)
    with pytest.raises(ConfigurationError, match=said) as caught:
        load_configuration(path)
    assert str(path) in caught.value.message


def test_the_configuration_in_the_docs_is_the_default() -> None:
    text = (Path(__file__).parents[2] / "docs" / "reference" / "engine.md").read_text()
    block = text.partition("```yaml\n")[2].partition("```")[0]
    shown_there = read_configuration(yaml.safe_load(block)["execution_engine"], "docs")
    default = read_configuration({}, "nothing")
    assert shown_there.run_options() == default.run_options()
    assert shown_there.execution.distributed == default.execution.distributed
    for section in ("resource_management", "caching", "monitoring"):
        assert getattr(shown_there, section) == getattr(default, section)


def test_folders_of_checkpoints_are_private(
    build: Callable[..., Executor], folders: Folders
) -> None:
    executor = build(define_node("Fail", lambda: 1 / 0, outputs=INT))
    run(executor, {"1": made("Fail"), "out": made("Show", value=["1", 0])}, checkpoint="x")
    root = folders.output.parent / "checkpoints"
    assert list(root.iterdir())
    assert root.stat().st_mode & 0o077 == 0
