"""What did not work is tried again later, and ever more rarely."""

from dataclasses import dataclass

from comfyrail.clock import Clock
from comfyrail.ids import OutputId

FIRST_DELAY_SECONDS = 600.0
LONGEST_DELAY_SECONDS = 86_400.0
MOST_REMEMBERED = 10_000


@dataclass(frozen=True, slots=True)
class _Delay:
    until: float
    seconds: float


class PutOff:
    """Outputs that are left alone for the time being. The first are forgotten when there are too
    many: they are tried too early then, no more.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._delays: dict[OutputId, _Delay] = {}

    def add(self, output_id: OutputId) -> float:
        """For twice as long as the last time; in seconds."""
        before = self._delays.pop(output_id, None)
        seconds = FIRST_DELAY_SECONDS if before is None else before.seconds * 2
        seconds = min(seconds, LONGEST_DELAY_SECONDS)
        while len(self._delays) >= MOST_REMEMBERED:
            del self._delays[next(iter(self._delays))]
        self._delays[output_id] = _Delay(self._clock.monotonic() + seconds, seconds)
        return seconds

    def drop(self, output_id: OutputId) -> None:
        """It has worked."""
        self._delays.pop(output_id, None)

    def has(self, output_id: OutputId) -> bool:
        delay = self._delays.get(output_id)
        return delay is not None and self._clock.monotonic() < delay.until
