"""Worker processes: how they start, stop and die, and what the coordinator makes of it."""

import os
import signal
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
import redis

from comfyrail.engine.distributed.run_task import run_task_of_environment
from comfyrail.engine.events import ExecutionFailed
from tests.engine.distributed.conftest import SetupMaker
from tests.engine.distributed.parts import (
    Graph,
    Setup,
    WorkerProcess,
    coordinator,
    node,
    run,
    shown,
    when_busy,
    workers,
)
from tests.processes import comfyrail, wait_until
from tests.services.valkey import Valkey, valkey


def one(kind: str, value: int = 5) -> Graph:
    return {"1": node(kind, value=value), "out": node("Show", value=["1", 0])}


def slow_ones(count: int) -> Graph:
    graph: Graph = {"i": node("Image", seed=3)}
    for index in range(count):
        graph[str(index)] = node("Slow", image=["i", 0], seconds=0.2 + index / 1000)
        graph[f"out{index}"] = node("Show", value=[str(index), 0])
    return graph


def test_a_node_that_kills_every_worker_is_given_up(make_setup: SetupMaker) -> None:
    setup = make_setup(most_attempts=2, lease_seconds=0.5)
    with workers(setup, 2), coordinator(setup) as executor:
        end = run(executor, one("Die"))[-1]
    assert isinstance(end, ExecutionFailed)
    assert end.exception_type == "comfyrail.engine.failures.WorkerLost"
    assert (end.node_id, end.recoverable) == ("1", True)
    assert len(setup.begun("die")) == 2


def test_a_task_that_was_taken_and_never_begun_is_sent_again(
    make_setup: SetupMaker, broker: Valkey
) -> None:
    setup = make_setup(lease_seconds=0.5)
    taken: list[object] = []
    late: list[WorkerProcess] = []

    def take_first() -> None:
        """As a worker does that is killed before it can say that it runs the task."""
        with redis.Redis.from_url(broker.url) as client:
            taken.append(client.brpop([setup.distributed["queue"]], 10))
        late.append(WorkerProcess(setup))

    thief = threading.Thread(target=take_first)
    thief.start()
    with coordinator(setup) as executor:
        try:
            assert shown(run(executor, one("Number", 6)))["out"] == {"value": [6]}
        finally:
            thief.join()
            assert [worker.stop() for worker in late] == [0]
    assert taken[0] is not None


@pytest.fixture(scope="module")
def pair(
    tmp_path_factory: pytest.TempPathFactory, broker: Valkey
) -> Iterator[tuple[Setup, list[WorkerProcess]]]:
    """Two workers with short leases, both alive after every test."""
    folder = tmp_path_factory.mktemp("pair")
    section = {"broker_url": broker.url, "queue": "pair", "lease_seconds": 0.4}
    setup = Setup(folder, distributed=section, caching={"disk_path": str(folder / "cache")})
    with workers(setup, 2) as found:
        yield setup, found


def test_a_worker_that_stands_still_is_not_waited_for(
    pair: tuple[Setup, list[WorkerProcess]],
) -> None:
    setup, found = pair
    frozen: list[int] = []

    def freeze(pid: int) -> None:
        os.kill(pid, signal.SIGSTOP)
        frozen.append(pid)

    with coordinator(setup) as executor:
        with when_busy(setup, "slow", freeze):
            assert len(shown(run(executor, slow_ones(4)))) == 4
        assert setup.busy("slow") == set(frozen)
        # What it says when it wakes up concerns nobody any more.
        os.kill(frozen[0], signal.SIGCONT)
        wait_until(lambda: not setup.busy("slow"))
        assert shown(run(executor, one("Number", 7)))["out"] == {"value": [7]}
    assert [worker.process.poll() for worker in found] == [None, None]


def test_a_node_that_takes_longer_than_a_lease_is_run_once(
    pair: tuple[Setup, list[WorkerProcess]],
) -> None:
    setup, _ = pair
    graph = {
        "i": node("Image", seed=4),
        "1": node("Slow", image=["i", 0], seconds=1.5),
        "out": node("Show", value=["1", 0]),
    }
    before = len(setup.begun("slow"))
    with coordinator(setup) as executor:
        assert len(shown(run(executor, graph))) == 1
    assert len(setup.begun("slow")) == before + 1


def test_a_broker_that_comes_back_empty_costs_time_only(
    tmp_path: Path, make_setup: SetupMaker
) -> None:
    with valkey(tmp_path) as own:
        setup = make_setup(broker_url=own.url, lease_seconds=0.5)
        first = own.process.pid

        def restart(_: int) -> None:
            own.kill()
            own.start()

        with (
            workers(setup, 1),
            coordinator(setup) as executor,
            when_busy(setup, "slow", restart),
        ):
            assert len(shown(run(executor, slow_ones(4)))) == 4
        assert own.process.pid != first


def test_sigterm_lets_the_node_finish_first(make_setup: SetupMaker) -> None:
    setup = make_setup(lease_seconds=2.0)
    stopped: list[int] = []
    with (
        workers(setup, 1) as (worker,),
        coordinator(setup) as executor,
        when_busy(setup, "slow", lambda _: stopped.append(worker.stop())),
    ):
        assert len(shown(run(executor, slow_ones(1)))) == 1
    assert stopped == [0]
    assert len(setup.begun("slow")) == 1


def test_several_workers_of_one_command_are_kept_running(make_setup: SetupMaker) -> None:
    setup = make_setup(lease_seconds=0.5)
    with workers(setup, 1, "--concurrency", "2") as (command,), coordinator(setup) as executor:
        command.wait_ready()
        assert len(shown(run(executor, slow_ones(4)))) == 4
        first = set(setup.begun("slow"))
        assert len(first) == 2
        os.kill(next(iter(first)), signal.SIGKILL)
        assert command.wait_ready()["pid"] not in first
        assert command.stop() == 0
    for pid in first:
        wait_until(lambda pid=pid: not is_alive(pid))  # type: ignore[misc]


def is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def test_a_worker_without_a_shared_cache_does_not_start(tmp_path: Path) -> None:
    config = tmp_path / "engine.yaml"
    config.write_text("execution_engine: {caching: {memory_mb: 10}}")
    done = comfyrail("celery-worker", "--config", str(config))
    assert done.returncode == 3
    assert "needs a cache level that all machines share" in done.stderr


def test_run_task_without_a_task_fails(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    config = tmp_path / "engine.yaml"
    config.write_text(f"execution_engine: {{caching: {{disk_path: {tmp_path / 'cache'}}}}}")
    assert run_task_of_environment(config, []) == 1
    assert "COMFYRAIL_TASK" in capsys.readouterr().out
    monkeypatch.setenv("COMFYRAIL_TASK", "{}")
    assert run_task_of_environment(config, []) == 1
