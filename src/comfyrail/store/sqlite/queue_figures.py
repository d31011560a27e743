"""How many jobs and how much work stand before a rank: counted as jobs come and go, not read.

A queue of a million jobs must not be walked through to say where a new one stands.
"""

import threading
from collections import defaultdict
from collections.abc import Callable, Iterable

from comfyrail.jobs.needs import JobNeeds
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
        if self.jobs[bucket] > 0:
            self.seconds[bucket] += seconds
        else:
            self.jobs.pop(bucket)
            self.seconds.pop(bucket, None)

    def sum_of(self, buckets: Iterable[int]) -> tuple[int, float]:
        jobs, seconds = 0, 0.0
        for bucket in buckets:
            if bucket in self.jobs:
                jobs += self.jobs[bucket]
                seconds += self.seconds[bucket]
        return jobs, seconds


class QueueFigures:
    """Jobs that may start, by rank. Changed by the writer, asked by anyone."""

    def __init__(self) -> None:
        self._levels = [_Level(step) for step in STEPS]
        self._guard = threading.Lock()
        self.predict_wait: WaitPredictor = lambda _place, _needs: None

    def change(self, rank: int, jobs: int, seconds: float) -> None:
        with self._guard:
            for level in self._levels:
                level.change(rank, jobs, seconds)

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


def bucket_start(rank: int) -> int:
    """The first rank of the fine bucket that `rank` is in."""
    return rank // STEPS[0] * STEPS[0]


def _buckets(start: int, rank: int, step: int) -> range:
    """Numbers of the buckets from `start` up to, and without, the one that `rank` is in."""
    return range(start // step, rank // step)
