"""Circuit breakers [7.3]: closed, open after failures in a row, half-open for one probe."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from comfyrail.circuit_breaker import CAUSE_KEPT, BreakerState, CircuitBreaker
from comfyrail.clock import Instant

THRESHOLD, REST, LONGEST = 3, 10.0, 35.0


class Clock:
    def __init__(self) -> None:
        self.seconds = 1000.0

    def now(self) -> Instant:
        return Instant(round(self.seconds * 1000))

    def monotonic(self) -> float:
        return self.seconds


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def breaker(clock: Clock) -> CircuitBreaker:
    return CircuitBreaker(THRESHOLD, REST, LONGEST, clock)


def state_of(breaker: CircuitBreaker) -> BreakerState:
    """It changes by itself: no checker may take it for what it was."""
    return breaker.state


def opened(breaker: CircuitBreaker) -> CircuitBreaker:
    for _ in range(THRESHOLD):
        breaker.note_failure("bad")
    return breaker


def test_failures_in_a_row_open_it_and_a_success_between_them_does_not(
    breaker: CircuitBreaker,
) -> None:
    for _ in range(THRESHOLD - 1):
        breaker.note_failure("bad")
    breaker.note_success()
    assert (breaker.failures, breaker.cause) == (0, None)
    for _ in range(THRESHOLD - 1):
        breaker.note_failure("bad")
    assert state_of(breaker) is BreakerState.CLOSED
    assert breaker.seconds_until_probe is None
    breaker.note_failure("worse")
    assert state_of(breaker) is BreakerState.OPEN
    assert (breaker.failures, breaker.cause) == (THRESHOLD, "worse")
    assert breaker.seconds_until_probe == REST


def test_half_open_lets_exactly_one_through(breaker: CircuitBreaker, clock: Clock) -> None:
    assert not breaker.try_probe(), "closed: there is nothing to probe"
    opened(breaker)
    assert not breaker.try_probe()
    clock.seconds += REST
    assert state_of(breaker) is BreakerState.HALF_OPEN
    assert [breaker.try_probe() for _ in range(3)] == [True, False, False]
    breaker.abandon_probe()
    assert breaker.try_probe(), "the first one has shown nothing"
    breaker.note_success()
    assert state_of(breaker) is BreakerState.CLOSED


def test_failed_probes_double_the_rest_up_to_a_limit_and_success_forgets_it(
    breaker: CircuitBreaker, clock: Clock
) -> None:
    opened(breaker)
    rests = []
    for _ in range(4):
        rests.append(breaker.seconds_until_probe)
        clock.seconds += 1000
        assert breaker.try_probe()
        breaker.note_failure("still bad")
    assert rests == [REST, 2 * REST, LONGEST, LONGEST]
    clock.seconds += 1000
    breaker.note_success()
    assert opened(breaker).seconds_until_probe == REST


def test_what_fails_late_does_not_lengthen_the_rest(breaker: CircuitBreaker, clock: Clock) -> None:
    opened(breaker)
    clock.seconds += REST / 2
    breaker.note_failure("begun before")
    assert breaker.seconds_until_probe == REST / 2


def test_it_can_be_opened_hastened_and_excused(breaker: CircuitBreaker, clock: Clock) -> None:
    breaker.trip("a check failed" * 1000)
    assert state_of(breaker) is BreakerState.OPEN
    assert len(breaker.cause or "") == CAUSE_KEPT
    clock.seconds += 1
    breaker.trip("again")
    assert breaker.seconds_until_probe == REST - 1, "it goes on with its rest"
    breaker.hasten()
    assert state_of(breaker) is BreakerState.HALF_OPEN
    breaker.excuse()
    breaker.note_failure("but now in earnest")
    assert breaker.seconds_until_probe == REST


@given(st.integers(2, 2000))
def test_what_fails_for_years_does_not_overflow(times: int) -> None:
    clock = Clock()
    breaker = CircuitBreaker(1, REST, LONGEST, clock)
    for _ in range(times):
        breaker.note_failure("bad")
        clock.seconds += LONGEST
    breaker.note_failure("bad")
    assert breaker.seconds_until_probe == LONGEST


class BreakerMachine(RuleBasedStateMachine):
    """Any order of events: never more than one probe, never let through while it rests."""

    def __init__(self) -> None:
        super().__init__()
        self.clock = Clock()
        self.breaker = CircuitBreaker(THRESHOLD, REST, LONGEST, self.clock)
        self.is_probing = False
        self.in_a_row = 0

    @rule(seconds=st.floats(0, 50))
    def time_passes(self, seconds: float) -> None:
        self.clock.seconds += seconds

    @rule()
    def succeeds(self) -> None:
        self.breaker.note_success()
        self.is_probing = False
        self.in_a_row = 0
        assert self.breaker.state is BreakerState.CLOSED

    @rule()
    def fails(self) -> None:
        before, left = self.breaker.state, self.breaker.seconds_until_probe
        self.breaker.note_failure("bad")
        self.in_a_row += 1
        if before is BreakerState.OPEN:
            assert self.breaker.seconds_until_probe == left
            return
        is_open = before is BreakerState.HALF_OPEN or self.in_a_row >= THRESHOLD
        assert (self.breaker.state is BreakerState.OPEN) is is_open
        if is_open:
            self.is_probing = False

    @rule()
    def probes(self) -> None:
        may = self.breaker.state is BreakerState.HALF_OPEN and not self.is_probing
        assert self.breaker.try_probe() is may
        self.is_probing |= may

    @precondition(lambda self: self.is_probing)
    @rule()
    def abandons(self) -> None:
        self.breaker.abandon_probe()
        self.is_probing = False

    @rule()
    def is_hastened(self) -> None:
        was_open = self.breaker.state is BreakerState.OPEN
        self.breaker.hasten()
        assert not was_open or self.breaker.state is BreakerState.HALF_OPEN

    @invariant()
    def rest_is_within_its_limits(self) -> None:
        seconds = self.breaker.seconds_until_probe
        assert (seconds is None) is (self.breaker.state is BreakerState.CLOSED)
        assert seconds is None or 0 <= seconds <= LONGEST
        assert (self.breaker.failures == 0) is (self.in_a_row == 0)
        is_free = self.breaker.state is BreakerState.HALF_OPEN and not self.is_probing
        assert self.breaker.lets_through is (self.breaker.state is BreakerState.CLOSED or is_free)


TestBreakerMachine = BreakerMachine.TestCase
