"""Real parts for tests of distributed runs: configurations, worker processes, coordinators."""

import json
import os
import signal
import subprocess
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from comfyrail.engine.assembly import build_executor
from comfyrail.engine.configuration import EngineConfiguration, read_configuration
from comfyrail.engine.events import (
    Event,
    ExecutionSucceeded,
    NodeExecuted,
    NodeFinished,
    NodeStarted,
)
from comfyrail.engine.execution import ExecutionRequest
from comfyrail.engine.executor import Executor
from comfyrail.engine.interrupt import Interrupt
from comfyrail.engine.registry import NodeRegistry
from comfyrail.engine.server.node_sources import load_nodes
from comfyrail.engine.server.run import prepare_folders
from tests.engine.distributed import remote_pack
from tests.processes import COMFYRAIL, wait_until

Graph = dict[str, Any]

PACK = Path(remote_pack.__file__)


def nodes_of_tests() -> NodeRegistry:
    """As a worker with `--nodes remote_pack.py` has them."""
    return load_nodes(None, (), [PACK]).registry


@dataclass(frozen=True)
class Setup:
    """A configuration that the coordinator and the workers of a test share."""

    folder: Path
    execution: dict[str, Any] = field(default_factory=dict)
    distributed: dict[str, Any] = field(default_factory=dict)
    caching: dict[str, Any] = field(default_factory=dict)

    @property
    def run_log(self) -> Path:
        return self.folder / "runs.log"

    @property
    def file(self) -> Path:
        path = self.folder / "engine.yaml"
        path.write_text(yaml.safe_dump({"execution_engine": self._raw()}))
        return path

    def configuration(self) -> EngineConfiguration:
        return read_configuration(self._raw(), "test")

    def _raw(self) -> dict[str, Any]:
        section = {"remote_types": remote_pack.REMOTE, "lease_seconds": 1.0, **self.distributed}
        execution = {"strategy": "distributed", **self.execution, "distributed": section}
        return {"execution": execution, "caching": self.caching}

    # What nodes say of themselves

    def runs(self) -> list[tuple[int, str, str]]:
        """Process, `begin` or `end`, and node type, in order."""
        if not self.run_log.exists():
            return []
        lines = [line.split() for line in self.run_log.read_text().splitlines()]
        return [(int(pid), what, name) for pid, what, name in lines]

    def begun(self, name: str | None = None) -> list[int]:
        """The processes that began nodes (of this type)."""
        return [
            pid for pid, what, each in self.runs() if what == "begin" and name in {None, each[1:]}
        ]

    def busy(self, name: str) -> set[int]:
        """Processes that are in the middle of a node of this type."""
        found: set[int] = set()
        for pid, what, each in self.runs():
            if each[1:] == name:
                (found.add if what == "begin" else found.discard)(pid)
        return found


class WorkerProcess:
    """A `comfyrail celery-worker` in a process group of its own."""

    def __init__(self, setup: Setup, *arguments: str) -> None:
        self._log = setup.folder / f"worker-{id(self)}.log"
        command = [*COMFYRAIL, "celery-worker", "--config", str(setup.file), "--nodes", str(PACK)]
        with self._log.open("ab") as log:
            self.process = subprocess.Popen(
                [*command, "--announce", *arguments],
                stdout=subprocess.PIPE,
                stderr=log,
                start_new_session=True,
                env={**os.environ, "RUN_LOG": str(setup.run_log)},
            )

    @property
    def pid(self) -> int:
        return self.process.pid

    @property
    def log(self) -> str:
        return self._log.read_text()

    def wait_ready(self) -> dict[str, Any]:
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        assert line, f"it did not start: {self.log[-3000:]}"
        said = json.loads(line)
        assert isinstance(said, dict)
        return said

    def kill(self) -> None:
        """kill -9, the whole group."""
        with suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self._reap()

    def stop(self) -> int:
        if self.process.poll() is None:
            self.process.terminate()
        try:
            return self._reap(timeout=15)
        except subprocess.TimeoutExpired:
            self.kill()
            raise

    def _reap(self, timeout: float | None = None) -> int:
        code = self.process.wait(timeout)
        if self.process.stdout is not None:
            self.process.stdout.close()
        return code


@contextmanager
def workers(setup: Setup, count: int, *arguments: str) -> Iterator[list[WorkerProcess]]:
    """Workers that take tasks; ended at the end, however that comes."""
    with ExitStack() as stack:
        found = []
        for _ in range(count):
            worker = WorkerProcess(setup, *arguments)
            stack.callback(_end, worker)
            found.append(worker)
        for worker in found:
            worker.wait_ready()
        yield found


def _end(worker: WorkerProcess) -> None:
    if worker.process.returncode is None:
        worker.kill()


@contextmanager
def coordinator(setup: Setup, registry: NodeRegistry | None = None) -> Iterator[Executor]:
    executor = build_executor(
        registry or nodes_of_tests(), prepare_folders(setup.folder / "data"), setup.configuration()
    )
    try:
        yield executor
    finally:
        executor.close()


def run(
    executor: Executor,
    graph: Graph,
    *,
    interrupt: Interrupt | None = None,
    watch: Callable[[Event], None] = lambda _: None,
    **extra_data: Any,
) -> list[Event]:
    """All that happened, from a run of all outputs."""
    events: list[Event] = []
    lock = threading.Lock()

    def take(event: Event) -> None:
        with lock:
            events.append(event)
        watch(event)

    request = ExecutionRequest(graph, outputs_of(graph), extra_data, "x")
    executor.run(request, take, interrupt or Interrupt())
    return events


def outputs_of(graph: Graph) -> list[str]:
    return [name for name, entry in graph.items() if entry["class_type"] == "Show"]


def shown(events: Sequence[Event]) -> dict[str, Any]:
    assert isinstance(events[-1], ExecutionSucceeded), events[-1]
    return {event.node_id: event.ui for event in events if isinstance(event, NodeExecuted)}


def started(events: Sequence[Event]) -> list[str]:
    return [event.node_id for event in events if isinstance(event, NodeStarted)]


def story_of_each(events: Sequence[Event], graph: Graph) -> dict[str, list[str]]:
    """What happened to each node of the graph, in order."""
    stories: dict[str, list[str]] = {}
    for event in events:
        if isinstance(event, NodeStarted | NodeExecuted | NodeFinished) and event.node_id in graph:
            stories.setdefault(event.node_id, []).append(repr(event))
    return stories


def sequentially(folder: Path, graph: Graph, **execution: Any) -> list[Event]:
    """The same graph one node after the other, in this process, without any shared cache."""
    setup = Setup(folder, execution={"strategy": "sequential", **execution})
    with coordinator(setup) as executor:
        return run(executor, graph)


def node(class_type: str, **inputs: Any) -> dict[str, Any]:
    return {"class_type": class_type, "inputs": inputs}


@contextmanager
def when_busy(setup: Setup, name: str, act: Callable[[int], None]) -> Iterator[None]:
    """Call `act` once, from a thread, with a process that is in the middle of a node then."""
    failures: list[BaseException] = []

    def wait_and_act() -> None:
        try:
            act(next(iter(wait_until(lambda: setup.busy(name), pause=0.002))))
        except BaseException as error:
            failures.append(error)
            raise

    thread = threading.Thread(target=wait_and_act)
    thread.start()
    try:
        yield
    finally:
        thread.join()
    assert not failures
