"""Whether the wall clock can be trusted with what cannot be taken back."""

import structlog

from comfyrail.clock import Clock

log = structlog.get_logger(__name__)

SETTLING_SECONDS = 600.0
"""So long the two clocks have agreed before anything ends by the wall clock."""
LARGEST_DRIFT_SECONDS = 60.0
LARGE_JUMP_SECONDS = 3600.0
DISTRUST_SECONDS = 3600.0
"""The same after a jump that makes everything old at once."""


class ClockWatch:
    """Compares the wall clock with the one that nobody can set. What was wrong before this was made
    it cannot know.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._offset = self._offset_now()
        self._steady_from = clock.monotonic() + SETTLING_SECONDS

    def is_steady(self) -> bool:
        """To be asked every few minutes: jumps are seen only between two questions."""
        offset = self._offset_now()
        jump = offset - self._offset
        self._offset = offset
        if abs(jump) > LARGEST_DRIFT_SECONDS:
            wait = DISTRUST_SECONDS if jump > LARGE_JUMP_SECONDS else SETTLING_SECONDS
            self._steady_from = self._clock.monotonic() + wait
            log.warning("clock_jumped", seconds=round(jump), outputs_age_again_in=wait)
        return self._clock.monotonic() >= self._steady_from

    def _offset_now(self) -> float:
        return self._clock.now() / 1000 - self._clock.monotonic()
