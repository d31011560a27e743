"""What a caller may do. Every route names one of these, or is open to everybody."""

from collections.abc import Iterable
from enum import StrEnum


class Permission(StrEnum):
    JOBS_READ = "jobs:read"
    JOBS_WRITE = "jobs:write"
    ASSETS_READ = "assets:read"
    ASSETS_WRITE = "assets:write"
    LIBRARY_READ = "library:read"
    LIBRARY_WRITE = "library:write"
    WEBHOOKS_READ = "webhooks:read"
    WEBHOOKS_WRITE = "webhooks:write"
    """Whom the account tells, and what was told."""
    FLEET_READ = "fleet:read"
    """Workers, node types, the queue as a whole."""
    FLEET_WRITE = "fleet:write"
    """For those who run the server: it concerns everybody's jobs."""
    METRICS_READ = "metrics:read"
    KEYS_WRITE = "keys:write"
    """The caller's own API keys."""
    ACCESS_ADMIN = "access:admin"
    """Users, keys of others, blocked addresses, the audit log."""


ALL = frozenset(Permission)
OF_USERS = frozenset(
    {
        Permission.JOBS_READ,
        Permission.JOBS_WRITE,
        Permission.ASSETS_READ,
        Permission.ASSETS_WRITE,
        Permission.LIBRARY_READ,
        Permission.LIBRARY_WRITE,
        Permission.WEBHOOKS_READ,
        Permission.WEBHOOKS_WRITE,
        Permission.FLEET_READ,
        Permission.KEYS_WRITE,
    }
)
"""What a user has who was given nothing else."""

EVERYTHING = "*"


def read_permissions(names: Iterable[str]) -> frozenset[Permission]:
    """Of a token or a request; `*` is all. Raises ValueError naming the first that there is not."""
    found: set[Permission] = set()
    for name in names:
        if name == EVERYTHING:
            return ALL
        try:
            found.add(Permission(name))
        except ValueError:
            known = ", ".join([*Permission, EVERYTHING])
            raise ValueError(f"{name!r} is no permission. There are {known}.") from None
    return frozenset(found)
