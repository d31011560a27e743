"""The store's view of the queue: lanes, places, what is due, what has waited too long."""

from collections.abc import Mapping, Sequence
from functools import lru_cache

from comfyrail.clock import Clock, Instant, after
from comfyrail.errors import Conflict, JobNotFound
from comfyrail.ids import JobId, TenantId, first_id_at
from comfyrail.jobs.job import IdempotencyKey, Job
from comfyrail.jobs.needs import JobNeeds
from comfyrail.jobs.priority import QueueClass, Standing
from comfyrail.jobs.queue import Backlog, Lane, LaneKey, QueuePlace, QueueState
from comfyrail.jobs.states import JobState
from comfyrail.store.interface import Enqueued
from comfyrail.store.signals import QUEUE
from comfyrail.store.sqlite import transitions
from comfyrail.store.sqlite.queue_figures import STEPS, QueueFigures
from comfyrail.store.sqlite.readers import Readers, Snapshot
from comfyrail.store.sqlite.rows import read_job, read_queued_job
from comfyrail.store.sqlite.writer import Transaction, Writer

CHANGED_AT_ONCE = 500
"""Jobs that become due or expire in one transaction: others must not wait for more."""

_decode_needs = lru_cache(maxsize=4096)(JobNeeds.decode)
"""The same object for the same needs: what is worked out for them is kept with it."""


class QueueOperations:
    """Part of SqliteStore. See comfyrail.store.interface.Store."""

    figures: QueueFigures
    _writer: Writer
    _readers: Readers
    _clock: Clock

    async def load_figures(self) -> None:
        """Count what is queued, once; forget what nobody refers to any more."""

        def prune(tx: Transaction) -> None:
            tx.run("prune_groups")
            tx.run("prune_keys", oldest=after(tx.now, -transitions.IDEMPOTENCY_SECONDS))

        await self._writer.write(prune)
        step = STEPS[0]
        rows = await self._readers.read(lambda snapshot: snapshot.all("queue_summary", step=step))
        for row in rows:
            self.figures.change(row["bucket"] * step, row["jobs"], row["seconds"])

    async def find_by_key(self, tenant: TenantId, key: IdempotencyKey) -> Enqueued | None:
        now = self._clock.now()
        return await self._readers.read(
            lambda snapshot: transitions.find_by_key(snapshot, tenant, key, now)
        )

    async def queue_place(self, job_id: JobId) -> QueuePlace | None:
        def read(snapshot: Snapshot) -> QueuePlace | None:
            row = snapshot.one("get_job", job_id=job_id)
            if row is None or row["state"] != JobState.QUEUED or row["held_until"] is not None:
                return None
            return transitions.place_of(snapshot, self.figures, row["rank"], job_id)

        return await self._readers.read(read)

    async def prompt_of(self, tenant: TenantId, job_id: JobId) -> bytes:
        def read(snapshot: Snapshot) -> bytes:
            job_of(snapshot, tenant, job_id)
            row = snapshot.one("get_prompt", job_id=job_id)
            return row["prompt"] if row else b"{}"

        return await self._readers.read(read)

    async def needs_of(self, job_id: JobId) -> JobNeeds:
        def read(snapshot: Snapshot) -> JobNeeds:
            row = snapshot.one("get_job", job_id=job_id)
            return _needs_of(snapshot, row["queue_group"]) if row else JobNeeds()

        return await self._readers.read(read)

    async def queue_lanes(
        self, jobs_per_lane: int, lanes: int, after: LaneKey | None = None
    ) -> Sequence[Lane]:
        def read(snapshot: Snapshot) -> list[Lane]:
            found: list[Lane] = []
            state = snapshot.one("get_queue_state")
            if state is not None and state["paused_at"] is not None:
                return found
            first = after or _BEFORE_ALL
            last, has_turned = first, after is None
            while len(found) < lanes:
                row = snapshot.one(
                    "next_lane",
                    queue_class=last.queue_class,
                    tenant=last.tenant,
                    queue_group=last.group,
                )
                if row is None:
                    if has_turned:
                        break
                    last, has_turned = _BEFORE_ALL, True
                    continue
                last = LaneKey(row["queue_class"], TenantId(row["tenant"]), row["queue_group"])
                if has_turned and after is not None and _order(last) > _order(first):
                    break
                found.append(_read_lane(snapshot, last, jobs_per_lane))
            return found

        return await self._readers.read(read)

    async def backlog(self) -> Sequence[Backlog]:
        def read(snapshot: Snapshot) -> list[Backlog]:
            return [
                Backlog(
                    QueueClass(row["queue_class"]),
                    _needs_of(snapshot, row["queue_group"]),
                    row["jobs"],
                    row["seconds"],
                    row["oldest_rank"],
                )
                for row in snapshot.all("backlog")
            ]

        return await self._readers.read(read)

    async def running_by_tenant(self) -> Mapping[TenantId, int]:
        rows = await self._readers.read(lambda snapshot: snapshot.all("running_by_tenant"))
        return {TenantId(row["tenant"]): row["jobs"] for row in rows}

    async def arrivals(self, since: Instant) -> Mapping[int, tuple[int, float]]:
        first_id = first_id_at(max(0, since))
        rows = await self._readers.read(
            lambda snapshot: snapshot.all("arrivals", first_id=first_id, since=since)
        )
        return {row["minute"]: (row["jobs"], row["seconds"]) for row in rows}

    async def release_due(self) -> Instant | None:
        upcoming = await self._readers.read(lambda snapshot: snapshot.one("next_due"))
        if upcoming is None or upcoming["at"] is None or upcoming["at"] > self._clock.now():
            return upcoming["at"] if upcoming else None

        def release(tx: Transaction) -> Instant | None:
            for row in tx.all("find_due", now=tx.now, limit=CHANGED_AT_ONCE):
                transitions.release(tx, row)
            upcoming = tx.one("next_due")
            return upcoming["at"] if upcoming else None

        return await self._writer.write(release)

    async def expire_queued(self) -> tuple[Sequence[JobId], Instant | None]:
        upcoming = await self._readers.read(lambda snapshot: snapshot.one("next_expiry"))
        if upcoming is None or upcoming["at"] is None or upcoming["at"] > self._clock.now():
            return (), upcoming["at"] if upcoming else None

        def expire(tx: Transaction) -> tuple[list[JobId], Instant | None]:
            overdue = tx.all("find_overdue", now=tx.now, limit=CHANGED_AT_ONCE)
            expired = [transitions.expire(tx, row) for row in overdue]
            upcoming = tx.one("next_expiry")
            return expired, upcoming["at"] if upcoming else None

        return await self._writer.write(expire)

    async def reprioritize(
        self, tenant: TenantId, job_id: JobId, priority: int, standing: Standing
    ) -> Job:
        def change(tx: Transaction) -> Job:
            job = job_of(tx, tenant, job_id)
            if job.state is not JobState.QUEUED:
                raise Conflict(
                    f"The job is {job.state}: only a queued job can be given another priority.",
                    code="EXECUTION_NOT_QUEUED",
                    details={"status": job.state},
                )
            return transitions.reprioritize(tx, job, priority, standing)

        return await self._writer.write(change)

    async def queue_state(self) -> QueueState:
        row = await self._readers.read(lambda snapshot: snapshot.one("get_queue_state"))
        return QueueState(row["paused_at"], row["reason"]) if row else QueueState()

    async def pause_queue(self, reason: str | None) -> QueueState:
        def pause(tx: Transaction) -> QueueState:
            tx.run("set_queue_state", paused_at=tx.now, reason=reason)
            tx.notify(QUEUE)
            return QueueState(tx.now, reason)

        return await self._writer.write(pause)

    async def resume_queue(self) -> QueueState:
        def resume(tx: Transaction) -> QueueState:
            tx.run("set_queue_state", paused_at=None, reason=None)
            tx.notify(QUEUE)
            return QueueState()

        return await self._writer.write(resume)


def job_of(source: Transaction | Snapshot, tenant: TenantId, job_id: JobId) -> Job:
    row = source.one("get_job_of_tenant", job_id=job_id, tenant=tenant)
    if row is None:
        raise JobNotFound(
            f"There is no execution {job_id}. Check the id.", details={"execution_id": job_id}
        )
    return read_job(row)


def _read_lane(snapshot: Snapshot, key: LaneKey, limit: int) -> Lane:
    rows = snapshot.all(
        "lane_head",
        queue_class=key.queue_class,
        tenant=key.tenant,
        queue_group=key.group,
        limit=limit + 1,
    )
    return Lane(
        QueueClass(key.queue_class),
        key.tenant,
        _needs_of(snapshot, key.group),
        [read_queued_job(row) for row in rows[:limit]],
        has_more=len(rows) > limit,
    )


def _needs_of(snapshot: Snapshot, group: str) -> JobNeeds:
    row = snapshot.one("get_group", key=group)
    return _decode_needs(row["needs"]) if row else JobNeeds()


def _order(key: LaneKey) -> tuple[str, str, str]:
    return (key.queue_class, key.tenant, key.group)


_BEFORE_ALL = LaneKey(QueueClass.BATCH, TenantId(""), "")
