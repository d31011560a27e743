"""Predicted waits [4.5], told at every submission."""

from collections.abc import Callable, Sequence

from comfyrail.clock import Clock
from comfyrail.jobs.needs import JobNeeds
from comfyrail.jobs.queue import QueuePlace
from comfyrail.jobs.workers import SchedulableWorker
from comfyrail.scheduling.waits import FleetSummary, predict_wait

FRESH_SECONDS = 0.25


class WaitForecast:
    """The fleet at a glance. `look` is called where workers may be asked; the prediction itself
    anywhere, in the store's own thread too.
    """

    def __init__(self, workers: Callable[[], Sequence[SchedulableWorker]], clock: Clock) -> None:
        self._workers = workers
        self._clock = clock
        self._summary = FleetSummary(())
        self._looked_at = -FRESH_SECONDS

    def look(self) -> None:
        """Take in what the workers do now, unless that was just done."""
        now = self._clock.monotonic()
        if now - self._looked_at >= FRESH_SECONDS:
            self._looked_at = now
            self._summary = FleetSummary(self._workers())

    def predict(self, place: QueuePlace, needs: JobNeeds | None) -> float | None:
        """Seconds until a job in this place would begin; None where no worker could run it."""
        return predict_wait(place, self._summary, needs)
