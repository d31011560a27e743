"""Many jobs under one id: submit them, look at them as one, stop them [4.6]."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from comfyrail.access.principal import Principal
from comfyrail.clock import Clock, Instant
from comfyrail.errors import MalformedRequest
from comfyrail.ids import BatchId, JobId, new_uuid
from comfyrail.jobs.batches import (
    LONGEST_NAME,
    MOST_JOBS,
    Batch,
    NewBatch,
    Plan,
    Variants,
    WorkflowSource,
    check_plan,
    count_jobs,
    expand,
    kind_of,
    remaining_seconds,
)
from comfyrail.jobs.job import IdempotencyKey
from comfyrail.jobs.parameter_search import Search, corners, propose
from comfyrail.library.names import split_reference
from comfyrail.store.interface import BatchPage, MemberPage, Store
from comfyrail.usecases.batch_jobs import (
    BatchBase,
    BatchJobs,
    ItemFix,
    MadeJobs,
    trial_item,
)
from comfyrail.usecases.batch_turns import BatchTurns, Making
from comfyrail.usecases.library import Library

JOBS_NAMED = 1000
"""A reply names so many executions; the rest is in the list."""
FIXES_SHOWN = 100


@dataclass(frozen=True, slots=True)
class BatchSubmission:
    base: BatchBase
    plan: Plan
    name: str | None = None
    stop_on_error: bool = False
    idempotency: IdempotencyKey | None = None


@dataclass(frozen=True, slots=True)
class BatchAccepted:
    batch_id: BatchId
    submitted_at: Instant
    name: str | None
    planned: int
    job_ids: Sequence[JobId]
    """The first JOBS_NAMED of them."""
    fixes: Sequence[ItemFix] = ()
    is_replay: bool = False


@dataclass(frozen=True, slots=True)
class BatchStatus:
    """A batch with what is worked out when someone looks."""

    batch: Batch
    remaining_seconds: float | None


class Batches:
    """Every method shows the principal's own batches only; others do not exist for it."""

    def __init__(
        self,
        store: Store,
        clock: Clock,
        jobs: BatchJobs,
        library: Library,
        most_jobs: int = MOST_JOBS,
    ) -> None:
        self._store = store
        self._clock = clock
        self._jobs = jobs
        self._library = library
        self._most_jobs = most_jobs
        self._turns = BatchTurns()

    async def submit(self, principal: Principal, submission: BatchSubmission) -> BatchAccepted:
        """Return when the whole batch is on disk; raise with the faults of all its jobs."""
        key = submission.idempotency
        if key is not None:
            known = await self._store.find_batch_by_key(principal.tenant, key)
            if known is not None:
                return await self._replayed(principal, known)
        if submission.name is not None and len(submission.name) > LONGEST_NAME:
            raise MalformedRequest(f"name has {LONGEST_NAME} characters at most.")
        plan = submission.plan
        check_plan(plan, self._most_jobs)
        base, plan = await self._pinned(principal, submission.base, plan)
        quota = await self._jobs.admit(principal)
        batch_id = BatchId(new_uuid())
        with self._turns.admit(principal.tenant) as making:
            made = await self._make(principal, batch_id, base, plan, making)
            making.end_turn()
            search = plan if isinstance(plan, Search) else None
            batch = NewBatch(
                id=batch_id,
                tenant=principal.tenant,
                kind=kind_of(plan),
                planned=count_jobs(plan),
                name=submission.name,
                tier=principal.tier,
                stop_on_error=submission.stop_on_error,
                search=search,
                request=base.encode() if search else None,
                quota=quota,
            )
            added = await self._store.add_batch(batch, made.jobs, key)
        if added.is_replay:
            return await self._replayed(principal, added.batch_id)
        return BatchAccepted(
            batch_id,
            added.accepted_at,
            batch.name,
            batch.planned,
            [each.job.id for each in made.jobs[:JOBS_NAMED] if each.job],
            made.fixes[:FIXES_SHOWN],
        )

    async def status(self, principal: Principal, batch_id: BatchId) -> BatchStatus:
        return self._described(await self._store.get_batch(principal.tenant, batch_id))

    async def page(
        self, principal: Principal, after: BatchId | None, limit: int
    ) -> tuple[Sequence[BatchStatus], BatchId | None]:
        page: BatchPage = await self._store.list_batches(principal.tenant, after, limit)
        return [self._described(batch) for batch in page.batches], page.next_cursor

    async def members(
        self, principal: Principal, batch_id: BatchId, after: int, limit: int
    ) -> MemberPage:
        return await self._store.list_batch_members(principal.tenant, batch_id, after, limit)

    async def cancel(self, principal: Principal, batch_id: BatchId) -> BatchStatus:
        """Cancel what is queued, and ask for the end of what runs. Raises Conflict when the batch
        has ended in another way.
        """
        await self._store.cancel_batch(principal.tenant, batch_id)
        await self._store.cancel_batch_jobs(batch_id, running=True)
        return await self.status(principal, batch_id)

    async def score(
        self, principal: Principal, batch_id: BatchId, job_id: JobId, score: float
    ) -> BatchStatus:
        """Say what a trial of a search is worth. Raises Conflict unless it waits for that."""
        if not math.isfinite(score):
            raise MalformedRequest("score is a finite number.")
        await self._store.score_trial(principal.tenant, batch_id, job_id, score)
        return await self.status(principal, batch_id)

    async def _make(
        self,
        principal: Principal,
        batch_id: BatchId,
        base: BatchBase,
        plan: Plan,
        making: Making,
    ) -> MadeJobs:
        if not isinstance(plan, Search):
            return await self._jobs.make_all(principal, batch_id, base, expand(plan), making)
        await self._jobs.check(principal, base, corners(plan), making)
        first = range(min(plan.parallel, plan.trials))
        trials = (trial_item(propose(plan, number)) for number in first)
        return await self._jobs.make_all(principal, batch_id, base, trials, making)

    async def _pinned(
        self, principal: Principal, base: BatchBase, plan: Plan
    ) -> tuple[BatchBase, Plan]:
        """With the versions that workflows of the library have now: a batch is of one make."""
        pins = _Pins(principal, self._library)
        base = replace(base, source=await pins.pinned(base.source))
        if isinstance(plan, Variants):
            pinned = {
                name: replace(each, source=each.source and await pins.pinned(each.source))
                for name, each in plan.variants.items()
            }
            return base, replace(plan, variants=pinned)
        return base, plan

    async def _replayed(self, principal: Principal, batch_id: BatchId) -> BatchAccepted:
        tenant = principal.tenant
        batch = await self._store.get_batch(tenant, batch_id)
        ids = await self._store.list_batch_job_ids(tenant, batch_id, JOBS_NAMED)
        return BatchAccepted(
            batch_id, batch.submitted_at, batch.name, batch.planned, ids, is_replay=True
        )

    def _described(self, batch: Batch) -> BatchStatus:
        return BatchStatus(batch, remaining_seconds(batch, self._clock.now()))


class _Pins:
    def __init__(self, principal: Principal, library: Library) -> None:
        self._principal = principal
        self._library = library
        self._known: dict[str, str] = {}

    async def pinned(self, source: WorkflowSource) -> WorkflowSource:
        reference = source.workflow_id
        if reference is None:
            return source
        if reference not in self._known:
            name, version = split_reference(reference)
            if version is None:
                version = (await self._library.versions(self._principal, name))[0].version
            self._known[reference] = f"{name}@{version}"
        return replace(source, workflow_id=self._known[reference])
