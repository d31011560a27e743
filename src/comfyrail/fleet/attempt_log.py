"""What is written about an attempt while it is under way, also over a store that fails at times."""

import asyncio
from math import inf

import structlog

from comfyrail.clock import Clock
from comfyrail.errors import StoreUnavailable
from comfyrail.fleet.adoption import Told, told_of
from comfyrail.fleet.progress import ProgressTracker
from comfyrail.jobs.job import Attempt, Usage
from comfyrail.jobs.outcome import Outcome
from comfyrail.store.interface import Store
from comfyrail.store.signals import cancel_topic

log = structlog.get_logger(__name__)


class AttemptLog:
    """`interval`: seconds between two notes of progress; `retry`: after the store has failed."""

    def __init__(
        self,
        attempt: Attempt,
        tracker: ProgressTracker,
        store: Store,
        clock: Clock,
        *,
        interval: float,
        retry: float,
    ) -> None:
        self._attempt = attempt
        self._tracker = tracker
        self._store = store
        self._clock = clock
        self._interval = interval
        self._retry = retry
        # A job that is over before the first note is due writes its events with its end.
        self._next_note = clock.monotonic() + interval

    @property
    def due(self) -> float:
        """When there is something to be noted."""
        return self._next_note if self._tracker.has_news else inf

    async def note_progress(self) -> None:
        """Write what is new, if it is time. Raises StaleAttempt."""
        now = self._clock.monotonic()
        if now < self.due:
            return
        self._next_note = now + self._interval
        events, progress = self._tracker.take()
        try:
            await self._store.record_events(self._attempt.token, events, progress)
        except StoreUnavailable as error:
            self._tracker.put_back(events)
            self._next_note = now + self._retry  # not ten lines a second in the log
            log.warning("progress_not_stored", job_id=self._attempt.job_id, error=error.message)

    async def finish(self, outcome: Outcome, usage: Usage) -> None:
        """Write the end, with what was new before it. Raises StaleAttempt."""
        events, _ = self._tracker.take()
        while True:
            try:
                await self._store.finish_attempt(self._attempt.token, outcome, events, usage)
            except StoreUnavailable as error:
                # The result exists and must not be lost for a full disk: keep trying.
                await self._wait("finish_delayed", error)
            else:
                return

    async def read_back(self) -> Told:
        """What an earlier process of the server has written."""
        while True:
            try:
                return await told_of(self._store, self._attempt)
            except StoreUnavailable as error:
                await self._wait("adoption_delayed", error)

    async def wait_for_cancel(self) -> None:
        """Return when someone has asked for the job's end."""
        # The store has the truth, the signal only wakes: a cancel may have come between the
        # attempt's start and the subscription.
        job_id = self._attempt.job_id
        with self._store.signals.subscribe(cancel_topic(job_id)) as cancels:
            while True:
                try:
                    if await self._store.is_cancel_requested(job_id):
                        return
                    await cancels.wait()
                except StoreUnavailable as error:
                    await self._wait("cancel_not_read", error)

    async def _wait(self, event: str, error: StoreUnavailable) -> None:
        log.warning(event, job_id=self._attempt.job_id, error=error.message)
        await asyncio.sleep(self._retry)
