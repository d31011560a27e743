"""The store, as domain verbs. Every backend passes the suite in tests/store."""

from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Any, Literal, Protocol

from comfyrail.clock import Instant
from comfyrail.ids import AttemptToken, BatchId, JobId, OutputId, TenantId, WorkerId
from comfyrail.jobs.batches import Batch, BatchJob, BatchMember, NewBatch, Trial
from comfyrail.jobs.events import Event, NewEvent
from comfyrail.jobs.job import (
    Attempt,
    AttemptRecord,
    IdempotencyKey,
    Job,
    NewJob,
    Origin,
    Output,
    Progress,
    Usage,
)
from comfyrail.jobs.needs import JobNeeds
from comfyrail.jobs.outcome import Outcome
from comfyrail.jobs.output_config import AS_IT_IS, OutputConfig
from comfyrail.jobs.parameter_search import Search
from comfyrail.jobs.priority import Standing
from comfyrail.jobs.queue import (
    Backlog,
    Lane,
    LaneKey,
    Placement,
    QueuePlace,
    QueueState,
    QueueTotals,
)
from comfyrail.jobs.states import JobState
from comfyrail.jobs.webhooks import JobWebhook
from comfyrail.store.signals import Signals

DEFAULT_LEASE_SECONDS = 15.0

RECORDS_KEPT = 1000
"""Estimates look at so many past executions."""


@dataclass(frozen=True, slots=True)
class Assignment:
    """A decision of the scheduler: this job, on this worker, under this token."""

    job_id: JobId
    worker_id: WorkerId
    token: AttemptToken
    placement: Placement | None = None


class LanesRead(list[Lane]):
    """Lanes, and where the look ended in each class that has more of them: a later look that is
    given `reached` goes on there.
    """

    reached: tuple[LaneKey, ...] = ()


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
    pool: str | None = None
    config: Mapping[str, Any] = field(default_factory=dict)
    """The driver's settings for it, without secrets."""
    labels: Mapping[str, str] = field(default_factory=dict)
    origin: Literal["api", "file"] = "api"
    """Who wants it: a caller, or the fleet file."""
    is_cordoned: bool = False
    """It takes no new jobs until someone says so."""
    is_drained: bool = False
    """It is stopped until someone resumes it."""

    @property
    def is_likeness(self) -> bool:
        """No worker: it keeps what those of a pool can run, for when there are none."""
        return self.pool is not None and self.id == f"{self.pool}-0"


@dataclass(frozen=True, slots=True)
class Enqueued:
    """What became of a submission. `is_replay`: the same request had been accepted before."""

    job_id: JobId
    submitted_at: Instant
    expected_seconds: float
    place: QueuePlace | None
    """None for one that is held back for later, and for a replay."""
    is_replay: bool = False
    state: JobState = JobState.QUEUED


@dataclass(frozen=True, slots=True)
class JobFilter:
    """Which jobs a list shows; None: whatever it is. `origin_key` only with `surface`."""

    state: JobState | None = None
    surface: str | None = None
    origin_key: str | None = None
    submitted_from: Instant | None = None
    submitted_before: Instant | None = None
    states: frozenset[JobState] = frozenset()
    """Any of these; empty: as `state` says."""
    batch_id: BatchId | None = None
    text: str | None = None
    """Words that are all in the texts of its graph, a part of the name of one of its files, or the
    beginning of its id. Of open jobs only the newest are looked through.
    """
    workflow: str | None = None
    """A name of the library, with or without a version."""

    @property
    def is_search(self) -> bool:
        return self.text is not None or self.workflow is not None


@dataclass(frozen=True, slots=True)
class HistoryQuery:
    """Which of a tenant's jobs a history shows; those that were hidden are left out."""

    states: frozenset[JobState]
    limit: int
    offset: int = 0
    workflow_id: str | None = None
    """As the data of its origin has it."""
    by_duration: bool = False
    is_ascending: bool = False

    @property
    def is_plain(self) -> bool:
        """The newest first, of any workflow: as nearly all are."""
        return not (self.workflow_id is not None or self.by_duration or self.is_ascending)


@dataclass(frozen=True, slots=True)
class HistoryPage:
    """`total`: how many there are, before and behind the page too."""

    jobs: Sequence[Job]
    total: int


@dataclass(frozen=True, slots=True)
class Submitted:
    """What was submitted, and what came of it."""

    prompt: bytes
    extra_data: bytes | None
    origin: bytes | None
    outputs: Sequence[Output]


@dataclass(frozen=True, slots=True)
class JobDrawing:
    """A job's graph, where its nodes stood in the editor, and what went to the worker beside it."""

    prompt: bytes
    layout: bytes | None = None
    extra_data: bytes | None = None


@dataclass(frozen=True, slots=True)
class JobWishes:
    """What a job was submitted with that is of no use once it has ended."""

    execution_config: bytes | None
    queue_timeout: float | None
    output_config: OutputConfig = AS_IT_IS
    webhook: JobWebhook | None = None


@dataclass(frozen=True, slots=True)
class KeptReply:
    """The answer to an earlier request with the same idempotency key."""

    fingerprint: str
    status: int
    headers: Sequence[tuple[str, str]]
    body: bytes


@dataclass(frozen=True, slots=True)
class Document:
    name: str
    version: int
    size: int
    created_at: Instant
    modified_at: Instant
    content: bytes = b""
    """Empty in lists."""


@dataclass(frozen=True, slots=True)
class JobPage:
    jobs: Sequence[Job]
    next_cursor: JobId | None


@dataclass(frozen=True, slots=True)
class JobCover:
    """The file that shows best what a job has made. `files`: how many it has; temporary ones count
    where it has no others.
    """

    output: Output
    files: int


class OpenStage(IntEnum):
    """In the order in which open jobs are listed."""

    PROCESSING = 0
    QUEUED = 1
    HELD = 2
    """Queued, and not to start before some moment."""

    @property
    def has_place(self) -> bool:
        return self is OpenStage.QUEUED


@dataclass(frozen=True, slots=True)
class OpenJobMark:
    """Where a list of open jobs goes on: behind this job, wherever it is by then."""

    stage: OpenStage
    key: int
    """When it was started, its rank, or until when it is held."""
    job_id: JobId


@dataclass(frozen=True, slots=True)
class OpenJob:
    """`place`: only of one that is queued and may start."""

    job: Job
    place: QueuePlace | None
    needs: JobNeeds


@dataclass(frozen=True, slots=True)
class OpenJobPage:
    jobs: Sequence[OpenJob]
    next_cursor: OpenJobMark | None


@dataclass(frozen=True, slots=True)
class AddedBatch:
    """`is_replay`: the same request had been accepted before; the id is that of then."""

    batch_id: BatchId
    accepted_at: Instant
    """When the request was taken: a new batch is there from then on, whole."""
    is_replay: bool = False


@dataclass(frozen=True, slots=True)
class BatchPage:
    batches: Sequence[Batch]
    next_cursor: BatchId | None


@dataclass(frozen=True, slots=True)
class MemberPage:
    members: Sequence[BatchMember]
    next_cursor: int | None


@dataclass(frozen=True, slots=True)
class WatchedBatch:
    """A batch that the server still has something to do about."""

    id: BatchId
    tenant: TenantId
    tier: str
    planned: int
    made: int
    """Jobs so far."""
    unsettled: int
    """Trials of which it is not known yet what they are worth."""
    is_opening: bool
    is_active: bool
    """Some of its jobs are queued or processing."""
    is_cancelled: bool
    is_stopped: bool
    must_stop: bool
    """A job has failed, and that is to end it."""
    search: Search | None = None


@dataclass(frozen=True, slots=True)
class OpenTrial:
    """A job of a search that has no score yet. `state` is None when the job is gone."""

    index: int
    job_id: JobId
    state: JobState | None


class Store(Protocol):
    signals: Signals

    async def close(self) -> None:
        """Finish the writes under way and let go of the files."""
        ...

    async def check(self) -> None:
        """Raise StoreUnavailable unless a write reaches the disk."""
        ...

    # Jobs

    async def add_job(self, job: NewJob) -> Enqueued:
        """Put a job on disk with its first event.

        With an idempotency key that this tenant has used before: the job of that time. Raises
        IdempotencyMismatch where that was another request.
        """
        ...

    async def find_by_key(self, tenant: TenantId, key: IdempotencyKey) -> Enqueued | None:
        """The job that a key was used for. Raises IdempotencyMismatch as above."""
        ...

    async def get_job(self, tenant: TenantId, job_id: JobId) -> Job:
        """Raise JobNotFound for unknown jobs and those of other tenants alike."""
        ...

    async def list_jobs(
        self, tenant: TenantId, where: JobFilter, after: JobId | None, limit: int
    ) -> JobPage:
        """Newest first. With a text or a workflow it is a search: raises StoreUnavailable where
        that takes too long, or where too many do so at the same time.
        """
        ...

    async def covers_of(
        self, tenant: TenantId, job_ids: Sequence[JobId]
    ) -> Mapping[JobId, JobCover]:
        """Of those of the jobs that have a file which is there. A search, as above."""
        ...

    async def open_jobs(
        self, tenant: TenantId, after: OpenJobMark | None, limit: int
    ) -> OpenJobPage:
        """A tenant's jobs that have not ended, in the order in which they will run: those that are
        processing, then the queued ones by rank, then those that are held. A search, as above.
        """
        ...

    async def count_jobs(self) -> Mapping[JobState, int]:
        """Jobs that are queued or processing, by state, over all tenants."""
        ...

    async def count_jobs_of(self, tenant: TenantId) -> Mapping[JobState, int]:
        """All jobs of a tenant, by state."""
        ...

    async def count_retried(self, tenant: TenantId) -> int:
        """Jobs of a tenant that are queued or processing and have been tried before."""
        ...

    async def followed_jobs(self, after: str, limit: int) -> Sequence[tuple[TenantId, JobId]]:
        """Jobs of all tenants at whose end the server has something to do, by id."""
        ...

    async def follow_job(self, tenant: TenantId, job_id: JobId) -> None:
        """There is something to do for it once more. Wakes the topic FOLLOWED."""
        ...

    async def leave_job(self, job_id: JobId) -> None:
        """That is done."""
        ...

    async def running_for_worker(self) -> Mapping[str, int]:
        """Jobs that are processing and may go to one worker only, by that worker."""
        ...

    async def queue_place(self, job_id: JobId) -> QueuePlace | None:
        """Where a job stands; None when it is not queued, or held back for later."""
        ...

    async def prompt_of(self, tenant: TenantId, job_id: JobId) -> bytes:
        """The job's graph in ComfyUI's API format, as JSON. Raises JobNotFound."""
        ...

    async def drawing_of(self, tenant: TenantId, job_id: JobId) -> JobDrawing:
        """The same with what there is for looking at it. Raises JobNotFound."""
        ...

    async def find_by_alias(self, tenant: TenantId, surface: str, alias: str) -> Job | None:
        """The newest job that a caller has given this id."""
        ...

    async def submitted(
        self, tenant: TenantId, job_ids: Sequence[JobId]
    ) -> Mapping[JobId, Submitted]:
        """Those of the jobs that the tenant has."""
        ...

    async def history(self, tenant: TenantId, query: HistoryQuery) -> HistoryPage: ...

    async def hide_jobs(self, tenant: TenantId, job_ids: Sequence[JobId]) -> None:
        """Leave jobs that have ended out of the history from now on."""
        ...

    async def hide_ended_jobs(self, tenant: TenantId, newest: JobId) -> None:
        """The same for all up to this id."""
        ...

    async def count_open_jobs(self, tenant: TenantId) -> int:
        """Jobs of a tenant that are queued or processing."""
        ...

    async def wishes_of(self, tenant: TenantId, job_id: JobId) -> JobWishes:
        """With what it was submitted. Raises JobNotFound."""
        ...

    async def origin_of(self, tenant: TenantId, job_id: JobId) -> Origin:
        """Through which door it came. Raises JobNotFound."""
        ...

    async def needs_of(self, job_id: JobId) -> JobNeeds:
        """What a job asks of its worker."""
        ...

    async def queue_lanes(
        self,
        jobs_per_lane: int,
        lanes: int,
        *after: LaneKey | None,
        skip: AbstractSet[str] = frozenset(),
    ) -> LanesRead:
        """Lanes with jobs that may start now, class by class, the most urgent first, `lanes` of
        each at most; none while the queue is paused. Those of the groups in `skip` are passed over
        without a look at their jobs.

        In a class of which `after` names a lane they are those behind it, and around the end from
        the beginning. What it costs depends on what is asked for, not on how long the queue is or
        how many lanes it has: a look may end early, and says where in `reached`.
        """
        ...

    async def backlog(self) -> Sequence[Backlog]:
        """What waits, by class and group. Walks through the whole queue."""
        ...

    async def queue_totals(self) -> QueueTotals:
        """What waits, by class, and what should have started. Costs the same for every queue."""
        ...

    async def running_by_tenant(self) -> Mapping[TenantId, int]:
        """Jobs that are processing."""
        ...

    async def arrivals(self, since: Instant) -> Mapping[int, tuple[int, float]]:
        """Jobs submitted since then and the seconds they were expected to take, by minute (whole
        minutes since the epoch).
        """
        ...

    async def release_due(self) -> Instant | None:
        """Let held jobs into the queue whose time has come; when the next one is due."""
        ...

    async def expire_queued(self) -> tuple[Sequence[JobId], Instant | None]:
        """Fail queued jobs that have waited longer than they may; those, and when to look next."""
        ...

    async def reprioritize(
        self, tenant: TenantId, job_id: JobId, priority: int, standing: Standing
    ) -> Job:
        """Give a queued job another place. Raises Conflict when it is not queued."""
        ...

    async def settle_clock(self) -> int:
        """Where the wall clock was set: what waits for a retry or for its queue timeout waits as
        long as it would have. By how many milliseconds it was set since the last time. What depends
        on it does this by itself.
        """
        ...

    async def queue_state(self) -> QueueState: ...

    async def pause_queue(self, reason: str | None) -> QueueState:
        """No job is given to a worker until `resume_queue`. Those that run go on."""
        ...

    async def resume_queue(self) -> QueueState: ...

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
        is added to what the job has cost; its record is kept among the last RECORDS_KEPT. An
        attempt that failed with a remedy is tried again, by the store's rules for retries.

        Raises StaleAttempt for an old token: the attempt has ended or belongs to someone else.
        """
        ...

    async def release_attempts(self, owner: str, lease_seconds: float) -> None:
        """Give up all attempts of an owner that is about to end: another one may adopt them."""
        ...

    async def list_attempts(self, tenant: TenantId, job_id: JobId) -> Sequence[AttemptRecord]:
        """Every try of a job, in order. Raises JobNotFound."""
        ...

    async def has_outputs(self) -> bool:
        """Whether any job has ever made something, or anybody given something."""
        ...

    async def referenced_blobs(self, keys: Sequence[str]) -> frozenset[str]:
        """Those of the keys that an output, an asset or a job that has not ended has."""
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

    async def newest_output(
        self,
        tenant: TenantId,
        filename: str,
        subfolder: str,
        *,
        is_temporary: bool,
        is_gone: bool = False,
    ) -> Output | None:
        """The last one of this name that is there, or that is gone, among the tenant's last 10,000
        jobs.
        """
        ...

    async def find_output(self, tenant: TenantId, output_id: OutputId) -> Output:
        """Of any job of the tenant. Raises OutputNotFound where there is none."""
        ...

    # Workers

    async def save_worker(self, record: WorkerRecord) -> None: ...

    async def cordon_worker(self, worker_id: WorkerId, *, is_cordoned: bool) -> None: ...

    async def drain_worker(self, worker_id: WorkerId, *, is_drained: bool) -> None:
        """Remember that a worker is to be stopped, and takes no jobs; or neither any more."""
        ...

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

    # Answers under idempotency keys

    async def claim_reply(self, tenant: TenantId, key: str, owner: str) -> KeptReply | None:
        """The kept answer under a key; None: the key is the caller's now, until `save_reply` or
        `release_reply`. Raises Conflict while another request under it is under way.
        """
        ...

    async def save_reply(self, tenant: TenantId, key: str, owner: str, reply: KeptReply) -> None:
        """Keep the answer for a day."""
        ...

    async def release_reply(self, tenant: TenantId, key: str, owner: str) -> None:
        """The request came to nothing: the key may be used again."""
        ...

    # Documents: small texts of a tenant by area and name

    async def get_document(self, tenant: TenantId, area: str, name: str) -> Document | None: ...

    async def list_documents(
        self, tenant: TenantId, area: str, prefix: str = "", after: str = "", limit: int = 1000
    ) -> Sequence[Document]:
        """Without their content, by name."""
        ...

    async def put_document(
        self,
        tenant: TenantId,
        area: str,
        name: str,
        content: bytes,
        version: int | None = None,
        *,
        most_bytes: int | None = None,
    ) -> int:
        """Keep it, and say which version it is now. Raises Conflict where `version` is given and is
        not the one that is there (0: there is none), and TooManyRequests where the tenant would
        keep more than `most_bytes` of everything.
        """
        ...

    async def delete_document(self, tenant: TenantId, area: str, name: str) -> bool: ...

    # Batches

    async def add_batch(
        self, batch: NewBatch, jobs: Sequence[BatchJob], key: IdempotencyKey | None = None
    ) -> AddedBatch:
        """Put a batch with all its jobs on disk, or nothing: no job starts before all are in, and
        what a crash has left half-way is removed at the next start.

        With a key that this tenant has used for a batch before: that batch. Raises
        IdempotencyMismatch where that was another request.
        """
        ...

    async def find_batch_by_key(self, tenant: TenantId, key: IdempotencyKey) -> BatchId | None:
        """The batch that a key was used for. Raises IdempotencyMismatch as above."""
        ...

    async def release_batch(self, batch_id: BatchId) -> None:
        """Let the jobs of a batch that is all stored into the queue, where a crash came between."""
        ...

    async def get_batch(self, tenant: TenantId, batch_id: BatchId) -> Batch:
        """Raise BatchNotFound for unknown batches and those of other tenants alike."""
        ...

    async def list_batches(self, tenant: TenantId, after: BatchId | None, limit: int) -> BatchPage:
        """Newest first."""
        ...

    async def list_batch_members(
        self, tenant: TenantId, batch_id: BatchId, after: int, limit: int
    ) -> MemberPage:
        """The jobs of a batch with larger numbers than `after`, in order."""
        ...

    async def list_batch_job_ids(
        self, tenant: TenantId, batch_id: BatchId, limit: int
    ) -> Sequence[JobId]: ...

    async def cancel_batch(self, tenant: TenantId, batch_id: BatchId) -> None:
        """Remember that a batch is to end; `cancel_batch_jobs` does it. Raises Conflict when it has
        ended in another way.
        """
        ...

    async def stop_batch(self, batch_id: BatchId) -> None:
        """Remember that a failure has ended a batch."""
        ...

    async def cancel_batch_jobs(self, batch_id: BatchId, *, running: bool) -> int:
        """Cancel the queued jobs of a batch and, with `running`, ask for the end of the others;
        how many there were.
        """
        ...

    async def watched_batches(self, after: BatchId | None, limit: int) -> Sequence[WatchedBatch]:
        """Batches of all tenants that the server still has something to do about, oldest first."""
        ...

    async def leave_batch(self, batch_id: BatchId) -> None:
        """Nothing is left to do about a batch."""
        ...

    async def batch_request(self, batch_id: BatchId) -> bytes:
        """What a search makes its jobs of."""
        ...

    async def open_trials(self, batch_id: BatchId) -> Sequence[OpenTrial]:
        """The jobs of a search that are not settled, in order."""
        ...

    async def best_trials(self, batch_id: BatchId, search: Search) -> Sequence[Trial]:
        """The best few that have a score, the best one first."""
        ...

    async def add_trials(self, batch_id: BatchId, jobs: Sequence[BatchJob]) -> bool:
        """Put further jobs of a search on disk; False when it is to end instead."""
        ...

    async def settle_trial(
        self, batch_id: BatchId, index: int, score: float | None, note: str | None = None
    ) -> None:
        """Remember what a trial is worth, or with None that it will have no score."""
        ...

    async def score_trial(
        self, tenant: TenantId, batch_id: BatchId, job_id: JobId, score: float
    ) -> None:
        """The same by the caller. Raises Conflict unless the search waits for this one."""
        ...
