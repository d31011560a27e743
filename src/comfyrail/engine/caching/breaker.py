"""A pause for a level in trouble, so that no node waits for it again and again."""

import structlog

from comfyrail.circuit_breaker import BreakerState, CircuitBreaker
from comfyrail.clock import Clock

FIRST_PAUSE_SECONDS = 3.0
LAST_PAUSE_SECONDS = 30.0

log = structlog.get_logger(__name__)


class Breaker:
    """Opens on trouble; after a pause the next calls try again, and each pause is longer.

    It says so once, not every time.
    """

    def __init__(self, level: str, clock: Clock) -> None:
        self._level = level
        self._breaker = CircuitBreaker(1, FIRST_PAUSE_SECONDS, LAST_PAUSE_SECONDS, clock)

    @property
    def is_open(self) -> bool:
        return self._breaker.state is BreakerState.OPEN

    def trip(self, error: Exception) -> None:
        cause = _short(error)
        if self._breaker.state is BreakerState.CLOSED:
            log.warning("cache_level_in_trouble", cache_level=self._level, error=cause)
        self._breaker.note_failure(cause)

    def mend(self) -> None:
        if self._breaker.state is not BreakerState.CLOSED:
            self._breaker.note_success()
            log.info("cache_level_works_again", cache_level=self._level)


def _short(error: Exception) -> str:
    """The first line: some libraries put a whole request below it."""
    lines = str(error).splitlines()
    return f"{type(error).__name__}: {lines[0] if lines else ''}"
