"""What the tests of the pool share."""

from comfyrail.clock import Instant
from comfyrail.engine.resources.needs import Capacity, ResourceNeeds

NOTHING = ResourceNeeds(0, 0, 0, 0, 0, 0)


class StillClock:
    """Time that passes only when a test says so."""

    def __init__(self) -> None:
        self.seconds = 0.0

    def now(self) -> Instant:
        return Instant(0)

    def monotonic(self) -> float:
        return self.seconds


def cores(count: float) -> ResourceNeeds:
    """A need of processor cores alone."""
    return ResourceNeeds(count, 0, 0, 0, 0, 0)


def whole_gpus(count: int, memory: float = 0) -> ResourceNeeds:
    return ResourceNeeds(0, 0, count, memory, 0, 0)


def gpu_share(memory: float) -> ResourceNeeds:
    return ResourceNeeds(0, 0, 0, memory, 0, 0)


def capacity(cpu_cores: float = 4, *gpus: float) -> Capacity:
    return Capacity(cpu_cores, 1000, 1000, 1000, gpus)
