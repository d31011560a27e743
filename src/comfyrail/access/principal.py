"""The caller, as use cases see it. A tenant id always comes from here, never from a request."""

from dataclasses import dataclass

from comfyrail.access.permissions import ALL, Permission
from comfyrail.clock import Instant
from comfyrail.errors import Forbidden
from comfyrail.ids import TenantId
from comfyrail.jobs.priority import DEFAULT_TIER


@dataclass(frozen=True, slots=True)
class Beginning:
    """What a session began with: a key or a token. `expires_at`: when that ends; None: never."""

    expires_at: Instant | None


@dataclass(frozen=True, slots=True)
class Principal:
    tenant: TenantId
    tier: str = DEFAULT_TIER
    permissions: frozenset[Permission] = ALL
    user_id: str = ""
    """Who it is in the audit log; "" where nobody in particular acts."""
    key_id: str | None = None
    """The API key that it came with."""
    is_limited: bool = False
    """Its tier's rates, concurrency and quotas count; not for the local user."""
    expires_at: Instant | None = None
    """When the key, token or session that it came with ends; None: never."""

    began_with: Beginning | None = None
    """Of a session: what stands behind it."""

    @property
    def keys_end_at(self) -> Instant | None:
        """When a key that it makes ends at the latest; None: never."""
        return self.expires_at if self.began_with is None else self.began_with.expires_at

    def may(self, permission: Permission) -> bool:
        return permission in self.permissions

    def check_may(self, permission: Permission) -> None:
        """Raise Forbidden where it has not this permission."""
        if permission not in self.permissions:
            raise Forbidden(
                f"This needs the permission {permission.value}, which your key or token does not "
                "have.",
                code="PERMISSION_MISSING",
                details={"permission": permission.value},
            )


LOCAL_USER = Principal(TenantId("local"), user_id="local")
"""The single user of a server with access switched off, which listens on loopback only."""
