"""A circuit breaker [7.3]: what fails again and again is left alone, and then tried once."""

from enum import StrEnum

from comfyrail.clock import Clock

CAUSE_KEPT = 500
MOST_DOUBLINGS = 30
"""The power is bounded: what fails for years must not overflow it."""


class BreakerState(StrEnum):
    CLOSED = "closed"
    """All is let through."""
    OPEN = "open"
    """Nothing is let through until the rest is over."""
    HALF_OPEN = "half_open"
    """One is let through, to see whether it works again."""


class CircuitBreaker:
    """Of one thing that may fail: a worker, a model on it, somebody's endpoint.

    `threshold` failures in a row open it for `rest` seconds; then one probe is let through. Its
    success closes the breaker and forgets the past; each failure in a row of them doubles the
    rest, up to `longest_rest`.
    """

    def __init__(self, threshold: int, rest: float, longest_rest: float, clock: Clock) -> None:
        self._threshold = threshold
        self._rest = rest
        self._longest_rest = longest_rest
        self._clock = clock
        self._failures = 0
        self._cause: str | None = None
        self._times_opened = 0
        self._probe_due: float | None = None
        self._is_probing = False

    @property
    def state(self) -> BreakerState:
        if self._probe_due is None:
            return BreakerState.CLOSED
        is_resting = self._clock.monotonic() < self._probe_due
        return BreakerState.OPEN if is_resting else BreakerState.HALF_OPEN

    @property
    def lets_through(self) -> bool:
        """Whether something could be tried now: closed, or half-open with no probe under way."""
        state = self.state
        is_waiting_for_probe = state is BreakerState.HALF_OPEN and not self._is_probing
        return state is BreakerState.CLOSED or is_waiting_for_probe

    @property
    def failures(self) -> int:
        """In a row."""
        return self._failures

    @property
    def cause(self) -> str | None:
        """Of the last failure; None after a success."""
        return self._cause

    @property
    def seconds_until_probe(self) -> float | None:
        """0 once it is half-open; None while it is closed."""
        if self._probe_due is None:
            return None
        return max(0.0, self._probe_due - self._clock.monotonic())

    def note_success(self) -> None:
        """It works, whoever has found out."""
        self._failures = 0
        self._cause = None
        self._times_opened = 0
        self._probe_due = None
        self._is_probing = False

    def note_failure(self, cause: str) -> None:
        """Of a probe, or of what was let through before. What still fails while the breaker is
        open began before that: it does not lengthen the rest.
        """
        self._failures += 1
        self._cause = cause[:CAUSE_KEPT]
        state = self.state
        is_too_much = state is BreakerState.CLOSED and self._failures >= self._threshold
        if is_too_much or state is BreakerState.HALF_OPEN:
            self._open()

    def trip(self, cause: str) -> None:
        """Open it, however few failures there were. One that is open goes on with its rest."""
        self._cause = cause[:CAUSE_KEPT]
        if self.state is not BreakerState.OPEN:
            self._open()

    def try_probe(self) -> bool:
        """Whether the caller may make the one try of a half-open breaker. It then owes an end:
        `note_success`, `note_failure` or `abandon_probe`.
        """
        if self._is_probing or self.state is not BreakerState.HALF_OPEN:
            return False
        self._is_probing = True
        return True

    def abandon_probe(self) -> None:
        """The probe ended without showing anything: another one may be made."""
        self._is_probing = False

    def hasten(self) -> None:
        """Let an open one be probed now: somebody has reason to think that it works again."""
        if self.state is BreakerState.OPEN:
            self._probe_due = self._clock.monotonic()

    def excuse(self) -> None:
        """It was opened by mistake the last time: that does not lengthen the next rest."""
        self._times_opened = max(0, self._times_opened - 1)

    def _open(self) -> None:
        rest = self._rest * 2.0 ** min(self._times_opened, MOST_DOUBLINGS)
        self._times_opened += 1
        self._probe_due = self._clock.monotonic() + min(rest, self._longest_rest)
        self._is_probing = False
