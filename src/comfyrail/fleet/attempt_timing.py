"""When an attempt began on its worker, and what follows from it: time limit, time left, time used.

A worker may be given an attempt while it still runs another: that wait is not the job's.
"""

from math import inf

from comfyrail.clock import Clock, Instant
from comfyrail.jobs.job import Attempt
from comfyrail.planning.remaining import FULL_TRUST, LEAST_PROGRESS


class AttemptTiming:
    """Monotonic seconds of the given clock."""

    def __init__(self, attempt: Attempt, clock: Clock) -> None:
        self._attempt = attempt
        self._clock = clock
        self._begun: float | None = None

    @property
    def has_begun(self) -> bool:
        return self._begun is not None

    @property
    def deadline(self) -> float:
        """When it has run too long; never, while it has not begun."""
        return inf if self._begun is None else self._begun + self._attempt.timeout_seconds

    def begin(self) -> None:
        """The worker has begun it, at the latest now."""
        if self._begun is None:
            self._begun = self._clock.monotonic()

    def begin_at(self, began: Instant) -> None:
        """It had begun by then, as another process of the server has seen."""
        if self._begun is None:
            ago = max(0, self._clock.now() - began) / 1000
            self._begun = self._clock.monotonic() - ago

    def seconds_used(self) -> float:
        """0 for one that never began."""
        return 0.0 if self._begun is None else self._clock.monotonic() - self._begun

    def remaining(self, fraction: float) -> float:
        """Seconds until it ends: as expected at first, by its own pace the further it is.

        One that takes longer than expected may well take as much longer again.
        """
        expected = max(0.0, self._attempt.expected_seconds)
        if self._begun is None:
            return expected
        elapsed = self.seconds_used()
        left = max(expected - max(elapsed, fraction * expected), elapsed - expected)
        if fraction < LEAST_PROGRESS:
            return left
        trust = min(1.0, fraction / FULL_TRUST)
        return trust * elapsed * (1 - fraction) / fraction + (1 - trust) * left
