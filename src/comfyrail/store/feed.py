"""All events of a tenant in one order, and those of no job."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from comfyrail.ids import TenantId
from comfyrail.jobs.events import EventType, FeedEntry

OPERATOR = TenantId("")
"""Whose the events of workers and of the server are: of those who may look at the fleet."""


@dataclass(frozen=True, slots=True)
class FeedPage:
    """`reached`: all up to this one have been looked at, also where none of them is in the page."""

    entries: Sequence[FeedEntry]
    reached: int


class FeedStore(Protocol):
    async def feed_after(
        self, tenant: TenantId, after: int, limit: int, *, with_operator: bool
    ) -> FeedPage:
        """The tenant's next events behind a number, oldest first."""
        ...

    async def feed_end(self) -> int:
        """The number of the newest event of anybody."""
        ...

    async def add_notice(
        self, tenant: TenantId, event_type: EventType, data: Mapping[str, Any]
    ) -> None:
        """Write an event that is of no job. Wakes the tenant's topic."""
        ...
