"""What the server does about batches by itself: stop them after a failure, carry searches on."""

import asyncio
from collections.abc import Sequence

import structlog

from comfyrail.access.principal import Principal
from comfyrail.errors import NotReady, RequestError, StoreError
from comfyrail.ids import BatchId, JobId, TenantId
from comfyrail.jobs.batches import BatchJob, Trial
from comfyrail.jobs.job import Output
from comfyrail.jobs.parameter_search import (
    LARGEST_SCORE_TEXT,
    Scored,
    Search,
    propose,
    read_score,
)
from comfyrail.jobs.states import JobState
from comfyrail.results.blob_store import BlobReads, first_bytes
from comfyrail.store.interface import OpenTrial, Store, WatchedBatch
from comfyrail.store.signals import BATCHES
from comfyrail.usecases.batch_jobs import BatchBase, BatchJobs, trial_item, unmade_job

log = structlog.get_logger(__name__)

LOOK_SECONDS = 0.5
"""A signal comes first as a rule."""
IDLE_SECONDS = 30.0
REST_SECONDS = 0.02
"""Jobs that end at the same time are one reason to look."""
BATCHES_AT_ONCE = 100
TRIALS_AT_ONCE = 20
"""Of one search, before the other batches are looked at: each is checked."""
SCORE_KINDS = frozenset(("text", "value"))
LONGEST_NOTE = 500


class BatchSearches:
    """Looks at the batches that something must be done about. `run` goes on until cancelled.

    All it knows is in the store: after a restart it goes on where it was.
    """

    def __init__(self, store: Store, jobs: BatchJobs, blobs: BlobReads) -> None:
        self._store = store
        self._jobs = jobs
        self._blobs = blobs

    async def run(self) -> None:
        with self._store.signals.subscribe(BATCHES) as news:
            while True:
                try:
                    watched = await self.look()
                except StoreError as error:
                    log.warning("batches_not_looked_at", error=error.message)
                    watched = 1
                except Exception:  # searches must go on after any fault in one look
                    log.exception("look_at_batches_failed")
                    watched = 1
                await asyncio.sleep(REST_SECONDS)
                await news.wait(LOOK_SECONDS if watched else IDLE_SECONDS)

    async def look(self) -> int:
        """Do what there is to do now; how many batches are still watched."""
        watched = 0
        last: BatchId | None = None
        while True:
            batches = await self._store.watched_batches(last, BATCHES_AT_ONCE)
            for batch in batches:
                last = batch.id
                watched += await self._attend_safely(batch)
            if len(batches) < BATCHES_AT_ONCE:
                return watched

    async def _attend_safely(self, batch: WatchedBatch) -> bool:
        try:
            return await self._attend(batch)
        except (StoreError, NotReady) as error:
            log.warning("batch_not_attended", batch_id=batch.id, error=error.message)
        except Exception:  # one batch must not keep the others from going on
            log.exception("batch_failed", batch_id=batch.id)
        return True

    async def _attend(self, batch: WatchedBatch) -> bool:
        """Whether there will be more to do."""
        if batch.is_opening:
            await self._store.release_batch(batch.id)
            return True
        if batch.must_stop and not batch.is_stopped:
            await self._store.stop_batch(batch.id)
        is_ending = batch.is_cancelled or batch.must_stop or batch.is_stopped
        if is_ending:
            await self._store.cancel_batch_jobs(batch.id, running=batch.is_cancelled)
        if batch.search is not None:
            return await self._carry_on(batch, batch.search, is_ending=is_ending)
        if batch.is_active:
            return True
        await self._store.leave_batch(batch.id)
        return False

    async def _carry_on(self, batch: WatchedBatch, search: Search, *, is_ending: bool) -> bool:
        trials = await self._store.open_trials(batch.id)
        waiting = [each for each in trials if not await self._settle(batch, search, each)]
        if is_ending:
            if any(each.state is not JobState.COMPLETED for each in waiting):
                return True
        elif batch.made < batch.planned:
            await self._add_trials(batch, search, search.parallel - len(waiting))
            return True
        elif waiting:
            return True
        await self._store.leave_batch(batch.id)
        return False

    async def _settle(self, batch: WatchedBatch, search: Search, trial: OpenTrial) -> bool:
        """Whether it is known now what the trial is worth."""
        if trial.state in {JobState.QUEUED, JobState.PROCESSING}:
            return False
        if trial.state is not JobState.COMPLETED:
            await self._store.settle_trial(batch.id, trial.index, None)
            return True
        if search.score_node is None:
            return False
        score = await self._score_of(batch.tenant, trial.job_id, search.score_node)
        note = None
        if score is None:
            note = (
                f"Node '{search.score_node[:80]}' gave no number. A score is a text such as 0.75, "
                'or {"score": 0.75}.'
            )
        await self._store.settle_trial(batch.id, trial.index, score, note)
        return True

    async def _score_of(self, tenant: TenantId, job_id: JobId, node_id: str) -> float | None:
        outputs = await self._store.list_outputs(tenant, job_id)
        for output in outputs:
            if output.file.node_id == node_id and _may_be_score(output):
                text = await self._read(output.file.blob_key)
                score = read_score(text)
                if score is not None:
                    return score
        return None

    async def _read(self, key: str) -> bytes:
        """Nothing of what is gone. Raises StoreUnavailable where it can be had later."""
        try:
            return await first_bytes(await self._blobs.open(key), LARGEST_SCORE_TEXT)
        except RequestError:
            return b""

    async def _add_trials(self, batch: WatchedBatch, search: Search, wanted: int) -> None:
        wanted = min(wanted, batch.planned - batch.made)
        if wanted <= 0:
            return
        count = min(wanted, TRIALS_AT_ONCE)
        base = BatchBase.decode(await self._store.batch_request(batch.id))
        best = await self._store.best_trials(batch.id, search)
        made: list[BatchJob] = []
        for number in range(batch.made, batch.made + count):
            made.append(await self._make(batch, search, base, best, number))
            await asyncio.sleep(0)  # a check may take milliseconds: others have their turn
        await self._store.add_trials(batch.id, made)
        if count < wanted:
            self._store.signals.notify(BATCHES)

    async def _make(
        self,
        batch: WatchedBatch,
        search: Search,
        base: BatchBase,
        best: Sequence[Trial],
        number: int,
    ) -> BatchJob:
        """A trial; one whose workflow cannot run by now counts as failed."""
        scored = [Scored(each.parameters, each.score) for each in best]
        item = trial_item(propose(search, number, scored))
        principal = Principal(batch.tenant, batch.tier)
        try:
            job, _ = await self._jobs.make(principal, batch.id, base, number, item)
        except RequestError as error:
            return unmade_job(number, item, error.message[:LONGEST_NOTE])
        return job


def _may_be_score(output: Output) -> bool:
    file = output.file
    is_text = file.kind in SCORE_KINDS or file.content_type.startswith("text/")
    return is_text and not output.is_partial and file.size <= LARGEST_SCORE_TEXT
