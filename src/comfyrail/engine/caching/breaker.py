"""A pause for a level in trouble, so that no node waits for it again and again."""

import structlog

from comfyrail.clock import Clock

FIRST_PAUSE_SECONDS = 3.0
LAST_PAUSE_SECONDS = 30.0

log = structlog.get_logger(__name__)


class Breaker:
    """Opens on trouble; after a pause the next call tries again, and each pause is longer.

    It says so once, not every time.
    """

    def __init__(self, level: str, clock: Clock) -> None:
        self._level = level
        self._clock = clock
        self._in_trouble = False
        self._pause = FIRST_PAUSE_SECONDS
        self._open_until = 0.0

    @property
    def is_open(self) -> bool:
        return self._in_trouble and self._clock.monotonic() < self._open_until

    def trip(self, error: Exception) -> None:
        if not self._in_trouble:
            log.warning("cache_level_in_trouble", cache_level=self._level, error=_short(error))
            self._pause = FIRST_PAUSE_SECONDS
        elif not self.is_open:
            self._pause = min(2 * self._pause, LAST_PAUSE_SECONDS)
        self._open_until = self._clock.monotonic() + self._pause
        self._in_trouble = True

    def mend(self) -> None:
        if self._in_trouble:
            self._in_trouble = False
            log.info("cache_level_works_again", cache_level=self._level)


def _short(error: Exception) -> str:
    """The first line: some libraries put a whole request below it."""
    lines = str(error).splitlines()
    return f"{type(error).__name__}: {lines[0] if lines else ''}"
