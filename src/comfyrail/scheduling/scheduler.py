"""The loop that gives jobs to workers: woken by signals, never by polling."""

from collections.abc import Sequence
from typing import Protocol

import structlog

from comfyrail.errors import StoreUnavailable
from comfyrail.ids import JobId, WorkerId, new_attempt_token
from comfyrail.jobs.job import Attempt
from comfyrail.jobs.workers import FreeWorker
from comfyrail.scheduling.placement import place
from comfyrail.store.interface import Assignment, Store
from comfyrail.store.signals import QUEUE, WORKERS

log = structlog.get_logger(__name__)

SMALLEST_WINDOW = 8
LARGEST_WINDOW = 512
WINDOWS_PER_ROUND = 100
RETRY_SECONDS = 1.0


class Workers(Protocol):
    """The side of the fleet that the scheduler needs."""

    def free_workers(self) -> Sequence[FreeWorker]: ...

    async def start(self, attempts: Sequence[Attempt]) -> None: ...


class Scheduler:
    def __init__(self, store: Store, workers: Workers, owner: str, lease_seconds: float) -> None:
        self._store = store
        self._workers = workers
        self._owner = owner
        self._lease_seconds = lease_seconds

    async def run(self) -> None:
        with self._store.signals.subscribe(QUEUE, WORKERS) as woken:
            while True:
                try:
                    await self.round()
                    await woken.wait()
                except StoreUnavailable as error:
                    log.warning("scheduling_paused", error=error.message)
                    await woken.wait(RETRY_SECONDS)
                except Exception:  # the queue must not stand still for a fault in one round
                    log.exception("scheduling_failed")
                    await woken.wait(RETRY_SECONDS)

    async def round(self) -> int:
        """Place what can be placed now; return how many attempts began.

        A job that no free worker can run is passed over: those behind it need not wait for it.
        """
        started = 0
        window = SMALLEST_WINDOW
        after: tuple[int, JobId] | None = None
        for _ in range(WINDOWS_PER_ROUND):
            free = self._workers.free_workers()
            window = min(LARGEST_WINDOW, max(window, 2 * len(free)))
            head = await self._store.queue_head(window, after) if free else ()
            if not head:
                break
            started += await self._begin(place(head, self._workers.free_workers()))
            after = (head[-1].rank, head[-1].id)
            window *= 2
        return started

    async def _begin(self, placed: Sequence[tuple[JobId, WorkerId]]) -> int:
        if not placed:
            return 0
        assignments = [
            Assignment(job_id, worker_id, new_attempt_token()) for job_id, worker_id in placed
        ]
        attempts = await self._store.start_attempts(assignments, self._owner, self._lease_seconds)
        await self._workers.start(attempts)
        return len(attempts)
