"""The store's view of those who are to be told."""

from collections.abc import Sequence
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

    async def add_endpoint(self, endpoint: Endpoint, most: int) -> None:
        def add(tx: Transaction) -> None:
            counted = tx.one("count_endpoints", tenant=endpoint.tenant)
            if counted is not None and counted["endpoints"] >= most:
                raise Conflict(
                    f"You have {most} webhooks, as many as there may be. Delete one first.",
                    code="TOO_MANY_WEBHOOKS",
                    details={"limit": most},
                )
            tx.run("insert_endpoint", **endpoint_values(endpoint))

        await self._writer.write(add)
        self.listeners.put(endpoint)

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

    async def change_endpoint(self, endpoint: Endpoint) -> None:
        values = endpoint_values(endpoint)
        for name in ("job_id", "secret", "created_at"):
            del values[name]

        def change(tx: Transaction) -> None:
            if tx.one("change_endpoint", **values) is None:
                raise endpoint_not_found(endpoint.id)
            tx.notify(DELIVERIES)

        await self._writer.write(change)
        self.listeners.put(endpoint)
        if not endpoint.is_enabled:
            self._end_pending(endpoint.id, endpoint.disabled_reason or DISABLED)

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
        chore = partial(_end_some, endpoint_id=endpoint_id, reason=reason)
        self._writer.chores.add(f"end deliveries of {endpoint_id}", chore)

    def _forget_deliveries(self, endpoint_id: str) -> None:
        chore = partial(_forget_some, endpoint_id=endpoint_id)
        self._writer.chores.add(f"forget deliveries of {endpoint_id}", chore)


def _end_some(tx: Transaction, *, endpoint_id: str, reason: str) -> bool:
    row = tx.one("get_endpoint_by_id", endpoint_id=endpoint_id)
    if row is not None and row["is_enabled"]:
        return False  # enabled again meanwhile
    ended = tx.all(
        "end_pending_of_endpoint",
        endpoint_id=endpoint_id,
        reason=reason,
        now=tx.now,
        limit=CHANGED_AT_ONCE,
    )
    return len(ended) == CHANGED_AT_ONCE


def _forget_some(tx: Transaction, *, endpoint_id: str) -> bool:
    gone = tx.all("delete_deliveries_of_endpoint", endpoint_id=endpoint_id, limit=CHANGED_AT_ONCE)
    return len(gone) == CHANGED_AT_ONCE


def endpoint_not_found(endpoint_id: str) -> EndpointNotFound:
    shown = endpoint_id[:80]
    return EndpointNotFound(
        f"There is no webhook {shown!r}. Check the id.", details={"webhook_id": shown}
    )
