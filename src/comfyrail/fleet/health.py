"""When a worker is no longer trusted with jobs, and how it is trusted again [5.5].

Failures of attempts in a row that are the worker's own fault, or checks that go unanswered, put it
on the blocklist. After a rest it is probed. A probe that succeeds lets it back on probation: one
job at a time until one has succeeded. Every further failure doubles the rest.
"""

from dataclasses import dataclass
from enum import StrEnum

from comfyrail.clock import Clock, Instant, after
from comfyrail.jobs.faults import Fault
from comfyrail.jobs.outcome import Cancelled, Completed, Failed, Lost, Outcome

CAUSE_KEPT = 500
_FAULTS_OF_WORKERS = frozenset(("resource", "system"))
_CODES_OF_WORKERS = frozenset(
    ("WORKER_ERROR", "WORKER_UNREACHABLE", "WORKER_PROTOCOL_ERROR", "OUTPUT_MISSING")
)
_BROKEN_DEVICES = ("cuda error", "hip error")
"""In what a node says when it fails: the device is of no use until the worker starts anew."""


class HealthState(StrEnum):
    OK = "ok"
    FAILING = "failing"
    BLOCKED = "blocked"


@dataclass(frozen=True, slots=True)
class HealthRules:
    """Seconds, and how many failures in a row are too many."""

    failures: int = 3
    check_seconds: float = 30.0
    first_rest: float = 30.0
    longest_rest: float = 900.0
    probe_limit: float = 60.0


@dataclass(frozen=True, slots=True)
class WorkerHealth:
    """What a caller may see. `until`: when a blocked worker is probed next."""

    state: HealthState = HealthState.OK
    failures: int = 0
    cause: str | None = None
    until: Instant | None = None


def fault_of_worker(outcome: Outcome) -> str | None:
    """Why the worker is to blame for how an attempt ended; None where it is not."""
    match outcome:
        case Lost(cause, counted):
            return cause if counted else None
        case Failed(fault, _):
            return fault.message if _is_workers(fault) else None
        case Completed() | Cancelled():
            return None


def _is_workers(fault: Fault) -> bool:
    if fault.category in _FAULTS_OF_WORKERS or fault.code in _CODES_OF_WORKERS:
        return True
    message = fault.message.lower()
    return fault.category == "execution" and any(sign in message for sign in _BROKEN_DEVICES)


class Health:
    """One worker's. It decides; who asks carries it out."""

    def __init__(self, rules: HealthRules, clock: Clock) -> None:
        self._rules = rules
        self._clock = clock
        self._failures = 0
        self._failed_checks = 0
        self._cause: str | None = None
        self._blocks = 0
        self._probe_due: float | None = None
        self._is_on_probation = False

    @property
    def is_blocked(self) -> bool:
        return self._probe_due is not None

    @property
    def is_on_probation(self) -> bool:
        """It takes one job at a time."""
        return self._is_on_probation

    @property
    def seconds_until_probe(self) -> float | None:
        if self._probe_due is None:
            return None
        return max(0.0, self._probe_due - self._clock.monotonic())

    def view(self) -> WorkerHealth:
        seconds = self.seconds_until_probe
        if seconds is not None:
            until = after(self._clock.now(), seconds)
            return WorkerHealth(HealthState.BLOCKED, self._failures, self._cause, until)
        failures = max(self._failures, self._failed_checks)
        if failures or self._is_on_probation:
            return WorkerHealth(HealthState.FAILING, failures, self._cause)
        return WorkerHealth()

    def note_end(self, outcome: Outcome) -> None:
        """An attempt ended. What is neither a success nor the worker's fault says nothing."""
        if isinstance(outcome, Completed):
            self._failures = 0
            self._blocks = 0
            self._is_on_probation = False
            if not self._failed_checks and not self.is_blocked:
                self._cause = None
            return
        cause = fault_of_worker(outcome)
        if cause is not None:
            self.note_failure(cause)

    def note_failure(self, cause: str) -> None:
        self._failures += 1
        self._cause = cause[:CAUSE_KEPT]
        if self._is_on_probation or self._failures >= self._rules.failures:
            self.block(cause)

    def note_check(self, problem: str | None) -> None:
        """A periodic check was answered (None) or not."""
        if problem is None:
            self._failed_checks = 0
            if not self._failures and not self.is_blocked:
                self._cause = None
            return
        self._failed_checks += 1
        self._cause = problem[:CAUSE_KEPT]
        if self._failed_checks >= self._rules.failures:
            self.block(problem)

    def block(self, cause: str) -> None:
        """Trust it no more until a probe succeeds."""
        self._cause = cause[:CAUSE_KEPT]
        self._is_on_probation = False
        if self._probe_due is None:
            self._rest()

    def hasten_probe(self) -> None:
        """A person wants a blocked worker to be probed now."""
        if self._probe_due is not None:
            self._probe_due = self._clock.monotonic()

    def note_probe(self, problem: str | None) -> None:
        if problem is not None:
            self._cause = problem[:CAUSE_KEPT]
            self._rest()
            return
        self._probe_due = None
        self._failed_checks = 0
        self._is_on_probation = True

    def _rest(self) -> None:
        # The power is bounded: a worker that fails for years must not overflow it.
        rest = self._rules.first_rest * 2.0 ** min(self._blocks, 30)
        self._blocks += 1
        self._probe_due = self._clock.monotonic() + min(rest, self._rules.longest_rest)
