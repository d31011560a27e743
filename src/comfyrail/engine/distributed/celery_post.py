"""A thread that hands tasks to Celery, so that the event loop never waits for the broker."""

import contextlib
import queue
import threading
import time
from collections.abc import Callable
from typing import Any

import redis
import structlog
from kombu.exceptions import KombuError, OperationalError

from comfyrail.engine.distributed.celery_app import TASK_NAME
from comfyrail.engine.distributed.celery_names import (
    CANCELLED_EXPIRE_SECONDS,
    COORDINATOR_EXPIRE_SECONDS,
    cancelled_key,
    coordinator_key,
)
from comfyrail.engine.distributed.remote_errors import BrokerUnreachable
from comfyrail.engine.distributed.waiting_tasks import WaitingTask, WaitingTasks

PATIENCE_SECONDS = 2.0
PAUSE_SECONDS = 0.2
SHOWN_EVERY_SECONDS = 5.0
CLOSE_SECONDS = 10.0

TROUBLE = (KombuError, OperationalError, redis.RedisError, OSError)

log = structlog.get_logger(__name__)


class TaskPost:
    """Sends in the order given. Its thread starts with the first task."""

    def __init__(
        self, app: Any, queue_name: str, client: redis.Redis, coordinator: str, tasks: WaitingTasks
    ) -> None:
        self._app = app
        self._queue_name = queue_name
        self._redis = client
        self._coordinator = coordinator
        self._tasks = tasks
        self._work: queue.SimpleQueue[Callable[[], None] | None] = queue.SimpleQueue()
        self._thread: threading.Thread | None = None
        self._connection: Any = None
        self._producer: Any = None
        self._shown_at = -SHOWN_EVERY_SECONDS
        self._away_since: float | None = None

    def send(self, task: WaitingTask) -> None:
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name="task-post", daemon=True)
            self._thread.start()
        self._work.put(lambda: self._send(task))

    def cancel(self, task_id: str) -> None:
        """Let no worker begin this task any more."""
        self._work.put(lambda: self._cancel(task_id))

    def close(self) -> None:
        """Send what waits, within some seconds."""
        if self._thread is not None:
            self._work.put(None)
            self._thread.join(CLOSE_SECONDS)

    def _run(self) -> None:
        while (work := self._work.get()) is not None:
            try:
                work()
            except Exception:  # the next task must not suffer for this one
                log.exception("task_post_failed")
        self._disconnect()

    def _send(self, task: WaitingTask) -> None:
        while not task.future.done():
            try:
                self._publish(task)
            except TROUBLE as error:
                self._disconnect()
                now = time.monotonic()
                self._away_since = now if self._away_since is None else self._away_since
                # All tasks together have this patience, not each for itself.
                if now - self._away_since > PATIENCE_SECONDS:
                    self._tasks.fail(task.id, unreachable(error))
                    return
                time.sleep(PAUSE_SECONDS)
            except Exception as error:  # noqa: BLE001 - whoever waits must hear of it
                self._tasks.fail(task.id, error)
                return
            else:
                self._away_since = None
                return

    def _publish(self, task: WaitingTask) -> None:
        self._show_that_we_wait()
        if self._producer is None:
            self._connection = self._app.connection_for_write()
            self._connection.connect()
            self._producer = self._app.amqp.Producer(self._connection)
        self._app.send_task(
            TASK_NAME,
            args=[task.text, self._coordinator],
            task_id=f"{task.id}-{task.attempt}",
            queue=self._queue_name,
            producer=self._producer,
            ignore_result=True,
            retry=False,
        )
        task.sent_at = time.monotonic()

    def _show_that_we_wait(self) -> None:
        now = time.monotonic()
        if now - self._shown_at >= SHOWN_EVERY_SECONDS:
            key = coordinator_key(self._coordinator)
            self._redis.set(key, b"1", ex=COORDINATOR_EXPIRE_SECONDS)
            self._shown_at = now

    def _cancel(self, task_id: str) -> None:
        try:
            self._redis.set(cancelled_key(task_id), b"1", ex=CANCELLED_EXPIRE_SECONDS)
        except redis.RedisError as error:
            log.warning("task_not_cancelled", task_id=task_id, error=str(error))

    def _disconnect(self) -> None:
        connection, self._connection, self._producer = self._connection, None, None
        self._shown_at = -SHOWN_EVERY_SECONDS
        if connection is not None:
            with contextlib.suppress(*TROUBLE):
                connection.close()


def unreachable(error: Exception) -> BrokerUnreachable:
    lines = str(error).splitlines()
    return BrokerUnreachable(
        f"The broker that nodes are sent through cannot be reached ({lines[0] if lines else ''}). "
        "Start it, or mend execution.distributed.broker_url."
    )
