"""Models that fail to load on one worker: it gets no jobs with them for a while [7.3].

The copy of a model on one worker may be damaged, or gone, while others have a good one. A job that
fails by it counts against the model here, and not against the worker: other models go on.
"""

from collections import OrderedDict
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass

from comfyrail.circuit_breaker import BreakerState, CircuitBreaker
from comfyrail.clock import Clock, Instant, after
from comfyrail.fleet.classification import MODEL_LOAD_FAILED, MODEL_MISSING, MODELS
from comfyrail.jobs.faults import Fault
from comfyrail.jobs.outcome import Completed, Failed, Outcome

MODELS_KEPT = 1000
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


class ModelBreakers:
    """One worker's. It decides; who asks carries it out. They are forgotten when the worker starts
    anew: its files may have been mended.
    """

    def __init__(self, rules: BreakerRules, clock: Clock) -> None:
        self._rules = rules
        self._clock = clock
        self._breakers: OrderedDict[str, CircuitBreaker] = OrderedDict()

    def refused(self) -> frozenset[str]:
        """Models with which the worker is to get no job now."""
        return frozenset(name for name, each in self._breakers.items() if not each.lets_through)

    def seconds_until_probe(self) -> float | None:
        """Until the next model is tried again; None: none rests."""
        resting = (
            each.seconds_until_probe
            for each in self._breakers.values()
            if each.state is BreakerState.OPEN
        )
        return min((seconds for seconds in resting if seconds is not None), default=None)

    def refuses(self, models: Iterable[str]) -> bool:
        """Whether a job with these models is not to begin now."""
        return not self.refused().isdisjoint(models)

    def begin(self, models: Iterable[str]) -> frozenset[str]:
        """A job with these models begins: the ones of which it is the one try."""
        known = {name: self._breakers[name] for name in models if name in self._breakers}
        return frozenset(name for name, each in known.items() if each.try_probe())

    def note_end(
        self, models: Iterable[str], probed: Collection[str], outcome: Outcome | None
    ) -> None:
        """A job with these models has ended, which was the one try of the `probed`. An end that
        is neither a success nor a failure by a model says nothing of them.
        """
        if isinstance(outcome, Completed):
            for name in models:
                self._breakers.pop(name, None)
            return
        blamed = models_to_blame(outcome)
        if isinstance(outcome, Failed):
            for name in blamed:
                self._note_failure(name, outcome.fault.message)
        for name in probed:
            if name not in blamed and name in self._breakers:
                self._breakers[name].abandon_probe()

    def hasten(self) -> None:
        """A person wants all of them to be tried again now."""
        for each in self._breakers.values():
            each.hasten()

    def forget(self) -> None:
        self._breakers.clear()

    def views(self) -> Sequence[BreakerView]:
        """Those of models that have failed since they last loaded."""
        return [
            breaker_view(MODEL_LOADING, name, each, self._clock)
            for name, each in sorted(self._breakers.items())
        ]

    def _note_failure(self, name: str, cause: str) -> None:
        breaker = self._breakers.get(name)
        if breaker is None:
            rules = self._rules
            breaker = CircuitBreaker(rules.failures, rules.rest, rules.longest_rest, self._clock)
            self._breakers[name] = breaker
        self._breakers.move_to_end(name)
        breaker.note_failure(cause)
        if len(self._breakers) > MODELS_KEPT:
            self._breakers.popitem(last=False)


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
