"""Whose workflows may do what."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from comfyrail.ids import TenantId
from comfyrail.validation.policy import SecurityPolicy


@dataclass(frozen=True, slots=True)
class Policies:
    """One for all, and others for the tenants that are named."""

    default: SecurityPolicy = field(default_factory=SecurityPolicy)
    tenants: Mapping[TenantId, SecurityPolicy] = field(default_factory=dict)

    def of(self, tenant: TenantId) -> SecurityPolicy:
        return self.tenants.get(tenant, self.default)
