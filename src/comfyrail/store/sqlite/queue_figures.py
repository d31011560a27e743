"""How many jobs and how much work stand before a rank: counted as jobs come and go, not read.

A queue of a million jobs must not be walked through to say where a new one stands.
"""

import threading
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping

from comfyrail.clock import Instant
from comfyrail.jobs.needs import JobNeeds
from comfyrail.jobs.priority import QueueClass
from comfyrail.jobs.queue import QueuePlace

STEPS = (100, 10_000, 1_000_000)
"""Milliseconds of rank in a bucket: fine, middle, coarse."""

WaitPredictor = Callable[[QueuePlace, JobNeeds | None], float | None]


class _Level:
    def __init__(self, step: int) -> None:
        self.step = step
        self.jobs: defaultdict[int, int] = defaultdict(int)
        self.seconds: defaultdict[int, float] = defaultdict(float)

    def change(self, rank: int, jobs: int, seconds: float) -> None:
        bucket = rank // self.step
        self.jobs[bucket] += jobs
        self.seconds[bucket] += seconds
        if not self.jobs[bucket]:
            del self.jobs[bucket], self.seconds[bucket]

    def sum_of(self, buckets: Iterable[int]) -> tuple[int, float]:
        jobs, seconds = 0, 0.0
        for bucket in buckets:
            if bucket in self.jobs:
                jobs += self.jobs[bucket]
                seconds += self.seconds[bucket]
        return jobs, seconds


class QueueFigures:
    """Jobs that may start, by rank and by class. Changed by the writer, asked by anyone."""

    def __init__(self) -> None:
        self._levels = [_Level(step) for step in STEPS]
        self._by_class = dict.fromkeys(QueueClass, (0, 0.0))
        self._guard = threading.Lock()
        self.predict_wait: WaitPredictor = lambda _place, _needs: None
        self.paused_at: Instant | None = None
        self.paused_total = 0

    def change(self, queue_class: QueueClass, rank: int, jobs: int, seconds: float) -> None:
        with self._guard:
            for level in self._levels:
                level.change(rank, jobs, seconds)
            known = self._by_class[queue_class]
            count = known[0] + jobs
            self._by_class[queue_class] = (count, known[1] + seconds if count else 0.0)

    def by_class(self) -> Mapping[QueueClass, tuple[int, float]]:
        """Jobs and the seconds that they are expected to take."""
        with self._guard:
            return dict(self._by_class)

    def before_bucket(self, rank: int) -> tuple[int, float]:
        """Jobs and their seconds in all fine buckets before the one that `rank` is in."""
        fine, middle, coarse = self._levels
        with self._guard:
            last = rank // coarse.step
            parts = [
                coarse.sum_of([bucket for bucket in coarse.jobs if bucket < last]),
                middle.sum_of(_buckets(last * coarse.step, rank, middle.step)),
                fine.sum_of(_buckets(rank // middle.step * middle.step, rank, fine.step)),
            ]
        return sum(jobs for jobs, _ in parts), sum(seconds for _, seconds in parts)

    def paused_milliseconds(self, now: Instant) -> int:
        """How long the queue has stood still in all: what waits does not expire in that time."""
        current = 0 if self.paused_at is None else max(0, now - self.paused_at)
        return self.paused_total + current


def bucket_start(rank: int) -> int:
    """The first rank of the fine bucket that `rank` is in."""
    return rank // STEPS[0] * STEPS[0]


def _buckets(start: int, rank: int, step: int) -> range:
    """Numbers of the buckets from `start` up to, and without, the one that `rank` is in."""
    return range(start // step, rank // step)
