"""The caller, as use cases see it. A tenant id always comes from here, never from a request."""

from dataclasses import dataclass

from comfyrail.ids import TenantId
from comfyrail.jobs.priority import DEFAULT_TIER


@dataclass(frozen=True, slots=True)
class Principal:
    tenant: TenantId
    tier: str = DEFAULT_TIER


LOCAL_USER = Principal(TenantId("local"))
"""The single user of a server with access switched off, which listens on loopback only."""
