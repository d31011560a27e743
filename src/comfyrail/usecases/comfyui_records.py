"""A tenant's jobs as ComfyUI's clients know them: a queue, a history, files by name.

They are all jobs of the tenant, through whichever door they came.
"""

from collections.abc import Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from pathlib import Path

from comfyrail.access.principal import Principal
from comfyrail.errors import Conflict, Gone, JobNotFound, OutputNotFound
from comfyrail.ids import JobId, new_job_id
from comfyrail.jobs.events import Event, EventType
from comfyrail.jobs.job import Job, Output
from comfyrail.jobs.states import JobState
from comfyrail.results.blob_store import BlobReads, first_bytes
from comfyrail.store.interface import (
    HistoryPage,
    HistoryQuery,
    JobFilter,
    JobPage,
    Store,
    Submitted,
)
from comfyrail.usecases.gone import check_there

SURFACE = "comfyui"
EVENTS_A_READ = 1000
JOBS_A_READ = 500
LARGEST_TEXT = 1 << 20


@dataclass(frozen=True, slots=True)
class NodesRun:
    """Of the last attempt, in the order in which they ended."""

    cached: Sequence[str] = ()
    executed: Sequence[str] = ()
    current: str | None = None
    """The one that ran when the job ended."""


class ComfyuiRecords:
    """Every method is about the principal's own jobs only; others do not exist for it."""

    def __init__(self, store: Store, blobs: BlobReads) -> None:
        self._store = store
        self._blobs = blobs

    async def find(self, principal: Principal, prompt_id: str) -> Job | None:
        """By the id that a client gave it, or else by our own."""
        found = await self._store.find_by_alias(principal.tenant, SURFACE, prompt_id)
        if found is not None:
            return found
        try:
            return await self._store.get_job(principal.tenant, JobId(prompt_id))
        except JobNotFound:
            return None

    async def history(self, principal: Principal, query: HistoryQuery) -> HistoryPage:
        return await self._store.history(principal.tenant, query)

    async def of_client(
        self, principal: Principal, client_id: str, state: JobState | None, limit: int
    ) -> JobPage:
        """The newest first."""
        where = JobFilter(state, surface=SURFACE, origin_key=client_id)
        return await self._store.list_jobs(principal.tenant, where, None, limit)

    async def submitted(
        self, principal: Principal, job_ids: Sequence[JobId]
    ) -> Mapping[JobId, Submitted]:
        return await self._store.submitted(principal.tenant, job_ids)

    async def nodes_run(self, principal: Principal, job_id: JobId) -> NodesRun:
        """What the job's events tell of its last attempt."""
        number = 0
        cached: list[str] = []
        executed: list[str] = []
        current: str | None = None
        while page := await self._store.events_after(
            principal.tenant, job_id, number, EVENTS_A_READ
        ):
            number = page[-1].number
            for event in page:
                node = _node_in(event)
                if event.type is EventType.STARTED:
                    cached, executed, current = [], [], None
                elif event.type is EventType.NODE_STARTED:
                    current = node
                elif event.type is EventType.NODE_COMPLETED and node is not None:
                    (cached if event.data.get("cached") else executed).append(node)
        return NodesRun(cached, executed, current)

    async def count_open(self, principal: Principal) -> int:
        return await self._store.count_open_jobs(principal.tenant)

    # Files

    async def output(
        self,
        principal: Principal,
        job_id: JobId | None,
        filename: str,
        subfolder: str,
        *,
        is_temporary: bool,
    ) -> Output:
        """Of a job, or the newest of this name. Raises OutputNotFound, also for one that is gone:
        ComfyUI knows no difference, but the message says it.
        """
        if job_id is None:
            found = await self._newest(principal, filename, subfolder, is_temporary)
        else:
            found = await self._output_of(principal, job_id, filename, subfolder, is_temporary)
        if found is None:
            raise OutputNotFound(f"None of your jobs has made a file '{filename[:200]}'.")
        try:
            return check_there(found)
        except Gone as error:
            raise OutputNotFound(error.message, details=error.details) from None

    async def _newest(
        self, principal: Principal, filename: str, subfolder: str, is_temporary: bool
    ) -> Output | None:
        """One that is gone only where there is no other."""
        name = principal.tenant, filename, subfolder
        there = await self._store.newest_output(*name, is_temporary=is_temporary)
        if there is not None:
            return there
        return await self._store.newest_output(*name, is_temporary=is_temporary, is_gone=True)

    def local(self, output: Output) -> AbstractAsyncContextManager[Path]:
        """A file with the bytes of an output, for as long as the context is open."""
        return self._blobs.local(output.file.blob_key)

    async def content(self, output: Output, limit: int = LARGEST_TEXT) -> bytes:
        """The first bytes of an output; none where it is gone."""
        try:
            return await first_bytes(await self._blobs.open(output.file.blob_key), limit)
        except OutputNotFound:
            return b""

    # Changes

    async def cancel_queued(
        self, principal: Principal, prompt_ids: Sequence[str] | None = None
    ) -> None:
        """Those of them that still wait, None: all. They leave no trace in the history."""
        jobs = (
            await self._queued(principal)
            if prompt_ids is None
            else [await self.find(principal, each) for each in prompt_ids]
        )
        for job in jobs:
            if job is not None and job.state is JobState.QUEUED:
                await self._cancel(principal, job)
        gone = [job.id for job in jobs if job is not None and job.state is JobState.QUEUED]
        await self._store.hide_jobs(principal.tenant, gone)

    async def interrupt(
        self, principal: Principal, prompt_id: str | None, client_id: str | None = None
    ) -> None:
        """Stop a job that runs; without an id all that run and came from ComfyUI's clients, or from
        one of them.
        """
        if prompt_id is not None:
            job = await self.find(principal, prompt_id)
            running = [] if job is None or job.state is not JobState.PROCESSING else [job]
        else:
            where = JobFilter(JobState.PROCESSING, surface=SURFACE, origin_key=client_id)
            page = await self._store.list_jobs(principal.tenant, where, None, JOBS_A_READ)
            running = list(page.jobs)
        for job in running:
            await self._cancel(principal, job)

    async def cancel(self, principal: Principal, prompt_id: str) -> bool:
        """Stop a job, queued or running; whether there is one."""
        job = await self.find(principal, prompt_id)
        if job is not None:
            await self._cancel(principal, job)
        return job is not None

    async def hide(self, principal: Principal, prompt_ids: Sequence[str]) -> None:
        """Leave jobs that have ended out of the history. Nothing else changes for them."""
        found = [await self.find(principal, each) for each in prompt_ids]
        ids = [job.id for job in found if job is not None]
        await self._store.hide_jobs(principal.tenant, ids)

    async def hide_all(self, principal: Principal) -> None:
        await self._store.hide_ended_jobs(principal.tenant, new_job_id())

    async def _queued(self, principal: Principal) -> list[Job]:
        where, after, found = JobFilter(JobState.QUEUED), None, list[Job]()
        while True:
            page = await self._store.list_jobs(principal.tenant, where, after, JOBS_A_READ)
            found += page.jobs
            after = page.next_cursor
            if after is None:
                return found

    async def _cancel(self, principal: Principal, job: Job) -> None:
        try:
            await self._store.request_cancel(principal.tenant, job.id)
        except Conflict:
            return  # it has ended meanwhile

    async def _output_of(
        self,
        principal: Principal,
        job_id: JobId,
        filename: str,
        subfolder: str,
        is_temporary: bool,
    ) -> Output | None:
        try:
            outputs = await self._store.list_outputs(principal.tenant, job_id)
        except JobNotFound:
            return None
        wanted = (filename, subfolder, is_temporary)
        return next(
            (
                each
                for each in outputs
                if (each.file.filename, each.file.subfolder, each.file.is_temporary) == wanted
            ),
            None,
        )


def _node_in(event: Event) -> str | None:
    node = event.data.get("node_id")
    return node if isinstance(node, str) else None
