"""Notice tasks that were lost on the way or with their worker, and those that hang."""

import json
import time
from collections.abc import Callable, Sequence

import redis
import structlog

from comfyrail.engine.distributed.celery_names import (
    COORDINATOR_EXPIRE_SECONDS,
    coordinator_key,
    lease_of,
)
from comfyrail.engine.distributed.waiting_tasks import WaitingTask, WaitingTasks
from comfyrail.engine.failures import NodeTimeout, WorkerLost

MOST_LOOKED_THROUGH = 20_000
"""Messages in the queue; in a longer one every task counts as waiting."""

log = structlog.get_logger(__name__)


class TaskWatch:
    """Looks a few times in the life of a lease.

    A task is in one of four places: in the queue; with a worker that keeps its lease alive; in the
    list of replies; or nowhere, when its worker was killed or took it and never began. One that is
    nowhere for a while is sent again, `most_attempts` times in all.
    """

    def __init__(
        self,
        client: redis.Redis,
        queue_name: str,
        coordinator: str,
        tasks: WaitingTasks,
        *,
        lease_seconds: float,
        most_attempts: int,
        send: Callable[[WaitingTask], None],
        cancel: Callable[[str], None],
    ) -> None:
        self.interval = lease_seconds / 3
        self._redis = client
        self._queue_name = queue_name
        self._coordinator = coordinator
        self._tasks = tasks
        self._lease_seconds = lease_seconds
        self._most_attempts = most_attempts
        self._send = send
        self._cancel = cancel
        self._has_told = False

    def look(self) -> None:
        """Raises redis.RedisError."""
        tasks = [task for task in self._tasks.all() if task.sent_at is not None]
        pipeline = self._redis.pipeline(transaction=False)
        pipeline.set(coordinator_key(self._coordinator), b"1", ex=COORDINATOR_EXPIRE_SECONDS)
        for task in tasks:
            pipeline.exists(lease_of(task.id))
        running = pipeline.execute()[1:]
        now = time.monotonic()
        idle: list[WaitingTask] = []
        for task, is_running in zip(tasks, running, strict=True):
            if is_running:
                self._on_running(task, now)
            else:
                idle.append(task)
        queued = self._queued_ids() if idle else set()
        self._tell_of_waiting(idle, now, any_running=len(idle) < len(tasks))
        for task in idle:
            if queued is None or task.id in queued:
                task.missing_since = None
            else:
                self._on_missing(task, now)

    def _tell_of_waiting(
        self, idle: Sequence[WaitingTask], now: float, *, any_running: bool
    ) -> None:
        """Say it once when tasks wait and nobody takes any: perhaps no helper runs at all."""
        oldest = min((task.sent_at or now for task in idle), default=now)
        if any_running or not idle:
            self._has_told = False
        elif not self._has_told and now - oldest > self._lease_seconds:
            self._has_told = True
            log.warning(
                "no_helper_takes_tasks",
                queue=self._queue_name,
                waiting=len(idle),
                advice="Start `comfyrail celery-worker` with the same broker and queue.",
            )

    def _on_running(self, task: WaitingTask, now: float) -> None:
        task.missing_since = None
        if task.started_at is None:
            task.started_at = now
        # The worker itself ends a node that takes too long. This is for one that cannot.
        if task.timeout is not None and now > task.started_at + task.timeout + self._lease_seconds:
            self._cancel(task.id)
            error = NodeTimeout(f"The node did not finish within {task.timeout:g} s.")
            self._tasks.fail(task.id, error)

    def _on_missing(self, task: WaitingTask, now: float) -> None:
        if task.missing_since is None:
            task.missing_since = now
        # After a lease has ended only the reply may still be on its way. A task that nobody was
        # seen to run may be in the hands of a worker that is about to begin.
        patience = self._lease_seconds if task.started_at is None else self.interval
        if now - task.missing_since < patience:
            return
        if task.attempt >= self._most_attempts:
            self._tasks.fail(
                task.id,
                WorkerLost(
                    f"{task.attempt} workers were lost while they had this node. "
                    "It may use up their memory, or there is trouble with their machines."
                ),
            )
            return
        log.warning("task_lost", task_id=task.id, attempt=task.attempt)
        task.attempt += 1
        task.sent_at = task.started_at = task.missing_since = None
        self._send(task)

    def _queued_ids(self) -> set[str] | None:
        """The tasks that wait in the queue; None where it is too long to look through."""
        length = self._redis.llen(self._queue_name)
        if length > MOST_LOOKED_THROUGH:
            return None
        messages = self._redis.lrange(self._queue_name, 0, -1) if length else ()
        ids = map(_task_id_of, messages)
        return {task_id for task_id in ids if task_id is not None}


def _task_id_of(message: bytes | str) -> str | None:
    """Ours are called after the task and the attempt."""
    try:
        name = json.loads(message)["headers"]["id"]
    except (ValueError, KeyError, TypeError):
        return None
    return str(name).partition("-")[0]
