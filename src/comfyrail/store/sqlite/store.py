"""The store's interface on SQLite."""

import asyncio
import sqlite3
import zlib
from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from pathlib import Path
from typing import Any

from comfyrail.clock import Clock, after
from comfyrail.errors import Conflict, OutputNotFound
from comfyrail.ids import AttemptToken, JobId, OutputId, TenantId, WorkerId, new_attempt_token
from comfyrail.jobs.events import Event, EventType, NewEvent
from comfyrail.jobs.job import Attempt, AttemptRecord, Job, NewJob, Output, Progress, Usage
from comfyrail.jobs.outcome import Lost, Outcome
from comfyrail.jobs.recovery import RetryRules
from comfyrail.jobs.states import JobState
from comfyrail.store.feed import OPERATOR
from comfyrail.store.interface import (
    DEFAULT_LEASE_SECONDS,
    Assignment,
    Enqueued,
    JobFilter,
    JobPage,
    WorkerRecord,
)
from comfyrail.store.signals import WORKERS, Signals
from comfyrail.store.sqlite import transitions
from comfyrail.store.sqlite.access_operations import AccessOperations
from comfyrail.store.sqlite.asset_operations import AssetOperations
from comfyrail.store.sqlite.batch_operations import BatchOperations
from comfyrail.store.sqlite.blob_operations import BlobOperations
from comfyrail.store.sqlite.database import connect, lock_folder, migrate
from comfyrail.store.sqlite.delivery_desk import DeliveryDeskOperations
from comfyrail.store.sqlite.delivery_operations import DeliveryOperations
from comfyrail.store.sqlite.document_operations import DocumentOperations
from comfyrail.store.sqlite.feed_operations import FeedOperations
from comfyrail.store.sqlite.followed_operations import FollowedOperations
from comfyrail.store.sqlite.gate_operations import GateOperations
from comfyrail.store.sqlite.job_list_operations import JobListOperations
from comfyrail.store.sqlite.media_operations import MediaOperations
from comfyrail.store.sqlite.outbox import Listeners, write_notice
from comfyrail.store.sqlite.output_operations import OutputOperations
from comfyrail.store.sqlite.prompt_operations import PromptOperations
from comfyrail.store.sqlite.queue_figures import QueueFigures
from comfyrail.store.sqlite.queue_operations import job_of
from comfyrail.store.sqlite.readers import Readers, Snapshot
from comfyrail.store.sqlite.reply_operations import ReplyOperations
from comfyrail.store.sqlite.rows import (
    encode,
    read_attempt_record,
    read_event,
    read_job,
    read_output,
    read_worker,
)
from comfyrail.store.sqlite.writer import Transaction, Writer


class SqliteStore(
    JobListOperations,
    BatchOperations,
    BlobOperations,
    ReplyOperations,
    DocumentOperations,
    PromptOperations,
    AccessOperations,
    AssetOperations,
    FollowedOperations,
    GateOperations,
    MediaOperations,
    FeedOperations,
    OutputOperations,
    DeliveryOperations,
    DeliveryDeskOperations,
):
    """See comfyrail.store.interface.Store. Made by `open_sqlite_store`."""

    def __init__(self, folder: Path, clock: Clock, retries: RetryRules) -> None:
        self.signals = Signals()
        self._lock = lock_folder(folder)
        try:
            self._connection = connect(folder)
            migrate(self._connection)
        except BaseException:
            self._lock.close()
            raise
        self.figures = QueueFigures()
        self.listeners = Listeners()
        self._clock = clock
        self._opened = clock.now(), clock.monotonic()
        self._settling = asyncio.Lock()
        self._noted_jumps = 0
        self._retries = retries
        self._writer = Writer(self._connection, clock, self.signals, self.figures, self.listeners)
        self.find_loss = self._writer.find_loss
        self._readers = Readers(folder)

    async def close(self) -> None:
        await self._writer.stop()
        await asyncio.to_thread(self._readers.stop)
        self._connection.close()
        self._lock.close()

    async def check(self) -> None:
        await self._writer.write(lambda tx: tx.run("touch_probe", now=tx.now))

    async def release_dead_owners(self, lease_seconds: float) -> None:
        """Free the attempts of earlier processes: the lock proves that they are gone."""
        await self._writer.write(
            lambda tx: tx.run(
                "orphan_attempts", lease_expires_at=after(self._steady_now(), lease_seconds)
            )
        )

    async def cap_retries(self) -> None:
        """No retry waits longer than the rules have it, whatever became of the clock."""
        longest = self._retries.longest * (1 + self._retries.spread)
        await self._writer.write(lambda tx: tx.run("cap_retries", latest=after(tx.now, longest)))

    async def add_job(self, job: NewJob) -> Enqueued:
        await self.settle_clock()
        return await self._writer.write(lambda tx: transitions.enqueue(tx, job))

    async def get_job(self, tenant: TenantId, job_id: JobId) -> Job:
        return self.shown(
            await self._readers.read(lambda snapshot: job_of(snapshot, tenant, job_id))
        )

    async def list_jobs(
        self, tenant: TenantId, where: JobFilter, after: JobId | None, limit: int
    ) -> JobPage:
        if where.is_search:
            return await self.search_jobs(tenant, where, after, limit)
        values: dict[str, Any] = {
            "tenant": tenant,
            "after": after,
            "limit": limit + 1,
            "submitted_from": where.submitted_from,
            "submitted_before": where.submitted_before,
        }
        origin = {"surface": where.surface, "origin_key": where.origin_key}
        # One look a state: each has its index.
        states: AbstractSet[JobState | None] = where.states or {where.state}
        if where.batch_id is not None:
            query = "list_jobs_of_batch"
            values |= {"batch_id": where.batch_id, **origin}
        elif where.surface is not None:
            query = "list_jobs_of_surface"
            values |= origin
        else:
            query = "list_jobs" if states == {None} else "list_jobs_by_state"

        def read(snapshot: Snapshot) -> list[sqlite3.Row]:
            return [row for state in states for row in snapshot.all(query, **values, state=state)]

        rows = await self._readers.read(read)
        if len(states) > 1:
            rows.sort(key=lambda row: str(row["id"]), reverse=True)
        jobs = [self.shown(read_job(row)) for row in rows[:limit]]
        return JobPage(jobs, jobs[-1].id if len(rows) > limit else None)

    async def count_jobs(self) -> Mapping[JobState, int]:
        rows = await self._readers.read(lambda snapshot: snapshot.all("count_jobs"))
        return {JobState(row["state"]): row["jobs"] for row in rows}

    async def request_cancel(self, tenant: TenantId, job_id: JobId) -> Job:
        def cancel(tx: Transaction) -> Job:
            job = job_of(tx, tenant, job_id)
            match job.state:
                case JobState.QUEUED:
                    return transitions.cancel_queued(tx, job)
                case JobState.PROCESSING:
                    return transitions.request_cancel(tx, job)
                case JobState.CANCELLED:
                    return job
                case _:
                    raise Conflict(
                        f"The job has {job.state} already: there is nothing to cancel.",
                        code="EXECUTION_ENDED",
                        details={"status": job.state},
                    )

        return await self._writer.write(cancel)

    async def is_cancel_requested(self, job_id: JobId) -> bool:
        row = await self._readers.read(lambda snapshot: snapshot.one("get_job", job_id=job_id))
        return row is not None and bool(row["cancel_requested"])

    async def start_attempts(
        self, assignments: Sequence[Assignment], owner: str, lease_seconds: float
    ) -> Sequence[Attempt]:
        def start(tx: Transaction) -> list[Attempt]:
            until = after(self._steady_now(), lease_seconds)
            started = (transitions.start(tx, each, owner, until) for each in assignments)
            return [attempt for attempt in started if attempt is not None]

        return await self._writer.write(start)

    async def adopt_attempts(
        self, worker_id: WorkerId, owner: str, lease_seconds: float
    ) -> Sequence[Attempt]:
        def adopt(tx: Transaction) -> list[Attempt]:
            adopted = []
            now = self._steady_now()
            for row in tx.all("find_orphans_of_worker", worker_id=worker_id, owner=owner, now=now):
                token = new_attempt_token()
                tx.run(
                    "adopt_attempt",
                    old_token=row["token"],
                    token=token,
                    owner=owner,
                    lease_expires_at=after(now, lease_seconds),
                )
                adopted.append(transitions.get_attempt(tx, token))
            return adopted

        return await self._writer.write(adopt)

    async def extend_leases(
        self, tokens: Sequence[AttemptToken], lease_seconds: float
    ) -> Sequence[AttemptToken]:
        def extend(tx: Transaction) -> list[AttemptToken]:
            until = after(self._steady_now(), lease_seconds)
            return [
                token
                for token in tokens
                if tx.one("extend_lease", token=token, lease_expires_at=until) is None
            ]

        return await self._writer.write(extend)

    async def record_events(
        self, token: AttemptToken, events: Sequence[NewEvent], progress: Progress | None
    ) -> None:
        def record(tx: Transaction) -> None:
            job_id = JobId(transitions.find_running(tx, token)["job_id"])
            if progress is not None:
                tx.run(
                    "set_progress",
                    job_id=job_id,
                    fraction=progress.fraction,
                    current_node=progress.current_node,
                    completed_nodes=progress.completed_nodes,
                    total_nodes=progress.total_nodes,
                )
            for event in events:
                transitions.append_event(tx, job_id, event)

        await self._writer.write(record)

    async def finish_attempt(
        self,
        token: AttemptToken,
        outcome: Outcome,
        events: Sequence[NewEvent] = (),
        usage: Usage | None = None,
    ) -> Job:
        await self.settle_clock()
        return await self._writer.write(
            lambda tx: transitions.finish(tx, token, outcome, events, usage, self._retries)
        )

    async def release_attempts(self, owner: str, lease_seconds: float) -> None:
        await self._writer.write(
            lambda tx: tx.run(
                "release_attempts",
                owner=owner,
                lease_expires_at=after(self._steady_now(), lease_seconds),
            )
        )

    async def list_attempts(self, tenant: TenantId, job_id: JobId) -> Sequence[AttemptRecord]:
        def read(snapshot: Snapshot) -> list[AttemptRecord]:
            job_of(snapshot, tenant, job_id)
            rows = snapshot.all("list_attempts", job_id=job_id)
            return [read_attempt_record(row) for row in rows]

        return await self._readers.read(read)

    async def expire_leases(self) -> Sequence[JobId]:
        await self.settle_clock()

        def expire(tx: Transaction) -> list[JobId]:
            # One that no server owned since the last restart says nothing about the job.
            return [
                transitions.finish(
                    tx,
                    AttemptToken(row["token"]),
                    Lost("its lease ran out", counted=row["owner"] is not None),
                    rules=self._retries,
                ).id
                for row in tx.all("find_expired", now=self._steady_now())
            ]

        return await self._writer.write(expire)

    async def events_after(
        self, tenant: TenantId, job_id: JobId, number: int, limit: int
    ) -> Sequence[Event]:
        def read(snapshot: Snapshot) -> list[Event]:
            job_of(snapshot, tenant, job_id)
            rows = snapshot.all("events_after", job_id=job_id, number=number, limit=limit)
            return [read_event(row) for row in rows]

        return await self._readers.read(read)

    async def list_outputs(self, tenant: TenantId, job_id: JobId) -> Sequence[Output]:
        def read(snapshot: Snapshot) -> list[Output]:
            job_of(snapshot, tenant, job_id)
            return [read_output(row) for row in snapshot.all("list_outputs", job_id=job_id)]

        return await self._readers.read(read)

    async def get_output(self, tenant: TenantId, job_id: JobId, output_id: OutputId) -> Output:
        def read(snapshot: Snapshot) -> Output:
            job_of(snapshot, tenant, job_id)
            row = snapshot.one("get_output", job_id=job_id, output_id=output_id)
            if row is None:
                raise OutputNotFound(
                    f"The job has no output {output_id}.", details={"output_id": output_id}
                )
            return read_output(row)

        return await self._readers.read(read)

    async def find_output(self, tenant: TenantId, output_id: OutputId) -> Output:
        row = await self._readers.read(
            lambda snapshot: snapshot.one("find_output", tenant=tenant, output_id=output_id)
        )
        if row is None:
            raise OutputNotFound(
                f"There is no output {output_id}.", details={"output_id": output_id}
            )
        return read_output(row)

    async def save_worker(self, record: WorkerRecord) -> None:
        def save(tx: Transaction) -> None:
            if not record.is_likeness and tx.one("has_worker", worker_id=record.id) is None:
                data = {"worker_id": record.id, "driver": record.driver, "pool": record.pool}
                write_notice(tx, OPERATOR, EventType.WORKER_ADDED, data)
            tx.run(
                "save_worker",
                id=record.id,
                driver=record.driver,
                endpoint=record.endpoint,
                added_at=record.added_at,
                pool=record.pool,
                config=encode(record.config),
                labels=encode(record.labels),
                origin=record.origin,
                is_cordoned=record.is_cordoned,
                is_drained=record.is_drained,
            )
            tx.notify(WORKERS)

        await self._writer.write(save)

    async def cordon_worker(self, worker_id: WorkerId, *, is_cordoned: bool) -> None:
        await self._writer.write(
            lambda tx: tx.run("cordon_worker", worker_id=worker_id, is_cordoned=is_cordoned)
        )

    async def drain_worker(self, worker_id: WorkerId, *, is_drained: bool) -> None:
        await self._writer.write(
            lambda tx: tx.run("drain_worker", worker_id=worker_id, is_drained=is_drained)
        )

    async def remove_worker(self, worker_id: WorkerId) -> None:
        def remove(tx: Transaction) -> None:
            if tx.one("has_worker", worker_id=worker_id) is not None:
                write_notice(tx, OPERATOR, EventType.WORKER_REMOVED, {"worker_id": worker_id})
            tx.run("remove_worker", worker_id=worker_id)
            tx.run("prune_catalogs")
            tx.notify(WORKERS)

        await self._writer.write(remove)

    async def list_workers(self) -> Sequence[WorkerRecord]:
        rows = await self._readers.read(lambda snapshot: snapshot.all("list_workers"))
        return [read_worker(row) for row in rows]

    async def save_catalog(self, worker_id: WorkerId, fingerprint: str, object_info: bytes) -> None:
        packed = await asyncio.to_thread(zlib.compress, object_info)

        def save(tx: Transaction) -> None:
            tx.run("save_catalog", fingerprint=fingerprint, object_info=packed)
            tx.run("set_worker_catalog", worker_id=worker_id, fingerprint=fingerprint)
            tx.run("prune_catalogs")

        await self._writer.write(save)

    async def describe_worker(self, worker_id: WorkerId, description: bytes) -> None:
        await self._writer.write(
            lambda tx: tx.run("describe_worker", worker_id=worker_id, description=description)
        )

    async def records_after(self, sequence: int) -> Sequence[tuple[int, bytes]]:
        rows = await self._readers.read(
            lambda snapshot: snapshot.all("list_records", after=sequence)
        )
        return [(row["sequence"], row["record"]) for row in rows]

    async def list_catalogs(self) -> Mapping[str, bytes]:
        def read(snapshot: Snapshot) -> dict[str, bytes]:
            return {
                row["fingerprint"]: zlib.decompress(row["object_info"])
                for row in snapshot.all("list_catalogs")
            }

        return await self._readers.read(read)


async def open_sqlite_store(
    folder: Path,
    clock: Clock,
    lease_seconds: float = DEFAULT_LEASE_SECONDS,
    retries: RetryRules | None = None,
) -> SqliteStore:
    """Lock the folder, open or make the database, migrate it, free what dead servers held."""
    store = SqliteStore(folder, clock, retries or RetryRules())
    try:
        await store.release_dead_owners(lease_seconds)
        await store.cap_retries()
        await store.release_replies()
        await store.remove_half_made_batches()
        await store.load_figures()
        await store.load_listeners()
    except BaseException:
        await store.close()
        raise
    return store
