"""The queue as a whole: what waits, how long, and whether it stands still [4.3, 4.5, 4.7]."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from comfyrail.errors import MalformedRequest
from comfyrail.jobs.events import EventType
from comfyrail.jobs.priority import DEFAULT_TARGETS, QueueClass, WaitTargets
from comfyrail.jobs.queue import QueueState
from comfyrail.scheduling.wait_figures import ClassWaits
from comfyrail.store.feed import OPERATOR, FeedStore
from comfyrail.store.interface import Store
from comfyrail.usecases.waits import WaitForecast

LONGEST_REASON = 500


@dataclass(frozen=True, slots=True)
class ClassReport:
    """What waits in one class, and how long the latest jobs of it have waited."""

    queue_class: QueueClass
    target_seconds: float
    queued: int
    expected_seconds: float
    waits: ClassWaits


@dataclass(frozen=True, slots=True)
class QueueReport:
    state: QueueState
    queued: int
    scheduled: int
    """Of the queued: held back for later."""
    processing: int
    late: int
    """Jobs that should have started by now."""
    classes: Sequence[ClassReport]


class QueueStore(Store, FeedStore, Protocol):
    """The side of the store that is needed here."""


class Queue:
    def __init__(
        self,
        store: QueueStore,
        waits: Callable[[], Sequence[ClassWaits]],
        forecast: WaitForecast,
        targets: WaitTargets = DEFAULT_TARGETS,
    ) -> None:
        self._forecast = forecast
        self._store = store
        self._waits = waits
        self._targets = targets

    async def report(self) -> QueueReport:
        totals = await self._store.queue_totals()
        waits = {each.queue_class: each for each in self._waits()}
        classes = [
            ClassReport(
                queue_class, self._targets.of(queue_class), jobs, seconds, waits[queue_class]
            )
            for queue_class, (jobs, seconds) in totals.by_class.items()
        ]
        return QueueReport(
            await self._store.queue_state(),
            sum(each.queued for each in classes) + totals.scheduled,
            totals.scheduled,
            totals.processing,
            totals.late,
            classes,
        )

    async def pause(self, reason: str | None) -> QueueReport:
        """Give no job to a worker until it is resumed. Those that run go on."""
        if reason is not None and len(reason) > LONGEST_REASON:
            raise MalformedRequest(f"reason has {LONGEST_REASON} characters at most.")
        self._forecast.state = await self._store.pause_queue(reason)
        await self._store.add_notice(OPERATOR, EventType.QUEUE_PAUSED, {"reason": reason})
        return await self.report()

    async def resume(self) -> QueueReport:
        self._forecast.state = await self._store.resume_queue()
        await self._store.add_notice(OPERATOR, EventType.QUEUE_RESUMED, {})
        return await self.report()
