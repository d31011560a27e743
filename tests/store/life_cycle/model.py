"""What should have become of every job, in plain Python: the store is compared with this.

It knows no SQL, no leases by the wall clock and no figures that are kept beside the jobs: three
clocks, and a value for each job.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from comfyrail.ids import AttemptToken, BatchId, JobId, TenantId, WorkerId
from comfyrail.jobs.needs import MEMORY_STEP, JobNeeds
from comfyrail.jobs.priority import QueueClass
from comfyrail.jobs.recovery import RecoveryKind, Remedy
from comfyrail.jobs.states import AttemptState, JobState

KEY_MILLISECONDS = 86_400_000
LONGEST_TIMEOUT = 86_400.0
UNKNOWN = AttemptToken("?")
"""A token that the store has made up and that nobody has read yet."""
ENDED = frozenset({JobState.COMPLETED, JobState.FAILED, JobState.CANCELLED})
MOST_OF_KIND = {RecoveryKind.LESS_MEMORY: 2, RecoveryKind.MORE_TIME: 1, RecoveryKind.AGAIN: 1}


@dataclass(frozen=True, slots=True)
class Span:
    """Until when a job is held, as exactly as it can be known: retries have a random delay."""

    earliest: int
    latest: int

    def moved(self, milliseconds: int) -> "Span":
        return Span(max(0, self.earliest + milliseconds), max(0, self.latest + milliseconds))

    def holds(self, moment: int) -> bool:
        return self.earliest <= moment <= self.latest


@dataclass(frozen=True, slots=True)
class ModelAttempt:
    number: int
    worker_id: WorkerId
    token: AttemptToken
    owner: str | None
    lease_until: int
    """By the steady clock; 0 once it has ended."""
    state: AttemptState = AttemptState.RUNNING
    fault: str | None = None
    cause: str | None = None
    recovery: RecoveryKind | None = None


@dataclass(frozen=True, slots=True)
class ModelOutput:
    id: str
    attempt: int
    is_partial: bool


@dataclass(frozen=True, slots=True)
class ModelJob:
    id: JobId
    tenant: TenantId
    priority: int
    rank: int
    queue_class: QueueClass
    expected_seconds: float
    max_retries: int
    timeout_seconds: float
    needs: JobNeeds
    prompt: bytes
    since: int
    """By the wall clock: what its rank counts from."""
    state: JobState = JobState.QUEUED
    reason: str | None = None
    held: Span | None = None
    queue_timeout: float | None = None
    expires: int | None = None
    """By the queue's clock; None while it is held, too."""
    retries: int = 0
    cancel_requested: bool = False
    fault: str | None = None
    batch_id: BatchId | None = None
    events: tuple[str, ...] = ("queued",)
    attempts: tuple[ModelAttempt, ...] = ()
    outputs: tuple[ModelOutput, ...] = ()

    @property
    def is_active(self) -> bool:
        return self.state not in ENDED

    @property
    def is_waiting(self) -> bool:
        """It is queued and may start."""
        return self.state is JobState.QUEUED and self.held is None

    @property
    def is_held(self) -> bool:
        return self.state is JobState.QUEUED and self.held is not None

    @property
    def running(self) -> ModelAttempt | None:
        return next((each for each in self.attempts if each.state is AttemptState.RUNNING), None)

    def told(self, *events: str) -> "ModelJob":
        return replace(self, events=(*self.events, *events))

    def with_attempt(self, attempt: ModelAttempt) -> "ModelJob":
        """In place of the one with its number."""
        others = [each for each in self.attempts if each.number != attempt.number]
        return replace(self, attempts=(*others, attempt))

    def ended(self, state: JobState, fault: str | None = None) -> "ModelJob":
        job = replace(self, state=state, reason=None, held=None, expires=None, fault=fault)
        return job.told(state.value)


@dataclass(frozen=True, slots=True)
class ModelBatch:
    id: BatchId
    tenant: TenantId
    stop_on_error: bool
    is_cancelled: bool = False
    is_stopped: bool = False

    @property
    def is_ending(self) -> bool:
        return self.is_cancelled or self.is_stopped


@dataclass(slots=True)
class Model:
    """All jobs that were accepted, and the time by three clocks, in milliseconds."""

    wall: int
    steady: int = 0
    """Goes on evenly, whatever the wall clock is set to."""
    queue: int = 0
    """The steady clock without the pauses."""
    is_paused: bool = False
    jobs: dict[JobId, ModelJob] = field(default_factory=dict)
    batches: dict[BatchId, ModelBatch] = field(default_factory=dict)
    keys: dict[tuple[TenantId, str], tuple[str, JobId, int]] = field(default_factory=dict)
    """Fingerprint, job, and when it was used, by the wall clock."""
    dead_tokens: list[AttemptToken] = field(default_factory=list)

    def copy(self) -> "Model":
        return replace(
            self,
            jobs=dict(self.jobs),
            batches=dict(self.batches),
            keys=dict(self.keys),
            dead_tokens=list(self.dead_tokens),
        )

    # Looking

    def active(self) -> list[ModelJob]:
        return [job for job in self.jobs.values() if job.is_active]

    def waiting(self) -> list[ModelJob]:
        """In the order of the queue."""
        jobs = [job for job in self.jobs.values() if job.is_waiting]
        return sorted(jobs, key=lambda job: (job.rank, job.id))

    def startable(self) -> list[ModelJob]:
        return [job for job in self.waiting() if not self._is_ending(job)]

    def held(self) -> list[ModelJob]:
        return [job for job in self.jobs.values() if job.is_held]

    def running(self) -> list[tuple[ModelJob, ModelAttempt]]:
        found = ((job, job.running) for job in self.jobs.values())
        return [(job, attempt) for job, attempt in found if attempt is not None]

    def of_batch(self, batch_id: BatchId) -> list[ModelJob]:
        return [job for job in self.jobs.values() if job.batch_id == batch_id]

    def by_token(self, token: AttemptToken) -> tuple[ModelJob, ModelAttempt] | None:
        return next((each for each in self.running() if each[1].token == token), None)

    def position(self, job_id: JobId) -> int:
        return [job.id for job in self.waiting()].index(job_id) + 1

    def by_the_wall(self, queue_moment: int) -> int:
        """When the queue's clock will show it, if the queue is not paused again."""
        return self.wall + queue_moment - self.queue

    def next_due(self) -> int | None:
        return min((job.held.earliest for job in self.held() if job.held), default=None)

    def next_expiry(self) -> int | None:
        moments = (job.expires for job in self.waiting() if job.expires is not None)
        first = min(moments, default=None)
        return None if first is None else self.by_the_wall(first)

    # Time

    def pass_time(self, milliseconds: int) -> None:
        self.wall += milliseconds
        self.steady += milliseconds
        self.queue += 0 if self.is_paused else milliseconds

    def set_wall(self, milliseconds: int) -> None:
        """The wall clock was set by so much, and the store knows of it."""
        self.wall += milliseconds
        for job in self.held():
            if job.reason == "retrying" and job.held is not None:
                self._put(replace(job, held=job.held.moved(milliseconds)))

    # Changes of the queue

    def add(self, job: ModelJob, not_before: int | None) -> None:
        if not_before is not None and not_before > self.wall:
            self._put(replace(job, reason="scheduled", held=Span(not_before, not_before)))
        else:
            self._put(self._patient(job))

    def find_key(self, tenant: TenantId, key: str) -> tuple[str, JobId] | None:
        found = self.keys.get((tenant, key))
        if found is None or found[2] <= self.wall - KEY_MILLISECONDS:
            return None
        return found[0], found[1]

    def release_due(self) -> None:
        for job in self.held():
            if job.held is not None and job.held.latest <= self.wall:
                self.release(job)

    def release(self, job: ModelJob) -> None:
        reason = None if job.reason == "scheduled" else job.reason
        self._put(self._patient(replace(job, held=None, reason=reason)).told("queued"))

    def expire_queued(self) -> list[JobId]:
        late = [job for job in self.waiting() if job.expires is not None]
        late = [job for job in late if job.expires is not None and job.expires <= self.queue]
        for job in late:
            self._end(job, JobState.FAILED, "QUEUE_TIMEOUT")
        return [job.id for job in late]

    def cancel(self, job: ModelJob) -> ModelJob:
        """Of one that has not ended."""
        asked = replace(job, cancel_requested=True)
        if job.state is JobState.QUEUED:
            return self._end(asked, JobState.CANCELLED)
        return self._put(asked)

    def reprioritize(
        self, job: ModelJob, priority: int, rank: int, queue_class: QueueClass
    ) -> ModelJob:
        changed = replace(job, priority=priority, rank=rank, queue_class=queue_class)
        return self._put(changed.told("queued"))

    # Attempts

    def start(
        self, job_id: JobId, worker_id: WorkerId, token: AttemptToken, owner: str, lease: int
    ) -> bool:
        job = self.jobs.get(job_id)
        if job is None or not job.is_waiting or self._is_ending(job):
            return False
        number = len(job.attempts) + 1
        attempt = ModelAttempt(number, worker_id, token, owner, self.steady + lease)
        started = replace(job, state=JobState.PROCESSING, reason=None, expires=None)
        self._put(started.with_attempt(attempt).told("started"))
        return True

    def extend(self, token: AttemptToken, lease: int) -> bool:
        found = self.by_token(token)
        if found is not None:
            job, attempt = found
            self._put(job.with_attempt(replace(attempt, lease_until=self.steady + lease)))
        return found is not None

    def adopt(self, worker_id: WorkerId, owner: str, lease: int) -> list[JobId]:
        adopted = []
        for job, attempt in self.running():
            is_given_up = attempt.owner != owner and attempt.lease_until < self.steady
            if attempt.worker_id == worker_id and (attempt.owner is None or is_given_up):
                self.dead_tokens.append(attempt.token)
                taken = replace(
                    attempt, token=UNKNOWN, owner=owner, lease_until=self.steady + lease
                )
                self._put(job.with_attempt(taken))
                adopted.append(job.id)
        return adopted

    def give_up(self, owner: str | None, lease: int) -> None:
        """All attempts of an owner; None: of every one, as when a server begins."""
        for job, attempt in self.running():
            if owner is None or attempt.owner == owner:
                freed = replace(attempt, owner=None, lease_until=self.steady + lease)
                self._put(job.with_attempt(freed))

    def expire_leases(self) -> list[JobId]:
        late = [(job, each) for job, each in self.running() if each.lease_until < self.steady]
        for job, attempt in late:
            self.lose(job, attempt, "its lease ran out", counted=attempt.owner is not None)
        return [job.id for job, _ in late]

    def complete(self, job: ModelJob, attempt: ModelAttempt, outputs: Sequence[str]) -> None:
        ended = self._stopped(job, attempt, AttemptState.COMPLETED)
        self._end(_with_outputs(ended, attempt, outputs, is_partial=False), JobState.COMPLETED)

    def stop(self, job: ModelJob, attempt: ModelAttempt, outputs: Sequence[str]) -> None:
        ended = self._stopped(job, attempt, AttemptState.CANCELLED)
        self._end(_with_outputs(ended, attempt, outputs, is_partial=True), JobState.CANCELLED)

    def fail(
        self,
        job: ModelJob,
        attempt: ModelAttempt,
        outputs: Sequence[str],
        fault: str,
        remedy: Remedy | None,
    ) -> None:
        kind = self._kind_of_retry(job, remedy)
        ended = self._stopped(job, replace(attempt, fault=fault, recovery=kind))
        ended = _with_outputs(ended, attempt, outputs, is_partial=True)
        if job.cancel_requested and remedy is not None:
            self._end(ended, JobState.CANCELLED)
        elif remedy is None or kind is None:
            self._end(ended, JobState.FAILED, fault)
        else:
            self._retry(ended, remedy, _seconds_before(job, kind))

    def lose(self, job: ModelJob, attempt: ModelAttempt, cause: str, *, counted: bool) -> None:
        remedy = Remedy(RecoveryKind.ELSEWHERE, attempt.worker_id) if counted else None
        kind = self._kind_of_retry(job, remedy)
        ended = self._stopped(job, replace(attempt, cause=cause, recovery=kind), AttemptState.LOST)
        if job.cancel_requested:
            self._end(ended, JobState.CANCELLED)
        elif remedy is None:
            self._put(self._patient(_queued_again(ended)))
        elif kind is None:
            self._end(ended, JobState.FAILED, "WORKER_LOST")
        else:
            self._retry(ended, remedy, _seconds_before(job, kind))

    def record(self, job: ModelJob, events: Sequence[str]) -> ModelJob:
        return self._put(job.told(*events))

    # Batches

    def cancel_batch_jobs(self, batch_id: BatchId, *, running: bool) -> int:
        queued = [job for job in self.of_batch(batch_id) if job.state is JobState.QUEUED]
        others = [job for job in self.of_batch(batch_id) if job.state is JobState.PROCESSING]
        asked = [job for job in others if running and not job.cancel_requested]
        for job in (*queued, *asked):
            self.cancel(job)
        return len(queued) + len(asked)

    def mark_batch(self, batch: ModelBatch) -> None:
        self.batches[batch.id] = batch

    # Parts of these

    def _put(self, job: ModelJob) -> ModelJob:
        self.jobs[job.id] = job
        return job

    def _is_ending(self, job: ModelJob) -> bool:
        return job.batch_id is not None and self.batches[job.batch_id].is_ending

    def _patient(self, job: ModelJob) -> ModelJob:
        """It may start from now on, and waits as long as it may."""
        if job.queue_timeout is None:
            return job
        return replace(job, expires=self.queue + round(job.queue_timeout * 1000))

    def _stopped(
        self, job: ModelJob, attempt: ModelAttempt, state: AttemptState = AttemptState.FAILED
    ) -> ModelJob:
        self.dead_tokens.append(attempt.token)
        return job.with_attempt(replace(attempt, state=state, lease_until=0))

    def _kind_of_retry(self, job: ModelJob, remedy: Remedy | None) -> RecoveryKind | None:
        """How it is tried again, if it is."""
        if remedy is None or job.cancel_requested or job.retries >= job.max_retries:
            return None
        most = MOST_OF_KIND.get(remedy.kind, job.max_retries)
        return remedy.kind if _times(job, remedy.kind) < most else None

    def _retry(self, job: ModelJob, remedy: Remedy, seconds: float) -> None:
        changed = replace(
            _queued_again(job),
            retries=job.retries + 1,
            needs=_other_needs(job.needs, remedy),
            prompt=job.prompt if remedy.prompt is None else remedy.prompt,
        )
        if remedy.kind is RecoveryKind.MORE_TIME:
            longer = min(LONGEST_TIMEOUT, 1.5 * job.timeout_seconds)
            changed = replace(changed, timeout_seconds=longer)
        if seconds:
            held = Span(self.wall + round(800 * seconds), self.wall + round(1200 * seconds))
            self._put(replace(changed, held=held))
        else:
            self._put(self._patient(changed))

    def _end(self, job: ModelJob, state: JobState, fault: str | None = None) -> ModelJob:
        if state is JobState.FAILED and job.batch_id is not None:
            batch = self.batches[job.batch_id]
            if batch.stop_on_error:
                self.batches[batch.id] = replace(batch, is_stopped=True)
        return self._put(job.ended(state, fault))


def _queued_again(job: ModelJob) -> ModelJob:
    return replace(job, state=JobState.QUEUED, reason="retrying").told("queued")


def _times(job: ModelJob, kind: RecoveryKind) -> int:
    return sum(each.recovery is kind for each in job.attempts)


def _seconds_before(job: ModelJob, kind: RecoveryKind) -> float:
    """The first time on another worker at once; else 10, 20, 40 … seconds."""
    if kind is RecoveryKind.ELSEWHERE:
        return 10.0 * 2.0 ** (job.retries - 1) if _times(job, kind) else 0.0
    return 10.0 * 2.0**job.retries


def _other_needs(needs: JobNeeds, remedy: Remedy) -> JobNeeds:
    if remedy.kind is RecoveryKind.LESS_MEMORY:
        return replace(
            needs,
            video_memory=_four_fifths(needs.video_memory),
            memory=_four_fifths(needs.memory),
            above_memory=max(needs.above_memory, remedy.above_memory),
        )
    if remedy.avoid is None:
        return needs
    others = [worker for worker in needs.avoided if worker != remedy.avoid]
    return replace(needs, avoided=(*others, remedy.avoid)[-5:])


def _four_fifths(amount: int) -> int:
    steps = amount // MEMORY_STEP
    return steps * 4 // 5 * MEMORY_STEP


def _with_outputs(
    job: ModelJob, attempt: ModelAttempt, outputs: Sequence[str], *, is_partial: bool
) -> ModelJob:
    made = (ModelOutput(each, attempt.number, is_partial) for each in outputs)
    return replace(job, outputs=(*job.outputs, *made))
