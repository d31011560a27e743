"""Time in the queue: jobs whose start has come, and jobs that have waited too long [4.7].

A wall clock that is set anew makes nobody wait longer or shorter: see `Store.settle_clock`.
"""

import structlog

from comfyrail.clock import Clock, Instant
from comfyrail.errors import StoreUnavailable
from comfyrail.store.interface import Store
from comfyrail.store.signals import HELD

log = structlog.get_logger(__name__)

LONGEST_REST_SECONDS = 1.0
SHORTEST_REST_SECONDS = 0.01


class QueueKeeper:
    """Looks at two indexes once a second at least, and when a job comes that is held back; writes
    only when something is due.
    """

    def __init__(self, store: Store, clock: Clock) -> None:
        self._store = store
        self._clock = clock

    async def run(self) -> None:
        with self._store.signals.subscribe(HELD) as woken:
            while True:
                try:
                    rest = await self.look()
                except StoreUnavailable as error:
                    log.warning("queue_not_kept", error=error.message)
                    rest = LONGEST_REST_SECONDS
                except Exception:  # jobs must become due after any fault in one look
                    log.exception("queue_keeping_failed")
                    rest = LONGEST_REST_SECONDS
                await woken.wait(rest)

    async def look(self) -> float:
        """Do what is due; the seconds until the next look."""
        jump = await self._store.settle_clock()
        if jump:
            log.warning("clock_was_set", by_seconds=jump / 1000)
        due = await self._store.release_due()
        expired, expiry = await self._store.expire_queued()
        for job_id in expired:
            log.info("queue_timeout", job_id=job_id)
        upcoming = [moment for moment in (due, expiry) if moment is not None]
        return self._until(min(upcoming)) if upcoming else LONGEST_REST_SECONDS

    def _until(self, moment: Instant) -> float:
        seconds = (moment - self._clock.now()) / 1000
        return max(SHORTEST_REST_SECONDS, min(LONGEST_REST_SECONDS, seconds))
