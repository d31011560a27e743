"""What those who run the server have done, for others to read later [11.3]."""

from collections.abc import Mapping, Sequence
from typing import Any

from comfyrail.access.principal import Principal
from comfyrail.clock import Clock
from comfyrail.store.access import AccessStore, AuditEntry, AuditFilter

LONGEST_TARGET = 200


class Audit:
    """Entries are only ever added. Whoever writes one leaves secrets out of its details."""

    def __init__(self, store: AccessStore, clock: Clock) -> None:
        self._store = store
        self._clock = clock

    async def note(
        self,
        principal: Principal,
        act: str,
        target: str,
        details: Mapping[str, Any],
        address: str | None = None,
        request_id: str | None = None,
    ) -> None:
        """`act` is like `worker.drain`. Returns when it is on disk."""
        await self._store.write_audit(
            AuditEntry(
                self._clock.now(),
                principal.user_id,
                act,
                target[:LONGEST_TARGET],
                details,
                principal.key_id,
                address,
                request_id,
            )
        )

    async def page(
        self, where: AuditFilter, before: int | None, limit: int
    ) -> tuple[Sequence[AuditEntry], int | None]:
        """Newest first; and where the next page begins."""
        entries = await self._store.list_audit(where, before, limit + 1)
        return entries[:limit], entries[limit - 1].sequence if len(entries) > limit else None
