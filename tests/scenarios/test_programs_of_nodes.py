"""A real server whose workers' nodes have programs at work that hold the workers' output."""

import os
import signal
from collections.abc import Sequence
from pathlib import Path

from tests.engine.test_engine_stuck_nodes import PACK
from tests.fleet.drivers.process_state import children_of, is_running
from tests.processes import Comfyrail, server, wait_until


def test_worker_is_replaced_removed_and_ended_though_a_nodes_program_holds_its_output(
    tmp_path: Path,
) -> None:
    marks = [tmp_path / "mark-1", tmp_path / "mark-2"]
    with server(tmp_path / "data", workers=0) as running:
        worker_id, _ = add_worker(running), add_worker(running)
        for mark in marks:
            begin_job(running, mark)
        first = until_at_work(marks)
        os.kill(children_of(running.process.pid)[0], signal.SIGKILL)
        wait_until(lambda: not all(is_running(pid) for pid in first))
        # The job of the killed one is begun again by its next life.
        second = until_at_work(marks)
        assert second != first
        assert running.call("DELETE", f"/v1/workers/{worker_id}")[0] in {200, 204}
        wait_until(lambda: len([pid for pid in second if is_running(pid)]) == 1)
        assert running.stop() == 0
        wait_until(lambda: not any(is_running(pid) for pid in second))


def add_worker(running: Comfyrail) -> str:
    body = {"driver": "local", "config": {"nodes": [str(PACK)]}}
    status, added = running.call("POST", "/v1/workers", body)
    assert status in {200, 201}, added
    return str(added["worker_id"])


def begin_job(running: Comfyrail, mark: Path) -> None:
    inputs = {"mark": str(mark), "seconds": 60.0}
    graph = {
        "1": {"class_type": "WaitForProgram", "inputs": inputs},
        "2": {"class_type": "Show", "inputs": {"value": ["1", 0]}},
    }
    wait_until(lambda: has_idle_worker(running), limit=30)
    running.submit(graph)


def until_at_work(marks: Sequence[Path]) -> list[int]:
    """The numbers of the programs that the jobs' nodes have started last, once all are there."""

    def look() -> list[int] | None:
        numbers = [int(mark.read_text().split()[0]) for mark in marks if mark.exists()]
        are_there = len(numbers) == len(marks) and all(is_running(pid) for pid in numbers)
        return numbers if are_there else None

    found = wait_until(look, limit=30)
    assert found is not None
    return found


def has_idle_worker(running: Comfyrail) -> bool:
    workers = running.call("GET", "/v1/workers")[1]["workers"]
    return any(worker["status"] == "idle" for worker in workers)
