"""The store's view of the queue: lanes, places, what is due, what has waited too long."""

import asyncio
from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import replace

from comfyrail.clock import Clock, Instant, after
from comfyrail.errors import Conflict, JobNotFound
from comfyrail.ids import JobId, TenantId, first_id_at
from comfyrail.jobs.job import IdempotencyKey, Job, Origin
from comfyrail.jobs.needs import JobNeeds
from comfyrail.jobs.output_config import read_output_config
from comfyrail.jobs.priority import QueueClass, Standing
from comfyrail.jobs.queue import Backlog, LaneKey, QueuePlace, QueueState, QueueTotals
from comfyrail.jobs.states import JobState
from comfyrail.jobs.webhooks import JobWebhook
from comfyrail.store.interface import Enqueued, JobDrawing, JobWishes, LanesRead
from comfyrail.store.notifications import webhook_of
from comfyrail.store.signals import HELD, QUEUE
from comfyrail.store.sqlite import transitions
from comfyrail.store.sqlite.lanes import needs_of_group, read_lanes
from comfyrail.store.sqlite.notification_rows import read_endpoint
from comfyrail.store.sqlite.queue_figures import STEPS, QueueFigures
from comfyrail.store.sqlite.readers import Readers, Snapshot
from comfyrail.store.sqlite.rows import read_job
from comfyrail.store.sqlite.writer import Transaction, Writer

SMALLEST_JUMP_MILLISECONDS = 1000
"""Below that a clock is merely being put right: nobody waits noticeably longer."""
CHANGED_AT_ONCE = 500
"""Jobs that become due or expire in one transaction: others must not wait for more."""


class QueueOperations:
    """Part of SqliteStore. See comfyrail.store.interface.Store."""

    figures: QueueFigures
    _writer: Writer
    _readers: Readers
    _clock: Clock
    _opened: tuple[Instant, float]
    """What the wall clock and the one that cannot be set said at the same moment."""
    _settling: asyncio.Lock
    _noted_jumps: int

    async def load_figures(self) -> None:
        """Count what is queued, once; forget what nobody refers to any more."""

        def prune(tx: Transaction) -> None:
            tx.run("prune_groups")
            tx.run("prune_keys", oldest=after(tx.now, -transitions.IDEMPOTENCY_SECONDS))

        await self._writer.write(prune)
        step = STEPS[0]
        rows = await self._readers.read(lambda snapshot: snapshot.all("queue_summary", step=step))
        for row in rows:
            queue_class = QueueClass(row["queue_class"])
            self.figures.change(queue_class, row["bucket"] * step, row["jobs"], row["seconds"])
        state = await self._readers.read(lambda snapshot: snapshot.one("get_queue_state"))
        if state is not None:
            self.figures.paused_at = state["paused_at"]
            self.figures.paused_total = state["paused_total"]

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

    async def drawing_of(self, tenant: TenantId, job_id: JobId) -> JobDrawing:
        def read(snapshot: Snapshot) -> JobDrawing:
            job_of(snapshot, tenant, job_id)
            row = snapshot.one("get_drawing", job_id=job_id)
            if row is None:
                return JobDrawing(b"{}")
            return JobDrawing(row["prompt"], row["layout"], row["extra_data"])

        return await self._readers.read(read)

    async def wishes_of(self, tenant: TenantId, job_id: JobId) -> JobWishes:
        def read(snapshot: Snapshot) -> JobWishes:
            job_of(snapshot, tenant, job_id)
            row = snapshot.one("get_wishes", job_id=job_id)
            if row is None:
                return JobWishes(None, None)
            return JobWishes(
                row["execution_config"],
                row["queue_timeout"],
                read_output_config(row["output_config"]),
                _own_webhook(snapshot, job_id),
            )

        return await self._readers.read(read)

    async def origin_of(self, tenant: TenantId, job_id: JobId) -> Origin:
        def read(snapshot: Snapshot) -> Origin:
            job = job_of(snapshot, tenant, job_id)
            row = snapshot.one("get_origin", job_id=job_id)
            return Origin(
                job.surface, job.origin_key, row["origin"] if row else None, alias=job.alias
            )

        return await self._readers.read(read)

    async def needs_of(self, job_id: JobId) -> JobNeeds:
        def read(snapshot: Snapshot) -> JobNeeds:
            row = snapshot.one("get_job", job_id=job_id)
            return needs_of_group(snapshot, row["queue_group"]) if row else JobNeeds()

        return await self._readers.read(read)

    async def queue_lanes(
        self,
        jobs_per_lane: int,
        lanes: int,
        *after: LaneKey | None,
        skip: AbstractSet[str] = frozenset(),
    ) -> LanesRead:
        def read(snapshot: Snapshot) -> LanesRead:
            state = snapshot.one("get_queue_state")
            if state is not None and state["paused_at"] is not None:
                return LanesRead()
            starts = [key for key in after if key is not None]
            return read_lanes(snapshot, jobs_per_lane, lanes, starts, skip)

        return await self._readers.read(read)

    async def backlog(self) -> Sequence[Backlog]:
        def read(snapshot: Snapshot) -> list[Backlog]:
            return [
                Backlog(
                    QueueClass(row["queue_class"]),
                    needs_of_group(snapshot, row["queue_group"]),
                    row["jobs"],
                    row["seconds"],
                    row["oldest_rank"],
                )
                for row in snapshot.all("backlog")
            ]

        return await self._readers.read(read)

    async def queue_totals(self) -> QueueTotals:
        rows = await self._readers.read(lambda snapshot: snapshot.all("count_others"))
        counts = {row["name"]: row["jobs"] for row in rows}
        late, _ = self.figures.before_bucket(self._clock.now())
        return QueueTotals(self.figures.by_class(), counts["scheduled"], counts["processing"], late)

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
        await self.settle_clock()
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
        await self.settle_clock()
        upcoming = await self._readers.read(lambda snapshot: snapshot.one("next_expiry"))
        now = self._clock.now()
        due = None if upcoming is None else self._by_the_clock(upcoming["at"], now)
        if due is None or due > now:
            return (), due

        def expire(tx: Transaction) -> tuple[list[JobId], Instant | None]:
            without_pauses = Instant(tx.now - self.figures.paused_milliseconds(tx.now))
            overdue = tx.all("find_overdue", now=without_pauses, limit=CHANGED_AT_ONCE)
            expired = [transitions.expire(tx, row) for row in overdue]
            upcoming = tx.one("next_expiry")
            return expired, self._by_the_clock(upcoming["at"], tx.now) if upcoming else None

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

        return self.shown(await self._writer.write(change))

    async def settle_clock(self) -> int:
        if abs(self._clock_jump()) < SMALLEST_JUMP_MILLISECONDS:
            return 0
        async with self._settling:
            jump = self._clock_jump()  # someone else may have seen to it meanwhile
            if abs(jump) < SMALLEST_JUMP_MILLISECONDS:
                return 0
            await self._note_jump(jump)
            return jump

    def _clock_jump(self) -> int:
        """By how much the wall clock was set and nobody has seen to it, in milliseconds."""
        return self._clock.now() - self._steady_now() - self._noted_jumps

    async def _note_jump(self, milliseconds: int) -> None:
        def shift(tx: Transaction) -> tuple[Instant | None, int]:
            state = tx.one("get_queue_state")
            since = state["paused_at"] if state else None
            total: int = (state["paused_total"] if state else 0) + milliseconds
            tx.run("shift_retries", milliseconds=milliseconds)
            tx.run("shift_deliveries", milliseconds=milliseconds)
            tx.run("shift_endpoints", milliseconds=milliseconds)
            tx.run("shift_signing_secrets", milliseconds=milliseconds)
            tx.notify(HELD)
            # A pause that goes on has lasted as long as before the jump.
            moved = None if since is None else Instant(since + milliseconds)
            reason = state["reason"] if state else None
            tx.run("set_queue_state", paused_at=moved, reason=reason, paused_total=total)
            return moved, total

        self.figures.paused_at, self.figures.paused_total = await self._writer.write(shift)
        self._noted_jumps += milliseconds

    def _steady_now(self) -> Instant:
        """A clock that goes on evenly while the wall clock is set anew: by it leases run. That of
        another process means nothing: every process gives all leases anew when it begins.
        """
        wall, monotonic = self._opened
        return after(wall, self._clock.monotonic() - monotonic)

    async def queue_state(self) -> QueueState:
        row = await self._readers.read(lambda snapshot: snapshot.one("get_queue_state"))
        return QueueState(row["paused_at"], row["reason"]) if row else QueueState()

    async def pause_queue(self, reason: str | None) -> QueueState:
        await self.settle_clock()

        def pause(tx: Transaction) -> QueueState:
            state = tx.one("get_queue_state")
            since = state["paused_at"] if state and state["paused_at"] is not None else tx.now
            total = state["paused_total"] if state else 0
            tx.run("set_queue_state", paused_at=since, reason=reason, paused_total=total)
            tx.notify(QUEUE)
            return QueueState(since, reason)

        paused = await self._writer.write(pause)
        self.figures.paused_at = paused.paused_at
        return paused

    async def resume_queue(self) -> QueueState:
        await self.settle_clock()

        def resume(tx: Transaction) -> int:
            state = tx.one("get_queue_state")
            total: int = state["paused_total"] if state else 0
            if state is not None and state["paused_at"] is not None:
                total += max(0, tx.now - state["paused_at"])
            tx.run("set_queue_state", paused_at=None, reason=None, paused_total=total)
            tx.notify(QUEUE)
            return total

        self.figures.paused_total = await self._writer.write(resume)
        self.figures.paused_at = None
        return QueueState()

    def shown(self, job: Job) -> Job:
        """With the moment by the clock at which it expires, if the queue is not paused again."""
        if job.expires_at is None:
            return job
        return replace(job, expires_at=self._by_the_clock(job.expires_at, self._clock.now()))

    def _by_the_clock(self, expires_at: Instant | None, now: Instant) -> Instant | None:
        if expires_at is None:
            return None
        return Instant(expires_at + self.figures.paused_milliseconds(now))


def _own_webhook(snapshot: Snapshot, job_id: JobId) -> JobWebhook | None:
    row = snapshot.one("get_endpoint_of_job", job_id=job_id)
    return None if row is None else webhook_of(read_endpoint(row))


def job_of(source: Transaction | Snapshot, tenant: TenantId, job_id: JobId) -> Job:
    row = source.one("get_job_of_tenant", job_id=job_id, tenant=tenant)
    if row is None:
        raise JobNotFound(
            f"There is no execution {job_id}. Check the id.", details={"execution_id": job_id}
        )
    return read_job(row)
