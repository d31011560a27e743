"""The store's view of what is to be delivered: the courier's side."""

import sqlite3
from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet

from comfyrail.clock import Clock, Instant, after
from comfyrail.ids import JobId, TenantId
from comfyrail.jobs.events import FINAL_EVENTS, EventType
from comfyrail.store.notifications import (
    DeliveryState,
    DueDelivery,
    DueNow,
    FrozenBody,
    Subject,
    TryResult,
)
from comfyrail.store.signals import DELIVERIES
from comfyrail.store.sqlite.endpoint_operations import CHANGED_AT_ONCE, EndpointOperations
from comfyrail.store.sqlite.notification_rows import (
    read_body,
    read_endpoint,
    read_signing_secret,
    read_subject_event,
    read_upload,
)
from comfyrail.store.sqlite.outbox import Listeners, write_notice
from comfyrail.store.sqlite.readers import Readers, Snapshot
from comfyrail.store.sqlite.rows import read_job, read_output
from comfyrail.store.sqlite.writer import Transaction, Writer

DISABLED_AFTER_SECONDS = 5 * 86_400.0
"""An endpoint of an account that has failed for so long, with no success, is told nothing more."""
FAILING_DAYS = 4
"""On so many days at least it was tried in vain, or a message has used up all its tries."""
BODIES_KEPT_SECONDS = 86_400.0
"""Of what was delivered."""


class DeliveryOperations(EndpointOperations):
    """Part of SqliteStore. See comfyrail.store.notifications.DeliveryQueue."""

    listeners: Listeners
    _writer: Writer
    _readers: Readers
    _clock: Clock

    async def due_addresses(self, after: str, limit: int) -> Sequence[tuple[str, Instant]]:
        rows = await self._readers.read(
            lambda snapshot: snapshot.all("due_addresses", after=after, limit=limit)
        )
        return [(row["address"], Instant(row["next_at"])) for row in rows]

    async def due_now(self, limit: int) -> DueNow | None:
        now = self._clock.now()

        def read(snapshot: Snapshot) -> DueNow | None:
            rows = snapshot.all("due_now", now=now, limit=limit + 1)
            if len(rows) > limit:
                return None
            upcoming = snapshot.one("next_delivery", now=now)
            next_at = None if upcoming is None else upcoming["next_at"]
            return DueNow(list(dict.fromkeys(row["address"] for row in rows)), next_at)

        return await self._readers.read(read)

    async def due_deliveries(
        self, address: str, limit: int, most_bytes: int, besides: AbstractSet[int] = frozenset()
    ) -> Sequence[DueDelivery]:
        now = self._clock.now()

        def read(snapshot: Snapshot) -> list[DueDelivery]:
            rows = snapshot.all("due_deliveries", address=address, now=now, limit=limit)
            found, size = [], 0
            for row in rows:
                if size >= most_bytes:
                    break
                if row["sequence"] in besides:
                    continue
                found.append(_due(snapshot, row))
                size += len(found[-1].body.content) if found[-1].body else 0
            return found

        return await self._readers.read(read)

    async def freeze_bodies(self, bodies: Mapping[int, FrozenBody]) -> None:
        def freeze(tx: Transaction) -> None:
            for sequence, body in bodies.items():
                tx.run(
                    "freeze_body",
                    sequence=sequence,
                    content_type=body.content_type,
                    body=body.content,
                )

        await self._writer.write(freeze)

    async def note_try(self, due: DueDelivery, result: TryResult) -> bool:
        def note(tx: Transaction) -> str | None:
            made = result.made
            state = _state_after(result)
            row = tx.one(
                "note_try",
                sequence=due.sequence,
                status=made.status,
                error=made.error,
                state=state,
                next_at=result.next_at,
                settled_at=None if state is DeliveryState.PENDING else tx.now,
            )
            if row is None:
                return None  # it was deleted, or given up, while it was on its way
            if result.body is not None:
                tx.run(
                    "replace_body",
                    sequence=due.sequence,
                    content_type=result.body.content_type,
                    body=result.body.content,
                )
            tx.run(
                "insert_try",
                sequence=due.sequence,
                number=row["attempts"],
                at=made.at,
                seconds=made.seconds,
                status=made.status,
                error=made.error,
                reply=made.reply,
            )
            if state is not DeliveryState.PENDING:
                _advance(tx, due)
            return _note_health(tx, due, result, is_delivered=state is DeliveryState.DELIVERED)

        reason = await self._writer.write(note)
        if reason is None or due.endpoint is None:
            return False
        self.listeners.drop(due.endpoint.tenant, due.endpoint.id)
        self._end_pending(due.endpoint.id, reason)
        return True

    async def cancel_delivery(self, due: DueDelivery, reason: str) -> None:
        def cancel(tx: Transaction) -> None:
            tx.one(
                "note_try",
                sequence=due.sequence,
                status=None,
                error=reason,
                state=DeliveryState.CANCELLED,
                next_at=None,
                settled_at=tx.now,
            )
            _advance(tx, due)

        await self._writer.write(cancel)

    async def postpone_delivery(self, due: DueDelivery, next_at: Instant, reason: str) -> None:
        await self._writer.write(
            lambda tx: tx.run(
                "postpone_delivery",
                sequence=due.sequence,
                next_at=next_at,
                now=tx.now,
                reason=reason,
            )
        )

    async def expire_deliveries(self, address: str) -> int:
        def expire(tx: Transaction) -> int:
            rows = tx.all("expire_deliveries", address=address, now=tx.now, limit=CHANGED_AT_ONCE)
            for endpoint_id, job_id in {(row["endpoint_id"], row["job_id"]) for row in rows}:
                tx.one("advance_line", endpoint_id=endpoint_id, job_id=job_id, now=tx.now)
            if rows:
                tx.notify(DELIVERIES)
            return len(rows)

        expired = count = await self._writer.write(expire)
        while count == CHANGED_AT_ONCE:
            count = await self._writer.write(expire)
            expired += count
        return expired

    async def prune_deliveries(self, before: Instant, limit: int) -> int:
        dropping = _BodyDropping(after(self._clock.now(), -BODIES_KEPT_SECONDS))
        self._writer.chores.add("drop bodies of deliveries", dropping.step)
        rows = await self._writer.write(
            lambda tx: tx.all("prune_deliveries", before=before, limit=limit)
        )
        return len(rows)

    async def count_deliveries(self) -> Mapping[DeliveryState, int]:
        rows = await self._readers.read(lambda snapshot: snapshot.all("count_deliveries"))
        found = {DeliveryState(row["state"]): int(row["deliveries"]) for row in rows}
        return {state: found.get(state, 0) for state in (DeliveryState.PENDING, DeliveryState.DEAD)}


class _BodyDropping:
    """Walks over all bodies, a few in a transaction."""

    def __init__(self, before: Instant) -> None:
        self._before = before
        self._reached = 0

    def step(self, tx: Transaction) -> bool:
        rows = tx.all("list_bodies", after=self._reached, limit=CHANGED_AT_ONCE)
        if rows:
            upto = rows[-1]["sequence"]
            tx.run("drop_bodies", after=self._reached, upto=upto, before=self._before)
            self._reached = upto
        return len(rows) == CHANGED_AT_ONCE


def _due(snapshot: Snapshot, row: sqlite3.Row) -> DueDelivery:
    endpoint = None
    if row["endpoint_id"] is not None:
        found = snapshot.one("get_endpoint_by_id", endpoint_id=row["endpoint_id"])
        endpoint = None if found is None else read_endpoint(found)
    secret = None
    if endpoint is not None and endpoint.secret is None:
        secret = snapshot.one("get_signing_secret", tenant=row["tenant"])
    body = read_body(snapshot.one("get_delivery_body", sequence=row["sequence"]))
    is_new = body is None and row["kind"] == "event"
    return DueDelivery(
        sequence=row["sequence"],
        id=row["id"],
        kind=row["kind"],
        tenant=TenantId(row["tenant"]),
        address=row["address"],
        type=row["type"],
        job_id=None if row["job_id"] is None else JobId(row["job_id"]),
        failures=row["failures"],
        expires_at=Instant(row["expires_at"]),
        endpoint=endpoint,
        tenant_secret=None if secret is None else read_signing_secret(secret),
        body=body,
        subject=_subject(snapshot, row["event_sequence"]) if is_new else None,
        upload=None if row["target"] is None else read_upload(row["target"]),
    )


def _subject(snapshot: Snapshot, sequence: int | None) -> Subject | None:
    row = snapshot.one("get_event_by_sequence", sequence=sequence)
    if row is None:
        return None
    event = read_subject_event(row)
    if event.job_id is None:
        return Subject(event)
    job = snapshot.one("get_job", job_id=event.job_id)
    outputs = snapshot.all("list_outputs", job_id=event.job_id) if event.type.is_final else ()
    return Subject(
        event, None if job is None else read_job(job), [read_output(each) for each in outputs]
    )


def _state_after(result: TryResult) -> DeliveryState:
    if result.made.error is None:
        return DeliveryState.DELIVERED
    return DeliveryState.DEAD if result.next_at is None else DeliveryState.PENDING


def _advance(tx: Transaction, due: DueDelivery) -> None:
    """Let the next one of the line go."""
    if due.endpoint is None:
        return
    following = tx.one("advance_line", endpoint_id=due.endpoint.id, job_id=due.job_id, now=tx.now)
    if following is not None:
        tx.notify(DELIVERIES)


def _note_health(
    tx: Transaction, due: DueDelivery, result: TryResult, *, is_delivered: bool
) -> str | None:
    """Remember how the endpoint is. Why it is disabled now; None where it is not."""
    endpoint = due.endpoint
    if endpoint is None:
        return None
    if endpoint.job_id is not None:
        if is_delivered and due.type in FINAL_EVENTS:
            tx.run("set_webhook_delivered", job_id=endpoint.job_id, is_delivered=True)
        if result.disables is not None:
            tx.one("disable_endpoint", endpoint_id=endpoint.id, reason=result.disables, now=tx.now)
        return result.disables
    if is_delivered:
        tx.run("note_endpoint_success", endpoint_id=endpoint.id, now=tx.now)
        return None
    tx.run("note_endpoint_failure", endpoint_id=endpoint.id, now=tx.now)
    reason = result.disables or _failed_too_long(tx, endpoint.id, is_used_up=result.is_used_up)
    if reason is None:
        return None
    if tx.one("disable_endpoint", endpoint_id=endpoint.id, reason=reason, now=tx.now) is None:
        return None
    data = {"webhook_id": endpoint.id, "description": endpoint.settings.description}
    write_notice(tx, endpoint.tenant, EventType.WEBHOOK_DISABLED, {**data, "reason": reason})
    return reason


def _failed_too_long(tx: Transaction, endpoint_id: str, *, is_used_up: bool) -> str | None:
    row = tx.one("get_endpoint_by_id", endpoint_id=endpoint_id)
    since = None if row is None else row["failing_since"]
    if row is None or since is None or tx.now < after(since, DISABLED_AFTER_SECONDS):
        return None
    if not is_used_up and row["failing_days"] < FAILING_DAYS:
        return None  # it was told little, and may work by now
    days = round((tx.now - since) / 86_400_000)
    return f"Nothing could be delivered to it for {days} days."
