"""Nodes as Jobs of Kubernetes: one Job of batch/v1 for each.

It was tried against a server of the tests that keeps to the documented API, not on a real cluster.
"""

import asyncio
import contextlib
import secrets

import structlog

from comfyrail.engine.caching.result_cache import ResultCache
from comfyrail.engine.definition import NodeDefinition
from comfyrail.engine.distributed.kubernetes_address import find_cluster
from comfyrail.engine.distributed.kubernetes_api import KubernetesApi
from comfyrail.engine.distributed.kubernetes_jobs import JobEnd, write_job
from comfyrail.engine.distributed.kubernetes_watch import JobWatch
from comfyrail.engine.distributed.loop_thread import LoopThread
from comfyrail.engine.distributed.run_task import TASK_KEY_VARIABLE, TASK_VARIABLE
from comfyrail.engine.distributed.settings import KubernetesSection
from comfyrail.engine.distributed.stored_messages import (
    message_of_text,
    reply_key,
    task_key,
    text_of_message,
)
from comfyrail.engine.distributed.task import (
    LARGEST_TASK,
    RemoteTask,
    TaskReply,
    UnreadableMessage,
    read_reply,
)
from comfyrail.engine.failures import NodeTimeout, WorkerLost
from comfyrail.engine.resources.errors import ResourceError
from comfyrail.errors import ConfigurationError

LARGEST_VARIABLE = 96 << 10
"""Linux takes 128 KiB for one variable; a larger task goes through the shared cache."""
FLUSH_SECONDS = 120.0
REPLY_ATTEMPTS = 5
REPLY_PAUSE_SECONDS = 0.2

log = structlog.get_logger(__name__)


class KubernetesTransport:
    """The task is in the Job's environment; the reply comes back through the shared cache."""

    largest_task = LARGEST_TASK

    def __init__(self, section: KubernetesSection, cache: ResultCache) -> None:
        """Does not connect yet. Raises ConfigurationError."""
        if not section.image:
            raise ConfigurationError("execution.distributed.kubernetes.image is not set.")
        self._section = section
        self._cache = cache
        self._coordinator = secrets.token_hex(16)
        self._api = KubernetesApi(find_cluster(section))
        self._watch = JobWatch(self._api, self._coordinator)
        self._thread = LoopThread("kubernetes")

    async def carry(self, task: RemoteTask, text: bytes, definition: NodeDefinition) -> TaskReply:
        return await self._thread.run(self._carry(task, text, definition))

    def close(self) -> None:
        self._thread.close(self._api.close, self._watch.stop)

    async def _carry(self, task: RemoteTask, text: bytes, definition: NodeDefinition) -> TaskReply:
        job = write_job(
            self._section,
            task,
            definition.needs,
            coordinator=self._coordinator,
            environment=await self._environment_of(task, text),
        )
        end = self._watch.expect(task.id)
        try:
            # Not to be cancelled between the Job and its name: nobody would delete it then.
            creating = asyncio.ensure_future(self._api.create_job(job))
            try:
                name = await asyncio.shield(creating)
                self._watch.was_created(task.id)
                how = await end
            except asyncio.CancelledError:
                with contextlib.suppress(ResourceError):
                    await self._api.delete_job(await creating)
                raise
        finally:
            self._watch.forget(task.id)
        return await self._reply_of(task, name, how)

    async def _environment_of(self, task: RemoteTask, text: bytes) -> dict[str, str]:
        if len(text) <= LARGEST_VARIABLE:
            return {TASK_VARIABLE: text.decode()}
        key = task_key(task.id)
        await asyncio.to_thread(self._cache.put, key, message_of_text(text.decode()))
        await asyncio.to_thread(self._cache.flush, FLUSH_SECONDS)
        return {TASK_KEY_VARIABLE: key}

    async def _reply_of(self, task: RemoteTask, name: str, end: JobEnd) -> TaskReply:
        """What the node's container has left. Raises NodeTimeout and WorkerLost."""
        for attempt in range(REPLY_ATTEMPTS):
            found = await asyncio.to_thread(self._cache.get, reply_key(task.id))
            text = text_of_message(found)
            if text is not None:
                try:
                    return read_reply(text)
                except UnreadableMessage as error:
                    raise WorkerLost(f"The Job {name} left no proper reply: {error}") from error
            if end.state != "complete":
                break
            await asyncio.sleep(REPLY_PAUSE_SECONDS * (attempt + 1))
        if end.reason == "DeadlineExceeded":
            raise NodeTimeout(f"The Job {name} took too long: {end.message}")
        why = " ".join(part for part in (end.reason, end.message) if part)
        raise WorkerLost(f"The Job {name} ended ({end.state}) without a reply. {why}".strip())
