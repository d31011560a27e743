"""A thread that waits for the replies of all tasks at once, and looks after those without one."""

import contextlib
import threading
import time

import redis
import structlog

from comfyrail.engine.distributed.celery_names import coordinator_key, replies_of
from comfyrail.engine.distributed.celery_post import unreachable
from comfyrail.engine.distributed.celery_watch import TaskWatch
from comfyrail.engine.distributed.task import UnreadableMessage, read_reply
from comfyrail.engine.distributed.waiting_tasks import WaitingTasks

BLOCK_SECONDS = 1.0
PAUSE_SECONDS = 0.2
PATIENCE_SECONDS = 10.0
CLOSE_SECONDS = 10.0

log = structlog.get_logger(__name__)


class ReplyReader:
    """Its thread starts with the first task, and rests while there is none."""

    def __init__(
        self, client: redis.Redis, coordinator: str, tasks: WaitingTasks, watch: TaskWatch
    ) -> None:
        self._redis = client
        self._coordinator = coordinator
        self._tasks = tasks
        self._watch = watch
        self._stopped = False
        self._thread: threading.Thread | None = None
        self._next_look = 0.0
        self._silent_since: float | None = None

    def start(self) -> None:
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name="task-replies", daemon=True)
            self._thread.start()

    def close(self) -> None:
        if self._thread is None:
            return
        self._stopped = True
        self._tasks.wake()
        with contextlib.suppress(redis.RedisError):
            self._redis.rpush(replies_of(self._coordinator), b"")  # so that it need not wait
        self._thread.join(CLOSE_SECONDS)
        with contextlib.suppress(redis.RedisError):
            self._redis.delete(replies_of(self._coordinator), coordinator_key(self._coordinator))

    def _run(self) -> None:
        while not self._stopped:
            self._tasks.wait_for_any()
            try:
                self._read_one()
                if time.monotonic() >= self._next_look:
                    self._watch.look()
                    self._next_look = time.monotonic() + self._watch.interval
                self._silent_since = None
            except redis.RedisError as error:
                self._on_trouble(error)
            except Exception:  # the thread must go on for the other tasks
                log.exception("task_replies_failed")
                time.sleep(PAUSE_SECONDS)

    def _read_one(self) -> None:
        pause = min(BLOCK_SECONDS, max(0.01, self._next_look - time.monotonic()))
        found = self._redis.blpop([replies_of(self._coordinator)], timeout=pause)
        if not isinstance(found, list | tuple):
            self._tasks.rest_if_none()
            return
        if not found[1]:
            return
        try:
            self._tasks.reply(read_reply(found[1]))
        except UnreadableMessage as error:
            log.warning("reply_unreadable", error=str(error))

    def _on_trouble(self, error: redis.RedisError) -> None:
        now = time.monotonic()
        if self._silent_since is None:
            self._silent_since = now
            log.warning("broker_in_trouble", error=str(error))
        if now - self._silent_since > PATIENCE_SECONDS:
            for task in self._tasks.all():
                self._tasks.fail(task.id, unreachable(error))
        self._tasks.rest_if_none()
        time.sleep(PAUSE_SECONDS)
