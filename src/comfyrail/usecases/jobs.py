"""Looking at jobs, following them, stopping them."""

from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from comfyrail.access.principal import Principal
from comfyrail.clock import Clock
from comfyrail.ids import JobId, OutputId, WorkerId
from comfyrail.jobs.events import Event
from comfyrail.jobs.job import Job, Output
from comfyrail.jobs.states import JobState
from comfyrail.notifications.streams import follow_events
from comfyrail.planning.duration import remaining_seconds
from comfyrail.store.interface import JobPage, Store


@dataclass(frozen=True, slots=True)
class JobStatus:
    """A job with what is worked out when someone looks."""

    job: Job
    queue_position: int | None
    remaining_seconds: float | None
    outputs: Sequence[Output]


class BlobFiles(Protocol):
    def path_of(self, key: str) -> Path: ...


class Jobs:
    """Every method shows the principal's own jobs only; others do not exist for it."""

    def __init__(
        self,
        store: Store,
        blobs: BlobFiles,
        clock: Clock,
        load_of: Callable[[WorkerId | None], float],
    ) -> None:
        """`load_of` says how much other work slows a worker: at 1 all takes twice as long."""
        self._store = store
        self._blobs = blobs
        self._clock = clock
        self._load_of = load_of

    async def status(self, principal: Principal, job_id: JobId) -> JobStatus:
        job = await self._store.get_job(principal.tenant, job_id)
        return await self._describe(principal, job)

    async def page(
        self, principal: Principal, state: JobState | None, after: JobId | None, limit: int
    ) -> JobPage:
        return await self._store.list_jobs(principal.tenant, state, after, limit)

    async def cancel(self, principal: Principal, job_id: JobId) -> JobStatus:
        """Stop a job, queued or running. Raises Conflict when it has ended in another way."""
        job = await self._store.request_cancel(principal.tenant, job_id)
        return await self._describe(principal, job)

    async def outputs(self, principal: Principal, job_id: JobId) -> Sequence[Output]:
        return await self._store.list_outputs(principal.tenant, job_id)

    async def output_file(
        self, principal: Principal, job_id: JobId, output_id: OutputId
    ) -> tuple[Output, Path]:
        output = await self._store.get_output(principal.tenant, job_id, output_id)
        return output, self._blobs.path_of(output.file.blob_key)

    def events(self, principal: Principal, job_id: JobId, after: int) -> AsyncIterator[Event]:
        """The job's events after a number, live, until the final one."""
        return follow_events(self._store, principal.tenant, job_id, after)

    async def counts(self) -> Mapping[JobState, int]:
        return await self._store.count_jobs()

    async def _describe(self, principal: Principal, job: Job) -> JobStatus:
        position, remaining = None, None
        outputs: Sequence[Output] = ()
        if job.state is JobState.QUEUED:
            position = await self._store.queue_position(job.id)
        elif job.state is JobState.PROCESSING and job.started_at is not None:
            elapsed = max(0, self._clock.now() - job.started_at) / 1000
            load = self._load_of(job.worker_id)
            remaining = remaining_seconds(
                elapsed, job.progress.fraction, job.expected_seconds, load=load
            )
        else:
            outputs = await self._store.list_outputs(principal.tenant, job.id)
        return JobStatus(job, position, remaining, outputs)
