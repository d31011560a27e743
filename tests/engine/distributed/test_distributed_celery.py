"""Nodes on real Celery workers, through a real broker: the same results, whoever dies [12.2]."""

import signal
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import redis
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from comfyrail.engine.distributed.remote_nodes import RemoteNodes
from comfyrail.engine.events import (
    Event,
    ExecutionFailed,
    ExecutionInterrupted,
    NodesCached,
    NodeStarted,
)
from comfyrail.engine.interrupt import Interrupt
from comfyrail.engine.live_graph import bind_node
from comfyrail.engine.registry import NodeRegistry
from tests.engine.distributed.conftest import SetupMaker
from tests.engine.distributed.parts import (
    Graph,
    Setup,
    WorkerProcess,
    coordinator,
    node,
    nodes_of_tests,
    run,
    sequentially,
    shown,
    started,
    story_of_each,
    when_busy,
    workers,
)
from tests.engine.distributed.remote_pack import REMOTE
from tests.processes import wait_until
from tests.services.ports import free_ports
from tests.services.valkey import Valkey, valkey


def large_graph() -> Graph:
    """60 nodes: images that are made, changed and put together, some slowly, and three outputs."""
    graph: Graph = {}
    lanes = 6
    for lane in range(lanes):
        graph[f"make{lane}"] = node(
            "CheckerboardImage",
            width=64 + lane,
            height=48,
            cell=3 + lane,
            color1="#112233",
            color2="#ffeedd",
        )
        graph[f"invert{lane}"] = node("ImageInvert", image=[f"make{lane}", 0])
        graph[f"slow{lane}"] = node("Slow", image=[f"invert{lane}", 0], seconds=0.1 + lane / 100)
        graph[f"scale{lane}"] = node(
            "ImageScale",
            image=[f"slow{lane}", 0],
            upscale_method="bilinear",
            width=40,
            height=32,
            crop="disabled",
        )
        graph[f"flip{lane}"] = node(
            "ImageFlip", image=[f"scale{lane}", 0], flip_method="x-axis: vertically"
        )
        graph[f"turn{lane}"] = node("ImageRotate", image=[f"flip{lane}", 0], rotation="180 degrees")
        graph[f"yuv{lane}"] = node("ImageRGBToYUV", image=[f"turn{lane}", 0])
        graph[f"rgb{lane}"] = node(
            "ImageYUVToRGB", Y=[f"yuv{lane}", 0], U=[f"yuv{lane}", 1], V=[f"yuv{lane}", 2]
        )
    before = ["rgb0", 0]
    for lane in range(1, lanes):
        graph[f"blend{lane}"] = node(
            "ImageBlend",
            image1=before,
            image2=[f"rgb{lane}", 0],
            blend_factor=0.3,
            blend_mode="overlay",
        )
        before = [f"blend{lane}", 0]
    graph["crop"] = node("ImageCrop", image=before, width=20, height=20, x=4, y=4)
    graph["size"] = node("GetImageSize", image=["crop", 0])
    graph["who"] = node("Who", value=["size", 0])
    graph["mask"] = node("ImageToMask", image=["rgb5", 0], channel="red")
    graph["out0"] = node("Show", value=["crop", 0])
    graph["out1"] = node("Show", value=["mask", 0])
    graph["out2"] = node("Show", value=["who", 0])
    assert len(graph) == 60
    return graph


def test_most_of_the_large_graph_goes_elsewhere() -> None:
    types, remote = nodes_of_tests(), RemoteNodes(REMOTE)
    graph = large_graph()
    nodes = [
        bind_node(name, types[entry["class_type"]], entry["inputs"])
        for name, entry in graph.items()
    ]
    assert sum(each in remote for each in nodes) >= 50


@pytest.mark.parametrize("shared", ["redis", "disk"])
def test_a_worker_killed_in_the_middle_changes_nothing(
    tmp_path: Path, make_setup: SetupMaker, shared: str
) -> None:
    graph = large_graph()
    switches = {"optimizer": {"common_subexpressions": False}}
    plain = sequentially(tmp_path, graph, **switches)
    with valkey(tmp_path) as store:
        setup = replace(make_setup(), execution=switches)
        if shared == "redis":
            setup = replace(setup, caching={"redis_url": store.url})
        with workers(setup, 3) as found, coordinator(setup) as executor:
            by_pid = {worker.pid: worker for worker in found}
            with when_busy(setup, "slow", lambda pid: by_pid[pid].kill()):
                events = run(executor, graph)
            assert [worker.process.poll() for worker in found].count(-signal.SIGKILL) == 1
            assert shown(events) == shown(plain)
            assert story_of_each(events, graph) == story_of_each(plain, graph)
            # The others have done the work, and what the victim had begun was begun again.
            names = [name for _, what, name in setup.runs() if what == "begin"]
            assert names.count("_slow") >= 7
            assert len(set(setup.begun())) == 3
            _check_that_nothing_is_computed_again(setup, graph, events)


def _check_that_nothing_is_computed_again(setup: Setup, graph: Graph, events: list[Event]) -> None:
    before = len(setup.runs())
    with coordinator(setup) as fresh:
        again = run(fresh, graph)
    assert started(again) == []
    assert [set(each.node_ids) for each in again if isinstance(each, NodesCached)] == [set(graph)]
    assert shown(again) == shown(events)
    assert len(setup.runs()) == before


NUMBERS = ("Number", "Add", "Count", "Mean", "Later", "Choose", "Repeat")
IMAGES = ("Image", "ImageInvert", "Scale", "Blend")
TAKES = {
    "Add": ("a", "b"),
    "Count": ("value",),
    "Later": ("value",),
    "Repeat": ("value",),
    "Choose": ("flag", "yes", "no"),
    "Mean": ("image",),
    "ImageInvert": ("image",),
    "Scale": ("image",),
    "Blend": ("a", "b"),
}
LITERALS: dict[str, dict[str, list[Any]]] = {
    "Number": {"value": [0, 1, 2, 3, 4, 5]},
    "Image": {"seed": [0, 1, 2, 3]},
    "Scale": {"by": [0.25, 0.5]},
}


@st.composite
def graphs(draw: st.DrawFn) -> Graph:
    """Any graph of these nodes, with some outputs, some dead nodes and some twins."""
    graph: Graph = {}
    numbers: list[Any] = [1, 2, 3]
    images: list[Any] = []
    for index in range(draw(st.integers(2, 18))):
        kind = draw(st.sampled_from(NUMBERS + IMAGES))
        wants_images = kind == "Mean" or (kind in IMAGES and kind in TAKES)
        if wants_images and not images:
            kind = "Image"
        sources = images if wants_images else numbers
        inputs = {name: draw(st.sampled_from(sources)) for name in TAKES.get(kind, ())}
        for name, values in LITERALS.get(kind, {}).items():
            inputs[name] = draw(st.sampled_from(values))
        graph[str(index)] = node(kind, **inputs)
        for slot in range(2 if kind == "Scale" else 1):
            (numbers if kind in NUMBERS else images).append([str(index), slot])
    for index in range(draw(st.integers(1, 4))):
        source = draw(st.sampled_from([*numbers[3:], *images]))
        graph[f"out{index}"] = node("Show", value=source)
    return graph


@settings(
    max_examples=15,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(graph=graphs())
def check_that_nothing_changes(tmp_path: Path, lasting: Setup, graph: Graph) -> None:
    with coordinator(lasting) as executor:
        executor.cache.clear(everywhere=True)
        assert shown(run(executor, graph)) == shown(sequentially(tmp_path, graph))
        # Which of two equal nodes runs depends on the order; so now there are no equal ones.
        for name, entry in graph.items():
            entry["inputs"]["ignored"] = name
        found = run(executor, graph)
    plain = sequentially(tmp_path, graph, optimizer={"batch": False})
    assert shown(found) == shown(plain)
    assert story_of_each(found, graph) == story_of_each(plain, graph)


def test_it_changes_neither_outputs_nor_what_happens_to_a_node(
    tmp_path: Path, lasting: Setup, lasting_workers: list[WorkerProcess]
) -> None:
    before = len(lasting.begun())
    check_that_nothing_changes(tmp_path, lasting)
    run_there = lasting.begun()[before:]
    assert set(run_there) == {worker.pid for worker in lasting_workers}
    assert len(run_there) > 30


def fails(executor: Any, graph: Graph) -> ExecutionFailed:
    end = run(executor, graph)[-1]
    assert isinstance(end, ExecutionFailed)
    return end


@pytest.mark.parametrize(
    ("kind", "error", "message", "of_kind", "recoverable"),
    [
        ("Fail", "ValueError", "not 5", "runtime", False),
        ("OutOfMemory", "MemoryError", "5 is too much", "resource", True),
        (
            "Leave",
            "comfyrail.engine.invoke.NodeExited",
            "The node tried to end the worker (5).",
            "runtime",
            False,
        ),
    ],
)
def test_what_a_node_raises_elsewhere_is_its_failure(
    lasting: Setup,
    lasting_workers: list[WorkerProcess],
    kind: str,
    error: str,
    message: str,
    of_kind: str,
    recoverable: bool,
) -> None:
    graph = {"1": node(kind, value=5), "out": node("Show", value=["1", 0])}
    with coordinator(lasting) as executor:
        end = fails(executor, graph)
    assert (end.node_id, end.node_type) == ("1", kind)
    assert (end.exception_type, end.message) == (error, message)
    assert (end.kind, end.recoverable) == (of_kind, recoverable)
    assert {worker.process.poll() for worker in lasting_workers} == {None}


def test_a_node_may_be_tried_again_elsewhere(
    lasting: Setup, lasting_workers: list[WorkerProcess]
) -> None:
    assert lasting_workers
    graph = {"1": node("Fail", value=77), "out": node("Show", value=["1", 0])}
    policy = {"Fail": {"policy": "retry", "attempts": 3, "pause": 0.01}}
    before = lasting.begun("fail")
    with coordinator(replace(lasting, execution={"on_error": policy})) as executor:
        assert fails(executor, graph).message == "not 77"
    assert len(lasting.begun("fail")) == len(before) + 3


def test_what_cannot_be_stored_is_made_here(
    lasting: Setup, lasting_workers: list[WorkerProcess]
) -> None:
    assert lasting_workers
    graph = {
        "1": node("MakeOpaque", value=41),
        "2": node("ReadOpaque", opaque=["1", 0]),
        "3": node("Add", a=["2", 0], b=1),
        "out": node("Show", value=["3", 0]),
    }
    with coordinator(lasting) as executor:
        assert shown(run(executor, graph))["out"] == {"value": [42]}
        before = lasting.begun("make_opaque")
        assert before
        # From now on it is known that such a node stays here.
        graph["1"]["inputs"]["value"] = 51
        assert shown(run(executor, graph))["out"] == {"value": [52]}
    assert lasting.begun("make_opaque") == before


def test_what_expands_does_so_here(lasting: Setup, lasting_workers: list[WorkerProcess]) -> None:
    assert lasting_workers
    types = ["Repeat", "Number", "Add"]
    setup = replace(lasting, distributed={**lasting.distributed, "remote_types": types})
    graph = {"1": node("Repeat", value=3), "out": node("Show", value=["1", 0])}
    with coordinator(setup) as executor:
        assert shown(run(executor, graph))["out"] == {"value": [9]}


def test_a_type_that_the_workers_do_not_have_runs_here(
    lasting: Setup, lasting_workers: list[WorkerProcess]
) -> None:
    assert lasting_workers
    registry = nodes_of_tests()
    registry.add(replace(registry["Number"], version="another"))
    registry.add(replace(registry["Number"], name="Unheard", version="1"))
    graph = {
        "1": node("Number", value=4),
        "2": node("Unheard", value=["1", 0]),
        "out": node("Show", value=["2", 0]),
    }
    with coordinator(lasting, registry) as executor:
        assert shown(run(executor, graph))["out"] == {"value": [4]}


def test_nodes_of_a_pack_in_the_engine_s_own_way_go_by_themselves(
    lasting: Setup, lasting_workers: list[WorkerProcess]
) -> None:
    assert lasting_workers
    setup = replace(lasting, distributed={**lasting.distributed, "remote_types": []})
    graph = {
        "1": node("Twice", value=4),
        "2": node("Add", a=["1", 0], b=1),  # a class of ComfyUI stays here
        "out": node("Show", value=["2", 0]),
    }
    before = len(lasting.begun("twice")), len(lasting.begun("add"))
    with coordinator(setup) as executor:
        assert shown(run(executor, graph))["out"] == {"value": [9]}
    assert (len(lasting.begun("twice")), len(lasting.begun("add"))) == (before[0] + 1, before[1])


def test_what_a_node_shows_and_its_id_travel(
    lasting: Setup, lasting_workers: list[WorkerProcess]
) -> None:
    assert lasting_workers
    graph = {
        "a": node("Texts", value=3),
        "b": node("Who", value=["a", 0]),
        "out": node("Show", value=["b", 0]),
    }
    with coordinator(lasting) as executor:
        found = shown(run(executor, graph))
    assert found == {"a": {"texts": ["the value is 3"]}, "out": {"value": ["b 3"]}}


def test_values_that_were_made_here_are_there_for_others(
    lasting: Setup, lasting_workers: list[WorkerProcess]
) -> None:
    assert lasting_workers
    types = ["Blend", "Mean"]
    setup = replace(lasting, distributed={**lasting.distributed, "remote_types": types})
    graph: Graph = {}
    for index in range(12):
        graph[f"i{index}"] = node("Image", seed=1000 + index)
        graph[f"b{index}"] = node("Blend", a=[f"i{index}", 0], b=["i0", 0])
        graph[f"m{index}"] = node("Mean", image=[f"b{index}", 0])
        graph[f"o{index}"] = node("Show", value=[f"m{index}", 0])
    before = lasting.begun("blend")
    with coordinator(setup) as executor:
        events = run(executor, graph)
    assert len(shown(events)) == 12
    assert len(started(events)) == len(graph)  # nothing was begun twice for want of a value
    assert len(lasting.begun("blend")) == len(before) + 12


def lose_all_at(broker: Valkey, node_id: str) -> Callable[[Event], None]:
    """Empty the shared cache once, when a node is about to be sent."""
    lost: list[bool] = []

    def watch(event: Event) -> None:
        if isinstance(event, NodeStarted) and event.node_id == node_id and not lost:
            lost.append(True)
            with redis.Redis.from_url(broker.url) as client:
                names = list(client.scan_iter("comfyrail:cache:*"))
                assert names
                client.delete(*names)

    return watch


def test_entries_that_are_lost_in_between_are_made_again(
    tmp_path: Path, lasting: Setup, lasting_workers: list[WorkerProcess], broker: Valkey
) -> None:
    assert lasting_workers
    graph = {
        "1": node("Image", seed=32),
        "2": node("Blend", a=["1", 0], b=["1", 0]),
        "3": node("Mean", image=["2", 0]),
        "out": node("Show", value=["3", 0]),
    }
    before = (len(lasting.begun("image")), len(lasting.begun("blend")))
    with coordinator(lasting) as executor:
        events = run(executor, graph, watch=lose_all_at(broker, "3"))
    assert shown(events) == shown(sequentially(tmp_path, graph))
    assert started(events).count("3") == 2
    assert len(lasting.begun("image")) == before[0] + 2
    assert len(lasting.begun("blend")) == before[1] + 2


def test_entries_that_this_process_still_has_are_put_back(
    tmp_path: Path, lasting: Setup, lasting_workers: list[WorkerProcess], broker: Valkey
) -> None:
    assert lasting_workers
    section = {**lasting.distributed, "remote_types": ["Mean"]}
    setup = replace(lasting, distributed=section, caching={"redis_url": broker.url})
    graph = {
        "1": node("Image", seed=33),  # made here
        "2": node("Mean", image=["1", 0]),
        "out": node("Show", value=["2", 0]),
    }
    before = len(lasting.begun("mean"))
    with coordinator(setup) as executor:
        events = run(executor, graph, watch=lose_all_at(broker, "2"))
    assert shown(events) == shown(sequentially(tmp_path, graph))
    assert sorted(started(events)) == ["1", "2", "out"]
    assert len(lasting.begun("mean")) == before + 1


@pytest.mark.parametrize(
    ("policy", "found"),
    [
        ({"policy": "fallback", "value": 7}, 9),
        ({"policy": "fallback", "node_type": "Number"}, 7),
    ],
)
def test_what_stands_in_for_a_failure_does_not_reach_the_shared_cache(
    lasting: Setup, lasting_workers: list[WorkerProcess], policy: dict[str, Any], found: int
) -> None:
    assert lasting_workers
    graph = {
        "1": node("Fail", value=5),
        "2": node("Add", a=["1", 0], b=1),
        "3": node("Add", a=["2", 0], b=1),
        "out": node("Show", value=["3", 0]),
    }
    with coordinator(replace(lasting, execution={"on_error": {"Fail": policy}})) as executor:
        assert shown(run(executor, graph))["out"] == {"value": [found]}
    with coordinator(lasting) as executor:
        assert fails(executor, graph).message == "not 5"


def test_a_broker_that_is_not_there_is_said_in_seconds(make_setup: SetupMaker) -> None:
    port = free_ports(1)[0]
    setup = make_setup(broker_url=f"redis://127.0.0.1:{port}/0")
    graph = {"1": node("Number", value=5), "out": node("Show", value=["1", 0])}
    began = time.monotonic()
    with coordinator(setup) as executor:
        end = fails(executor, graph)
    assert time.monotonic() - began < 10
    assert (end.kind, end.node_id, end.recoverable) == ("resource", "1", True)
    assert "broker" in end.message
    assert "broker_url" in end.message


def test_an_interrupt_leaves_what_runs_and_takes_back_what_waits(
    lasting: Setup, lasting_workers: list[WorkerProcess]
) -> None:
    graph: Graph = {"i": node("Image", seed=77)}
    for index in range(20):
        graph[str(index)] = node("Slow", image=["i", 0], seconds=0.3 + index / 1000)
        graph[f"out{index}"] = node("Show", value=[str(index), 0])
    interrupt = Interrupt()
    before = len(lasting.begun("slow"))
    with coordinator(lasting) as executor:
        began = time.monotonic()
        with when_busy(lasting, "slow", lambda _: interrupt.request()):
            events = run(executor, graph, interrupt=interrupt)
        assert isinstance(events[-1], ExecutionInterrupted)
        # Twenty of them would take three seconds.
        assert time.monotonic() - began < 2
        # The same engine goes on, behind what was taken back.
        other = {"1": node("Number", value=8), "out": node("Show", value=["1", 0])}
        assert shown(run(executor, other))["out"] == {"value": [8]}
    wait_until(lambda: not lasting.busy("slow"))
    assert len(lasting.begun("slow")) - before <= 2 * len(lasting_workers)


def with_timeout(seconds: float) -> NodeRegistry:
    registry = nodes_of_tests()
    registry.add(replace(registry["Hang"], timeout=seconds))
    return registry


def test_a_node_that_hangs_elsewhere_is_a_timeout(
    lasting: Setup, lasting_workers: list[WorkerProcess]
) -> None:
    graph = {"1": node("Hang", value=5), "out": node("Show", value=["1", 0])}
    with coordinator(lasting, with_timeout(0.3)) as executor:
        end = fails(executor, graph)
        assert (end.kind, end.node_id) == ("timeout", "1")
        assert end.message == "The node did not finish within 0.3 s."
        # The worker has left it behind.
        other = {"1": node("Number", value=9), "out": node("Show", value=["1", 0])}
        assert shown(run(executor, other))["out"] == {"value": [9]}
    assert {worker.process.poll() for worker in lasting_workers} == {None}
