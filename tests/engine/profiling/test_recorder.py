"""What is measured of executions whose times are known [12.9]."""

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path

import pytest

from comfyrail.engine.events import Event, NodeStarted
from comfyrail.engine.interrupt import Interrupt
from comfyrail.engine.profiling import ProfileReport, Recorder
from comfyrail.engine.profiling.meters import Meters
from comfyrail.engine.surroundings import RunView, Surroundings
from tests.engine.profiling.profile_parts import MEGABYTE, at, by_id, profiled, two_branches

SHORT = 0.05
LONG = 0.25


def add_up(report: ProfileReport) -> None:
    """What must hold of every report."""
    assert report.node_seconds == pytest.approx(sum(node.seconds for node in report.nodes))
    assert report.critical_seconds <= report.wall_seconds + 1e-6
    along = sum(by_id(report)[each].seconds for each in report.critical_path)
    assert report.critical_seconds == pytest.approx(along)
    assert sum(report.counts.values()) == len(report.nodes)
    for node in report.nodes:
        assert node.seconds == pytest.approx(sum(each.seconds for each in node.stretches))
        for each in node.stretches:
            assert 0 <= each.began <= each.ended <= report.wall_seconds + 1e-6
            assert each.lane in report.lanes
    for lane in report.lanes:
        spans = sorted(
            (each.began, each.ended)
            for node in report.nodes
            for each in node.stretches
            if each.lane == lane
        )
        for (_, ended), (began, _) in pairwise(spans):
            assert began >= ended - 1e-6, f"two at once in {lane}"


def test_in_sequence_the_times_are_those_of_the_naps(tmp_path: Path) -> None:
    with profiled(tmp_path) as engine:
        report = engine.run(two_branches(SHORT, LONG))
    add_up(report)
    nodes = by_id(report)
    assert report.outcome == "completed"
    assert report.counts == {"completed": 6, "cached": 0, "failed": 0, "interrupted": 0}
    assert nodes["short"].seconds >= SHORT
    assert nodes["long"].seconds >= LONG
    assert nodes["long"].seconds > 2 * nodes["short"].seconds
    assert 0.6 < report.parallelism <= 1.001
    assert report.lanes == ["main"]
    assert all(node.alone for node in report.nodes)
    began = nodes["after"].began
    assert began is not None
    assert began >= (nodes["long"].ended or 9)
    assert report.critical_path == ("n", "long", "both", "after", "show")
    assert [node.node_id for node in report.nodes if node.on_critical_path] == [
        *report.critical_path
    ]


def test_side_by_side_the_branches_overlap(tmp_path: Path) -> None:
    with profiled(tmp_path, "parallel") as engine:
        report = engine.run(two_branches(LONG - 0.01, LONG))
    add_up(report)
    nodes = by_id(report)
    assert nodes["short"].lane != nodes["long"].lane
    assert not nodes["short"].alone
    assert nodes["short"].peak_memory_bytes is None
    assert nodes["after"].alone
    assert 1.1 < report.parallelism < 2
    assert len(report.critical_path) == 5
    assert report.wall_seconds < report.node_seconds
    assert len(report.lanes) >= 2


def test_time_for_a_thread_is_waiting_and_not_work(tmp_path: Path) -> None:
    prompt = {
        **{f"n{k}": at("Nap", value=k, seconds=SHORT) for k in range(3)},
        **{f"s{k}": at("Show", value=[f"n{k}", 0]) for k in range(3)},
    }
    with profiled(tmp_path, "parallel", threads=1) as engine:
        report = engine.run(prompt)
    add_up(report)
    naps = sorted((by_id(report)[f"n{k}"] for k in range(3)), key=lambda node: node.began or 0)
    assert naps[1].waited_seconds > naps[0].waited_seconds + SHORT * 0.9
    assert naps[2].waited_seconds > naps[1].waited_seconds + SHORT * 0.9
    assert all(node.seconds < node.waited_seconds for node in naps[2:])
    assert report.parallelism <= 1.001


def test_work_of_the_processor_is_told_from_sleep(tmp_path: Path) -> None:
    prompt = {
        "n": at("Number", value=1),
        "b": at("Busy", value=["n", 0], seconds=0.15),
        "z": at("Nap", value=["b", 0], seconds=0.15),
        "s": at("Show", value=["z", 0]),
    }
    with profiled(tmp_path) as engine:
        nodes = by_id(engine.run(prompt))
    worked, slept = nodes["b"].cpu_seconds, nodes["z"].cpu_seconds
    assert worked is not None
    assert slept is not None
    assert worked >= 0.14
    assert slept < worked / 2


def test_bytes_of_outputs_peaks_and_files_are_measured(tmp_path: Path) -> None:
    if Meters().begin_peak() is None or Meters().io() is None:
        pytest.skip("the system does not tell")
    prompt = {
        "small": at("Big", megabytes=8, spare=0),
        "spare": at("Big", megabytes=8, spare=120),
        "copy": at("Copy", size=3_000_000),
        "s1": at("Show", value=["small", 0]),
        "s2": at("Show", value=["spare", 0]),
        "s3": at("Show", value=["copy", 0]),
    }
    with profiled(tmp_path) as engine:
        nodes = by_id(engine.run(prompt))
    assert nodes["small"].output_bytes == pytest.approx(8 * MEGABYTE, rel=0.01)
    peak = nodes["spare"].peak_memory_bytes
    assert peak is not None
    assert 100 * MEGABYTE < peak < 200 * MEGABYTE
    assert (nodes["small"].peak_memory_bytes or 0) < 40 * MEGABYTE
    assert nodes["copy"].written_bytes == 3_000_000
    assert nodes["copy"].read_bytes == pytest.approx(3_000_000, abs=100_000)
    assert nodes["small"].written_bytes == 0


def test_a_second_run_comes_from_the_cache_and_says_from_where(tmp_path: Path) -> None:
    prompt = two_branches(SHORT, LONG)
    with profiled(tmp_path / "a", disk_path=tmp_path / "cache") as engine:
        engine.run(prompt)
        known = engine.run(prompt)
    add_up(known)
    assert known.counts["cached"] == 6
    assert {node.cache_level for node in known.nodes} == {"memory"}
    assert known.node_seconds == 0
    assert known.wall_seconds < LONG
    assert (known.critical_seconds, known.critical_path, known.lanes) == (0, (), [])
    with profiled(tmp_path / "b", disk_path=tmp_path / "cache") as engine:
        changed = {**prompt, "after": at("Nap", value=["both", 0], seconds=SHORT / 2)}
        report = engine.run(changed)
    nodes = by_id(report)
    assert report.counts == {"completed": 2, "cached": 4, "failed": 0, "interrupted": 0}
    assert (nodes["both"].status, nodes["both"].cache_level) == ("cached", "disk")
    assert nodes["after"].status == "completed"
    assert nodes["after"].cache_level is None


def test_nodes_that_a_node_puts_in_are_measured_under_it(tmp_path: Path) -> None:
    prompt = {
        "n": at("Number", value=1),
        "g": at("Grow", value=["n", 0], seconds=SHORT),
        "z": at("Nap", value=["g", 0], seconds=SHORT),
        "s": at("Show", value=["z", 0]),
    }
    with profiled(tmp_path) as engine:
        report = engine.run(prompt)
    add_up(report)
    nodes = by_id(report)
    inner = [node for node in report.nodes if node.parent_id == "g"]
    assert [node.node_type for node in inner] == ["Nap", "Nap"]
    assert nodes["g"].seconds < SHORT
    assert inner[1].seconds >= 2 * SHORT
    assert report.critical_path == ("n", "g", "inner1", "inner2", "z", "s")
    assert report.critical_seconds >= 4 * SHORT


def test_a_list_is_one_stretch_of_many_calls(tmp_path: Path) -> None:
    prompt = {
        "l": at("Numbers", count=20),
        "z": at("Nap", value=["l", 0], seconds=0.005),
        "s": at("Show", value=["z", 0]),
    }
    with profiled(tmp_path) as engine:
        nodes = by_id(engine.run(prompt))
    assert len(nodes["z"].stretches) < 10, "each call is one"
    assert nodes["z"].seconds >= 0.1


def test_a_lazy_node_does_not_count_the_time_of_what_it_asks_for(tmp_path: Path) -> None:
    prompt = {
        "y": at("Nap", value=1, seconds=LONG),
        "c": at("Choose", choice=True, yes=["y", 0], no=["x", 0]),
        "x": at("Nap", value=2, seconds=60.0),
        "s": at("Show", value=["c", 0]),
    }
    with profiled(tmp_path) as engine:
        report = engine.run(prompt, "s")
    add_up(report)
    nodes = by_id(report)
    assert "x" not in nodes
    assert nodes["c"].seconds < LONG / 2
    assert len(nodes["c"].stretches) == 2


@pytest.mark.parametrize("strategy", ["sequential", "parallel"])
def test_coroutines_overlap_in_lanes_of_their_own(tmp_path: Path, strategy: str) -> None:
    prompt = {
        **{f"d{k}": at("Doze", value=k, seconds=LONG) for k in range(3)},
        **{f"s{k}": at("Show", value=[f"d{k}", 0]) for k in range(3)},
    }
    with profiled(tmp_path, strategy) as engine:
        report = engine.run(prompt)
    add_up(report)
    dozing = [by_id(report)[f"d{k}"] for k in range(3)]
    assert {node.lane for node in dozing} == {"coroutine 1", "coroutine 2", "coroutine 3"}
    assert all(node.cpu_seconds is None for node in dozing)
    assert all(node.read_bytes is None for node in dozing)
    assert report.parallelism > 1.5


def test_a_node_in_a_process_is_timed_from_outside(tmp_path: Path) -> None:
    prompt = {
        "n": at("Number", value=3),
        "p": at("ProcessId", value=["n", 0]),
        "s": at("Show", value=["p", 0]),
    }
    with profiled(tmp_path, "parallel") as engine:
        report = engine.run(prompt)
    add_up(report)
    node = by_id(report)["p"]
    assert (node.status, node.lane) == ("completed", "process 1")
    assert node.seconds > 0
    assert node.cpu_seconds is None


def test_nodes_that_ran_in_one_call_share_its_time(tmp_path: Path) -> None:
    prompt = {
        "p": at("Pictures", seed=1),
        **{f"z{k}": at("Slow", image=["p", k]) for k in range(4)},
        **{f"s{k}": at("Show", value=[f"z{k}", 0]) for k in range(4)},
    }
    with profiled(tmp_path) as engine:
        joined = engine.run(prompt)
    with profiled(tmp_path / "b") as engine:
        apart = engine.run(prompt, optimizer={"batch": False})
    add_up(joined)
    add_up(apart)
    shares = [by_id(joined)[f"z{k}"].seconds for k in range(4)]
    assert sum(shares) >= 0.12
    assert max(shares) == pytest.approx(min(shares))
    assert sum(by_id(apart)[f"z{k}"].seconds for k in range(4)) > 1.5 * sum(shares)
    assert all(node.cpu_seconds is not None for node in joined.nodes)


def test_every_node_of_a_fused_chain_has_its_own_time(tmp_path: Path) -> None:
    prompt = {
        "a": at("Cheap", value=1, seconds=SHORT),
        "b": at("Cheap", value=["a", 0], seconds=LONG),
        "c": at("Cheap", value=["b", 0], seconds=SHORT),
        "s": at("Show", value=["c", 0]),
    }
    with profiled(tmp_path, "parallel") as engine:
        report = engine.run(prompt)
    add_up(report)
    nodes = by_id(report)
    assert nodes["b"].seconds > 2 * nodes["a"].seconds
    assert len({nodes[each].lane for each in "abc"}) == 1
    assert report.critical_path == ("a", "b", "c", "s")


def test_a_failure_is_reported_with_all_that_ran_before_it(tmp_path: Path) -> None:
    prompt = {
        "z": at("Nap", value=1, seconds=SHORT),
        "f": at("Fail", value=["z", 0]),
        "s": at("Show", value=["f", 0]),
    }
    with profiled(tmp_path) as engine:
        report = engine.run(prompt)
    add_up(report)
    assert report.outcome == "failed"
    assert report.message == "Node 'f' (Fail): no 1"
    assert {node.node_id: node.status for node in report.nodes} == {
        "z": "completed",
        "f": "failed",
    }


def test_tries_are_counted(tmp_path: Path) -> None:
    prompt = {"f": at("Fail", value=1), "s": at("Show", value=["f", 0])}
    with profiled(tmp_path) as engine:
        policy = {"policy": "retry", "attempts": 3, "pause": 0.05}
        report = engine.run(prompt, on_error={"f": policy})
        skipped = engine.run(prompt, on_error={"f": {"policy": "skip"}})
    node = by_id(report)["f"]
    assert (node.status, node.attempts) == ("failed", 3)
    assert node.seconds < 0.1, "the pauses are in it"
    assert skipped.outcome == "completed"


@pytest.mark.parametrize("strategy", ["sequential", "parallel"])
def test_an_interrupted_execution_is_reported_as_far_as_it_came(
    tmp_path: Path, strategy: str
) -> None:
    interrupt = Interrupt()

    def stop(event: Event) -> None:
        if event == NodeStarted("w"):
            threading.Timer(0.1, interrupt.request).start()

    prompt = {
        "z": at("Nap", value=1, seconds=SHORT),
        "w": at("Wait", value=["z", 0], seconds=60.0),
        "s": at("Show", value=["w", 0]),
    }
    with profiled(tmp_path, strategy) as engine:
        report = engine.run(prompt, interrupt=interrupt, emit=stop)
    add_up(report)
    assert report.outcome == "interrupted"
    nodes = by_id(report)
    assert {each: nodes[each].status for each in nodes} == {"z": "completed", "w": "interrupted"}
    assert 0.05 < nodes["w"].seconds < 5


def test_one_recorder_reports_each_execution_by_itself(tmp_path: Path) -> None:
    with profiled(tmp_path) as engine:
        first = engine.run(
            {"z": at("Nap", value=1, seconds=SHORT), "s": at("Show", value=["z", 0])}
        )
        other = engine.run({"n": at("Number", value=5), "t": at("Show", value=["n", 0])})
    assert set(by_id(first)) == {"z", "s"}
    assert set(by_id(other)) == {"n", "t"}


def test_what_is_around_nodes_stays_around_them_and_is_not_measured(tmp_path: Path) -> None:
    calls: list[str] = []

    class Slow(Surroundings):
        @contextmanager
        def call(self, run: RunView, node_id: str, index: int) -> Iterator[None]:
            del run, index
            time.sleep(SHORT)
            calls.append(node_id)
            yield
            calls.append(f"after {node_id}")

    prompt = {"n": at("Number", value=1), "s": at("Show", value=["n", 0])}
    with profiled(tmp_path, surroundings=Slow()) as engine:
        report = engine.run(prompt)
    assert calls == ["n", "after n", "s", "after s"]
    assert report.wall_seconds > report.node_seconds + 2 * SHORT


def test_an_executor_without_the_recorder_is_a_mistake_that_is_said(tmp_path: Path) -> None:
    with profiled(tmp_path) as engine:
        engine.recorder = Recorder()
        with pytest.raises(ValueError, match="recorder"):
            engine.run({"s": at("Show", value=1)})


def test_meters_let_go_of_their_files() -> None:
    def open_files() -> int:
        return len(list(Path("/proc/self/fd").iterdir()))

    before = open_files()
    for _ in range(20):
        meters = Meters()
        meters.io()
        meters.close()
    assert open_files() <= before + 1
