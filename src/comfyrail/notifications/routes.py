"""What the courier knows of an address while there is something for it: never more than a page."""

from collections import deque
from dataclasses import dataclass, field

from comfyrail.circuit_breaker import BreakerState, CircuitBreaker
from comfyrail.clock import Clock
from comfyrail.store.notifications import DueDelivery, FrozenBody

FAILURES_TO_OPEN = 5
REST_SECONDS = 60.0
LONGEST_REST_SECONDS = 3600.0
AT_ONCE = 8
"""Calls under way to one address."""


@dataclass(frozen=True, slots=True)
class Prepared:
    due: DueDelivery
    body: FrozenBody | None

    @property
    def size(self) -> int:
        return 0 if self.body is None else len(self.body.content)


@dataclass(slots=True)
class Route:
    """The way to one address: what is ready to go, what is under way, and whether it works."""

    address: str
    breaker: CircuitBreaker
    clock: Clock
    waiting: deque[Prepared] = field(default_factory=deque)
    in_hand: dict[int, int] = field(default_factory=dict)
    """Sequences of what waits here or is under way, with its bytes."""
    lines: set[tuple[str, str | None]] = field(default_factory=set)
    """Those of what is in hand."""
    running: int = 0
    is_loading: bool = False
    is_wanted: bool = False
    """Somebody asked for more while it was loading."""
    readings: int = 0
    """How often what was read of it was given back."""
    rests_until: float = 0.0
    """By the monotonic clock: its tenant has sent enough for now."""

    @classmethod
    def to(cls, address: str, clock: Clock) -> "Route":
        breaker = CircuitBreaker(FAILURES_TO_OPEN, REST_SECONDS, LONGEST_REST_SECONDS, clock)
        return cls(address, breaker, clock)

    @property
    def wants_more(self) -> bool:
        return len(self.waiting) < AT_ONCE and self.has_room

    @property
    def has_next(self) -> bool:
        return bool(self.waiting) and self.has_room

    @property
    def is_forgettable(self) -> bool:
        """Nothing is known of it that would be missed."""
        is_idle = not (self.running or self.waiting or self.is_loading or self.seconds_to_rest)
        return is_idle and self.breaker.failures == 0

    @property
    def seconds_to_rest(self) -> float:
        """Until something may be sent; 0: now, as far as it is known."""
        resting = max(0.0, self.rests_until - self.clock.monotonic())
        return max(resting, self.breaker.seconds_until_probe or 0.0)

    @property
    def has_room(self) -> bool:
        """One that fails gets no more than one call at a time."""
        limit = 1 if self.breaker.failures else AT_ONCE
        return self.running < limit and self.breaker.lets_through and not self.seconds_to_rest

    def accept(self, prepared: Prepared) -> None:
        self.waiting.append(prepared)
        self.in_hand[prepared.due.sequence] = prepared.size
        self.lines.add(prepared.due.line)

    def take(self) -> Prepared:
        """The next one, which is under way from now on. A half-open breaker lets one through."""
        if self.breaker.state is BreakerState.HALF_OPEN:
            self.breaker.try_probe()
        self.running += 1
        return self.waiting.popleft()

    def let_go(self, due: DueDelivery) -> None:
        """It is no longer under way."""
        self.running -= 1
        self._drop(due)

    def rest(self, seconds: float) -> None:
        self.rests_until = self.clock.monotonic() + seconds
        self.put_back()

    def put_back(self) -> None:
        """Leave what waits to the store: it is read anew when it can go."""
        self.readings += 1
        while self.waiting:
            self._drop(self.waiting.pop().due)

    def _drop(self, due: DueDelivery) -> None:
        self.in_hand.pop(due.sequence, None)
        self.lines.discard(due.line)
