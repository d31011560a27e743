"""The store's view of batches: all jobs in or none, how they add up, what a search has to know."""

import sqlite3
from collections.abc import Sequence
from dataclasses import replace
from functools import partial

import structlog

from comfyrail.clock import Clock, Instant, after
from comfyrail.errors import BatchNotFound, Conflict, IdempotencyMismatch, StoreUnavailable
from comfyrail.ids import BatchId, JobId, TenantId
from comfyrail.jobs.batches import (
    Batch,
    BatchJob,
    BatchKind,
    NewBatch,
    Trial,
)
from comfyrail.jobs.job import IdempotencyKey
from comfyrail.jobs.parameter_search import ELITE, Search
from comfyrail.jobs.priority import QueueClass
from comfyrail.jobs.states import JobState
from comfyrail.store.interface import (
    AddedBatch,
    BatchPage,
    MemberPage,
    OpenTrial,
    WatchedBatch,
)
from comfyrail.store.signals import BATCHES, QUEUE
from comfyrail.store.sqlite import transitions
from comfyrail.store.sqlite.batch_rows import (
    best_trials,
    read_member,
    read_search,
    read_watched,
    summed_up,
)
from comfyrail.store.sqlite.readers import Readers, Snapshot
from comfyrail.store.sqlite.rows import read_job
from comfyrail.store.sqlite.usage_counts import check_room, count_jobs
from comfyrail.store.sqlite.writer import Transaction, Writer

log = structlog.get_logger(__name__)

STORED_AT_ONCE = 200
"""Jobs in one transaction: others must not wait for more."""
HELD_UNTIL = Instant(253_402_300_799_000)
"""Jobs of a batch that is not complete yet: the end of the year 9999."""


class BatchOperations:
    """Part of SqliteStore. See comfyrail.store.interface.Store."""

    _writer: Writer
    _readers: Readers
    _clock: Clock

    async def add_batch(
        self, batch: NewBatch, jobs: Sequence[BatchJob], key: IdempotencyKey | None = None
    ) -> AddedBatch:
        await self._writer.chores.do_all()  # what failed before must not add up
        if len(jobs) <= STORED_AT_ONCE:
            return await self._writer.write(lambda tx: _add_whole(tx, batch, jobs, key))
        await self._writer.write(lambda tx: _begin_filling(tx, batch))
        try:
            for start in range(0, len(jobs), STORED_AT_ONCE):
                await self._fill(batch, jobs[start : start + STORED_AT_ONCE])
            added = await self._writer.write(lambda tx: _open(tx, batch, key))
        except BaseException:
            self._discard_soon(batch.id)
            raise
        if added.is_replay:
            self._discard_soon(batch.id)
        else:
            await self._release_accepted(batch.id)
        return added

    async def find_batch_by_key(self, tenant: TenantId, key: IdempotencyKey) -> BatchId | None:
        now = self._clock.now()
        return await self._readers.read(lambda snapshot: _find_key(snapshot, tenant, key, now))

    async def release_batch(self, batch_id: BatchId) -> None:
        last: int | None = -1
        while last is not None:
            last = await self._release_some(batch_id, last)

    async def _release_accepted(self, batch_id: BatchId) -> None:
        """A batch that is open is accepted: what stops here is gone on with by whoever watches."""
        try:
            await self.release_batch(batch_id)
        except StoreUnavailable as error:
            log.warning("batch_not_released_yet", batch_id=batch_id, error=error.message)

    async def remove_half_made_batches(self) -> None:
        """Forget batches that an earlier process had not finished storing: nobody was told."""
        rows = await self._readers.read(lambda snapshot: snapshot.all("list_filling_batches"))
        for row in rows:
            while await self._writer.write(partial(_discard_some, batch_id=BatchId(row["id"]))):
                continue
        oldest = after(self._clock.now(), -transitions.IDEMPOTENCY_SECONDS)
        await self._writer.write(lambda tx: tx.run("prune_batch_keys", oldest=oldest))

    async def get_batch(self, tenant: TenantId, batch_id: BatchId) -> Batch:
        return await self._readers.read(
            lambda snapshot: summed_up(snapshot, _batch_of(snapshot, tenant, batch_id))
        )

    async def list_batches(self, tenant: TenantId, after: BatchId | None, limit: int) -> BatchPage:
        def read(snapshot: Snapshot) -> BatchPage:
            rows = snapshot.all("list_batches", tenant=tenant, after=after, limit=limit + 1)
            batches = [summed_up(snapshot, row) for row in rows[:limit]]
            return BatchPage(batches, batches[-1].id if len(rows) > limit else None)

        return await self._readers.read(read)

    async def list_batch_members(
        self, tenant: TenantId, batch_id: BatchId, after: int, limit: int
    ) -> MemberPage:
        def read(snapshot: Snapshot) -> MemberPage:
            _batch_of(snapshot, tenant, batch_id)
            rows = snapshot.all(
                "list_batch_members", batch_id=batch_id, after=after, limit=limit + 1
            )
            members = [read_member(row) for row in rows[:limit]]
            return MemberPage(members, members[-1].index if len(rows) > limit else None)

        return await self._readers.read(read)

    async def list_batch_job_ids(
        self, tenant: TenantId, batch_id: BatchId, limit: int
    ) -> Sequence[JobId]:
        def read(snapshot: Snapshot) -> list[JobId]:
            _batch_of(snapshot, tenant, batch_id)
            rows = snapshot.all("list_batch_job_ids", batch_id=batch_id, limit=limit)
            return [JobId(row["job_id"]) for row in rows]

        return await self._readers.read(read)

    async def cancel_batch(self, tenant: TenantId, batch_id: BatchId) -> None:
        def cancel(tx: Transaction) -> None:
            batch = summed_up(tx, _batch_of(tx, tenant, batch_id))
            if batch.cancelled_at is not None:
                return
            if batch.is_over:
                raise Conflict(
                    f"The batch has {batch.state} already: there is nothing to cancel.",
                    code="BATCH_ENDED",
                    details={"status": batch.state},
                )
            tx.run("cancel_batch", batch_id=batch_id, now=tx.now)
            tx.notify(BATCHES)

        await self._writer.write(cancel)

    async def stop_batch(self, batch_id: BatchId) -> None:
        await self._writer.write(lambda tx: tx.run("stop_batch", batch_id=batch_id, now=tx.now))

    async def cancel_batch_jobs(self, batch_id: BatchId, *, running: bool) -> int:
        cancelled = 0
        while True:
            number = await self._writer.write(lambda tx: _cancel_some(tx, batch_id, running))
            cancelled += number
            if number < STORED_AT_ONCE:
                return cancelled

    async def watched_batches(self, after: BatchId | None, limit: int) -> Sequence[WatchedBatch]:
        rows = await self._readers.read(
            lambda snapshot: snapshot.all("list_watched_batches", after=after or "", limit=limit)
        )
        return [read_watched(row) for row in rows]

    async def leave_batch(self, batch_id: BatchId) -> None:
        await self._writer.write(
            lambda tx: tx.run("watch_batch", batch_id=batch_id, is_watched=False)
        )

    async def batch_request(self, batch_id: BatchId) -> bytes:
        row = await self._readers.read(
            lambda snapshot: snapshot.one("get_batch_request", batch_id=batch_id)
        )
        if row is None:
            raise _not_found(batch_id)
        return bytes(row["request"])

    async def open_trials(self, batch_id: BatchId) -> Sequence[OpenTrial]:
        rows = await self._readers.read(
            lambda snapshot: snapshot.all("list_unsettled_trials", batch_id=batch_id)
        )
        return [
            OpenTrial(
                row["number"],
                JobId(row["job_id"]),
                JobState(row["state"]) if row["state"] is not None else None,
            )
            for row in rows
        ]

    async def best_trials(self, batch_id: BatchId, search: Search) -> Sequence[Trial]:
        return await self._readers.read(
            lambda snapshot: best_trials(snapshot, batch_id, search, limit=ELITE)
        )

    async def add_trials(self, batch_id: BatchId, jobs: Sequence[BatchJob]) -> bool:
        def add(tx: Transaction) -> bool:
            row = tx.one("get_batch", batch_id=batch_id)
            if row is None or row["cancelled_at"] is not None or row["stopped_at"] is not None:
                return False
            for each in jobs:
                _insert_job(tx, batch_id, each, is_settled=each.job is None)
            return True

        return await self._writer.write(add)

    async def settle_trial(
        self, batch_id: BatchId, index: int, score: float | None, note: str | None = None
    ) -> None:
        await self._writer.write(
            lambda tx: tx.run(
                "settle_trial", batch_id=batch_id, number=index, score=score, note=note
            )
        )

    async def score_trial(
        self, tenant: TenantId, batch_id: BatchId, job_id: JobId, score: float
    ) -> None:
        def write(tx: Transaction) -> None:
            row = _batch_of(tx, tenant, batch_id)
            number = _scorable(tx, row, job_id, score)
            if number is not None:
                tx.run("settle_trial", batch_id=batch_id, number=number, score=score, note=None)
                tx.notify(BATCHES)

        await self._writer.write(write)

    async def _fill(self, batch: NewBatch, jobs: Sequence[BatchJob]) -> None:
        def fill(tx: Transaction) -> None:
            for each in jobs:
                _insert_job(tx, batch.id, each, is_settled=batch.search is None)
                if each.job is not None:
                    _hold(tx, each.job.id)

        await self._writer.write(fill)

    async def _release_some(self, batch_id: BatchId, last: int) -> int | None:
        def release(tx: Transaction) -> int | None:
            batch = tx.one("get_batch", batch_id=batch_id)
            if batch is None:
                return None
            rows = tx.all(
                "find_held_of_batch",
                batch_id=batch_id,
                after=last,
                until=HELD_UNTIL,
                limit=STORED_AT_ONCE,
            )
            for row in rows:
                _release(tx, row, Instant(batch["submitted_at"]))
            if len(rows) == STORED_AT_ONCE:
                return int(rows[-1]["batch_index"])
            _finish_opening(tx, batch)
            return None

        return await self._writer.write(release)

    def _discard_soon(self, batch_id: BatchId) -> None:
        """The disk that refused the batch may refuse this too: none of its jobs starts anyway."""
        self._writer.chores.add(
            f"discard batch {batch_id}", partial(_discard_some, batch_id=batch_id)
        )


def _discard_some(tx: Transaction, batch_id: BatchId) -> bool:
    """Remove some of a batch that was not accepted, and nothing of one that was; whether there is
    more of it.
    """
    row = tx.one("get_batch", batch_id=batch_id)
    if row is None or row["stage"] != "filling":
        return False
    gone = tx.all("delete_jobs_of_batch", batch_id=batch_id, limit=STORED_AT_ONCE)
    if not gone:
        tx.run("delete_batch", batch_id=batch_id)
    return bool(gone)


def _add_whole(
    tx: Transaction, batch: NewBatch, jobs: Sequence[BatchJob], key: IdempotencyKey | None
) -> AddedBatch:
    replayed = _find_key(tx, batch.tenant, key, tx.now) if key else None
    if replayed is not None:
        return AddedBatch(replayed, tx.now, is_replay=True)
    check_room(tx, batch.tenant, batch.quota, batch.planned)
    count_jobs(tx, batch.tenant, batch.planned)
    _insert(tx, batch, "open")
    _insert_key(tx, batch, key)
    for each in jobs:
        _insert_job(tx, batch.id, each, is_settled=batch.search is None)
    tx.notify(BATCHES)
    return AddedBatch(batch.id, tx.now)


def _begin_filling(tx: Transaction, batch: NewBatch) -> None:
    """What would not be taken at the end need not be stored."""
    check_room(tx, batch.tenant, batch.quota, batch.planned)
    _insert(tx, batch, "filling")


def _open(tx: Transaction, batch: NewBatch, key: IdempotencyKey | None) -> AddedBatch:
    """The moment from which on the batch is accepted."""
    replayed = _find_key(tx, batch.tenant, key, tx.now) if key else None
    if replayed is not None:
        return AddedBatch(replayed, tx.now, is_replay=True)
    check_room(tx, batch.tenant, batch.quota, batch.planned)
    count_jobs(tx, batch.tenant, batch.planned)
    tx.run("open_batch", batch_id=batch.id, now=tx.now)
    _insert_key(tx, batch, key)
    tx.notify(BATCHES)
    return AddedBatch(batch.id, tx.now)


def _release(tx: Transaction, row: sqlite3.Row, accepted_at: Instant) -> None:
    """Let a job in whose batch is complete; it begins to wait now, or when its own time comes."""
    not_before = row["not_before"]
    is_early = not_before is not None and not_before > tx.now
    since = Instant(not_before) if is_early else tx.now
    accepted = tx.one(
        "accept_batch_job",
        job_id=row["id"],
        accepted_at=accepted_at,
        expires_at=transitions.expiry(tx, since, row["queue_timeout"]),
    )
    if is_early:
        tx.run("hold_job", job_id=row["id"], until=not_before, reason=transitions.SCHEDULED)
    else:
        transitions.release(tx, accepted)


def _finish_opening(tx: Transaction, row: sqlite3.Row) -> None:
    if row["stage"] != "opening":
        return
    tx.run("set_batch_stage", batch_id=row["id"], stage="open")
    if row["kind"] != BatchKind.SEARCH and not row["stop_on_error"] and not row["cancelled_at"]:
        tx.run("watch_batch", batch_id=row["id"], is_watched=False)


def _insert(tx: Transaction, batch: NewBatch, stage: str) -> None:
    is_search = batch.search is not None
    tx.run(
        "insert_batch",
        id=batch.id,
        tenant=batch.tenant,
        tier=batch.tier,
        name=batch.name,
        kind=batch.kind,
        stage=stage,
        planned=batch.planned,
        stop_on_error=batch.stop_on_error,
        submitted_at=tx.now,
        is_watched=is_search or batch.stop_on_error or stage != "open",
        search=batch.search.encode() if batch.search else None,
    )
    if batch.request is not None:
        tx.run("insert_batch_request", batch_id=batch.id, request=batch.request)


def _insert_key(tx: Transaction, batch: NewBatch, key: IdempotencyKey | None) -> None:
    if key is not None:
        tx.run(
            "insert_batch_key",
            tenant=batch.tenant,
            key=key.kept_as,
            fingerprint=key.fingerprint,
            batch_id=batch.id,
            now=tx.now,
        )


def _insert_job(tx: Transaction, batch_id: BatchId, each: BatchJob, *, is_settled: bool) -> None:
    """The job was made when it was checked, but waits from now on."""
    tx.run(
        "insert_batch_item",
        batch_id=batch_id,
        number=each.index,
        job_id=each.job.id if each.job else None,
        name=each.name,
        parameters=each.parameters,
        note=each.note,
        is_settled=is_settled,
    )
    if each.job is not None:
        transitions.enqueue(tx, replace(each.job, submitted_at=tx.now))


def _hold(tx: Transaction, job_id: JobId) -> None:
    """Keep a job that was just added from starting."""
    row = tx.one("get_job", job_id=job_id)
    if row is None:
        return
    if row["held_until"] is None:
        queue_class = QueueClass(row["queue_class"])
        tx.count(queue_class, row["rank"], -1, -row["expected_seconds"])
    tx.run("hold_job", job_id=job_id, until=HELD_UNTIL, reason=transitions.SCHEDULED)


def _cancel_some(tx: Transaction, batch_id: BatchId, running: bool) -> int:
    rows = tx.all("find_active_of_batch", batch_id=batch_id, running=running, limit=STORED_AT_ONCE)
    for row in rows:
        job = read_job(row)
        if job.state is JobState.QUEUED:
            transitions.cancel_queued(tx, job)
        else:
            transitions.request_cancel(tx, job)
    if rows:
        tx.notify(BATCHES)
        # A worker may have been kept for one of them: `transitions.start` refuses them by now.
        tx.notify(QUEUE)
    return len(rows)


def _find_key(
    source: Transaction | Snapshot, tenant: TenantId, key: IdempotencyKey, now: Instant
) -> BatchId | None:
    oldest = after(now, -transitions.IDEMPOTENCY_SECONDS)
    row = source.one("get_batch_key", tenant=tenant, key=key.kept_as, oldest=oldest)
    if row is None:
        return None
    if row["fingerprint"] != key.fingerprint:
        raise IdempotencyMismatch(
            f"The idempotency key {key.key[:80]!r} was used for another batch before. "
            "Use a new key for a new request.",
            details={"batch_id": row["batch_id"]},
        )
    return BatchId(row["batch_id"])


def _batch_of(source: Transaction | Snapshot, tenant: TenantId, batch_id: BatchId) -> sqlite3.Row:
    row = source.one("get_batch_of_tenant", batch_id=batch_id, tenant=tenant)
    if row is None:
        raise _not_found(batch_id)
    return row


def _not_found(batch_id: BatchId) -> BatchNotFound:
    return BatchNotFound(
        f"There is no batch {batch_id}. Check the id.", details={"batch_id": batch_id}
    )


def _scorable(tx: Transaction, batch: sqlite3.Row, job_id: JobId, score: float) -> int | None:
    """The number of the trial to score; None when it has this score already."""
    search = read_search(batch)
    if search is None or search.score_node is not None:
        raise Conflict(
            "This batch takes no scores from its caller: only a search without score.node does.",
            code="SCORE_NOT_EXPECTED",
        )
    item = tx.one("get_batch_item_of_job", batch_id=batch["id"], job_id=job_id)
    if item is None:
        raise BatchNotFound(
            f"The batch has no execution {job_id}.",
            code="EXECUTION_NOT_FOUND",
            details={"execution_id": job_id},
        )
    if item["is_settled"]:
        if item["score"] == score:
            return None
        raise Conflict(
            "The execution has a score already."
            if item["score"] is not None
            else "The execution did not complete: it gets no score.",
            code="SCORE_NOT_EXPECTED",
        )
    if item["state"] != JobState.COMPLETED:
        raise Conflict(
            f"The execution is {item['state']}: it gets its score when it has completed.",
            code="EXECUTION_NOT_COMPLETED",
            details={"status": item["state"]},
        )
    return int(item["number"])
