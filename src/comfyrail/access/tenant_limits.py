"""How many jobs of a tenant may run at once, by the tier of its last submission [11.2].

It is written down before the job is: after a restart the same limits hold for what waits.
"""

from collections.abc import Mapping
from typing import Protocol

from comfyrail.access.principal import Principal
from comfyrail.access.tiers import limits_of
from comfyrail.ids import TenantId


class TenantTiers(Protocol):
    """The side of the store that is needed here."""

    async def save_tenant_tier(self, tenant: TenantId, tier: str) -> None: ...

    async def list_tenant_tiers(self) -> Mapping[TenantId, str]: ...


class TenantLimits:
    def __init__(self, store: TenantTiers, most: int | None = None) -> None:
        """`most`: what no tier exceeds on this server."""
        self._store = store
        self._most = most
        self._tiers: dict[TenantId, str] = {}
        self._concurrent: dict[TenantId, int] = {}

    @property
    def concurrent(self) -> Mapping[TenantId, int]:
        """As it is at each time."""
        return self._concurrent

    async def load(self) -> None:
        for tenant, tier in (await self._store.list_tenant_tiers()).items():
            self._set(tenant, tier)

    async def note(self, principal: Principal) -> None:
        """Somebody is about to submit a job."""
        if not principal.is_limited or self._tiers.get(principal.tenant) == principal.tier:
            return
        await self._store.save_tenant_tier(principal.tenant, principal.tier)
        self._set(principal.tenant, principal.tier)

    def _set(self, tenant: TenantId, tier: str) -> None:
        limit = limits_of(tier).concurrent
        self._tiers[tenant] = tier
        self._concurrent[tenant] = limit if self._most is None else min(limit, self._most)
