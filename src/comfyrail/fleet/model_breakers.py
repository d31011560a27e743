"""Models that fail to load on one worker: it gets no jobs with them for a while [7.3].

The copy of a model on one worker may be damaged, or gone, while others have a good one. A job that
fails by it counts against the model here, and not against the worker: other models go on.

A damaged file speaks for itself. A model that is not there, or does not fit its node, may be the
graph's fault: a graph that fails by it on several workers counts no more. What does not fit counts
once a graph, and where other tenants have loaded the model here, those of one are never enough.
"""

from collections import OrderedDict, deque
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum

from comfyrail.circuit_breaker import CAUSE_KEPT, BreakerState, CircuitBreaker
from comfyrail.clock import Clock, Instant, after
from comfyrail.fleet.classification import DAMAGED, MODEL_LOAD_FAILED, MODEL_MISSING, MODELS
from comfyrail.fleet.suspects import Suspect, Suspects
from comfyrail.ids import TenantId, WorkerId
from comfyrail.jobs.faults import Fault
from comfyrail.jobs.outcome import Completed, Failed, Outcome

MODELS_KEPT = 1000
CHARGES_KEPT = 100
TENANTS_KEPT = 2
"""Of those that have loaded a model: with two there is always another than the one that fails."""
MODEL_CODES = frozenset((MODEL_MISSING, MODEL_LOAD_FAILED))
INFERENCE = "inference"
MODEL_LOADING = "model_loading"


@dataclass(frozen=True, slots=True)
class BreakerRules:
    """Failures in a row that open a breaker, and the seconds until it is tried again."""

    failures: int = 3
    rest: float = 120.0
    longest_rest: float = 960.0


@dataclass(frozen=True, slots=True)
class BreakerView:
    """A breaker as callers see it. `kind`: INFERENCE, of all jobs on a worker, or MODEL_LOADING,
    of those with one `model`. `until`: when the next try is made.
    """

    kind: str
    model: str | None
    state: BreakerState
    failures: int
    cause: str | None
    until: Instant | None = None


def models_to_blame(outcome: Outcome | None) -> frozenset[str]:
    """The models that an attempt failed by, as far as its fault names them."""
    if not isinstance(outcome, Failed) or not is_of_models(outcome.fault):
        return frozenset()
    named = outcome.fault.details.get(MODELS)
    return frozenset(map(str, named)) if isinstance(named, list | tuple) else frozenset()


def is_of_models(fault: Fault) -> bool:
    return fault.code in MODEL_CODES


class _Sign(Enum):
    DAMAGED = 1
    MISSING = 2
    UNFIT = 3


def _sign_of(fault: Fault) -> _Sign:
    if fault.code == MODEL_MISSING:
        return _Sign.MISSING
    return _Sign.DAMAGED if fault.details.get(DAMAGED) else _Sign.UNFIT


@dataclass(frozen=True, slots=True)
class _Charge:
    """A failure by a model, and what else may be to blame for it."""

    sign: _Sign
    suspect: Suspect | None


@dataclass(slots=True)
class _Case:
    """What speaks against one model since it last loaded."""

    breaker: CircuitBreaker
    charges: deque[_Charge] = field(default_factory=lambda: deque(maxlen=CHARGES_KEPT))
    cause: str = ""


class ModelBreakers:
    """One worker's. It decides; who asks carries it out. They are forgotten when the worker starts
    anew: its files may have been mended.
    """

    def __init__(
        self, rules: BreakerRules, clock: Clock, worker_id: WorkerId, suspects: Suspects
    ) -> None:
        self._rules = rules
        self._clock = clock
        self._worker_id = worker_id
        self._suspects = suspects
        self._cases: OrderedDict[str, _Case] = OrderedDict()
        self._loaded_by: OrderedDict[str, frozenset[TenantId]] = OrderedDict()

    def refused(self) -> frozenset[str]:
        """Models with which the worker is to get no job now."""
        return frozenset(
            name for name, case in self._cases.items() if not case.breaker.lets_through
        )

    def seconds_until_probe(self) -> float | None:
        """Until the next model is tried again; None: none rests."""
        resting = (
            case.breaker.seconds_until_probe
            for case in self._cases.values()
            if case.breaker.state is BreakerState.OPEN
        )
        return min((seconds for seconds in resting if seconds is not None), default=None)

    def refuses(self, models: Iterable[str]) -> bool:
        """Whether a job with these models is not to begin now."""
        return not self.refused().isdisjoint(models)

    def begin(self, models: Iterable[str]) -> frozenset[str]:
        """A job with these models begins: the ones of which it is the one try."""
        known = {name: self._cases[name].breaker for name in models if name in self._cases}
        return frozenset(name for name, each in known.items() if each.try_probe())

    def note_end(
        self,
        models: Iterable[str],
        probed: Collection[str],
        outcome: Outcome | None,
        suspect: Suspect | None = None,
    ) -> None:
        """A job with these models has ended, which was the one try of the `probed`. An end that
        is neither a success nor a failure by a model says nothing of them. `suspect`: the job's
        graph.
        """
        if isinstance(outcome, Completed):
            for name in models:
                self._note_success(name, suspect)
            return
        counted = set()
        if isinstance(outcome, Failed):
            charge = _Charge(_sign_of(outcome.fault), suspect)
            blamed = models_to_blame(outcome)
            counted = {n for n in blamed if self._note_failure(n, charge, outcome.fault.message)}
        for name in probed:
            if name not in counted and name in self._cases:
                self._cases[name].breaker.abandon_probe()

    def hasten(self) -> None:
        """A person wants all of them to be tried again now."""
        for case in self._cases.values():
            case.breaker.hasten()

    def forget(self) -> None:
        self._cases.clear()
        self._loaded_by.clear()

    def views(self) -> Sequence[BreakerView]:
        """Those of models that have failed since they last loaded."""
        return [self._view(name, case) for name, case in sorted(self._cases.items())]

    def _view(self, name: str, case: _Case) -> BreakerView:
        view = breaker_view(MODEL_LOADING, name, case.breaker, self._clock)
        return replace(view, failures=self._count(name, case), cause=case.cause)

    def _note_success(self, name: str, suspect: Suspect | None) -> None:
        self._cases.pop(name, None)
        if suspect is None:
            return
        known = self._loaded_by.pop(name, frozenset())
        self._loaded_by[name] = known if len(known) >= TENANTS_KEPT else known | {suspect.tenant}
        if len(self._loaded_by) > MODELS_KEPT:
            self._loaded_by.popitem(last=False)

    def _note_failure(self, name: str, charge: _Charge, cause: str) -> bool:
        """Whether it tells more than was known."""
        if charge.suspect is not None and charge.sign is not _Sign.DAMAGED:
            self._suspects.note_model_failure(charge.suspect, name, self._worker_id)
        case = self._case_of(name)
        known = self._count(name, case)
        case.charges.append(charge)
        case.cause = cause[:CAUSE_KEPT]
        count = self._count(name, case)
        is_new = count > known or charge.sign is _Sign.DAMAGED
        is_half_open = case.breaker.state is BreakerState.HALF_OPEN
        if is_new and (is_half_open or count >= self._rules.failures):
            case.breaker.trip(cause)
        return is_new

    def _case_of(self, name: str) -> _Case:
        case = self._cases.pop(name, None)
        if case is None:
            rules = self._rules
            breaker = CircuitBreaker(rules.failures, rules.rest, rules.longest_rest, self._clock)
            case = _Case(breaker)
        self._cases[name] = case
        if len(self._cases) > MODELS_KEPT:
            self._cases.popitem(last=False)
        return case

    def _count(self, name: str, case: _Case) -> int:
        """Failures in a row that are held against the model."""
        standing = [each for each in case.charges if not self._is_cleared(name, each)]
        unfit = {each.suspect for each in standing if each.sign is _Sign.UNFIT}
        facts = sum(each.sign is not _Sign.UNFIT for each in standing)
        return facts + self._count_unfit(name, unfit)

    def _count_unfit(self, name: str, suspects: Collection[Suspect | None]) -> int:
        accusers = {suspect and suspect.tenant for suspect in suspects}
        others = self._loaded_by.get(name, frozenset()) - accusers
        if len(accusers) == 1 and others:
            return min(len(suspects), self._rules.failures - 1)
        return len(suspects)

    def _is_cleared(self, name: str, charge: _Charge) -> bool:
        if charge.suspect is None or charge.sign is _Sign.DAMAGED:
            return False
        return self._suspects.misuses(charge.suspect, name)


def breaker_view(
    kind: str, model: str | None, breaker: CircuitBreaker, clock: Clock
) -> BreakerView:
    seconds = breaker.seconds_until_probe
    return BreakerView(
        kind,
        model,
        breaker.state,
        breaker.failures,
        breaker.cause,
        None if seconds is None else after(clock.now(), seconds),
    )
