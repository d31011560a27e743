"""The thread that executes, and how what it reports gets to the event loop."""

import asyncio
import contextlib
import queue
import threading
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import structlog

from comfyrail.engine.events import (
    Event,
    ExecutionFailed,
    NodeExecuted,
    NodeProgress,
)
from comfyrail.engine.execution import ExecutionRequest
from comfyrail.engine.executor import Executor
from comfyrail.engine.failures import full_type_name
from comfyrail.engine.interrupt import Interrupt
from comfyrail.engine.retention import OutputRetention
from comfyrail.errors import ConfigurationError


@dataclass(frozen=True, slots=True)
class ExecutionDone:
    """The last report about an execution: the thread is free again."""


log = structlog.get_logger(__name__)

MOST_REPORTS_AT_ONCE = 256

Call = Callable[[], None]
Report = Event | ExecutionDone | Call
"""A call is made where the reports before it have been taken: a node's own message."""
ReportSink = Callable[[Sequence[Report]], None]
RequestReader = Callable[[], ExecutionRequest]


class Outbox:
    """Reports on their way from the thread to the loop: many at a time, in order.

    Of several progress reports of one node that nobody took yet only the last is kept, so that a
    node that reports faster than the loop can listen does not fill the memory.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop, deliver: ReportSink) -> None:
        self._loop = loop
        self._deliver = deliver
        self._lock = threading.Lock()
        self._waiting: deque[Report] = deque()
        self._handing_over = False

    def put(self, report: Report) -> None:
        with self._lock:
            if self._waiting and _is_newer_progress(report, self._waiting[-1]):
                self._waiting.pop()
            self._waiting.append(report)
            if self._handing_over:
                return
            self._handing_over = True
        # The loop may have ended while a node was still running: then nobody listens any more.
        with contextlib.suppress(RuntimeError):
            self._loop.call_soon_threadsafe(self._hand_over)

    def _hand_over(self) -> None:
        """Deliver some reports; the rest comes after the sockets have had their turn to send."""
        with self._lock:
            count = min(len(self._waiting), MOST_REPORTS_AT_ONCE)
            reports = [self._waiting.popleft() for _ in range(count)]
            self._handing_over = bool(self._waiting)
        try:
            self._deliver(reports)
        except Exception:
            # Whoever takes them is at fault; if nothing came after, the worker would be mute.
            log.exception("reports_lost", count=count)
        if self._handing_over:
            self._loop.call_soon(self._hand_over)


class ExecutionThread:
    """Runs one execution at a time, in the order in which they were given."""

    def __init__(self, executor: Executor, retention: OutputRetention | None) -> None:
        self._executor = executor
        self._retention = retention
        self._work: queue.SimpleQueue[Callable[[], None] | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._loop, name="executor", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def execute(self, read: RequestReader, interrupt: Interrupt, outbox: Outbox) -> None:
        """`read` gives the request, in the thread: to parse a large one takes a while."""
        self._work.put(lambda: self._execute(read, interrupt, outbox))

    def free(self, *, unload_models: bool, free_memory: bool) -> None:
        """Let go of what is kept between executions, after what was given before."""
        self._work.put(
            lambda: self._executor.free(unload_models=unload_models, free_memory=free_memory)
        )

    def stop(self, timeout: float) -> None:
        """End after the current work; a node that does not look up is left behind."""
        self._work.put(None)
        self._thread.join(timeout)

    def _loop(self) -> None:
        while (work := self._work.get()) is not None:
            try:
                work()
            except Exception:
                log.exception("work_between_prompts_failed")
        self._executor.close()

    def _execute(self, read: RequestReader, interrupt: Interrupt, outbox: Outbox) -> None:
        def report(event: Event) -> None:
            if self._retention is not None and isinstance(event, NodeExecuted):
                self._retention.note(event.ui)
            outbox.put(event)

        try:
            self._executor.run(read(), report, interrupt)
        except BaseException as error:  # noqa: BLE001 - the thread outlives even a node that exits
            outbox.put(_engine_failure(error, self._executor))
        outbox.put(ExecutionDone())
        if self._retention is not None:
            self._retention.enforce()


def _is_newer_progress(report: Report, waiting: Report) -> bool:
    return (
        isinstance(report, NodeProgress)
        and isinstance(waiting, NodeProgress)
        and report.node_id == waiting.node_id
    )


def _engine_failure(error: BaseException, executor: Executor) -> ExecutionFailed:
    asked_wrongly = isinstance(error, ConfigurationError)
    return ExecutionFailed(
        node_id="",
        node_type="",
        exception_type=full_type_name(error),
        message=str(error) if asked_wrongly else f"The engine itself failed: {error}",
        traceback=(),
        inputs={},
        executed=(),
        finished=(),
        at=executor.clock.now(),
        kind="validation" if asked_wrongly else "runtime",
    )
