"""Priority, classes with their wait targets, and the rank that orders the queue [4.2, 4.3]."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from math import prod

from comfyrail.clock import Instant

LOWEST_PRIORITY = 1
HIGHEST_PRIORITY = 10
DEFAULT_PRIORITY = 5

TIER_FACTORS: Mapping[str, float] = {
    "free": 0.8,
    "basic": 1.0,
    "pro": 1.5,
    "premium": 1.75,
    "enterprise": 2.0,
}
DEFAULT_TIER = "basic"
FACTOR_WEIGHT = 0.2
SHORT_SECONDS = 30.0
LONG_SECONDS = 300.0


class QueueClass(StrEnum):
    """Each has a time within which its jobs should start; batch only the promise of a turn."""

    HIGH = "high"
    MEDIUM = "medium"
    LOW = "low"
    BATCH = "batch"


@dataclass(frozen=True, slots=True)
class WaitTargets:
    """Seconds within which jobs of a class should start."""

    high: float = 30.0
    medium: float = 120.0
    low: float = 600.0
    batch: float = 3600.0

    def of(self, queue_class: QueueClass) -> float:
        return float(getattr(self, queue_class.value))


DEFAULT_TARGETS = WaitTargets()

# (class, its lowest priority, the priority at which the next class begins)
_CLASSES = ((QueueClass.HIGH, 8.0, 10.0), (QueueClass.MEDIUM, 4.0, 8.0), (QueueClass.LOW, 1.0, 4.0))
_ABOVE = {QueueClass.MEDIUM: QueueClass.HIGH, QueueClass.LOW: QueueClass.MEDIUM}


@dataclass(frozen=True, slots=True)
class Factors:
    """What raises or lowers a job's priority, each -1 to 1."""

    expected_time: float = 0.0
    resources: float = 0.0
    cache: float = 0.0
    quota: float = 0.0

    def all(self) -> Iterable[float]:
        return (self.expected_time, self.resources, self.cache, self.quota)


@dataclass(frozen=True, slots=True)
class Standing:
    """A job's place among others before anyone has waited."""

    priority: float
    """Effective: 1 to 10."""
    queue_class: QueueClass
    target_seconds: float
    factors: Factors = field(default_factory=Factors)

    def rank(self, since: Instant) -> int:
        """The deadline by which it should start, in milliseconds: the smallest goes first.

        Waiting is ageing: a job's rank never changes, while newer jobs get later ones.
        """
        return since + round(self.target_seconds * 1000)


def expected_time_factor(seconds: float) -> float:
    if seconds < SHORT_SECONDS:
        return 0.3
    return -0.2 if seconds > LONG_SECONDS else 0.0


def effective_priority(base: float, tier: str, factors: Factors) -> float:
    """Base x tier x (1 + 0.2 f) for each factor f, clamped to 1-10."""
    value = base * TIER_FACTORS.get(tier, 1.0)
    value *= prod(1 + FACTOR_WEIGHT * max(-1.0, min(1.0, factor)) for factor in factors.all())
    return max(float(LOWEST_PRIORITY), min(float(HIGHEST_PRIORITY), value))


def standing_of(
    base: float,
    tier: str = DEFAULT_TIER,
    factors: Factors | None = None,
    *,
    is_batch: bool = False,
    targets: WaitTargets = DEFAULT_TARGETS,
) -> Standing:
    """Where a job of this base priority stands; `is_batch`: it waits for quiet times."""
    factors = factors or Factors()
    priority = effective_priority(base, tier, factors)
    queue_class = QueueClass.BATCH if is_batch else class_of(priority)
    return Standing(
        priority, queue_class, wait_target_seconds(priority, queue_class, targets), factors
    )


def class_of(priority: float) -> QueueClass:
    for queue_class, lowest, _ in _CLASSES:
        if priority >= lowest:
            return queue_class
    return QueueClass.LOW


def wait_target_seconds(
    priority: float, queue_class: QueueClass, targets: WaitTargets = DEFAULT_TARGETS
) -> float:
    """How long a job may wait: spread inside its class, the highest priority the shortest.

    The spread ends at the class's target and begins in the middle between it and the target of
    the class above, so that the classes do not overlap.
    """
    target = targets.of(queue_class)
    for each, lowest, highest in _CLASSES:
        if each is queue_class:
            above = targets.of(_ABOVE[each]) if each in _ABOVE else 0.0
            share = max(0.0, min(1.0, (priority - lowest) / (highest - lowest)))
            return target - (target - above) / 2 * share
    return target
