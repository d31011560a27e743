"""Bodies of the session routes."""

from datetime import datetime
from typing import Literal

import msgspec

from comfyrail.access.principal import Principal
from comfyrail.api.contract import time_of
from comfyrail.clock import Instant

SESSION = "/v1/session"


class LoginRequest(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """One of the two."""

    key: str | None = None
    token: str | None = None


class SessionBody(msgspec.Struct, kw_only=True):
    user_id: str
    tenant: str
    tier: str
    permissions: list[str]
    source: Literal["session", "key", "token", "local"]
    """By what the caller is known: with access off everybody is the local user."""
    expires_at: datetime | None = None
    """Of a session."""


def session_body(
    principal: Principal,
    source: Literal["session", "key", "token", "local"],
    expires_at: Instant | None = None,
) -> SessionBody:
    return SessionBody(
        user_id=principal.user_id,
        tenant=principal.tenant,
        tier=principal.tier,
        permissions=sorted(principal.permissions),
        source=source,
        expires_at=time_of(expires_at),
    )
