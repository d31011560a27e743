"""All events of one's jobs in one stream [9.2]; for those who may look at the fleet also those of
workers and of the server.
"""

from collections.abc import AsyncGenerator, Callable, Sequence

from comfyrail.access.permissions import Permission
from comfyrail.access.principal import Principal
from comfyrail.clock import Clock
from comfyrail.errors import Gone
from comfyrail.jobs.events import FeedEntry
from comfyrail.notifications.streams import (
    PAGE,
    FeedFilter,
    FeedSource,
    feed_topics,
    follow_feed,
)
from comfyrail.store.feed import FeedPage

MOST_LOOKED_AT = 20_000
"""Events that one reply looks at, whether it shows them or not."""


class Feed:
    def __init__(self, store: FeedSource, clock: Clock) -> None:
        self._store = store
        self._clock = clock

    async def beginning(self, after: int | None) -> int:
        """Where a reader goes on; without a number: where one begins that shows only what is new.
        Raises Gone for a number that no event has had yet.
        """
        end = await self._store.feed_end()
        if after is not None and after > end:
            raise Gone(
                f"There is no event {after} here: the newest is {end}. The server's data is older "
                "than what you have seen, as after a restored backup. Begin again with after=0, or "
                "without it for what is new.",
                code="EVENTS_RESTARTED",
                details={"after": after, "end": end},
            )
        return end if after is None else after

    def follow(
        self, principal: Callable[[], Principal], after: int, where: FeedFilter
    ) -> AsyncGenerator[FeedPage]:
        """See follow_feed. `principal`: who she is now, which may become less while it lasts."""
        has_seen_fleet = _sees_fleet(principal())
        return follow_feed(
            self._store,
            principal().tenant,
            after,
            where,
            with_operator=lambda: has_seen_fleet and _sees_fleet(principal()),
        )

    async def page(
        self, principal: Principal, after: int, where: FeedFilter, limit: int, wait: float
    ) -> FeedPage:
        """The next events that the filter shows, at most so many; after so many seconds without
        any, or when very many had to be looked at, none. `reached` is where to go on.
        """
        end = self._clock.monotonic() + wait
        farthest = MOST_LOOKED_AT // PAGE
        is_operator, in_store = _sees_fleet(principal), where.in_store
        topics = feed_topics(principal.tenant, with_operator=is_operator)
        with self._store.signals.subscribe(*topics) as news:
            for _ in range(farthest):
                page = await self._store.feed_after(
                    principal.tenant, after, PAGE, with_operator=is_operator, where=in_store
                )
                shown = [each for each in page.entries if where.shows(each)]
                if shown:
                    return _cut(shown, page, limit)
                if page.reached > after:
                    after = page.reached
                    if page.has_more:
                        continue
                left = end - self._clock.monotonic()
                if left <= 0 or not await news.wait(left):
                    return FeedPage((), after)
        return FeedPage((), after, has_more=True)


def _cut(shown: Sequence[FeedEntry], page: FeedPage, limit: int) -> FeedPage:
    if len(shown) <= limit:
        return FeedPage(shown, page.reached, page.has_more)
    return FeedPage(shown[:limit], shown[limit - 1].sequence, has_more=True)


def _sees_fleet(principal: Principal) -> bool:
    return principal.may(Permission.FLEET_READ)
