"""The tasks that a coordinator has sent and waits for."""

import asyncio
import contextlib
import threading
from dataclasses import dataclass, field

from comfyrail.engine.distributed.task import TaskReply


@dataclass(slots=True, eq=False)
class WaitingTask:
    """`future` belongs to `loop`; all else is read and written by the threads of the transport."""

    id: str
    text: str
    timeout: float | None
    loop: asyncio.AbstractEventLoop
    future: "asyncio.Future[TaskReply]"
    attempt: int = 1
    sent_at: float | None = None
    started_at: float | None = None
    """When someone was first seen to run it."""
    missing_since: float | None = None
    """Since when it is neither in the queue nor run by anybody."""


@dataclass(slots=True)
class WaitingTasks:
    """May be used from any thread. A task ends once: by reply, by error, or forgotten."""

    _lock: threading.Lock = field(default_factory=threading.Lock)
    _tasks: dict[str, WaitingTask] = field(default_factory=dict)
    _any: threading.Event = field(default_factory=threading.Event)

    def add(self, task: WaitingTask) -> None:
        with self._lock:
            self._tasks[task.id] = task
            self._any.set()

    def all(self) -> list[WaitingTask]:
        with self._lock:
            return list(self._tasks.values())

    def wait_for_any(self) -> None:
        """Until there is a task, or `wake` is called."""
        self._any.wait()

    def rest_if_none(self) -> None:
        """Let `wait_for_any` wait if there is no task."""
        with self._lock:
            if not self._tasks:
                self._any.clear()

    def wake(self) -> None:
        self._any.set()

    def forget(self, task_id: str) -> WaitingTask | None:
        """Gives the task if it was still waited for."""
        with self._lock:
            return self._tasks.pop(task_id, None)

    def reply(self, reply: TaskReply) -> None:
        task = self.forget(reply.id)
        if task is not None:
            _settle(task, reply)

    def fail(self, task_id: str, error: Exception) -> None:
        task = self.forget(task_id)
        if task is not None:
            _settle(task, error)


def _settle(task: WaitingTask, end: TaskReply | Exception) -> None:
    def settle() -> None:
        if task.future.done():
            return
        if isinstance(end, Exception):
            task.future.set_exception(end)
        else:
            task.future.set_result(end)

    # The loop may have been closed: then the execution is over.
    with contextlib.suppress(RuntimeError):
        task.loop.call_soon_threadsafe(settle)
