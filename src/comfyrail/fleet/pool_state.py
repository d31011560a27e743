"""What is remembered of a pool while the server runs."""

from collections.abc import Mapping
from dataclasses import dataclass
from heapq import heapify, heappop, heappush
from typing import Any

from comfyrail.clock import Clock, Instant, after
from comfyrail.fleet.drivers.interface import Driver
from comfyrail.ids import WorkerId

WEIGHT_OF_THE_LATEST = 0.5
LONGEST_NUMBER = 5


@dataclass(frozen=True, slots=True)
class PoolRules:
    """Seconds. `ready_limit`: how long a worker may be of no use before it is given up; the rests
    are those of a driver that has failed.
    """

    ready_limit: float = 900.0
    first_rest: float = 5.0
    longest_rest: float = 600.0


class PoolState:
    """How starts have gone. A failure gives the driver a rest, and each further one twice that."""

    def __init__(
        self, driver: Driver, config: Mapping[str, Any], rules: PoolRules, clock: Clock
    ) -> None:
        self.driver = driver
        self.config = config
        self.error: str | None = None
        self.start_seconds: float | None = None
        """What starts have taken lately."""
        self._rules = rules
        self._clock = clock
        self._failures = 0
        self._rests_until: float | None = None
        self._ready: dict[WorkerId, float] = {}
        self._next_number = 1
        self._free_numbers: list[int] = []

    @property
    def can_start(self) -> bool:
        return self._rest_seconds() <= 0

    @property
    def rests_until(self) -> Instant | None:
        """When the driver is tried again; None where it may be now."""
        seconds = self._rest_seconds()
        return after(self._clock.now(), seconds) if seconds > 0 else None

    def _rest_seconds(self) -> float:
        return 0.0 if self._rests_until is None else self._rests_until - self._clock.monotonic()

    def note_ready(self, worker_id: WorkerId, seconds: float) -> None:
        """A worker was ready for the first time; told as often as one likes."""
        if self._ready.get(worker_id) == seconds:
            return
        self._ready[worker_id] = seconds
        known = self.start_seconds
        self.start_seconds = (
            seconds if known is None else known + WEIGHT_OF_THE_LATEST * (seconds - known)
        )
        self._failures = 0
        self._rests_until = None
        self.error = None

    def forget(self, worker_id: WorkerId) -> None:
        """The worker has been removed: another one may have its number."""
        self._ready.pop(worker_id, None)
        number = worker_id.rpartition("-")[2]
        if number.isdecimal():
            self.give_number_back(int(number))

    def take_number(self) -> int:
        """The smallest that is free: what is kept for a worker of that name is used again."""
        if self._free_numbers:
            return heappop(self._free_numbers)
        self._next_number += 1
        return self._next_number - 1

    def give_number_back(self, number: int) -> None:
        heappush(self._free_numbers, number)

    def reserve_number(self, text: str) -> None:
        """There is a worker of this number from before."""
        if not text.isdecimal() or len(text) > LONGEST_NUMBER:
            return
        number = int(text)
        while self._next_number <= number:
            heappush(self._free_numbers, self._next_number)
            self._next_number += 1
        if number in self._free_numbers:
            self._free_numbers.remove(number)
            heapify(self._free_numbers)

    def note_failure(self, cause: str) -> None:
        rest = self._rules.first_rest * 2.0 ** min(self._failures, 30)
        self._failures += 1
        self._rests_until = self._clock.monotonic() + min(rest, self._rules.longest_rest)
        self.error = cause
