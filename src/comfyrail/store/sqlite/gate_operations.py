"""The store's view of what the gate remembers: tiers of tenants, sessions that were ended."""

from collections.abc import Mapping

from comfyrail.clock import Clock, Instant
from comfyrail.ids import TenantId
from comfyrail.store.sqlite.readers import Readers
from comfyrail.store.sqlite.writer import Transaction, Writer


class GateOperations:
    """Part of SqliteStore."""

    _writer: Writer
    _readers: Readers
    _clock: Clock

    async def save_tenant_tier(self, tenant: TenantId, tier: str) -> None:
        await self._writer.write(lambda tx: tx.run("save_tenant_tier", tenant=tenant, tier=tier))

    async def list_tenant_tiers(self) -> Mapping[TenantId, str]:
        rows = await self._readers.read(lambda snapshot: snapshot.all("list_tenant_tiers"))
        return {TenantId(row["tenant"]): row["tier"] for row in rows}

    async def end_session(self, nonce: str, until: Instant) -> None:
        def end(tx: Transaction) -> None:
            tx.run("prune_ended_sessions", now=tx.now)
            tx.run("insert_ended_session", nonce=nonce, until=until)

        await self._writer.write(end)

    async def list_ended_sessions(self) -> Mapping[str, Instant]:
        now = self._clock.now()
        rows = await self._readers.read(
            lambda snapshot: snapshot.all("list_ended_sessions", now=now)
        )
        return {row["nonce"]: Instant(row["until"]) for row in rows}
