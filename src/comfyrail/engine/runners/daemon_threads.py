"""Threads that do not keep the process alive: one that hangs can be left behind."""

import asyncio
import contextlib
import contextvars
import queue
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal, TypeVar

Value = TypeVar("Value")


@dataclass(slots=True, eq=False)
class _Job:
    call: Callable[[], Any]
    loop: asyncio.AbstractEventLoop
    future: "asyncio.Future[Any]"
    state: Literal["waiting", "running", "dropped"] = "waiting"
    is_left: bool = False


class DaemonThreads:
    """At most `most` threads that carry out calls for an event loop.

    A call whose awaiting task is cancelled is dropped if it has not begun. If it has, it goes on
    to its end, and its thread is counted out: another takes its place, so that a call that hangs
    does not take a thread away.
    """

    def __init__(self, most: int, name: str) -> None:
        self._most = most
        self._name = name
        self._jobs: queue.SimpleQueue[_Job | None] = queue.SimpleQueue()
        self._lock = threading.Lock()
        self._spare = 0
        """Idle threads less the jobs that wait for one."""
        self._alive = 0
        self.left_behind = 0

    async def run(self, call: Callable[[], Value]) -> Value:
        """The value of `call()`, which runs in a thread with this task's context variables."""
        loop = asyncio.get_running_loop()
        future: asyncio.Future[Value] = loop.create_future()
        context = contextvars.copy_context()
        job = _Job(lambda: context.run(call), loop, future)
        with self._lock:
            if self._spare <= 0 and self._alive < self._most:
                self._start_thread()
            else:
                self._spare -= 1
        self._jobs.put(job)
        try:
            return await future
        except asyncio.CancelledError:
            self._give_up(job)
            raise

    def close(self) -> None:
        with self._lock:
            alive, self._alive = self._alive, 0
        for _ in range(alive):
            self._jobs.put(None)

    def _start_thread(self) -> None:
        self._alive += 1
        threading.Thread(target=self._work, name=self._name, daemon=True).start()

    def _give_up(self, job: _Job) -> None:
        with self._lock:
            if job.state == "waiting":
                job.state = "dropped"
            elif job.state == "running":
                job.is_left = True
                self.left_behind += 1
                self._alive -= 1
                if self._spare < 0:
                    self._spare += 1
                    self._start_thread()

    def _work(self) -> None:
        while (job := self._jobs.get()) is not None:
            if not self._carry_out(job):
                return
            del job

    def _carry_out(self, job: _Job) -> bool:
        """Do a job; False when the thread was left behind meanwhile."""
        with self._lock:
            if job.state == "dropped":
                self._spare += 1
                return True
            job.state = "running"
        try:
            value, error = job.call(), None
        except BaseException as raised:  # noqa: BLE001 - goes to whoever waits
            value, error = None, raised
        with self._lock:
            if job.is_left:
                return False
            # From here on the job cannot be left behind any more.
            job.state = "dropped"
            self._spare += 1
        _settle(job.loop, job.future, value, error)
        return True


def _settle(
    loop: asyncio.AbstractEventLoop,
    future: "asyncio.Future[Any]",
    value: Any,
    error: BaseException | None,
) -> None:
    def settle() -> None:
        if future.done():
            return
        if error is None:
            future.set_result(value)
        elif isinstance(error, StopIteration):
            future.set_exception(RuntimeError("The node raised StopIteration."))
        else:
            future.set_exception(error)

    # The loop may have been closed: then the execution is over.
    with contextlib.suppress(RuntimeError):
        loop.call_soon_threadsafe(settle)
