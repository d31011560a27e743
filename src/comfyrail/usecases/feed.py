"""All events of one's jobs in one stream [9.2]; for those who may look at the fleet also those of
workers and of the server.
"""

from collections.abc import AsyncIterator

from comfyrail.access.permissions import Permission
from comfyrail.access.principal import Principal
from comfyrail.clock import Clock
from comfyrail.notifications.streams import FeedFilter, FeedSource, feed_topics, follow_feed
from comfyrail.store.feed import FeedPage


class Feed:
    def __init__(self, store: FeedSource, clock: Clock) -> None:
        self._store = store
        self._clock = clock

    async def end(self) -> int:
        """Where a stream begins that shows only what is new."""
        return await self._store.feed_end()

    def follow(
        self, principal: Principal, after: int, where: FeedFilter
    ) -> AsyncIterator[FeedPage]:
        """See follow_feed."""
        return follow_feed(
            self._store, principal.tenant, after, where, with_operator=_sees_fleet(principal)
        )

    async def page(
        self, principal: Principal, after: int, where: FeedFilter, limit: int, wait: float
    ) -> FeedPage:
        """The next events that the filter shows, at most so many; after so many seconds without
        any, none. `reached` is where to go on.
        """
        end = self._clock.monotonic() + wait
        topics = feed_topics(principal.tenant, with_operator=_sees_fleet(principal))
        with self._store.signals.subscribe(*topics) as news:
            while True:
                page = await self._store.feed_after(
                    principal.tenant, after, limit, with_operator=_sees_fleet(principal)
                )
                shown = [each for each in page.entries if where.shows(each)]
                if shown:
                    return FeedPage(shown, page.reached)
                if page.reached > after:
                    after = page.reached
                    continue
                left = end - self._clock.monotonic()
                if left <= 0 or not await news.wait(left):
                    return FeedPage((), after)


def _sees_fleet(principal: Principal) -> bool:
    return principal.may(Permission.FLEET_READ)
