"""Processes that nodes have started end with what they were started for [4.7]."""

import contextlib
import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from comfyrail.engine.descendants import (
    end_with_descendants,
    reap,
    started_by_thread,
    ticks_now,
)
from comfyrail.engine.interrupt import ExecutionHalted
from comfyrail.engine.invoke import Invocation
from comfyrail.engine.runners.child_processes import ChildProcesses
from tests.engine.process_nodes import run_in_process
from tests.engine.test_engine_stuck_nodes import StuckWorker, kinds_of
from tests.fleet.drivers.process_state import children_of, is_running
from tests.processes import COMFYRAIL, wait_until

TWO_PROGRAMS = "sleep 60 & echo $!; wait"


@pytest.fixture(scope="module")
def worker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[StuckWorker]:
    with StuckWorker(tmp_path_factory.mktemp("stuck")) as running:
        yield running


class OrphanedWorker(StuckWorker):
    """One that ends with whoever holds the other end of its standard input."""

    def start(self) -> None:
        command = [*COMFYRAIL, *self._arguments, "--exit-with-parent"]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        assert self.process.stdout is not None
        self.url = json.loads(self.process.stdout.readline())["url"]


def programs_of(worker: StuckWorker) -> list[int]:
    """The program that the node of the last graph waits for, and the one behind that."""
    worker.until_stuck()
    numbers = [int(word) for word in worker.mark.read_text().split()]
    assert len(numbers) == 2
    assert all(is_running(pid) for pid in numbers)
    return numbers


def until_ended(programs: list[int]) -> None:
    wait_until(lambda: not any(is_running(pid) for pid in programs))


@pytest.mark.parametrize(
    ("node_type", "new_lives"),
    [("WaitForProgram", 0), ("OwnSession", 0), ("LoopBesideProgram", 0), ("SleepBesideProgram", 1)],
)
def test_programs_of_an_interrupted_node_end_with_it(
    worker: StuckWorker, node_type: str, new_lives: int
) -> None:
    lives = worker.lives
    prompt_id = worker.run(node_type)
    programs = programs_of(worker)
    worker.call("POST", "/interrupt", {"prompt_id": prompt_id})
    assert kinds_of(worker.ended(prompt_id))[-1] == "execution_interrupted"
    until_ended(programs)
    wait_until(lambda: worker.lives == lives + new_lives)
    # Not even something that nobody has asked for its end.
    wait_until(lambda: not children_of(worker.process.pid))


def test_program_that_an_earlier_node_has_left_is_not_touched_by_an_interrupt(
    worker: StuckWorker,
) -> None:
    before = worker.run("LeaveProgram")
    programs = programs_of(worker)
    assert kinds_of(worker.ended(before))[-1] == "execution_success"
    try:
        stuck = worker.run("LoopStuck")
        worker.until_stuck()
        worker.call("POST", "/interrupt", {"prompt_id": stuck})
        assert kinds_of(worker.ended(stuck))[-1] == "execution_interrupted"
        assert all(is_running(pid) for pid in programs)
    finally:
        for pid in programs:
            os.kill(pid, signal.SIGKILL)


@pytest.mark.parametrize("node_type", ["OwnSession", "LeaveProgram"])
def test_programs_of_nodes_end_when_the_worker_is_told_to_end(
    tmp_path: Path, node_type: str
) -> None:
    with StuckWorker(tmp_path) as ending:
        ending.run(node_type)
        programs = programs_of(ending)
        assert ending.stop() == 0
        until_ended(programs)


def test_programs_of_nodes_end_when_the_parent_of_the_worker_has_ended(tmp_path: Path) -> None:
    with OrphanedWorker(tmp_path) as orphan:
        orphan.run("SleepBesideProgram")
        programs = programs_of(orphan)
        assert orphan.process.stdin is not None
        orphan.process.stdin.close()
        assert orphan.process.wait(15) == 0
        until_ended(programs)


def test_program_of_a_node_in_a_process_of_its_own_ends_with_that(tmp_path: Path) -> None:
    children, stop, mark = ChildProcesses(1), threading.Event(), tmp_path / "mark"
    invocation = Invocation(run_in_process, run_in_process.function, {"mark": (str(mark),)}, {})
    ended: list[BaseException] = []

    def run() -> None:
        try:
            children.run(invocation, stop)
        except ExecutionHalted as error:
            ended.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    wait_until(mark.exists)
    stop.set()
    thread.join(10)
    children.close()
    assert len(ended) == 1
    until_ended([int(mark.read_text())])


# Finding and ending processes


def start_two() -> tuple["subprocess.Popen[str]", int]:
    program = subprocess.Popen(["/bin/sh", "-c", TWO_PROGRAMS], stdout=subprocess.PIPE, text=True)
    assert program.stdout is not None
    return program, int(program.stdout.readline())


def test_process_is_ended_with_what_it_has_started_and_nothing_else() -> None:
    first, behind_first = start_two()
    second, behind_second = start_two()
    with first, second:
        end_with_descendants([first.pid])
        assert first.wait(10) == -signal.SIGKILL
        wait_until(lambda: not is_running(behind_first))
        assert is_running(second.pid)
        assert is_running(behind_second)
        end_with_descendants([second.pid])
        wait_until(lambda: not is_running(behind_second))


def test_process_that_starts_others_without_end_is_ended_too() -> None:
    script = "while :; do sleep 60 & done"
    program = subprocess.Popen(["/bin/sh", "-c", script], start_new_session=True)
    with program:
        try:
            wait_until(lambda: len(children_of(program.pid)) > 20)
            end_with_descendants([program.pid])
            assert program.wait(10) == -signal.SIGKILL
            wait_until(lambda: not running_in_group(program.pid))
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(program.pid, signal.SIGKILL)


def running_in_group(group: int) -> list[int]:
    found = []
    for path in Path("/proc").iterdir():
        with contextlib.suppress(ValueError, ProcessLookupError):
            pid = int(path.name)
            if os.getpgid(pid) == group and is_running(pid):
                found.append(pid)
    return found


def test_children_of_a_thread_count_from_a_moment_on() -> None:
    own = os.getpid()
    program = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    with program:
        assert program.pid in started_by_thread(own, 0)
        assert program.pid not in started_by_thread(own, ticks_now() + 1000)
        program.kill()
        reap([program.pid])
        assert program.pid not in children_of(own)
