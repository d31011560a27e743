"""How often somebody may ask, exactly: never more than the limit in any window [11.2]."""

from collections import deque
from dataclasses import dataclass
from typing import Protocol

from comfyrail.clock import Clock

WINDOW_SECONDS = 60.0


@dataclass(frozen=True, slots=True)
class Verdict:
    """`remaining` may still be asked now. After `reset` seconds one more may be; one that is not
    `is_allowed` has not been counted.
    """

    is_allowed: bool
    limit: int
    remaining: int
    reset: float


class RateLimiter(Protocol):
    async def take(self, key: str, limit: int) -> Verdict:
        """Count one request of `key`, unless it has had `limit` of them in the window."""
        ...


class ProcessRateLimiter:
    """Counts in this process. It keeps the time of each request for one window: memory grows with
    what was let through in that time, and with nothing else.
    """

    def __init__(self, clock: Clock, window: float = WINDOW_SECONDS) -> None:
        self._clock = clock
        self._window = window
        self._times: dict[str, deque[float]] = {}
        self._sweep_due = clock.monotonic() + window

    async def take(self, key: str, limit: int) -> Verdict:
        verdict, _ = self.take_at(key, limit)
        return verdict

    def take_at(self, key: str, limit: int) -> tuple[Verdict, float]:
        """With the time under which it was counted."""
        now = self._clock.monotonic()
        self._sweep(now)
        times = self._times.setdefault(key, deque())
        while times and now - times[0] >= self._window:
            times.popleft()
        is_allowed = len(times) < limit
        if is_allowed:
            times.append(now)
        remaining = max(0, limit - len(times))
        # A limit may have become smaller: then more than one has to leave the window.
        leaving = times[max(0, len(times) - limit)] if times else now
        return Verdict(is_allowed, limit, remaining, max(0.0, leaving + self._window - now)), now

    def give_back(self, key: str, time: float) -> None:
        """The request of `key` that was counted under `time` has not happened after all."""
        times = self._times.get(key, deque())
        for index in range(len(times) - 1, -1, -1):
            if times[index] == time:
                del times[index]
                return

    @property
    def size(self) -> int:
        return len(self._times)

    def _sweep(self, now: float) -> None:
        if now < self._sweep_due:
            return
        self._sweep_due = now + self._window
        self._times = {
            key: times
            for key, times in self._times.items()
            if times and now - times[-1] < self._window
        }
