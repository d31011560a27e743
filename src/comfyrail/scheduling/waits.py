"""How long a job will wait [4.5]: the work before it, shared out over the workers as they get free.

Told at every submission, so it must cost next to nothing: what depends on the fleet alone is worked
out once for a state of the fleet, and a prediction searches in that.
"""

from bisect import bisect_left
from collections.abc import Sequence
from itertools import accumulate

from comfyrail.jobs.needs import JobNeeds
from comfyrail.jobs.queue import QueuePlace
from comfyrail.jobs.workers import SchedulableWorker, WorkerProfile
from comfyrail.scheduling.candidates import CandidateMemo, shared_memo

PRECISION = 0.01
"""Seconds, or this part of the wait where that is more."""


class FleetSummary:
    """When workers are free, by profile: made once for a state of the fleet, asked many times."""

    def __init__(
        self, workers: Sequence[SchedulableWorker], memo: CandidateMemo = shared_memo
    ) -> None:
        moments: dict[WorkerProfile, list[float]] = {}
        for worker in workers:
            moments.setdefault(worker.profile, []).append(max(0.0, worker.free_in))
        self.workers = len(workers)
        self._memo = memo
        self._profiles = [(profile, _Moments(sorted(each))) for profile, each in moments.items()]

    def seconds_until_begun(self, ahead: float, needs: JobNeeds | None) -> float | None:
        """When the capable workers have done their part of the work ahead; None: there are none."""
        fitting = [
            moments
            for profile, moments in self._profiles
            if needs is None or self._memo.can_run(needs, profile)
        ]
        count = sum(len(moments.free_in) for moments in fitting)
        if not count:
            return None
        # Other workers do their part of what is ahead: which jobs they can take is not known here.
        work = max(0.0, ahead) * count / self.workers
        first = min(moments.free_in[0] for moments in fitting)
        low = first
        high = first + work + max(moments.free_in[-1] for moments in fitting)
        while work and high - low > max(PRECISION, PRECISION * low):
            middle = (low + high) / 2
            if sum(moments.done_by(middle) for moments in fitting) < work:
                low = middle
            else:
                high = middle
        return low if not work else (low + high) / 2


class _Moments:
    """When the workers of one profile are free, in order."""

    __slots__ = ("free_in", "sums")

    def __init__(self, free_in: list[float]) -> None:
        self.free_in = free_in
        self.sums = list(accumulate(free_in, initial=0.0))

    def done_by(self, moment: float) -> float:
        """Seconds of work that these workers can do until then."""
        free = bisect_left(self.free_in, moment)
        return free * moment - self.sums[free]


def predict_wait(
    place: QueuePlace,
    workers: Sequence[SchedulableWorker] | FleetSummary,
    needs: JobNeeds | None = None,
) -> float | None:
    """Seconds until a job in this place would begin; None when no worker there is could ever run
    it. Give a FleetSummary to ask for many jobs at one state of the fleet.
    """
    fleet = workers if isinstance(workers, FleetSummary) else FleetSummary(workers)
    return fleet.seconds_until_begun(place.seconds_ahead, needs)
