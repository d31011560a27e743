"""Forgets deliveries that were settled long ago, with their tries and dead letters, and old events
that are of no job.
"""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Protocol

import structlog

from comfyrail.clock import Clock, Instant, after
from comfyrail.errors import StoreUnavailable

log = structlog.get_logger(__name__)

ROUND_SECONDS = 3600.0
PRUNED_AT_ONCE = 500
DAY_SECONDS = 86_400.0
NOTICE_DAYS = 30.0
"""How long events of workers and of the server are kept; those of a job go with it."""


class PrunedLog(Protocol):
    async def prune_deliveries(self, before: Instant, limit: int) -> int: ...

    async def prune_notices(self, before: Instant, limit: int) -> int:
        """Forget at most so many events of no job that are older; how many that were."""
        ...


class DeliveryLogKeeper:
    """`run` goes on until it is cancelled."""

    def __init__(self, store: PrunedLog, clock: Clock, days: float) -> None:
        self._store = store
        self._clock = clock
        self._days = days

    async def run(self) -> None:
        while True:
            try:
                await self.prune()
            except StoreUnavailable as error:
                log.warning("deliveries_not_pruned", error=error.message)
            except Exception:  # the next round may do better
                log.exception("delivery_pruning_failed")
            await asyncio.sleep(ROUND_SECONDS)

    async def prune(self) -> int:
        """A few at a time: others must not wait. How many deliveries that were."""
        await self._prune(self._store.prune_notices, NOTICE_DAYS)
        return await self._prune(self._store.prune_deliveries, self._days)

    async def _prune(self, forget: Callable[[Instant, int], Awaitable[int]], days: float) -> int:
        before = after(self._clock.now(), -days * DAY_SECONDS)
        total = count = await forget(before, PRUNED_AT_ONCE)
        while count == PRUNED_AT_ONCE:
            count = await forget(before, PRUNED_AT_ONCE)
            total += count
        return total
