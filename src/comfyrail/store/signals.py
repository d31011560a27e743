"""Wake-ups after a commit: 'look again', never data. Whoever is woken reads the store."""

import asyncio
from collections import defaultdict
from types import TracebackType
from typing import Self

from comfyrail.ids import JobId, TenantId

HELD = "held"
"""Jobs that may not start yet have come."""
QUEUE = "queue"
WORKERS = "workers"
RECORDS = "records"
BATCHES = "batches"
"""A job of a batch has ended, or a batch has changed."""

INDEX = "index"
"""A job has outputs that are to be found by their texts."""

MEDIA = "media"
"""Files have come that nobody has looked at yet."""

DELIVERIES = "deliveries"
"""Something is to be told to somebody, or can be tried now."""

FOLLOWED = "followed"
"""A job has come at whose end the server has something to do."""


def job_topic(job_id: JobId) -> str:
    """Something new is in the job's event log."""
    return f"job/{job_id}"


def tenant_topic(tenant: TenantId) -> str:
    """Something new is in the log of one of the tenant's jobs."""
    return f"tenant/{tenant}"


def cancel_topic(job_id: JobId) -> str:
    """Someone wants the running job to stop."""
    return f"cancel/{job_id}"


class Subscription:
    """Remembers that it was notified until the next wait: a wake-up between two waits is kept."""

    def __init__(self, signals: "Signals", topics: tuple[str, ...]) -> None:
        self._signals = signals
        self._topics = topics
        self._event = asyncio.Event()

    def __enter__(self) -> Self:
        for topic in self._topics:
            self._signals.subscribers[topic].add(self._event)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        for topic in self._topics:
            waiting = self._signals.subscribers[topic]
            waiting.discard(self._event)
            if not waiting:
                del self._signals.subscribers[topic]

    async def wait(self, limit: float | None = None) -> bool:
        """True when notified since the last wait, False when `limit` seconds passed first."""
        try:
            async with asyncio.timeout(limit):
                await self._event.wait()
        except TimeoutError:
            return False
        self._event.clear()
        return True


class Signals:
    """Topics of one process. Used from the event loop only."""

    def __init__(self) -> None:
        self.subscribers: defaultdict[str, set[asyncio.Event]] = defaultdict(set)

    def subscribe(self, *topics: str) -> Subscription:
        return Subscription(self, topics)

    def notify(self, topic: str) -> None:
        for event in self.subscribers.get(topic, ()):
            event.set()
