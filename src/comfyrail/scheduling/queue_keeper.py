"""Time in the queue: jobs whose start has come, and jobs that have waited too long [4.7].

A wall clock that is set anew makes nobody wait longer or shorter: it is compared with one that
cannot be set.
"""

import structlog

from comfyrail.clock import Clock, Instant
from comfyrail.errors import StoreUnavailable
from comfyrail.store.interface import Store
from comfyrail.store.signals import HELD

log = structlog.get_logger(__name__)

LONGEST_REST_SECONDS = 1.0
SHORTEST_REST_SECONDS = 0.01
SMALLEST_JUMP_MILLISECONDS = 1000
"""Below that a clock is merely being put right: nobody waits noticeably longer."""


class QueueKeeper:
    """Looks at two indexes once a second at least, and when a job comes that is held back; writes
    only when something is due.
    """

    def __init__(self, store: Store, clock: Clock) -> None:
        self._store = store
        self._clock = clock
        self._clocks = clock.now(), clock.monotonic()

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
        await self._look_at_clocks()
        due = await self._store.release_due()
        expired, expiry = await self._store.expire_queued()
        for job_id in expired:
            log.info("queue_timeout", job_id=job_id)
        upcoming = [moment for moment in (due, expiry) if moment is not None]
        return self._until(min(upcoming)) if upcoming else LONGEST_REST_SECONDS

    async def _look_at_clocks(self) -> None:
        wall, monotonic = self._clock.now(), self._clock.monotonic()
        known_wall, known_monotonic = self._clocks
        jump = round(wall - known_wall - 1000 * (monotonic - known_monotonic))
        if abs(jump) >= SMALLEST_JUMP_MILLISECONDS:
            await self._store.note_clock_jump(jump)
            log.warning("clock_was_set", by_seconds=jump / 1000)
            self._clocks = wall, monotonic

    def _until(self, moment: Instant) -> float:
        seconds = (moment - self._clock.now()) / 1000
        return max(SHORTEST_REST_SECONDS, min(LONGEST_REST_SECONDS, seconds))
