"""How long jobs have waited, by class, and how often longer than their class promises [4.3]."""

from collections import deque
from dataclasses import dataclass

from comfyrail.jobs.priority import QueueClass, WaitTargets

WAITS_KEPT = 1000


@dataclass(frozen=True, slots=True)
class ClassWaits:
    """Of the jobs that this process has started: all of them, and the latest."""

    queue_class: QueueClass
    target: float
    started: int
    missed: int
    median: float | None
    p95: float | None


class WaitFigures:
    def __init__(self, targets: WaitTargets) -> None:
        self._targets = targets
        self._started = dict.fromkeys(QueueClass, 0)
        self._missed = dict.fromkeys(QueueClass, 0)
        self._latest = {each: deque[float](maxlen=WAITS_KEPT) for each in QueueClass}

    def note(self, queue_class: QueueClass, seconds: float) -> None:
        self._started[queue_class] += 1
        self._missed[queue_class] += seconds > self._targets.of(queue_class)
        self._latest[queue_class].append(seconds)

    def by_class(self) -> list[ClassWaits]:
        return [self._of(queue_class) for queue_class in QueueClass]

    def _of(self, queue_class: QueueClass) -> ClassWaits:
        waits = sorted(self._latest[queue_class])
        return ClassWaits(
            queue_class,
            self._targets.of(queue_class),
            self._started[queue_class],
            self._missed[queue_class],
            waits[len(waits) // 2] if waits else None,
            waits[min(len(waits) - 1, len(waits) * 95 // 100)] if waits else None,
        )
