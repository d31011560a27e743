"""The worker's side of the keys in Redis: take a task, keep its lease alive, hand in the reply."""

import secrets
import threading
import time
from dataclasses import dataclass

import redis
import structlog

from comfyrail.engine.distributed.broker_client import connect
from comfyrail.engine.distributed.celery_names import (
    RENEW,
    REPLIES_EXPIRE_SECONDS,
    cancelled_key,
    coordinator_key,
    lease_of,
    replies_of,
)

HAND_IN_SECONDS = 20.0
PAUSE_SECONDS = 0.2

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True, eq=False)
class TakenTask:
    task_id: str
    coordinator: str
    token: str


class TaskDesk:
    """Used by the thread that runs tasks; a thread of its own renews the lease of the task that
    runs, three times in the life of one. When the process dies, the lease ends, and the coordinator
    sends the task again.
    """

    def __init__(self, broker_url: str, lease_seconds: float) -> None:
        """Does not connect yet."""
        self._redis = connect(broker_url)
        self._milliseconds = round(lease_seconds * 1000)
        self._current: TakenTask | None = None
        self._stopped = threading.Event()
        self._renewer: threading.Thread | None = None

    def take(self, task_id: str, coordinator: str) -> TakenTask | None:
        """Begin a task; None where it should not be run: another runs it, it was cancelled, or
        whoever waited for it is gone. Raises redis.RedisError.
        """
        taken = TakenTask(task_id, coordinator, secrets.token_hex(16))
        pipeline = self._redis.pipeline(transaction=False)
        pipeline.set(lease_of(task_id), taken.token, nx=True, px=self._milliseconds)
        pipeline.exists(cancelled_key(task_id))
        pipeline.exists(coordinator_key(coordinator))
        is_ours, is_cancelled, is_awaited = pipeline.execute()
        if not is_ours:
            log.debug("task_runs_elsewhere", task_id=task_id)
            return None
        if is_cancelled or not is_awaited:
            log.debug("task_not_wanted", task_id=task_id, cancelled=bool(is_cancelled))
            self._redis.delete(lease_of(task_id))
            return None
        self._current = taken
        if self._renewer is None:
            self._renewer = threading.Thread(target=self._renew, name="task-lease", daemon=True)
            self._renewer.start()
        return taken

    def hand_in(self, taken: TakenTask, reply: bytes) -> None:
        """Send the reply and let go of the task. Tries for a while where the broker is away."""
        deadline = time.monotonic() + HAND_IN_SECONDS
        while True:
            try:
                self._push(taken, reply)
            except redis.RedisError as error:
                if time.monotonic() > deadline:
                    # The coordinator will send the task again, and its result is there already.
                    log.warning("reply_not_sent", task_id=taken.task_id, error=str(error))
                    break
                time.sleep(PAUSE_SECONDS)
            else:
                break
        self._current = None

    def close(self) -> None:
        self._stopped.set()
        if self._renewer is not None:
            self._renewer.join()
        self._redis.close()

    def _push(self, taken: TakenTask, reply: bytes) -> None:
        replies = replies_of(taken.coordinator)
        pipeline = self._redis.pipeline(transaction=False)
        pipeline.rpush(replies, reply)
        pipeline.expire(replies, REPLIES_EXPIRE_SECONDS)
        # Even if it is another's by now: whoever waited has its reply.
        pipeline.delete(lease_of(taken.task_id))
        pipeline.execute()

    def _renew(self) -> None:
        while not self._stopped.wait(self._milliseconds / 3000):
            taken = self._current
            if taken is None:
                continue
            try:
                self._redis.eval(
                    RENEW, 1, lease_of(taken.task_id), taken.token, str(self._milliseconds)
                )
            except redis.RedisError as error:
                log.warning("lease_not_renewed", task_id=taken.task_id, error=str(error))
