"""Nodes that do not look up when they are interrupted are stopped all the same [4.7]."""

import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from comfyrail.engine.interrupt import ExecutionHalted, Interrupt
from tests.processes import Comfyrail, wait_until

PACK = Path(__file__).parent / "stuck_nodes.py"


class StuckWorker(Comfyrail):
    """A real worker process with the pack of stuck nodes."""

    def __init__(self, folder: Path) -> None:
        super().__init__("worker", "--port", "0", "--nodes", str(PACK), data=folder / "worker")
        self._folder = folder
        self._marks = 0

    @property
    def mark(self) -> Path:
        """What the stuck node of the last graph writes to."""
        return self._folder / f"mark-{self._marks}"

    def graph(self, node_type: str) -> dict[str, Any]:
        """A picture is saved, then a node is stuck for a minute."""
        self._marks += 1
        picture = {"width": 8, "height": 8, "batch_size": 1, "color": 0}
        saving = {"images": ["1", 0], "filename_prefix": "a"}
        return {
            "1": {"class_type": "EmptyImage", "inputs": picture},
            "2": {"class_type": "SaveImage", "inputs": saving},
            "3": {"class_type": node_type, "inputs": {"mark": str(self.mark), "seconds": 60.0}},
            "4": {"class_type": "Show", "inputs": {"value": ["3", 0]}},
        }

    def run(self, node_type: str) -> str:
        status, body = self.call("POST", "/prompt", {"prompt": self.graph(node_type)})
        assert status == 200, body
        return str(body["prompt_id"])

    def until_stuck(self) -> None:
        wait_until(self.mark.exists)

    @property
    def lives(self) -> int:
        return 1 + self.log.count("worker_began_anew")

    def ended(self, prompt_id: str) -> dict[str, Any]:
        def look() -> Any:
            try:
                return self.call("GET", f"/history/{prompt_id}")[1].get(prompt_id)
            except OSError:
                return None  # its connections drop when it begins anew

        found = wait_until(look)
        assert isinstance(found, dict)
        return found


@pytest.fixture(scope="module")
def worker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[StuckWorker]:
    with StuckWorker(tmp_path_factory.mktemp("stuck")) as running:
        yield running


def kinds_of(entry: dict[str, Any]) -> list[str]:
    return [kind for kind, _ in entry["status"]["messages"]]


@pytest.mark.parametrize("node_type", ["LoopStuck", "SleepStuck", "ComputeStuck", "SwallowStuck"])
def test_node_that_does_not_look_up_is_stopped_and_the_worker_goes_on(
    worker: StuckWorker, node_type: str
) -> None:
    stuck = worker.run(node_type)
    worker.until_stuck()
    worker.call("POST", "/interrupt", {"prompt_id": stuck})
    entry = worker.ended(stuck)
    assert kinds_of(entry)[-1] == "execution_interrupted"
    assert entry["status"]["messages"][-1][1]["node_type"] == node_type
    ((saved,),) = [shown["images"] for shown in entry["outputs"].values()]
    assert saved["filename"].startswith("a_")
    assert worker.mark.read_text() == "here"
    assert worker.call("GET", "/queue")[1] == {"queue_running": [], "queue_pending": []}
    graph = {"1": {"class_type": "Show", "inputs": {"value": 5}}}
    _, body = worker.call("POST", "/prompt", {"prompt": graph})
    assert kinds_of(worker.ended(body["prompt_id"]))[-1] == "execution_success"


def test_loop_in_python_is_broken_off_without_a_new_life(worker: StuckWorker) -> None:
    lives = worker.lives
    stuck = worker.run("LoopStuck")
    worker.until_stuck()
    worker.call("POST", "/interrupt")
    worker.ended(stuck)
    assert worker.lives == lives


def test_new_life_has_the_same_process_port_queue_and_history(worker: StuckWorker) -> None:
    lives = worker.lives
    graph = {"1": {"class_type": "Show", "inputs": {"value": 5}}}
    _, body = worker.call("POST", "/prompt", {"prompt": graph})
    before, number = body["prompt_id"], body["number"]
    known = worker.ended(before)
    stuck = worker.run("SleepStuck")
    worker.until_stuck()
    _, body = worker.call("POST", "/prompt", {"prompt": graph, "prompt_id": "waiting"})
    worker.call("POST", "/interrupt", {"prompt_id": stuck})
    assert kinds_of(worker.ended("waiting"))[-1] == "execution_success"
    assert worker.ended(before) == known
    assert worker.process.poll() is None
    assert worker.lives == lives + 1
    _, body = worker.call("POST", "/prompt", {"prompt": graph})
    assert body["number"] == number + 3


def test_worker_that_is_told_to_end_does_not_begin_anew(tmp_path: Path) -> None:
    with StuckWorker(tmp_path) as ending:
        ending.run("SleepStuck")
        ending.until_stuck()
        assert ending.stop() == 0
        assert ending.lives == 1


# Calls that are broken off


def in_thread(work: Callable[[], Any]) -> tuple[threading.Thread, list[BaseException | str]]:
    outcome: list[BaseException | str] = []

    def run() -> None:
        try:
            work()
            outcome.append("returned")
        except BaseException as error:  # noqa: BLE001 - it is what is looked at
            outcome.append(error)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    return thread, outcome


def test_call_is_broken_off_only_after_the_request() -> None:
    interrupt, is_in = Interrupt(), threading.Event()
    may_end = threading.Event()

    def loop() -> None:
        is_in.set()
        while not may_end.is_set():
            time.sleep(0.001)

    thread, outcome = in_thread(lambda: interrupt.calls.run(loop, {}, {}))
    is_in.wait()
    interrupt.insist()
    may_end.set()
    thread.join(10)
    assert outcome == ["returned"]


def test_exception_never_strikes_outside_of_the_call() -> None:
    """Many short calls are broken off at any moment: what comes after them is never hit."""
    for _ in range(60):
        interrupt, may_end = Interrupt(), threading.Event()
        struck: list[str] = []

        def work(
            interrupt: Interrupt = interrupt,
            may_end: threading.Event = may_end,
            struck: list[str] = struck,
        ) -> None:
            while not may_end.is_set():
                try:
                    interrupt.calls.run(lambda: None, {}, {})
                except ExecutionHalted:
                    return
                try:
                    for _ in range(50):
                        pass
                except ExecutionHalted:
                    struck.append("outside")

        thread, outcome = in_thread(work)
        interrupt.request()
        interrupt.insist()
        may_end.set()
        thread.join(10)
        assert not thread.is_alive()
        assert struck == []
        assert outcome == ["returned"]


def test_calls_in_several_threads_are_all_broken_off() -> None:
    interrupt = Interrupt()
    barrier = threading.Barrier(4)

    def loop() -> None:
        barrier.wait()
        while True:
            time.sleep(0.001)

    threads = [in_thread(lambda: interrupt.calls.run(loop, {}, {})) for _ in range(3)]
    barrier.wait()
    interrupt.request()
    interrupt.insist()
    for thread, outcome in threads:
        thread.join(10)
        assert isinstance(outcome[0], ExecutionHalted)
