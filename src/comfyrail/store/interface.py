"""The store, as domain verbs. Every backend passes the suite in tests/store."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from comfyrail.clock import Instant
from comfyrail.ids import AttemptToken, JobId, OutputId, TenantId, WorkerId
from comfyrail.jobs.events import Event, NewEvent
from comfyrail.jobs.job import Attempt, Job, NewJob, Output, Progress, QueuedJob, Usage
from comfyrail.jobs.outcome import Outcome
from comfyrail.jobs.states import JobState
from comfyrail.store.signals import Signals

DEFAULT_LEASE_SECONDS = 15.0

POSITION_LIMIT = 10_000
"""Positions are counted exactly up to here; further back a job's position is None."""

RECORDS_KEPT = 1000
"""Estimates look at so many past executions."""

SUBMIT_POSITION_LIMIT = 100
"""The same at submission, where counting is on the hot path."""


@dataclass(frozen=True, slots=True)
class Assignment:
    """A decision of the scheduler: this job, on this worker, under this token."""

    job_id: JobId
    worker_id: WorkerId
    token: AttemptToken


@dataclass(frozen=True, slots=True)
class WorkerRecord:
    """What is remembered of a worker while the server is down."""

    id: WorkerId
    driver: str
    endpoint: str | None
    added_at: Instant
    catalog_fingerprint: str | None = None
    description: bytes | None = None
    """What it says of its machine and models, as the fleet wrote it."""


@dataclass(frozen=True, slots=True)
class JobPage:
    jobs: Sequence[Job]
    next_cursor: JobId | None


class Store(Protocol):
    signals: Signals

    async def close(self) -> None:
        """Finish the writes under way and let go of the files."""
        ...

    async def check(self) -> None:
        """Raise StoreUnavailable unless a write reaches the disk."""
        ...

    # Jobs

    async def add_job(self, job: NewJob) -> int | None:
        """Put a job on disk with its first event.

        Return its place in the queue from 1, or None beyond SUBMIT_POSITION_LIMIT.
        """
        ...

    async def get_job(self, tenant: TenantId, job_id: JobId) -> Job:
        """Raise JobNotFound for unknown jobs and those of other tenants alike."""
        ...

    async def list_jobs(
        self, tenant: TenantId, state: JobState | None, after: JobId | None, limit: int
    ) -> JobPage:
        """Newest first."""
        ...

    async def count_jobs(self) -> Mapping[JobState, int]:
        """Jobs that are queued or processing, by state, over all tenants."""
        ...

    async def queue_position(self, job_id: JobId) -> int | None:
        """Place of a queued job, from 1; None when it is not queued or beyond POSITION_LIMIT."""
        ...

    async def queue_head(self, limit: int, after: tuple[int, JobId] | None) -> Sequence[QueuedJob]:
        """The next jobs by rank, following the one with rank and id `after`."""
        ...

    async def request_cancel(self, tenant: TenantId, job_id: JobId) -> Job:
        """Cancel a queued job at once; ask for it when it is processing. Idempotent.

        Raises Conflict when the job has ended in another way.
        """
        ...

    async def is_cancel_requested(self, job_id: JobId) -> bool:
        """Whether someone has asked for the job's end."""
        ...

    # Attempts

    async def start_attempts(
        self, assignments: Sequence[Assignment], owner: str, lease_seconds: float
    ) -> Sequence[Attempt]:
        """Begin an attempt for each job that is still queued; the others are left out."""
        ...

    async def adopt_attempts(
        self, worker_id: WorkerId, owner: str, lease_seconds: float
    ) -> Sequence[Attempt]:
        """Take over the worker's running attempts that have no owner, under new tokens."""
        ...

    async def extend_leases(
        self, tokens: Sequence[AttemptToken], lease_seconds: float
    ) -> Sequence[AttemptToken]:
        """Extend the leases; return the tokens that are no longer valid."""
        ...

    async def record_events(
        self, token: AttemptToken, events: Sequence[NewEvent], progress: Progress | None
    ) -> None:
        """Append to the job's log. Raises StaleAttempt for an old token."""
        ...

    async def finish_attempt(
        self,
        token: AttemptToken,
        outcome: Outcome,
        events: Sequence[NewEvent] = (),
        usage: Usage | None = None,
    ) -> Job:
        """End the attempt and move its job on, with outputs and events, in one transaction.

        `events` are the last ones of the attempt; they come before the one that ends it. `usage`
        is added to what the job has cost; its record is kept among the last RECORDS_KEPT.

        Raises StaleAttempt for an old token: the attempt has ended or belongs to someone else.
        """
        ...

    async def expire_leases(self) -> Sequence[JobId]:
        """End every attempt whose lease has run out as lost; return the jobs concerned."""
        ...

    # Events and outputs

    async def events_after(
        self, tenant: TenantId, job_id: JobId, number: int, limit: int
    ) -> Sequence[Event]:
        """Events of the job with a larger number, in order."""
        ...

    async def list_outputs(self, tenant: TenantId, job_id: JobId) -> Sequence[Output]: ...

    async def get_output(self, tenant: TenantId, job_id: JobId, output_id: OutputId) -> Output:
        """Raise OutputNotFound where there is none."""
        ...

    # Workers

    async def save_worker(self, record: WorkerRecord) -> None: ...

    async def remove_worker(self, worker_id: WorkerId) -> None: ...

    async def list_workers(self) -> Sequence[WorkerRecord]: ...

    async def save_catalog(self, worker_id: WorkerId, fingerprint: str, object_info: bytes) -> None:
        """Remember what a worker's /object_info said."""
        ...

    async def describe_worker(self, worker_id: WorkerId, description: bytes) -> None:
        """Remember what a worker says of its machine and models."""
        ...

    async def records_after(self, sequence: int) -> Sequence[tuple[int, bytes]]:
        """Records of past executions with their numbers, oldest first."""
        ...

    async def list_catalogs(self) -> Mapping[str, bytes]:
        """All remembered catalogs by fingerprint."""
        ...
