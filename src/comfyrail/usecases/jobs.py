"""Looking at jobs, following them, stopping them."""

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

import msgspec

from comfyrail.access.principal import Principal
from comfyrail.clock import Clock
from comfyrail.fleet.previews import Preview, Previews
from comfyrail.ids import JobId, OutputId, WorkerId
from comfyrail.jobs.events import Event
from comfyrail.jobs.job import AttemptRecord, Job, Origin, Output
from comfyrail.jobs.needs import JobNeeds
from comfyrail.jobs.node_results import NodeResult, fold_events
from comfyrail.jobs.outcome import RETRYING
from comfyrail.jobs.states import JobState
from comfyrail.notifications.streams import follow_events
from comfyrail.planning.duration import remaining_seconds
from comfyrail.results.blob_store import BlobReads, OpenBlob
from comfyrail.store.interface import JobFilter, JobPage, OpenJob, OpenJobMark, Store
from comfyrail.store.media import KnownMedia, MediaFile, MediaStore, media_file
from comfyrail.store.signals import job_topic
from comfyrail.usecases.gone import check_there
from comfyrail.usecases.standing import Standings
from comfyrail.usecases.submit import check_priority
from comfyrail.usecases.waits import WaitForecast

EVENTS_A_READ = 1000


@dataclass(frozen=True, slots=True)
class JobStatus:
    """A job with what is worked out when someone looks."""

    job: Job
    queue_position: int | None
    predicted_wait: float | None
    waiting_for: str | None
    """Why it does not start, where that is not merely its turn."""
    remaining_seconds: float | None
    outputs: Sequence[Output]
    attempts: Sequence[AttemptRecord] = ()
    media: Mapping[MediaFile, KnownMedia] = field(default_factory=dict)
    """What is known of its outputs, by the keys of their blobs."""
    previews: int = 0
    """How many its attempt has brought so far."""


@dataclass(frozen=True, slots=True)
class Cover:
    """The file that shows best what a job has made, what is known of it, and how many it has."""

    output: Output
    media: KnownMedia | None
    files: int


class JobStore(Store, MediaStore, Protocol):
    """The side of the store that is needed here."""


class Jobs:
    """Every method shows the principal's own jobs only; others do not exist for it."""

    def __init__(
        self,
        store: JobStore,
        blobs: BlobReads,
        clock: Clock,
        load_of: Callable[[WorkerId | None], float],
        waits: WaitForecast,
        standings: Standings,
        previews: Previews,
    ) -> None:
        """`load_of` says how much other work slows a worker: at 1 all takes twice as long."""
        self._store = store
        self._blobs = blobs
        self._clock = clock
        self._load_of = load_of
        self._waits = waits
        self._previews = previews
        self._standings = standings

    async def status(self, principal: Principal, job_id: JobId) -> JobStatus:
        job = await self._store.get_job(principal.tenant, job_id)
        return await self._describe(principal, job)

    async def wait(
        self, principal: Principal, job_id: JobId, seconds: float, after: int | None = None
    ) -> JobStatus:
        """The status as soon as the job has ended or, with `after`, as soon as it has an event with
        a larger number; as it is when so many seconds have passed.
        """
        end = self._clock.monotonic() + seconds
        with self._store.signals.subscribe(job_topic(job_id)) as news:
            while True:
                job = await self._store.get_job(principal.tenant, job_id)
                is_news = after is not None and job.last_event > after
                left = end - self._clock.monotonic()
                if is_news or job.state.is_final or left <= 0:
                    return await self._describe(principal, job)
                await news.wait(left)

    async def page(
        self, principal: Principal, where: JobFilter, after: JobId | None, limit: int
    ) -> JobPage:
        return await self._store.list_jobs(principal.tenant, where, after, limit)

    async def covers(self, principal: Principal, jobs: Sequence[Job]) -> Mapping[JobId, Cover]:
        """Of those that have a file which is there."""
        if not jobs:
            return {}
        found = await self._store.covers_of(principal.tenant, [job.id for job in jobs])
        media = await self._store.media_of([media_file(each.output) for each in found.values()])
        return {
            job_id: Cover(each.output, media.get(media_file(each.output)), each.files)
            for job_id, each in found.items()
        }

    async def open_jobs(
        self, principal: Principal, after: OpenJobMark | None, limit: int
    ) -> tuple[Sequence[JobStatus], OpenJobMark | None]:
        """Those that have not ended, in the order in which they will run, without attempts; and
        where the list goes on.
        """
        page = await self._store.open_jobs(principal.tenant, after, limit)
        self._waits.look()
        obstacles: dict[str, str | None] = {}
        return [self._outlook(each, obstacles) for each in page.jobs], page.next_cursor

    async def origin(self, principal: Principal, job_id: JobId) -> Origin:
        """Through which door it came, and what that door keeps of it."""
        return await self._store.origin_of(principal.tenant, job_id)

    async def counts(self, principal: Principal) -> Mapping[JobState, int]:
        """All jobs of the caller, by state."""
        return await self._store.count_jobs_of(principal.tenant)

    async def count_retried(self, principal: Principal) -> int:
        """Jobs of the caller that have not ended and are tried again."""
        return await self._store.count_retried(principal.tenant)

    async def cancel(self, principal: Principal, job_id: JobId) -> JobStatus:
        """Stop a job, queued or running. Raises Conflict when it has ended in another way."""
        job = await self._store.request_cancel(principal.tenant, job_id)
        return await self._describe(principal, job)

    async def reprioritize(self, principal: Principal, job_id: JobId, priority: int) -> JobStatus:
        """Give a queued job another priority. Raises Conflict when it is not queued.

        One of the class batch leaves it: someone wants it to have a place among the others.
        """
        check_priority(priority)
        job = await self._store.get_job(principal.tenant, job_id)
        standing = self._standings.of(
            principal,
            priority,
            await self._store.needs_of(job_id),
            job.expected_seconds,
        )
        job = await self._store.reprioritize(principal.tenant, job_id, priority, standing)
        return await self._describe(principal, job)

    async def outputs(self, principal: Principal, job_id: JobId) -> Sequence[Output]:
        return await self._store.list_outputs(principal.tenant, job_id)

    async def output(self, principal: Principal, job_id: JobId, output_id: OutputId) -> Output:
        """Also one that is gone. Raises JobNotFound or OutputNotFound."""
        return await self._store.get_output(principal.tenant, job_id, output_id)

    async def output_file(
        self, principal: Principal, job_id: JobId, output_id: OutputId
    ) -> tuple[Output, OpenBlob]:
        output = await self._store.get_output(principal.tenant, job_id, output_id)
        return output, await self.open(output)

    async def find_output(self, principal: Principal, output_id: OutputId) -> Output:
        """Of any of the caller's jobs."""
        return await self._store.find_output(principal.tenant, output_id)

    async def open(self, output: Output) -> OpenBlob:
        """The bytes of an output. Raises Gone, or OutputNotFound where nobody knows why."""
        return await self._blobs.open(check_there(output).file.blob_key)

    async def prompt(self, principal: Principal, job_id: JobId) -> bytes:
        """The graph that the job runs, in ComfyUI's API format, as JSON."""
        return await self._store.prompt_of(principal.tenant, job_id)

    async def events_so_far(
        self, principal: Principal, job_id: JobId, after: int
    ) -> Sequence[Event]:
        """The next of the job's events that are there already."""
        return await self._store.events_after(principal.tenant, job_id, after, EVENTS_A_READ)

    def events(self, principal: Principal, job_id: JobId, after: int) -> AsyncIterator[Event]:
        """The job's events after a number, live, until the final one."""
        return follow_events(self._store, principal.tenant, job_id, after)

    async def nodes(self, principal: Principal, job_id: JobId) -> Sequence[NodeResult]:
        """How each node of the last attempt goes or went, as the job's events tell."""
        found: list[Event] = []
        while page := await self._store.events_after(
            principal.tenant, job_id, found[-1].number if found else 0, EVENTS_A_READ
        ):
            found += page
        prompt = await self._store.prompt_of(principal.tenant, job_id)
        return fold_events(found, await asyncio.to_thread(_types_of, prompt))

    async def preview(self, principal: Principal, job_id: JobId) -> Preview | None:
        """The newest picture of a running job; None where there is none. Raises JobNotFound."""
        return self._preview_of(await self._store.get_job(principal.tenant, job_id))

    async def _describe(self, principal: Principal, job: Job) -> JobStatus:
        attempts = await self._store.list_attempts(principal.tenant, job.id) if job.attempts else ()
        if job.state.is_final:
            outputs = await self._store.list_outputs(principal.tenant, job.id)
            files = [media_file(output) for output in outputs]
            media = await self._store.media_of(files) if files else {}
            return JobStatus(job, None, None, None, None, outputs, attempts, media)
        place, needs = None, JobNeeds()
        if job.state is JobState.QUEUED:
            place = await self._store.queue_place(job.id)
        if place is not None:
            self._waits.look()
            needs = await self._store.needs_of(job.id)
        return replace(self._outlook(OpenJob(job, place, needs), {}), attempts=attempts)

    def _outlook(self, open_job: OpenJob, obstacles: dict[str, str | None]) -> JobStatus:
        """When it will begin, or end. `obstacles`: what was worked out for others, by group."""
        job, place, needs = open_job.job, open_job.place, open_job.needs
        position, wait, waiting_for, remaining = None, None, None, None
        if place is not None:
            position, wait = place.position, self._waits.predict(place, needs)
            if wait is None and needs.group not in obstacles:
                obstacles[needs.group] = self._waits.obstacle(needs)
            waiting_for = obstacles[needs.group] if wait is None else None
        elif job.state is JobState.QUEUED and job.reason == RETRYING:
            waiting_for = "Its last attempt failed; it is tried again after a pause."
        elif job.state is JobState.PROCESSING and job.started_at is not None:
            elapsed = max(0, self._clock.now() - job.started_at) / 1000
            load = self._load_of(job.worker_id)
            remaining = remaining_seconds(
                elapsed, job.progress.fraction, job.expected_seconds, load=load
            )
        preview = self._preview_of(job)
        number = 0 if preview is None else preview.number
        return JobStatus(job, position, wait, waiting_for, remaining, (), previews=number)

    def _preview_of(self, job: Job) -> Preview | None:
        return self._previews.latest(job.id) if job.state is JobState.PROCESSING else None


def _types_of(prompt: bytes) -> dict[str, str | None]:
    """Types of nodes by id."""
    nodes = msgspec.json.decode(prompt, type=dict[str, dict[str, Any]])
    return {node_id: node.get("class_type") for node_id, node in nodes.items()}
