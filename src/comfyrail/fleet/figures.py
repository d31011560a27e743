"""How much of the fleet works: figures of all workers, and of each pool [5.6]."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from comfyrail.clock import Instant

WINDOW_SECONDS = 60.0
_BUCKETS = 6
_BUCKET_SECONDS = WINDOW_SECONDS / _BUCKETS


@dataclass(frozen=True, slots=True)
class PoolFigures:
    """Workers at one moment. `available`: they would begin a job now; `allocated`: they have jobs;
    `utilization`: the share of the last minute that those which are up have worked, 0 to 1.
    """

    total: int = 0
    available: int = 0
    allocated: int = 0
    utilization: float = 0.0
    idle: int = 0
    running: int = 0
    starting: int = 0
    failed: int = 0


@dataclass(frozen=True, slots=True)
class PoolStanding:
    """What a pool is to be, and how its driver fares. `error`: why its last worker did not come up;
    `rests_until`: when the driver is tried again.
    """

    driver: str
    minimum: int
    maximum: int
    error: str | None = None
    rests_until: Instant | None = None


@dataclass(frozen=True, slots=True)
class FleetFigures:
    overall: PoolFigures
    pools: Mapping[str, PoolFigures] = field(default_factory=dict)


class BusyMeter:
    """Seconds of the last minute in which a worker had jobs, and in which it was up at all."""

    def __init__(self, now: float) -> None:
        self._busy = _Track(now)
        self._up = _Track(now)

    def set_busy(self, now: float, *, is_busy: bool) -> None:
        self._busy.set(now, is_on=is_busy)

    def set_up(self, now: float, *, is_up: bool) -> None:
        self._up.set(now, is_on=is_up)

    def measure(self, now: float) -> tuple[float, float]:
        """(seconds busy, seconds up)."""
        busy = self._busy.measure(now)
        return busy, max(busy, self._up.measure(now))


class _Track:
    """Time that something was on, in a ring of buckets: costs the same however often it flips."""

    __slots__ = ("_newest", "_on_since", "_ring")

    def __init__(self, now: float) -> None:
        self._ring = [0.0] * _BUCKETS
        self._newest = int(now / _BUCKET_SECONDS)
        self._on_since: float | None = None

    def set(self, now: float, *, is_on: bool) -> None:
        if is_on == (self._on_since is not None):
            return
        self._settle(now)
        self._on_since = now if is_on else None

    def measure(self, now: float) -> float:
        self._settle(now)
        return min(WINDOW_SECONDS, sum(self._ring))

    def _settle(self, now: float) -> None:
        current = int(now / _BUCKET_SECONDS)
        for bucket in range(max(self._newest + 1, current - _BUCKETS + 1), current + 1):
            self._ring[bucket % _BUCKETS] = 0.0
        self._newest = max(self._newest, current)
        since = self._on_since
        if since is None:
            return
        since = max(since, (current - _BUCKETS + 1) * _BUCKET_SECONDS)
        while since < now:
            bucket = int(since / _BUCKET_SECONDS)
            end = min(now, (bucket + 1) * _BUCKET_SECONDS)
            if end <= since:  # the bucket's border, as floats have it
                end = min(now, (bucket + 2) * _BUCKET_SECONDS)
            self._ring[bucket % _BUCKETS] += end - since
            since = end
        self._on_since = now
