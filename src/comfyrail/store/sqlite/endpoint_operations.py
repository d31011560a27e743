"""The store's view of those who are to be told."""

import sqlite3
from collections.abc import Callable, Sequence
from collections.abc import Set as AbstractSet
from functools import partial

from comfyrail.clock import Instant
from comfyrail.errors import Conflict, EndpointNotFound
from comfyrail.ids import TenantId
from comfyrail.store.notifications import Endpoint, SigningSecret
from comfyrail.store.signals import DELIVERIES
from comfyrail.store.sqlite.notification_rows import (
    endpoint_values,
    read_endpoint,
    read_signing_secret,
)
from comfyrail.store.sqlite.outbox import Listeners
from comfyrail.store.sqlite.readers import Readers
from comfyrail.store.sqlite.writer import Transaction, Writer

CHANGED_AT_ONCE = 500
"""Deliveries in one transaction: others must not wait for more."""
DISABLED = "The endpoint was disabled."


class EndpointOperations:
    """Part of SqliteStore. See comfyrail.store.notifications.EndpointStore."""

    listeners: Listeners
    _writer: Writer
    _readers: Readers

    async def load_listeners(self) -> None:
        """Know who listens, and finish what was left undone about those who do no longer."""
        rows = await self._readers.read(lambda snapshot: snapshot.all("list_all_endpoints"))
        self.listeners.replace_all(read_endpoint(row) for row in rows)
        forsaken = await self._readers.read(
            lambda snapshot: snapshot.all("list_forsaken_endpoints")
        )
        for row in forsaken:
            if row["is_gone"]:
                self._forget_deliveries(row["id"])
            else:
                self._end_pending(row["id"], row["disabled_reason"] or DISABLED)
        for row in await self._readers.read(lambda snapshot: snapshot.all("list_lost_endpoints")):
            self._forget_deliveries(row["id"])
        await self._mend_lines({row["id"] for row in forsaken})

    async def add_endpoint(self, endpoint: Endpoint, most: int) -> None:
        def add(tx: Transaction) -> Endpoint:
            counted = tx.one("count_endpoints", tenant=endpoint.tenant)
            if counted is not None and counted["endpoints"] >= most:
                raise Conflict(
                    f"You have {most} webhooks, as many as there may be. Delete one first.",
                    code="TOO_MANY_WEBHOOKS",
                    details={"limit": most},
                )
            tx.run("insert_endpoint", **endpoint_values(endpoint))

            row = tx.one("get_endpoint_by_id", endpoint_id=endpoint.id)
            return endpoint if row is None else read_endpoint(row)

        self.listeners.put(await self._writer.write(add))

    async def get_endpoint(self, tenant: TenantId, endpoint_id: str) -> Endpoint:
        row = await self._readers.read(
            lambda snapshot: snapshot.one("get_endpoint", tenant=tenant, endpoint_id=endpoint_id)
        )
        if row is None:
            raise endpoint_not_found(endpoint_id)
        return read_endpoint(row)

    async def list_endpoints(self, tenant: TenantId) -> Sequence[Endpoint]:
        rows = await self._readers.read(
            lambda snapshot: snapshot.all("list_endpoints", tenant=tenant)
        )
        return [read_endpoint(row) for row in rows]

    async def change_endpoint(
        self, tenant: TenantId, endpoint_id: str, change: Callable[[Endpoint], Endpoint]
    ) -> Endpoint:
        def write(tx: Transaction) -> Endpoint:
            row = tx.one("get_endpoint", tenant=tenant, endpoint_id=endpoint_id)
            if row is None:
                raise endpoint_not_found(endpoint_id)
            values = endpoint_values(change(read_endpoint(row)))
            for name in ("job_id", "secret", "created_at"):
                del values[name]
            changed = tx.one("change_endpoint", **values)
            tx.notify(DELIVERIES)
            return read_endpoint(row if changed is None else changed)

        endpoint = await self._writer.write(write)
        self.listeners.put(endpoint)
        if not endpoint.is_enabled:
            self._end_pending(endpoint.id, endpoint.disabled_reason or DISABLED)
        return endpoint

    async def delete_endpoint(self, tenant: TenantId, endpoint_id: str) -> None:
        def delete(tx: Transaction) -> None:
            if tx.one("delete_endpoint", tenant=tenant, endpoint_id=endpoint_id) is None:
                raise endpoint_not_found(endpoint_id)

        await self._writer.write(delete)
        self.listeners.drop(tenant, endpoint_id)
        self._forget_deliveries(endpoint_id)

    async def rotate_secret(
        self, tenant: TenantId, endpoint_id: str, secret: str, previous_until: Instant
    ) -> Endpoint:
        def rotate(tx: Transaction) -> Endpoint:
            before = tx.one("get_endpoint", tenant=tenant, endpoint_id=endpoint_id)
            _refuse_second_rotation(before, previous_until, tx.now)
            row = tx.one(
                "rotate_secret",
                tenant=tenant,
                endpoint_id=endpoint_id,
                secret=secret,
                previous_until=previous_until,
                now=tx.now,
            )
            if row is None:
                raise endpoint_not_found(endpoint_id)
            return read_endpoint(row)

        return await self._writer.write(rotate)

    async def signing_secret(self, tenant: TenantId, proposal: str) -> SigningSecret:
        known = await self._readers.read(
            lambda snapshot: snapshot.one("get_signing_secret", tenant=tenant)
        )
        if known is not None:
            return read_signing_secret(known)

        def make(tx: Transaction) -> SigningSecret:
            tx.run("insert_signing_secret", tenant=tenant, secret=proposal)
            row = tx.one("get_signing_secret", tenant=tenant)
            return SigningSecret(proposal) if row is None else read_signing_secret(row)

        return await self._writer.write(make)

    async def rotate_signing_secret(
        self, tenant: TenantId, secret: str, previous_until: Instant
    ) -> SigningSecret:
        def rotate(tx: Transaction) -> SigningSecret:
            before = tx.one("get_signing_secret", tenant=tenant)
            _refuse_second_rotation(before, previous_until, tx.now)
            row = tx.one(
                "rotate_signing_secret",
                tenant=tenant,
                secret=secret,
                previous_until=previous_until,
            )
            return SigningSecret(secret) if row is None else read_signing_secret(row)

        return await self._writer.write(rotate)

    def _end_pending(self, endpoint_id: str, reason: str) -> None:
        """In the background: there may be many, and others must not wait."""
        self._writer.chores.add(
            f"end deliveries of {endpoint_id}", _Ending(endpoint_id, reason).step
        )

    async def _mend_lines(self, besides: AbstractSet[str]) -> None:
        """Let the first of each line go in which nothing would."""
        broken = await self._readers.read(lambda snapshot: snapshot.all("list_headless_endpoints"))
        for row in broken:
            if row["id"] not in besides:
                self._writer.chores.add(f"mend lines of {row['id']}", _Mending(row["id"]).step)

    def _forget_deliveries(self, endpoint_id: str) -> None:
        chore = partial(_forget_some, endpoint_id=endpoint_id)
        self._writer.chores.add(f"forget deliveries of {endpoint_id}", chore)


class _Mending:
    """Lets the first of each line of an endpoint go, a few lines in a transaction."""

    def __init__(self, endpoint_id: str) -> None:
        self._endpoint_id = endpoint_id
        self._reached = ""

    def step(self, tx: Transaction) -> bool:
        endpoint_id = self._endpoint_id
        if not self._reached:
            tx.one("advance_line", endpoint_id=endpoint_id, job_id=None, now=tx.now)
        rows = tx.all(
            "lines_of_endpoint",
            endpoint_id=endpoint_id,
            after=self._reached,
            limit=CHANGED_AT_ONCE,
        )
        for row in rows:
            self._reached = row["job_id"]
            tx.one("advance_line", endpoint_id=endpoint_id, job_id=self._reached, now=tx.now)
        tx.notify(DELIVERIES)
        return len(rows) == CHANGED_AT_ONCE


class _Ending:
    """Makes dead letters of what waits for an endpoint, a few in a transaction. Where it is enabled
    again meanwhile, the rest of each line goes on.
    """

    def __init__(self, endpoint_id: str, reason: str) -> None:
        self._endpoint_id = endpoint_id
        self._reason = reason
        self._mending: _Mending | None = None

    def step(self, tx: Transaction) -> bool:
        if self._mending is not None:
            return self._mending.step(tx)
        row = tx.one("get_endpoint_by_id", endpoint_id=self._endpoint_id)
        if row is not None and row["is_enabled"]:
            self._mending = _Mending(self._endpoint_id)
            return True
        ended = tx.all(
            "end_pending_of_endpoint",
            endpoint_id=self._endpoint_id,
            reason=self._reason,
            now=tx.now,
            limit=CHANGED_AT_ONCE,
        )
        return len(ended) == CHANGED_AT_ONCE


def _forget_some(tx: Transaction, *, endpoint_id: str) -> bool:
    gone = tx.all("delete_deliveries_of_endpoint", endpoint_id=endpoint_id, limit=CHANGED_AT_ONCE)
    return len(gone) == CHANGED_AT_ONCE


def _refuse_second_rotation(
    before: sqlite3.Row | None, previous_until: Instant, now: Instant
) -> None:
    """Receivers that have the secret before the last one would take nothing more."""
    is_under_way = before is not None and (before["previous_until"] or 0) > now
    if is_under_way and previous_until > now:
        raise Conflict(
            "The secret was replaced a short while ago, and the one before still signs. Wait until "
            "that is over, or replace it with an overlap of 0, at once.",
            code="SECRET_IN_ROTATION",
        )


def endpoint_not_found(endpoint_id: str) -> EndpointNotFound:
    shown = endpoint_id[:80]
    return EndpointNotFound(
        f"There is no webhook {shown!r}. Check the id.", details={"webhook_id": shown}
    )
