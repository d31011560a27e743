"""The queue as a whole: what waits, how long, and whether it stands still [4.3, 4.5, 4.7]."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from comfyrail.clock import Clock
from comfyrail.errors import MalformedRequest
from comfyrail.jobs.priority import DEFAULT_TARGETS, QueueClass, WaitTargets
from comfyrail.jobs.queue import QueueState
from comfyrail.jobs.states import JobState
from comfyrail.scheduling.wait_figures import ClassWaits
from comfyrail.store.interface import Store

LONGEST_REASON = 500


@dataclass(frozen=True, slots=True)
class ClassReport:
    """What waits in one class, and how long the latest jobs of it have waited."""

    queue_class: QueueClass
    target_seconds: float
    queued: int
    expected_seconds: float
    late: int
    """Groups of jobs whose first one should have started by now."""
    waits: ClassWaits


@dataclass(frozen=True, slots=True)
class QueueReport:
    state: QueueState
    queued: int
    scheduled: int
    """Of the queued: held back for later."""
    processing: int
    classes: Sequence[ClassReport]


class Queue:
    def __init__(
        self,
        store: Store,
        clock: Clock,
        waits: Callable[[], Sequence[ClassWaits]],
        targets: WaitTargets = DEFAULT_TARGETS,
    ) -> None:
        self._store = store
        self._clock = clock
        self._waits = waits
        self._targets = targets

    async def report(self) -> QueueReport:
        counts = await self._store.count_jobs()
        backlog = await self._store.backlog()
        now = self._clock.now()
        waits = {each.queue_class: each for each in self._waits()}
        classes = []
        for queue_class in QueueClass:
            own = [each for each in backlog if each.queue_class is queue_class]
            classes.append(
                ClassReport(
                    queue_class,
                    self._targets.of(queue_class),
                    sum(each.jobs for each in own),
                    sum(each.expected_seconds for each in own),
                    sum(each.oldest_rank < now for each in own),
                    waits[queue_class],
                )
            )
        ready = sum(each.queued for each in classes)
        queued = counts.get(JobState.QUEUED, 0)
        return QueueReport(
            await self._store.queue_state(),
            queued,
            max(0, queued - ready),
            counts.get(JobState.PROCESSING, 0),
            classes,
        )

    async def pause(self, reason: str | None) -> QueueReport:
        """Give no job to a worker until it is resumed. Those that run go on."""
        if reason is not None and len(reason) > LONGEST_REASON:
            raise MalformedRequest(f"reason has {LONGEST_REASON} characters at most.")
        await self._store.pause_queue(reason)
        return await self.report()

    async def resume(self) -> QueueReport:
        await self._store.resume_queue()
        return await self.report()
