"""Stopping the server so that no job is lost, and as few as possible are begun again."""

import asyncio

import structlog

from comfyrail.clock import Clock
from comfyrail.errors import NotReady, StoreUnavailable
from comfyrail.fleet.fleet import Fleet
from comfyrail.scheduling.scheduler import Scheduler
from comfyrail.store.interface import Store
from comfyrail.store.signals import WORKERS
from comfyrail.store.storage_watch import ENDING

log = structlog.get_logger(__name__)

HOLD = "shutdown"
WHY = "the server was stopped"
LOOK_SECONDS = 0.2
"""A signal comes first as a rule."""
WRITE_SECONDS = 2.0
"""For writing down which jobs go back to the queue."""


class Shutdown:
    """Jobs on workers that end with the server are let finish. Those on other workers go on
    without it, and the next server takes them up.
    """

    def __init__(
        self,
        scheduler: Scheduler,
        fleet: Fleet,
        store: Store,
        clock: Clock,
    ) -> None:
        self._scheduler = scheduler
        self._fleet = fleet
        self._store = store
        self._clock = clock
        self._is_hurried = False
        self.is_under_way = False
        self.has_drained = asyncio.Event()
        """No job ends any more: whoever waits for one is to be answered."""

    def refuse(self) -> None:
        """Raises NotReady once the server is on its way out."""
        if self.is_under_way:
            raise NotReady(
                "The server is stopping. What was submitted is kept for its next start.",
                code="SHUTTING_DOWN",
                details={"finishing": len(self._fleet.ending_jobs())},
                retry_after=5.0,
            )

    def hurry(self) -> None:
        """Wait for no job any longer, nor for others that hold the database."""
        self._is_hurried = True
        self._store.signals.notify(ENDING)
        self._store.signals.notify(WORKERS)

    async def drain(self, limit: float) -> None:
        """Begin no job; let those end that would end with the server, for so many seconds at most.
        What has not ended then, or not begun at all, is back in the queue when this returns.
        """
        self.is_under_way = True
        self._scheduler.hold(HOLD)
        self._fleet.return_waiting(WHY)
        running = self._fleet.ending_jobs()
        if running and limit > 0 and not self._is_hurried:
            log.info(
                "finishing_jobs",
                jobs=len(running),
                at_most_seconds=limit,
                hint="press Ctrl-C again to stop now",
            )
        await self._until_ended(limit, may_hurry=True)
        self.has_drained.set()
        self._store.signals.notify(ENDING)
        unfinished = self._fleet.ending_jobs()
        if unfinished:
            log.warning("jobs_given_back", jobs=unfinished)
            self._fleet.give_up_jobs(WHY)
            await self._until_ended(WRITE_SECONDS, may_hurry=False)

    async def _until_ended(self, limit: float, *, may_hurry: bool) -> None:
        deadline = self._clock.monotonic() + limit
        with self._store.signals.subscribe(WORKERS) as news:
            while self._fleet.ending_jobs() and not (may_hurry and self._is_hurried):
                left = deadline - self._clock.monotonic()
                if left <= 0:
                    return
                await news.wait(min(left, LOOK_SECONDS))


async def hand_over(store: Store, owner: str, lease_seconds: float) -> None:
    """Let the next server take up what runs on workers that have outlived this one, at once. For
    when nobody here follows it any more.
    """
    try:
        await store.release_attempts(owner, lease_seconds)
    except StoreUnavailable as error:
        log.warning("attempts_not_handed_over", error=error.message)
