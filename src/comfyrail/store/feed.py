"""All events of a tenant in one order, and those of no job."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from comfyrail.ids import JobId, TenantId
from comfyrail.jobs.events import EventType, FeedEntry

OPERATOR = TenantId("")
"""Whose the events of workers and of the server are: of those who may look at the fleet."""


@dataclass(frozen=True, slots=True)
class FeedPage:
    """`reached`: all up to this one have been looked at, also where none of them is in the page.
    `has_more`: it did not get to the end.
    """

    entries: Sequence[FeedEntry]
    reached: int
    has_more: bool = False


@dataclass(frozen=True, slots=True)
class FeedWhere:
    """What the store itself can leave out; what is empty leaves out nothing."""

    types: frozenset[str] = frozenset()
    job_id: JobId | None = None


ALL = FeedWhere()


class FeedStore(Protocol):
    async def feed_after(
        self,
        tenant: TenantId,
        after: int,
        limit: int,
        *,
        with_operator: bool,
        where: FeedWhere = ALL,
    ) -> FeedPage:
        """Looks at so many of the tenant's next events behind a number, oldest first."""
        ...

    async def feed_end(self) -> int:
        """The number of the newest event that anybody has ever had."""
        ...

    async def add_notice(
        self, tenant: TenantId, event_type: EventType, data: Mapping[str, Any]
    ) -> None:
        """Write an event that is of no job. Wakes the tenant's topic."""
        ...
