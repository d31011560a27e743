"""What others want of an attempt while it is under way: that it stops, leaves, or is let go of."""

import asyncio
from asyncio import FIRST_COMPLETED
from math import inf
from typing import Any

from comfyrail.clock import Clock
from comfyrail.errors import StaleAttempt
from comfyrail.fleet.attempt_timing import AttemptTiming
from comfyrail.fleet.classification import timed_out
from comfyrail.jobs.outcome import Cancelled, Failed, Lost


class Orders:
    """Each of them wakes whoever waits, and stays: it is looked at in its own time."""

    def __init__(self, timing: AttemptTiming, timeout_seconds: float, clock: Clock) -> None:
        self._timing = timing
        self._timeout = timeout_seconds
        self._clock = clock
        self._woken = asyncio.Event()
        self._is_stale = False
        self._is_timed = True
        self.stop_with: Cancelled | Failed | None = None
        """How the job ends once the worker has stopped it."""
        self.is_hurried = False
        self.gone: Lost | None = None
        """The worker is no longer there."""

    def wake(self) -> None:
        self._woken.set()

    def cancel(self) -> None:
        self.stop_with = self.stop_with or Cancelled()
        self._woken.set()

    def leave(self, lost: Lost) -> None:
        self.gone = lost
        self._woken.set()

    def hurry(self) -> None:
        """What the job's outputs could be made into is not to be waited for."""
        self.is_hurried = True
        self._woken.set()

    def let_go(self) -> None:
        """The attempt is no longer ours."""
        self._is_stale = True
        self._woken.set()

    @property
    def deadline(self) -> float:
        """When its time is up."""
        return self._timing.deadline if self._is_timed else inf

    def stop_the_clock(self) -> None:
        """The job has ended on its worker; what it waits for now does not count as its time."""
        self._is_timed = False

    def look(self) -> bool:
        """Whether the job is to stop, now that its time is looked at too. What comes after this
        wakes the next wait. Raises StaleAttempt when there is nothing more to do here.
        """
        self._woken.clear()
        if self._is_stale:
            raise StaleAttempt("The attempt's lease was lost.")
        if self.stop_with is None and self._clock.monotonic() >= self.deadline:
            self.stop_with = timed_out(self._timeout)
        return self.stop_with is not None

    async def wait(self, until: float) -> None:
        """Until something happens or the time has come."""
        try:
            async with asyncio.timeout(max(0.0, until - self._clock.monotonic())):
                await self._woken.wait()
        except TimeoutError:
            return

    async def wait_beside(self, task: asyncio.Task[Any], until: float | None = None) -> None:
        """Until the task is done, something happens, or the time has come."""
        woken = asyncio.create_task(self._woken.wait(), name="orders")
        left = None if until is None else max(0.0, until - self._clock.monotonic())
        try:
            await asyncio.wait({task, woken}, timeout=left, return_when=FIRST_COMPLETED)
        finally:
            woken.cancel()
