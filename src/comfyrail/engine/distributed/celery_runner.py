"""Nodes on Celery workers: the broker is Redis or Valkey (version 6 or later)."""

import asyncio
import secrets

from comfyrail.engine.definition import NodeDefinition
from comfyrail.engine.distributed.broker_client import connect
from comfyrail.engine.distributed.celery_app import make_app
from comfyrail.engine.distributed.celery_post import TaskPost
from comfyrail.engine.distributed.celery_replies import ReplyReader
from comfyrail.engine.distributed.celery_watch import TaskWatch
from comfyrail.engine.distributed.settings import DistributedSection
from comfyrail.engine.distributed.task import RemoteTask, TaskReply
from comfyrail.engine.distributed.waiting_tasks import WaitingTask, WaitingTasks
from comfyrail.errors import ConfigurationError

LARGEST_TASK = 1 << 20


class CeleryTransport:
    """One task for each node, in one queue; replies come back through a list in Redis.

    A worker that is killed is noticed when its lease ends; the task is then sent again.
    """

    largest_task = LARGEST_TASK

    def __init__(self, section: DistributedSection) -> None:
        """Does not connect yet. Raises ConfigurationError."""
        coordinator = secrets.token_hex(16)
        try:
            self._redis = connect(section.broker_url)
        except ValueError as error:
            raise ConfigurationError(
                f"execution.distributed.broker_url cannot be used: {error} "
                "Write it as redis://host:6379/0, rediss://… or unix://…"
            ) from error
        app = make_app(section.broker_url, section.queue, waits_for_broker=False)
        self._tasks = WaitingTasks()
        self._post = TaskPost(app, section.queue, self._redis, coordinator, self._tasks)
        watch = TaskWatch(
            self._redis,
            section.queue,
            coordinator,
            self._tasks,
            lease_seconds=section.lease_seconds,
            most_attempts=section.most_attempts,
            send=self._post.send,
            cancel=self._post.cancel,
        )
        self._replies = ReplyReader(self._redis, coordinator, self._tasks, watch)

    async def carry(self, task: RemoteTask, text: bytes, _: NodeDefinition) -> TaskReply:
        loop = asyncio.get_running_loop()
        future: asyncio.Future[TaskReply] = loop.create_future()
        waiting = WaitingTask(task.id, text.decode(), task.timeout, loop, future)
        self._tasks.add(waiting)
        self._post.send(waiting)
        self._replies.start()
        try:
            reply = await future
        except asyncio.CancelledError:
            if self._tasks.forget(task.id) is not None:
                self._post.cancel(task.id)
            raise
        if waiting.attempt > 1:
            # The broker will one day give out what the lost worker had taken.
            self._post.cancel(task.id)
        return reply

    def close(self) -> None:
        self._post.close()
        self._replies.close()
        self._redis.close()
