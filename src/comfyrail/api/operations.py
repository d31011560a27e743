"""What a route reads, writes and asks of its caller: for the gate and for the OpenAPI."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from comfyrail.access.permissions import Permission

Operations = Mapping[tuple[str, str], "Operation"]
"""By method in small letters and path."""


@dataclass(frozen=True, slots=True)
class Operation:
    """Errors that every route can answer with are not named again."""

    permission: Permission | None
    """None: open to everybody."""
    summary: str
    reply: type | str
    """A type of a contract, or a content type; "" for none."""
    status: int = 200
    body: type | str | None = None
    errors: tuple[int, ...] = ()
    other_statuses: tuple[int, ...] = ()
    """Further replies that are no errors: of the same form for 2xx, empty otherwise."""
    is_submission: bool = False
    """It makes jobs: it counts against the rate of the caller's tier."""
    writes: bool = True
    """False for a POST that changes nothing: it is not refused when the disk is full."""
    headers: tuple[str, ...] = ()
    """Request headers that it heeds, such as `Prefer`; those of all routes are not named."""
    example: Any = None
    """A body that works."""
    reply_example: Any = None
    is_shown: bool = True
    """Whether it is in the OpenAPI: pages and sockets are not."""
    extra: Mapping[str, Any] = field(default_factory=dict)
    """What else the OpenAPI says of it; its `parameters` are added to those of the route."""
    other_replies: Mapping[int, type | str] = field(default_factory=dict)
    """Further replies that are no errors, of another form; "" for an empty one."""
    also_as: tuple[str, ...] = ()
    """Content types that the reply can have besides."""
    is_body_required: bool = True
    reply_headers: tuple[str, ...] = ()
    """Of the reply, such as `Location`; those of all routes are not named."""
