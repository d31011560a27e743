"""What can be asked of a store, as values: each knows how to ask, and what the model says to it.

Answers are plain tuples, so that those of the store and of the model can be compared; a refusal is
the name of its error.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol, cast

from comfyrail.clock import Instant
from comfyrail.errors import ComfyrailError
from comfyrail.ids import AttemptToken, BatchId, JobId, TenantId, WorkerId
from comfyrail.jobs.batches import BatchJob, BatchKind, NewBatch
from comfyrail.jobs.events import EventType, NewEvent
from comfyrail.jobs.job import Job, NewJob
from comfyrail.jobs.outcome import Cancelled, Completed, Failed, Lost, Outcome
from comfyrail.jobs.priority import Standing
from comfyrail.jobs.states import JobState
from comfyrail.results.blob_store import BlobReads
from comfyrail.store.interface import Assignment, Store
from comfyrail.usecases.batch_jobs import BatchJobs
from comfyrail.usecases.batch_searches import BatchSearches
from tests.store.life_cycle.model import Model, ModelBatch, ModelJob

Answer = tuple[Any, ...]

NOT_FOUND: Answer = ("JobNotFound",)
STALE: Answer = ("StaleAttempt",)
CONFLICT: Answer = ("Conflict",)


class Operation(Protocol):
    async def ask(self, store: Store) -> Answer: ...

    def expect(self, model: Model) -> Answer:
        """Change the model as the store should change; the answer that it should give."""
        ...


async def answer_of(operation: Operation, store: Store) -> Answer:
    try:
        return await operation.ask(store)
    except ComfyrailError as error:
        return (type(error).__name__,)


def _seen(job: Job | ModelJob) -> Answer:
    return job.id, job.state, job.cancel_requested, job.retries


@dataclass(frozen=True, slots=True)
class Add:
    job: NewJob

    async def ask(self, store: Store) -> Answer:
        added = await store.add_job(self.job)
        place = added.place.position if added.place else None
        return added.job_id, added.state, added.is_replay, place

    def expect(self, model: Model) -> Answer:
        job, key = self.job, self.job.idempotency
        if key is not None:
            found = model.find_key(job.tenant, key.key)
            if found is not None and found[0] != key.fingerprint:
                return ("IdempotencyMismatch",)
            if found is not None:
                return found[1], model.jobs[found[1]].state, True, None
            model.keys[job.tenant, key.key] = (key.fingerprint, job.id, model.wall)
        model.add(new_model_job(job), job.not_before)
        is_waiting = model.jobs[job.id].is_waiting
        return job.id, JobState.QUEUED, False, model.position(job.id) if is_waiting else None


def new_model_job(job: NewJob, extra_rank: int = 0) -> ModelJob:
    return ModelJob(
        id=job.id,
        tenant=job.tenant,
        priority=job.priority,
        rank=job.rank + extra_rank,
        queue_class=job.standing.queue_class,
        expected_seconds=job.expected_seconds,
        max_retries=job.max_retries,
        timeout_seconds=job.timeout_seconds,
        needs=job.needs,
        prompt=job.prompt,
        since=max(job.submitted_at, job.not_before or 0),
        queue_timeout=job.queue_timeout,
        batch_id=job.batch.batch_id if job.batch else None,
    )


@dataclass(frozen=True, slots=True)
class Start:
    assignments: tuple[Assignment, ...]
    owner: str
    lease_seconds: float

    async def ask(self, store: Store) -> Answer:
        started = await store.start_attempts(self.assignments, self.owner, self.lease_seconds)
        return tuple((each.job_id, each.token) for each in started)

    def expect(self, model: Model) -> Answer:
        lease = round(self.lease_seconds * 1000)
        return tuple(
            (each.job_id, each.token)
            for each in self.assignments
            if model.start(each.job_id, each.worker_id, each.token, self.owner, lease)
        )


@dataclass(frozen=True, slots=True)
class Record:
    token: AttemptToken
    events: tuple[EventType, ...]

    async def ask(self, store: Store) -> Answer:
        await store.record_events(self.token, [NewEvent(each) for each in self.events], None)
        return ()

    def expect(self, model: Model) -> Answer:
        found = model.by_token(self.token)
        if found is None:
            return STALE
        model.record(found[0], _names(self.events))
        return ()


def _names(events: Sequence[EventType]) -> list[str]:
    return [each.value.split(".")[1] for each in events]


@dataclass(frozen=True, slots=True)
class Finish:
    token: AttemptToken
    outcome: Outcome
    events: tuple[EventType, ...] = ()

    async def ask(self, store: Store) -> Answer:
        events = [NewEvent(each) for each in self.events]
        return _seen(await store.finish_attempt(self.token, self.outcome, events))

    def expect(self, model: Model) -> Answer:
        found = model.by_token(self.token)
        if found is None:
            return STALE
        job, attempt = model.record(found[0], _names(self.events)), found[1]
        match self.outcome:
            case Completed(outputs):
                model.complete(job, attempt, [each.id for each in outputs])
            case Failed(fault, outputs, remedy):
                model.fail(job, attempt, [each.id for each in outputs], fault.code, remedy)
            case Cancelled(outputs):
                model.stop(job, attempt, [each.id for each in outputs])
            case Lost(cause, counted):
                model.lose(job, attempt, cause, counted=counted)
        return _seen(model.jobs[job.id])


@dataclass(frozen=True, slots=True)
class Cancel:
    tenant: TenantId
    job_id: JobId

    async def ask(self, store: Store) -> Answer:
        return _seen(await store.request_cancel(self.tenant, self.job_id))

    def expect(self, model: Model) -> Answer:
        job = model.jobs.get(self.job_id)
        if job is None or job.tenant != self.tenant:
            return NOT_FOUND
        if job.is_active:
            job = model.cancel(job)
        return _seen(job) if job.state not in {JobState.COMPLETED, JobState.FAILED} else CONFLICT


@dataclass(frozen=True, slots=True)
class Reprioritize:
    tenant: TenantId
    job_id: JobId
    priority: int
    standing: Standing

    async def ask(self, store: Store) -> Answer:
        job = await store.reprioritize(self.tenant, self.job_id, self.priority, self.standing)
        return (*_seen(job), job.rank)

    def expect(self, model: Model) -> Answer:
        job = model.jobs.get(self.job_id)
        if job is None or job.tenant != self.tenant:
            return NOT_FOUND
        if job.state is not JobState.QUEUED:
            return CONFLICT
        rank = self.standing.rank(Instant(job.since))
        job = model.reprioritize(job, self.priority, rank, self.standing.queue_class)
        return (*_seen(job), rank)


@dataclass(frozen=True, slots=True)
class Pause:
    async def ask(self, store: Store) -> Answer:
        return ((await store.pause_queue(None)).is_paused,)

    def expect(self, model: Model) -> Answer:
        model.is_paused = True
        return (True,)


@dataclass(frozen=True, slots=True)
class Resume:
    async def ask(self, store: Store) -> Answer:
        return ((await store.resume_queue()).is_paused,)

    def expect(self, model: Model) -> Answer:
        model.is_paused = False
        return (False,)


@dataclass(frozen=True, slots=True)
class NoteJump:
    """The wall clock has been set already."""

    milliseconds: int

    async def ask(self, store: Store) -> Answer:
        assert await store.settle_clock() == self.milliseconds
        return ()

    def expect(self, model: Model) -> Answer:
        model.set_wall(self.milliseconds)
        return ()


@dataclass(frozen=True, slots=True)
class ReleaseDue:
    async def ask(self, store: Store) -> Answer:
        return (await store.release_due(),)

    def expect(self, model: Model) -> Answer:
        model.release_due()
        return (model.next_due(),)


@dataclass(frozen=True, slots=True)
class ExpireQueued:
    async def ask(self, store: Store) -> Answer:
        expired, upcoming = await store.expire_queued()
        return sorted(expired), upcoming

    def expect(self, model: Model) -> Answer:
        expired = sorted(model.expire_queued())
        return expired, model.next_expiry()


@dataclass(frozen=True, slots=True)
class Extend:
    tokens: tuple[AttemptToken, ...]
    lease_seconds: float

    async def ask(self, store: Store) -> Answer:
        return tuple(await store.extend_leases(self.tokens, self.lease_seconds))

    def expect(self, model: Model) -> Answer:
        lease = round(self.lease_seconds * 1000)
        return tuple(token for token in self.tokens if not model.extend(token, lease))


@dataclass(frozen=True, slots=True)
class ExpireLeases:
    async def ask(self, store: Store) -> Answer:
        return tuple(sorted(await store.expire_leases()))

    def expect(self, model: Model) -> Answer:
        return tuple(sorted(model.expire_leases()))


@dataclass(frozen=True, slots=True)
class Adopt:
    worker_id: WorkerId
    owner: str
    lease_seconds: float

    async def ask(self, store: Store) -> Answer:
        adopted = await store.adopt_attempts(self.worker_id, self.owner, self.lease_seconds)
        return tuple(sorted(each.job_id for each in adopted))

    def expect(self, model: Model) -> Answer:
        lease = round(self.lease_seconds * 1000)
        return tuple(sorted(model.adopt(self.worker_id, self.owner, lease)))


@dataclass(frozen=True, slots=True)
class GiveUp:
    owner: str
    lease_seconds: float

    async def ask(self, store: Store) -> Answer:
        await store.release_attempts(self.owner, self.lease_seconds)
        return ()

    def expect(self, model: Model) -> Answer:
        model.give_up(self.owner, round(self.lease_seconds * 1000))
        return ()


@dataclass(frozen=True, slots=True)
class AddBatch:
    """`stored_at_once`: a batch with more jobs is stored bit by bit, its jobs held meanwhile."""

    batch_id: BatchId
    tenant: TenantId
    stop_on_error: bool
    jobs: tuple[NewJob, ...]
    stored_at_once: int

    async def ask(self, store: Store) -> Answer:
        batch = NewBatch(
            self.batch_id,
            self.tenant,
            BatchKind.LIST,
            len(self.jobs),
            stop_on_error=self.stop_on_error,
        )
        members = [BatchJob(index, b"{}", job=job) for index, job in enumerate(self.jobs)]
        added = await store.add_batch(batch, members)
        return added.batch_id, added.is_replay

    def expect(self, model: Model) -> Answer:
        model.mark_batch(ModelBatch(self.batch_id, self.tenant, self.stop_on_error))
        is_filled = len(self.jobs) > self.stored_at_once
        for index, job in enumerate(self.jobs):
            model.add(new_model_job(job, index if is_filled else 0), job.not_before)
            known = model.jobs[job.id]
            if is_filled and known.is_waiting:
                model.jobs[job.id] = known.told("queued")
        return self.batch_id, False


@dataclass(frozen=True, slots=True)
class CancelBatch:
    tenant: TenantId
    batch_id: BatchId

    async def ask(self, store: Store) -> Answer:
        await store.cancel_batch(self.tenant, self.batch_id)
        return ()

    def expect(self, model: Model) -> Answer:
        batch = model.batches.get(self.batch_id)
        if batch is None or batch.tenant != self.tenant:
            return ("BatchNotFound",)
        is_over = not any(job.is_active for job in model.of_batch(self.batch_id))
        if is_over and not batch.is_cancelled:
            return CONFLICT
        model.mark_batch(replace(batch, is_cancelled=True))
        return ()


@dataclass(frozen=True, slots=True)
class CancelBatchJobs:
    batch_id: BatchId
    running: bool

    async def ask(self, store: Store) -> Answer:
        return (await store.cancel_batch_jobs(self.batch_id, running=self.running),)

    def expect(self, model: Model) -> Answer:
        return (model.cancel_batch_jobs(self.batch_id, running=self.running),)


@dataclass(frozen=True, slots=True)
class AttendBatches:
    """What the server does about batches by itself."""

    async def ask(self, store: Store) -> Answer:
        # The other two are for searches, of which there are none.
        await BatchSearches(store, cast(BatchJobs, None), cast(BlobReads, None)).look()
        return ()

    def expect(self, model: Model) -> Answer:
        for batch in model.batches.values():
            if batch.is_ending:
                model.cancel_batch_jobs(batch.id, running=batch.is_cancelled)
        return ()
