"""Predicted waits [4.5], told at every submission."""

from collections.abc import Callable, Mapping, Sequence

from comfyrail.clock import Clock
from comfyrail.jobs.needs import JobNeeds
from comfyrail.jobs.queue import QueuePlace, QueueState
from comfyrail.jobs.workers import SchedulableWorker, WorkerProfile
from comfyrail.scheduling.obstacles import obstacle
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
        self._profiles: Sequence[WorkerProfile] = ()
        self._by_worker: Mapping[str, SchedulableWorker] = {}
        self._looked_at = -FRESH_SECONDS
        self.state = QueueState()
        """Whether the queue is paused: told by whoever pauses it."""
        self.hold: str | None = None
        """Why the server gives out no jobs: told by whoever holds them back."""

    def look(self) -> None:
        """Take in what the workers do now, unless that was just done."""
        now = self._clock.monotonic()
        if now - self._looked_at >= FRESH_SECONDS:
            self._looked_at = now
            workers = self._workers()
            self._summary = FleetSummary(workers)
            self._profiles = tuple({worker.profile for worker in workers})
            self._by_worker = {worker.id: worker for worker in workers}

    def predict(self, place: QueuePlace, needs: JobNeeds | None) -> float | None:
        """Seconds until a job in this place would begin; None where nobody can tell."""
        if self.state.is_paused or self.hold is not None:
            return None
        if needs is not None and needs.worker:
            only = self._by_worker.get(needs.worker)
            return predict_wait(place, (only,), needs) if only else None
        return predict_wait(place, self._summary, needs)

    def obstacle(self, needs: JobNeeds) -> str | None:
        """Why a queued job does not start, where that is not merely its turn."""
        if self.state.is_paused:
            why = f": {self.state.reason}" if self.state.reason else ""
            return f"The queue is paused{why}. Start it with: comfyrail queue resume"
        return self.hold or self._lack(needs)

    def _lack(self, needs: JobNeeds) -> str | None:
        if not needs.worker:
            return obstacle(needs, self._profiles)
        only = self._by_worker.get(needs.worker)
        if only is None:
            return (
                f"It may go to the worker '{needs.worker}' only, which takes no jobs now. See why "
                f"with: comfyrail workers show {needs.worker}"
            )
        return obstacle(needs, (only.profile,))
