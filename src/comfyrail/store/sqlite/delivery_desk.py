"""The store's view of deliveries as their owners look at them: the log and the dead letters."""

import sqlite3
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from comfyrail.errors import Conflict, DeliveryNotFound
from comfyrail.ids import TenantId
from comfyrail.store.notifications import (
    TEST_EVENT,
    Delivery,
    DeliveryFilter,
    DeliveryPage,
    DeliveryState,
    Endpoint,
    TestDelivery,
)
from comfyrail.store.signals import DELIVERIES
from comfyrail.store.sqlite.endpoint_operations import CHANGED_AT_ONCE, endpoint_not_found
from comfyrail.store.sqlite.notification_rows import read_body, read_delivery, read_try
from comfyrail.store.sqlite.outbox import UPLOAD_PATIENCE_MILLISECONDS
from comfyrail.store.sqlite.readers import Readers, Snapshot
from comfyrail.store.sqlite.writer import Transaction, Writer

MOST_TRIES_SHOWN = 100


class DeliveryDeskOperations:
    """Part of SqliteStore. See comfyrail.store.notifications.DeliveryDesk."""

    _writer: Writer
    _readers: Readers

    async def list_deliveries(
        self, tenant: TenantId, where: DeliveryFilter, after: int | None, limit: int
    ) -> DeliveryPage:
        values = {"tenant": tenant, "after": after, "limit": limit + 1, **_conditions(where)}

        def read(snapshot: Snapshot) -> list[sqlite3.Row]:
            if where.endpoint_id is not None:
                return snapshot.all("list_deliveries_of_endpoint", state=where.state, **values)
            if where.job_id is not None:
                return snapshot.all("list_deliveries_of_job", state=where.state, **values)
            # One look a state: each has its index.
            states = [where.state] if where.state else list(DeliveryState)
            rows = [
                row
                for state in states
                for row in snapshot.all("list_deliveries", state=state, **values)
            ]
            return sorted(rows, key=lambda row: int(row["sequence"]), reverse=True)[: limit + 1]

        rows = await self._readers.read(read)
        found = [read_delivery(row) for row in rows[:limit]]
        return DeliveryPage(found, found[-1].sequence if len(rows) > limit else None)

    async def get_delivery(self, tenant: TenantId, delivery_id: str) -> Delivery:
        def read(snapshot: Snapshot) -> Delivery:
            row = _find(snapshot, tenant, delivery_id)
            sequence = row["sequence"]
            tries = snapshot.all("list_tries", sequence=sequence, limit=MOST_TRIES_SHOWN)
            return replace(
                read_delivery(row),
                body=read_body(snapshot.one("get_delivery_body", sequence=sequence)),
                tries=[read_try(each) for each in reversed(tries)],
            )

        return await self._readers.read(read)

    async def redeliver(self, tenant: TenantId, delivery_id: str) -> None:
        def revive(tx: Transaction) -> None:
            row = _find(tx, tenant, delivery_id)
            _refuse_pending(row)
            if row["kind"] == "test":
                raise Conflict(
                    "A test is not delivered again. Test the webhook once more instead.",
                    code="DELIVERY_IS_A_TEST",
                )
            _revive(tx, [row], _patience_of(tx, row["endpoint_id"]))

        await self._writer.write(revive)

    async def redeliver_dead(self, tenant: TenantId, where: DeliveryFilter) -> int:
        """In several transactions, the oldest first: one that goes before the rest does is the
        first of its line all the same.
        """
        reached = 0

        def revive(tx: Transaction) -> tuple[int, int]:
            rows = _find_dead(tx, tenant, where, reached, only_deliverable=True)
            _revive(tx, rows, None)
            return len(rows), rows[-1]["sequence"] if rows else reached

        total, count = 0, CHANGED_AT_ONCE
        while count == CHANGED_AT_ONCE:
            count, reached = await self._writer.write(revive)
            total += count
        return total

    async def delete_delivery(self, tenant: TenantId, delivery_id: str) -> None:
        def delete(tx: Transaction) -> None:
            row = _find(tx, tenant, delivery_id)
            _refuse_pending(row)
            tx.run("delete_delivery", sequence=row["sequence"])

        await self._writer.write(delete)

    async def delete_dead(self, tenant: TenantId, where: DeliveryFilter) -> int:
        def delete(tx: Transaction) -> int:
            rows = _find_dead(tx, tenant, where, 0, only_deliverable=False)
            for row in rows:
                tx.run("delete_delivery", sequence=row["sequence"])
            return len(rows)

        total = count = await self._writer.write(delete)
        while count == CHANGED_AT_ONCE:
            count = await self._writer.write(delete)
            total += count
        return total

    async def add_test(self, endpoint: Endpoint, test: TestDelivery) -> str:
        def add(tx: Transaction) -> str:
            made = test.made
            if tx.one("get_endpoint_by_id", endpoint_id=endpoint.id) is None:
                return test.id
            tx.run(
                "insert_test",
                id=test.id,
                tenant=endpoint.tenant,
                endpoint_id=endpoint.id,
                address=endpoint.address,
                type=TEST_EVENT,
                state=DeliveryState.DELIVERED if made.error is None else DeliveryState.DEAD,
                now=tx.now,
                status=made.status,
                error=made.error,
            )
            row = tx.one("last_row")
            sequence = None if row is None else row["sequence"]
            tx.run(
                "freeze_body",
                sequence=sequence,
                content_type=test.body.content_type,
                body=test.body.content,
            )
            tx.run(
                "insert_try",
                sequence=sequence,
                number=1,
                at=made.at,
                seconds=made.seconds,
                status=made.status,
                error=made.error,
                reply=made.reply,
            )
            return test.id

        return await self._writer.write(add)


def _conditions(where: DeliveryFilter) -> dict[str, Any]:
    return {
        "endpoint_id": where.endpoint_id,
        "job_id": where.job_id,
        "type": where.type,
        "created_from": where.created_from,
        "created_before": where.created_before,
    }


def _find(source: Transaction | Snapshot, tenant: TenantId, delivery_id: str) -> sqlite3.Row:
    row = source.one("get_delivery", tenant=tenant, delivery_id=delivery_id)
    if row is None:
        shown = delivery_id[:80]
        raise DeliveryNotFound(
            f"There is no delivery {shown!r}. Check the id.", details={"delivery_id": shown}
        )
    return row


def _refuse_pending(row: sqlite3.Row) -> None:
    if row["state"] == DeliveryState.PENDING:
        raise Conflict(
            "It is on its way, or waits for its next try already.", code="DELIVERY_PENDING"
        )


def _find_dead(
    tx: Transaction, tenant: TenantId, where: DeliveryFilter, after: int, *, only_deliverable: bool
) -> list[sqlite3.Row]:
    if where.state not in {None, DeliveryState.DEAD}:
        return []
    return tx.all(
        "find_dead",
        tenant=tenant,
        after=after,
        limit=CHANGED_AT_ONCE,
        only_deliverable=only_deliverable,
        **_conditions(where),
    )


def _patience_of(tx: Transaction, endpoint_id: str | None) -> int | None:
    """Of the endpoint of a delivery that is to go again; None for an upload."""
    if endpoint_id is None:
        return None
    endpoint = tx.one("get_endpoint_by_id", endpoint_id=endpoint_id)
    if endpoint is None:
        raise endpoint_not_found(endpoint_id)
    if not endpoint["is_enabled"]:
        is_of_job = endpoint["job_id"] is not None
        raise Conflict(
            "The job's own webhook has answered that it wants nothing more."
            if is_of_job
            else "Its webhook is disabled. Enable it first.",
            code="WEBHOOK_DISABLED",
            details={"webhook_id": endpoint_id},
        )
    return int(endpoint["patience"])


def _revive(tx: Transaction, rows: Sequence[sqlite3.Row], patience: int | None) -> None:
    """`patience` of all of them; None: each row has its own, or is of an upload."""
    for row in rows:
        own = patience if patience is not None or row["endpoint_id"] is None else row["patience"]
        tx.run(
            "revive_delivery",
            sequence=row["sequence"],
            now=tx.now,
            patience=UPLOAD_PATIENCE_MILLISECONDS if own is None else own,
        )
    lines = {(row["endpoint_id"], row["job_id"]) for row in rows}
    for endpoint_id, job_id in lines:
        if endpoint_id is not None:
            tx.run("order_line", endpoint_id=endpoint_id, job_id=job_id)
            tx.one("advance_line", endpoint_id=endpoint_id, job_id=job_id, now=tx.now)
    if rows:
        tx.notify(DELIVERIES)
