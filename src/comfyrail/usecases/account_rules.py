"""What users and API keys can be, and what may be given to whom."""

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from comfyrail.access.keys import PREFIX
from comfyrail.access.permissions import (
    ALL,
    EVERYTHING,
    Permission,
    read_permissions,
)
from comfyrail.access.principal import LOCAL_USER, Principal
from comfyrail.clock import Instant
from comfyrail.errors import Forbidden, MalformedRequest
from comfyrail.ids import TenantId
from comfyrail.jobs.priority import DEFAULT_TIER, TIER_FACTORS
from comfyrail.jobs.quotas import NO_LIMITS, Quotas
from comfyrail.store.access import ApiKey, User

LONGEST_KEY_NAME = 100
LARGEST_QUOTA = 1 << 53
"""Every JSON reader knows whole numbers up to here."""
RESERVED_IDS = (LOCAL_USER.user_id, "server", "command-line", "gate")
"""Who acts in the audit log where no user does."""
USER_ID_RULE = (
    f"1 to 64 letters, digits and . _ @ -, does not begin with '.', '-' or '{PREFIX}', and is none "
    f"of {', '.join(RESERVED_IDS)}"
)
_NAME = re.compile(r"[A-Za-z0-9_@][A-Za-z0-9._@-]{0,63}")


@dataclass(frozen=True, slots=True)
class NewUser:
    id: str
    tenant: str | None = None
    """None: a tenant of her own, called like her."""
    tier: str = DEFAULT_TIER
    permissions: Sequence[str] | None = None
    """None: what users have."""
    quotas: Quotas = NO_LIMITS


@dataclass(frozen=True, slots=True)
class UserChange:
    """None: stays as it is."""

    tenant: str | None = None
    tier: str | None = None
    permissions: Sequence[str] | None = None
    quotas: Mapping[str, Any] = field(default_factory=dict)
    """Those that change; None there is no limit."""
    is_disabled: bool | None = None


@dataclass(frozen=True, slots=True)
class NewKey:
    name: str
    user_id: str | None = None
    """None: the caller's own."""
    permissions: Sequence[str] | None = None
    """None: all that the caller and the user both have."""
    expires_at: Instant | None = None


@dataclass(frozen=True, slots=True)
class MadeKey:
    key: ApiKey
    text: str
    """With the secret: shown once, kept nowhere."""

    def __repr__(self) -> str:
        return f"MadeKey({self.key.id})"


def is_user_id(text: str) -> bool:
    is_name = _NAME.fullmatch(text) is not None and text not in RESERVED_IDS
    return is_name and not text.startswith(PREFIX)


def check_user_id(text: str) -> None:
    if not is_user_id(text):
        raise MalformedRequest(
            f"The id of a user has {USER_ID_RULE}: not {shown_id(text)!r}.", code="INVALID_USER"
        )


def shown_id(text: str) -> str:
    """An id as a message may show it. Whoever takes a whole API key for one does not see it again,
    nor does a log.
    """
    start = text.find(PREFIX)
    return text[:80] if start < 0 else f"{text[:start][:80]}{PREFIX}…"


def read_tenant(text: str) -> TenantId:
    """That of the local user may be given to somebody: it has what was made before."""
    if _NAME.fullmatch(text) is None or text.startswith(PREFIX):
        raise MalformedRequest(
            "A tenant has 1 to 64 letters, digits and . _ @ -, and does not begin with '.', '-' or "
            f"'{PREFIX}': not {shown_id(text)!r}.",
            code="INVALID_USER",
        )
    return TenantId(text)


def read_tier(text: str) -> str:
    if text not in TIER_FACTORS:
        raise MalformedRequest(
            f"{text[:80]!r} is no tier. There are {', '.join(TIER_FACTORS)}.", code="INVALID_USER"
        )
    return text


def read_quotas(quotas: Quotas) -> Quotas:
    for name in ("jobs", "gpu_seconds", "storage_bytes"):
        limit = getattr(quotas, name)
        if limit is not None and not (math.isfinite(limit) and 0 <= limit <= LARGEST_QUOTA):
            raise MalformedRequest(
                f"quotas.{name} is 0 to {LARGEST_QUOTA}, or null for no limit.",
                code="INVALID_USER",
            )
    return quotas


def read_names(names: Iterable[str]) -> frozenset[str]:
    """Permissions as they are kept. Raises MalformedRequest for one that there is not."""
    try:
        found = read_permissions([name[:80] for name in names])
    except ValueError as error:
        raise MalformedRequest(str(error), code="INVALID_PERMISSION") from error
    return kept_names(found)


def kept_names(permissions: frozenset[Permission]) -> frozenset[str]:
    """`*` stays all when there are more of them one day."""
    if permissions == ALL:
        return frozenset((EVERYTHING,))
    return frozenset(each.value for each in permissions)


def permissions_of(names: frozenset[str]) -> frozenset[Permission]:
    """Those that this version knows."""
    if EVERYTHING in names:
        return ALL
    return frozenset(each for each in Permission if each.value in names)


def check_key_name(name: str) -> None:
    if not name.strip() or len(name) > LONGEST_KEY_NAME or not name.isprintable():
        raise MalformedRequest(
            f"name has 1 to {LONGEST_KEY_NAME} printable characters.", code="INVALID_KEY"
        )


def refuse_more(maker: Principal, wanted: frozenset[Permission]) -> None:
    """Nobody gives what she has not."""
    missing = wanted - maker.permissions
    if missing:
        raise Forbidden(
            f"You cannot give permissions that you do not have: {_listed(missing)}.",
            code="PERMISSION_MISSING",
            details={"permissions": sorted(missing)},
        )


def refuse_more_than_user(user: User, wanted: frozenset[Permission]) -> None:
    missing = wanted - permissions_of(user.permissions)
    if missing:
        raise MalformedRequest(
            f"{user.id} does not have these permissions: {_listed(missing)}. A key gives no more "
            "than its user has.",
            code="INVALID_PERMISSION",
            details={"permissions": sorted(missing)},
        )


def check_admin(asker: Principal) -> None:
    if not asker.may(Permission.ACCESS_ADMIN):
        raise Forbidden(
            f"Keys of other users need the permission {Permission.ACCESS_ADMIN.value}.",
            code="PERMISSION_MISSING",
            details={"permission": Permission.ACCESS_ADMIN.value},
        )


def _listed(permissions: frozenset[Permission]) -> str:
    return ", ".join(sorted(permissions))
