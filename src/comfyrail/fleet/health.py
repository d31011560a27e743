"""When a worker is no longer trusted with jobs, and how it is trusted again [5.5].

Failures of attempts in a row that are the worker's own fault, or checks that go unanswered, put it
on the blocklist: its circuit breaker opens [7.3]. After a rest it is probed. A probe that succeeds
lets it back on probation: one job at a time until one has succeeded, which closes the breaker.
Every further failure doubles the rest. A model that fails to load has a breaker of its own.

Whatever fails on a worker may be the fault of what it was given: a graph can end a process, break
a device, and say what it likes. What a guilty graph does is not held against the worker. Where
nobody can tell yet, a blocked worker is in doubt: another worker will show whose fault it was, or,
where there is none, a probe without a rest. If it can run something else, the graphs that failed
there are guilty.

A loss is seen from outside; faults are told by jobs. What only one graph tells, or one tenant of
several, is hearsay: the worker is probed without a rest. Where different graphs agree, and none
succeeds in between, it is the worker, whatever they have done elsewhere.
"""

from collections import OrderedDict, deque
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum

from comfyrail.circuit_breaker import CAUSE_KEPT, BreakerState, CircuitBreaker
from comfyrail.clock import Clock, Instant, after
from comfyrail.fleet.classification import OUT_OF_MEMORY
from comfyrail.fleet.model_breakers import (
    INFERENCE,
    MODEL_CODES,
    BreakerRules,
    BreakerView,
    ModelBreakers,
    breaker_view,
)
from comfyrail.fleet.suspects import Suspect, Suspects
from comfyrail.ids import TenantId, WorkerId
from comfyrail.jobs.faults import SUGGESTED_ACTION, Fault
from comfyrail.jobs.outcome import Cancelled, Completed, Failed, Lost, Outcome

CHARGES_KEPT = 100
LATELY_SECONDS = 3600.0
"""Who has had a job on a worker within this time is one of its tenants."""
TENANTS_KEPT = 100
_FAULTS_OF_WORKERS = frozenset(("resource", "system"))
_NOT_OF_WORKERS = MODEL_CODES | {"INSUFFICIENT_RESOURCES"}
"""Lacks of one copy of a model, and of what a node asks for: other jobs are none the worse."""


class HealthState(StrEnum):
    OK = "ok"
    FAILING = "failing"
    BLOCKED = "blocked"


@dataclass(frozen=True, slots=True)
class HealthRules:
    """Seconds, and how many failures in a row are too many."""

    failures: int = 5
    check_seconds: float = 30.0
    first_rest: float = 60.0
    longest_rest: float = 900.0
    probe_limit: float = 60.0
    models: BreakerRules = field(default_factory=BreakerRules)
    """Of a model that fails to load there."""


@dataclass(frozen=True, slots=True)
class WorkerHealth:
    """What a caller may see. `until`: when a blocked worker is probed next."""

    state: HealthState = HealthState.OK
    failures: int = 0
    cause: str | None = None
    until: Instant | None = None
    breakers: tuple[BreakerView, ...] = ()
    """The worker's own, and those of models that have failed there."""


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
    return fault.category in _FAULTS_OF_WORKERS and fault.code not in _NOT_OF_WORKERS


def ran_out_of_memory(outcome: Outcome) -> bool:
    return isinstance(outcome, Failed) and outcome.fault.code == OUT_OF_MEMORY


@dataclass(frozen=True, slots=True)
class _Charge:
    """A failure that the worker may be to blame for. `suspect`: what else may be. `is_told`: by
    the job's own fault, which is all that is known of it.
    """

    suspect: Suspect | None
    is_told: bool = False
    is_for_memory: bool = False

    @property
    def is_word(self) -> bool:
        """Told, and about the worker itself: not that a job wants more memory than it has."""
        return self.is_told and not self.is_for_memory


class Health:
    """One worker's. It decides; who asks carries it out."""

    def __init__(
        self, rules: HealthRules, clock: Clock, worker_id: WorkerId, suspects: Suspects
    ) -> None:
        self._rules = rules
        self._clock = clock
        self._worker_id = worker_id
        self._suspects = suspects
        self._charges: deque[_Charge] = deque(maxlen=CHARGES_KEPT)
        """Since the last success."""
        self._are_agreed = False
        """Since the last success so many different graphs have told that it must be the worker."""
        self._tenants: OrderedDict[TenantId, float] = OrderedDict()
        self._failed_checks = 0
        self._cause: str | None = None
        self._breaker = CircuitBreaker(rules.failures, rules.first_rest, rules.longest_rest, clock)
        """Closed, or blocked, or (half-open) on probation."""
        self._is_in_doubt = False
        self._is_on_probation = False
        self.models = ModelBreakers(rules.models, clock, worker_id, suspects)

    @property
    def is_blocked(self) -> bool:
        return self._breaker.state is not BreakerState.CLOSED and not self._is_on_probation

    @property
    def is_in_doubt(self) -> bool:
        """Blocked, and by nothing but graphs that nobody has seen to work elsewhere."""
        return self.is_blocked and self._is_in_doubt

    @property
    def is_acquitted(self) -> bool:
        """In doubt, and by now others are known to be guilty, or it was never more than hearsay:
        it is to be probed now.
        """
        return self.is_in_doubt and self._is_hearsay(self._standing())

    @property
    def is_on_probation(self) -> bool:
        """It takes one job at a time."""
        return self._is_on_probation

    @property
    def seconds_until_probe(self) -> float | None:
        return self._breaker.seconds_until_probe if self.is_blocked else None

    @property
    def fault(self) -> Fault | None:
        """Why a blocked worker is; None for any other."""
        if not self.is_blocked:
            return None
        return Fault(
            "system",
            "WORKER_BLOCKED",
            self._cause or "It has failed too often.",
            {
                SUGGESTED_ACTION: "Mend what the message names; it is tried again by itself, or at "
                "once with: comfyrail workers resume"
            },
            self.seconds_until_probe,
        )

    def view(self) -> WorkerHealth:
        breakers = (self._own_breaker(), *self.models.views())
        seconds = self.seconds_until_probe
        if seconds is not None:
            until = after(self._clock.now(), seconds)
            return WorkerHealth(HealthState.BLOCKED, self._count(), self._cause, until, breakers)
        failures = max(self._count(), self._failed_checks)
        if failures or self._is_on_probation:
            return WorkerHealth(HealthState.FAILING, failures, self._cause, None, breakers)
        return WorkerHealth(breakers=breakers)

    def _own_breaker(self) -> BreakerView:
        failures = max(self._count(), self._failed_checks)
        view = breaker_view(INFERENCE, None, self._breaker, self._clock)
        until = view.until if self.is_blocked else None
        return replace(view, failures=failures, cause=self._cause, until=until)

    def note_end(self, outcome: Outcome, suspect: Suspect | None = None) -> None:
        """An attempt ended. What is neither a success nor the worker's fault says nothing."""
        if suspect is not None:
            self._note_tenant(suspect.tenant)
        if isinstance(outcome, Completed):
            if suspect is not None:
                self._suspects.note_success(suspect, self._worker_id)
            self._charges.clear()
            self._are_agreed = False
            if not self.is_blocked:
                self._breaker.note_success()
                self._is_on_probation = False
                if not self._failed_checks:
                    self._cause = None
            return
        cause = fault_of_worker(outcome)
        if cause is None:
            return
        is_told = isinstance(outcome, Failed)
        self._charge(cause, _Charge(suspect, is_told, ran_out_of_memory(outcome)))

    def note_failure(self, cause: str, suspect: Suspect | None = None) -> None:
        """It has ended, maybe because of what it was running."""
        self._charge(cause, _Charge(suspect))

    def note_check(self, problem: str | None) -> None:
        """A periodic check was answered (None) or not."""
        if problem is None:
            self._failed_checks = 0
            if not self._count() and not self.is_blocked:
                self._cause = None
            return
        self._failed_checks += 1
        self._cause = problem[:CAUSE_KEPT]
        if self._failed_checks >= self._rules.failures:
            self.block(problem)

    def block(self, cause: str) -> None:
        """Trust it no more until a probe succeeds."""
        self._cause = cause[:CAUSE_KEPT]
        self._is_in_doubt = False
        if not self.is_blocked:
            self._breaker.trip(cause)
        self._is_on_probation = False

    def hasten_probe(self) -> None:
        """A person wants a blocked worker, and models that failed, to be tried again now."""
        self._breaker.hasten()
        self.models.hasten()

    def note_probe(self, problem: str | None, *, ran_a_prompt: bool = False) -> None:
        self._breaker.hasten()  # one in doubt is probed before its rest is over
        if problem is not None:
            self._cause = problem[:CAUSE_KEPT]
            self._is_in_doubt = False
            self._breaker.note_failure(problem)
            return
        if ran_a_prompt:
            self._convict()
        if self._is_in_doubt:
            self._breaker.excuse()
        self._charges.clear()
        self._is_in_doubt = False
        self._failed_checks = 0
        self._is_on_probation = True

    def _charge(self, cause: str, charge: _Charge) -> None:
        self._charges.append(charge)
        if charge.suspect is not None:
            self._suspects.note_failure(charge.suspect, self._worker_id)
        self._are_agreed = self._are_agreed or self._agree(
            [each.suspect for each in self._charges if each.is_word]
        )
        if self._is_cleared(charge):
            return
        self._cause = cause[:CAUSE_KEPT]
        is_enough = self._is_on_probation and not charge.is_for_memory
        if is_enough or self._count() >= self._rules.failures:
            self.block(cause)
            standing = self._standing()
            is_clear = any(map(self._is_clear_case, standing))
            self._is_in_doubt = not is_clear or self._is_hearsay(standing)

    def _standing(self) -> Sequence[_Charge]:
        return [each for each in self._charges if not self._is_cleared(each)]

    def _count(self) -> int:
        """Failures in a row that are held against it."""
        charges = self._standing()
        for_memory = [each.suspect for each in charges if each.is_for_memory]
        return len(charges) - len(for_memory) + self._count_for_memory(for_memory)

    def _count_for_memory(self, suspects: Sequence[Suspect | None]) -> int:
        """A job that asks for too much memory is not the worker's fault: only different graphs
        count, and where several tenants have jobs here, those of one alone are never enough.
        """
        graphs = {suspect and suspect.graph for suspect in suspects}
        if len(graphs) <= 1:
            return 0
        if self._are_of_one_tenant_of_several(suspects):
            return min(len(graphs), self._rules.failures - 1)
        return len(graphs)

    def _agree(self, suspects: Sequence[Suspect | None]) -> bool:
        """Whether these are enough different graphs, and not of one tenant of several alone."""
        graphs = {suspect and suspect.graph for suspect in suspects}
        is_enough = len(graphs) >= max(2, self._rules.failures)
        return is_enough and not self._are_of_one_tenant_of_several(suspects)

    def _is_hearsay(self, charges: Sequence[_Charge]) -> bool:
        """Whether nothing but what one graph tells, or one tenant of several, speaks against it."""
        if self._are_agreed or not all(each.is_told for each in charges):
            return False
        suspects = [each.suspect for each in charges]
        if self._are_of_one_tenant_of_several(suspects):
            return True
        are_clear = any(map(self._is_clear_case, charges))
        return len({suspect and suspect.graph for suspect in suspects}) <= 1 and not are_clear

    def _are_of_one_tenant_of_several(self, suspects: Sequence[Suspect | None]) -> bool:
        tenants = {suspect and suspect.tenant for suspect in suspects}
        return len(tenants) == 1 and None not in tenants and self._has_several_tenants()

    def _has_several_tenants(self) -> bool:
        """As many jobs as one of them may have had since: the others are not forgotten for it."""
        since = self._clock.monotonic() - LATELY_SECONDS
        return sum(seen >= since for seen in self._tenants.values()) > 1

    def _note_tenant(self, tenant: TenantId) -> None:
        self._tenants[tenant] = self._clock.monotonic()
        self._tenants.move_to_end(tenant)
        if len(self._tenants) > TENANTS_KEPT:
            self._tenants.popitem(last=False)

    def _is_cleared(self, charge: _Charge) -> bool:
        if charge.suspect is None or (charge.is_word and self._are_agreed):
            return False
        return self._suspects.is_guilty(charge.suspect)

    def _is_clear_case(self, charge: _Charge) -> bool:
        """Whether it can only be the worker's fault."""
        suspect = charge.suspect
        if suspect is None or (charge.is_word and self._are_agreed):
            return True
        return self._suspects.works_elsewhere(suspect, self._worker_id)

    def _convict(self) -> None:
        for charge in self._charges:
            if charge.suspect is not None and not self._is_clear_case(charge):
                self._suspects.convict(charge.suspect)
