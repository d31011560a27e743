"""Time as a part that tests can replace."""

import time
from typing import NewType, Protocol

Instant = NewType("Instant", int)
"""Milliseconds since the Unix epoch, UTC: what is stored and compared."""


class Clock(Protocol):
    def now(self) -> Instant:
        """The wall clock."""
        ...

    def monotonic(self) -> float:
        """Seconds that never go backwards: for durations and deadlines inside one process."""
        ...


class SystemClock:
    def now(self) -> Instant:
        return Instant(time.time_ns() // 1_000_000)

    def monotonic(self) -> float:
        return time.monotonic()


def after(instant: Instant, seconds: float) -> Instant:
    """The instant `seconds` later."""
    return Instant(instant + round(seconds * 1000))
