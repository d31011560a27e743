"""What a tenant has used, and whether its quotas leave room for more [11.2]."""

from collections.abc import Sequence
from dataclasses import dataclass

from comfyrail.access.principal import Principal
from comfyrail.clock import Clock, Instant
from comfyrail.jobs.quotas import (
    DailyUsage,
    JobQuota,
    MonthlyUsage,
    Quotas,
    StorageRoom,
    day_of,
    end_of_month,
    month_of,
)
from comfyrail.store.access import AccessStore
from comfyrail.usecases.accounts import Accounts


@dataclass(frozen=True, slots=True)
class UsageReport:
    current: MonthlyUsage
    earlier: Sequence[MonthlyUsage]
    """The months before that anything was used in, the newest first."""
    storage_bytes: int
    quotas: Quotas
    resets_at: Instant


class TenantUsage:
    """Usage is of a tenant: users who share one use it together. Quotas are of who asks."""

    def __init__(self, store: AccessStore, accounts: Accounts, clock: Clock) -> None:
        self._store = store
        self._accounts = accounts
        self._clock = clock

    async def admit(self, principal: Principal) -> JobQuota | None:
        """What the store has to check when it takes jobs of this caller. Raises TooManyRequests
        where she keeps too much already.
        """
        quotas = await self._accounts.quotas_of(principal)
        room = await self._room(principal, quotas)
        if room is not None:
            room.check()
        return quotas.of_jobs

    async def room_of(self, principal: Principal) -> StorageRoom | None:
        """What she may keep; None: as much as she likes."""
        return await self._room(principal, await self._accounts.quotas_of(principal))

    async def _room(self, principal: Principal, quotas: Quotas) -> StorageRoom | None:
        if quotas.storage_bytes is None:
            return None
        return StorageRoom(quotas.storage_bytes, await self._store.stored_bytes(principal.tenant))

    async def days(self, principal: Principal, count: int) -> Sequence[tuple[int, DailyUsage]]:
        """The last days, today included, the oldest first: days since 1970, and what was used."""
        today = day_of(self._clock.now())
        first = today - count + 1
        found = await self._store.usage_of_days(principal.tenant, first)
        return [(day, found.get(day, DailyUsage())) for day in range(first, today + 1)]

    async def report(self, principal: Principal, months: int) -> UsageReport:
        now = self._clock.now()
        this_month = month_of(now)
        found = await self._store.usage_of(principal.tenant, months)
        current = next((each for each in found if each.month == this_month), None)
        return UsageReport(
            current or MonthlyUsage(this_month),
            [each for each in found if each.month < this_month],
            await self._store.stored_bytes(principal.tenant),
            await self._accounts.quotas_of(principal),
            end_of_month(now),
        )
