"""What all workers together offer the scheduler, kept so that asking costs what has changed."""

from collections.abc import Sequence
from itertools import islice

from comfyrail.clock import Clock
from comfyrail.fleet.worker import LiveWorker
from comfyrail.ids import WorkerId
from comfyrail.jobs.workers import SchedulableWorker

FRESH_SECONDS = 0.5
"""How old a busy worker's estimate of when it is free may be, in a fleet of usual size."""
REFRESHED_AT_ONCE = 1000
"""Of very many busy workers only so many are asked anew each time; one that comes to be free
says so itself."""


class Offers:
    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._offers: dict[WorkerId, SchedulableWorker] = {}
        self._busy: dict[WorkerId, LiveWorker] = {}
        self._changed: dict[WorkerId, LiveWorker] = {}
        self._list: Sequence[SchedulableWorker] | None = None
        self._busy_looked_at = clock.monotonic()

    def note_change(self, worker: LiveWorker) -> None:
        self._changed[worker.id] = worker

    def forget(self, worker_id: WorkerId) -> None:
        self._changed.pop(worker_id, None)
        self._busy.pop(worker_id, None)
        if self._offers.pop(worker_id, None) is not None:
            self._list = None

    def get(self) -> Sequence[SchedulableWorker]:
        now = self._clock.monotonic()
        if now - self._busy_looked_at >= FRESH_SECONDS:
            self._busy_looked_at = now
            for worker_id in list(islice(self._busy, REFRESHED_AT_ONCE)):
                # To the end of the line: the next time it is the turn of those behind it.
                worker = self._busy.pop(worker_id)
                self._busy[worker_id] = self._changed[worker_id] = worker
        if self._changed:
            changed, self._changed = self._changed, {}
            for worker in changed.values():
                self._look_at(worker)
            self._list = None
        if self._list is None:
            self._list = list(self._offers.values())
        return self._list

    def _look_at(self, worker: LiveWorker) -> None:
        offer = worker.schedulable()
        if offer is None:
            self._offers.pop(worker.id, None)
            self._busy.pop(worker.id, None)
            return
        self._offers[worker.id] = offer
        if offer.load:
            self._busy[worker.id] = worker
        else:
            self._busy.pop(worker.id, None)
