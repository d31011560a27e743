"""What the store keeps about those who may use the server, as domain verbs."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from comfyrail.clock import Instant
from comfyrail.ids import TenantId
from comfyrail.jobs.quotas import DailyUsage, MonthlyUsage, Quotas
from comfyrail.store.signals import Signals

BLOCKS = "blocks"
"""The topic of changes to the list of blocked addresses."""


@dataclass(frozen=True, slots=True)
class User:
    id: str
    tenant: TenantId
    tier: str
    permissions: frozenset[str]
    """Names; `*` is all, those that are not there yet too."""
    quotas: Quotas
    created_at: Instant
    is_disabled: bool = False


@dataclass(frozen=True, slots=True)
class ApiKey:
    id: str
    user_id: str
    name: str
    permissions: frozenset[str]
    digest: bytes = field(repr=False)
    """The SHA-256 of its secret."""
    created_at: Instant
    created_by: str
    expires_at: Instant | None = None
    last_used_at: Instant | None = None
    revoked_at: Instant | None = None


@dataclass(frozen=True, slots=True)
class AddressBlock:
    """Addresses that get no answer: `network` is in CIDR form."""

    id: str
    network: str
    reason: str
    created_by: str
    created_at: Instant
    expires_at: Instant | None = None


@dataclass(frozen=True, slots=True)
class AuditEntry:
    """An act of somebody who runs the server. `sequence` is 0 until it is written."""

    at: Instant
    actor: str
    act: str
    target: str
    details: Mapping[str, Any]
    key_id: str | None = None
    address: str | None = None
    request_id: str | None = None
    sequence: int = 0


@dataclass(frozen=True, slots=True)
class AuditFilter:
    """Which acts a list shows; None: whatever it is."""

    actor: str | None = None
    act: str | None = None


class AccessStore(Protocol):
    signals: Signals

    # Users

    async def add_user(self, user: User, *, is_own_tenant: bool = False) -> None:
        """Raise Conflict where there is one of this id, and where a tenant that is to be her own is
        that of others.
        """
        ...

    async def get_user(self, user_id: str) -> User | None: ...

    async def list_users(self, after: str, limit: int) -> Sequence[User]:
        """By id."""
        ...

    async def change_user(self, user: User) -> bool:
        """Write everything but its id; False when there is no such user."""
        ...

    async def remove_user(self, user_id: str) -> bool:
        """Forget a user and revoke her keys. What belongs to her tenant stays."""
        ...

    async def is_tenant_of_users(self, tenant: TenantId) -> bool:
        """Whether any user's things belong to it."""
        ...

    # API keys

    async def add_key(self, key: ApiKey) -> None: ...

    async def get_key(self, key_id: str) -> tuple[ApiKey, User | None] | None:
        """With its user, who may be gone."""
        ...

    async def list_keys(self, user_id: str | None, after: str, limit: int) -> Sequence[ApiKey]:
        """Of one user, or of all; by id."""
        ...

    async def revoke_key(self, key_id: str) -> ApiKey | None:
        """The key as it is then; one that was revoked before stays so from that time."""
        ...

    def note_key_use(self, key_id: str) -> None:
        """Remember soon that a key was used; returns at once."""
        ...

    # Usage

    async def usage_of(self, tenant: TenantId, months: int) -> Sequence[MonthlyUsage]:
        """The last months that anything was used in, the newest first."""
        ...

    async def usage_of_days(self, tenant: TenantId, first: int) -> Mapping[int, DailyUsage]:
        """Of the days from `first` on in which anything was used; days since 1970, UTC."""
        ...

    async def stored_bytes(self, tenant: TenantId) -> int:
        """Of the outputs and assets that are kept of a tenant."""
        ...

    # Audit log

    async def write_audit(self, entry: AuditEntry) -> None: ...

    async def list_audit(
        self, where: AuditFilter, before: int | None, limit: int
    ) -> Sequence[AuditEntry]:
        """Newest first, those with smaller numbers than `before`."""
        ...

    # Blocked addresses

    async def add_block(self, block: AddressBlock) -> AddressBlock:
        """A network that is blocked already gets the new reason and time, and keeps its id."""
        ...

    async def list_blocks(self) -> Sequence[AddressBlock]:
        """Those that count now."""
        ...

    async def remove_block(self, block_id: str) -> AddressBlock | None:
        """What it was; None when there is no such block."""
        ...
