"""Wait for the ends of many Jobs with one stream of events."""

import asyncio

import aiohttp
import structlog

from comfyrail.engine.distributed.kubernetes_api import KubernetesApi, VersionGone
from comfyrail.engine.distributed.kubernetes_jobs import (
    COORDINATOR_LABEL,
    JobEnd,
    end_of_job,
    task_of_job,
)
from comfyrail.engine.distributed.remote_errors import ServiceUnreachable

PAUSE_SECONDS = 0.2
LONGEST_PAUSE_SECONDS = 10.0
MOST_FAILURES = 8

log = structlog.get_logger(__name__)


class JobWatch:
    """Belongs to one event loop. Watches while there is a Job to wait for, and until the stream of
    that time has ended.

    It lists the Jobs, then follows what changes since that list. A stream that breaks is taken up
    where it was; when the server has forgotten that version, the Jobs are listed again.
    """

    def __init__(self, api: KubernetesApi, coordinator: str) -> None:
        self._api = api
        self._selector = f"{COORDINATOR_LABEL}={coordinator}"
        self._ends: dict[str, asyncio.Future[JobEnd]] = {}
        self._created: set[str] = set()
        self._task: asyncio.Task[None] | None = None

    def expect(self, task_id: str) -> "asyncio.Future[JobEnd]":
        """The end of the Job of a task, which is about to be created."""
        future: asyncio.Future[JobEnd] = asyncio.get_running_loop().create_future()
        self._ends[task_id] = future
        return future

    def was_created(self, task_id: str) -> None:
        """From now on the Job is there, or it has been deleted."""
        self._created.add(task_id)
        if self._task is None or self._task.done():
            self._task = asyncio.create_task(self._watch(), name="job-watch")

    def forget(self, task_id: str) -> None:
        self._ends.pop(task_id, None)
        self._created.discard(task_id)

    def stop(self) -> None:
        if self._task is not None:
            self._task.cancel()

    async def _watch(self) -> None:
        version: str | None = None
        failures = 0
        while self._ends:
            try:
                version = await self._list() if version is None else version
                version = await self._follow(version)
                failures = 0
            except VersionGone:
                version = None
            except (aiohttp.ClientError, TimeoutError, OSError) as error:
                failures = await self._on_trouble(error, failures)
            except Exception as error:  # noqa: BLE001 - refused, or an answer that makes no sense
                version = None
                failures = await self._on_trouble(error, failures)

    async def _on_trouble(self, error: Exception, failures: int) -> int:
        """Pause, longer each time; after many times in a row, whoever waits is told."""
        log.warning("job_watch_in_trouble", error=str(error))
        if failures + 1 >= MOST_FAILURES:
            self._fail_all(error)
        await asyncio.sleep(min(PAUSE_SECONDS * 2**failures, LONGEST_PAUSE_SECONDS))
        return failures + 1

    async def _list(self) -> str:
        expected = set(self._created)
        jobs, version = await self._api.list_jobs(self._selector)
        found = {task_of_job(job) for job in jobs}
        for job in jobs:
            self._take(task_of_job(job), end_of_job(job))
        for task_id in expected - found:
            self._take(task_id, JobEnd("deleted"))
        return version

    async def _follow(self, version: str) -> str:
        """Gives the last version that was seen. Raises VersionGone."""
        async for event in self._api.watch_jobs(self._selector, version):
            job = event["object"]
            if event["type"] == "ERROR":
                # Whatever it is, a new list is the way out of it.
                log.info("job_watch_error", code=job.get("code"), message=job.get("message"))
                raise VersionGone
            version = str(job["metadata"]["resourceVersion"])
            if event["type"] == "DELETED":
                self._take(task_of_job(job), end_of_job(job) or JobEnd("deleted"))
            elif event["type"] != "BOOKMARK":
                self._take(task_of_job(job), end_of_job(job))
        return version

    def _take(self, task_id: str | None, end: JobEnd | None) -> None:
        future = None if task_id is None else self._ends.get(task_id)
        if future is not None and end is not None and not future.done():
            future.set_result(end)

    def _fail_all(self, error: Exception) -> None:
        told = ServiceUnreachable(f"The Jobs cannot be watched: {error}")
        for future in self._ends.values():
            if not future.done():
                future.set_exception(told)
