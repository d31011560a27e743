"""Time in the queue: jobs whose start has come, and jobs that have waited too long [4.7]."""

import asyncio

import structlog

from comfyrail.clock import Clock, Instant
from comfyrail.errors import StoreUnavailable
from comfyrail.store.interface import Store

log = structlog.get_logger(__name__)

LONGEST_REST_SECONDS = 1.0
SHORTEST_REST_SECONDS = 0.01


class QueueKeeper:
    """Looks at two indexes once a second at least; writes only when something is due."""

    def __init__(self, store: Store, clock: Clock) -> None:
        self._store = store
        self._clock = clock

    async def run(self) -> None:
        while True:
            try:
                rest = await self.look()
            except StoreUnavailable as error:
                log.warning("queue_not_kept", error=error.message)
                rest = LONGEST_REST_SECONDS
            except Exception:  # jobs must become due after any fault in one look
                log.exception("queue_keeping_failed")
                rest = LONGEST_REST_SECONDS
            await asyncio.sleep(rest)

    async def look(self) -> float:
        """Do what is due; the seconds until the next look."""
        due = await self._store.release_due()
        expired, expiry = await self._store.expire_queued()
        for job_id in expired:
            log.info("queue_timeout", job_id=job_id)
        upcoming = [moment for moment in (due, expiry) if moment is not None]
        return self._until(min(upcoming)) if upcoming else LONGEST_REST_SECONDS

    def _until(self, moment: Instant) -> float:
        seconds = (moment - self._clock.now()) / 1000
        return max(SHORTEST_REST_SECONDS, min(LONGEST_REST_SECONDS, seconds))
