"""What is written down while a graph runs."""

import threading
import time
from dataclasses import dataclass, field

from comfyrail.engine.definition import NodeDefinition
from comfyrail.engine.profiling.meters import IoReading, Meters, highest_memory_bytes
from comfyrail.engine.surroundings import RunningGraph

CLOSE_SECONDS = 0.001
"""Calls of one node that follow each other so closely are one stretch."""
MOST_STRETCHES = 64


@dataclass(slots=True)
class StretchRecord:
    """Time in which a node was at work without a break, in one thread."""

    began: float
    ended: float
    thread: int


@dataclass(slots=True)
class NodeRecord:
    node_id: str
    definition: NodeDefinition | None = None
    ready_at: float | None = None
    stretches: list[StretchRecord] = field(default_factory=list)
    open_calls: int = 0
    thread_cpu_seconds: float = 0.0
    process_cpu_seconds: float = 0.0
    io: tuple[int, int] | None = None
    peak_memory_bytes: int | None = None
    alone: bool = True
    blurred: bool = False
    """Whether other calls took turns with it in its thread: its own share is then not known."""
    status: str | None = None
    finished_at: float | None = None
    said_seconds: float = 0.0
    """How long it took, as the executor says."""
    output_bytes: int | None = None
    failures: int = 0


class Call:
    """One call of a node's function, measured by the thread that makes it."""

    __slots__ = (
        "_io",
        "_memory",
        "_run",
        "alone",
        "io",
        "node",
        "peak",
        "process_cpu",
        "thread",
        "thread_cpu",
    )

    def __init__(self, run: "RunRecord", node_id: str) -> None:
        self._run = run
        self._memory: int | None = None
        self._io: IoReading | None = None
        self.node = run.node(node_id)
        self.thread = 0
        self.alone = True
        self.thread_cpu = self.process_cpu = 0.0
        self.io: tuple[int, int] | None = None
        self.peak: int | None = None

    def begin(self) -> None:
        meters = self._run.meters
        self.thread = threading.get_ident()
        self._run.open(self)
        self._memory = meters.begin_peak() if self.alone else None
        self._io = meters.io()
        self.process_cpu = time.process_time()
        self.thread_cpu = time.thread_time()
        self._run.begin_stretch(self, time.perf_counter())

    def end(self) -> None:
        ended = time.perf_counter()
        self.thread_cpu = time.thread_time() - self.thread_cpu
        self.process_cpu = time.process_time() - self.process_cpu
        meters = self._run.meters
        after = meters.io()
        if self._io is not None and after is not None:
            self.io = after.since(self._io)
        if self.alone and self._memory is not None:
            highest = meters.peak()
            self.peak = None if highest is None else max(0, highest - self._memory)
        self._run.close(self, ended)


class RunRecord:
    """One execution. Nodes are noted by the thread that executes, calls by any."""

    def __init__(self, meters: Meters, execution_id: str) -> None:
        self.meters = meters
        self.execution_id = execution_id
        self.nodes: dict[str, NodeRecord] = {}
        self.known: dict[str, float] = {}
        """Nodes that need not run, and when that was found out."""
        self.graph: RunningGraph | None = None
        self.thread = threading.get_ident()
        self.outcome = "interrupted"
        self.message: str | None = None
        self._lock = threading.Lock()
        self._open: set[Call] = set()
        self._cpu = time.process_time()
        self.cpu_seconds = 0.0
        self.highest_memory_bytes = 0
        self.ended: float | None = None
        self.began = time.perf_counter()

    def end(self) -> None:
        self.ended = time.perf_counter()
        self.cpu_seconds = time.process_time() - self._cpu
        self.highest_memory_bytes = highest_memory_bytes()

    def node(self, node_id: str) -> NodeRecord:
        found = self.nodes.get(node_id)
        return self.nodes.setdefault(node_id, NodeRecord(node_id)) if found is None else found

    def open(self, call: Call) -> None:
        """Note who is at work at the same time."""
        with self._lock:
            for other in self._open:
                call.alone = other.alone = False
                if other.thread == call.thread:
                    call.node.blurred = other.node.blurred = True
            self._open.add(call)

    def begin_stretch(self, call: Call, now: float) -> None:
        node = call.node
        with self._lock:
            last = node.stretches[-1] if node.stretches else None
            goes_on = last is not None and (
                node.open_calls > 0
                or len(node.stretches) >= MOST_STRETCHES
                or (last.thread == call.thread and now - last.ended < CLOSE_SECONDS)
            )
            if not goes_on:
                node.stretches.append(StretchRecord(now, now, call.thread))
            node.open_calls += 1

    def close(self, call: Call, ended: float) -> None:
        node = call.node
        with self._lock:
            self._open.discard(call)
            node.open_calls -= 1
            node.stretches[-1].ended = max(node.stretches[-1].ended, ended)
            node.thread_cpu_seconds += call.thread_cpu
            node.process_cpu_seconds += call.process_cpu
            node.alone = node.alone and call.alone
            if call.io is not None:
                read, written = node.io or (0, 0)
                node.io = (read + call.io[0], written + call.io[1])
            if call.peak is not None:
                node.peak_memory_bytes = max(node.peak_memory_bytes or 0, call.peak)
