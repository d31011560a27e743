"""What scheduling and fleet both say about workers."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from math import floor

from comfyrail.ids import WorkerId

SECONDS_AN_HOUR = 3600


class WorkerStatus(StrEnum):
    STARTING = "starting"
    IDLE = "idle"
    BUSY = "busy"
    DRAINING = "draining"
    UNHEALTHY = "unhealthy"
    FAILED = "failed"
    STOPPED = "stopped"


@dataclass(frozen=True, eq=False, slots=True)
class WorkerProfile:
    """What a worker can run. Workers that are alike share one object, and it is compared as such:
    what is worked out for a profile holds for all of them. None: it did not say.
    """

    node_types: frozenset[str]
    models: Mapping[str, frozenset[str]] = field(default_factory=dict)
    """Names by folder; a folder that is not here is not known, and not held against it."""
    video_memory: int | None = None
    memory: int | None = None
    labels: Mapping[str, str] = field(default_factory=dict)
    rate: float = 0.0
    """US dollars a second."""
    load_bytes_per_second: float = 1_000_000_000.0
    keeps_models: bool = True
    """Whether models of earlier jobs stay in memory while there is room for them."""
    refused_models: frozenset[str] = frozenset()
    """Names of models that it has and could not load lately: it gets no jobs with them for now."""


@dataclass(frozen=True, slots=True)
class SchedulableWorker:
    """A worker that takes jobs, now or when it has done what it has."""

    id: WorkerId
    profile: WorkerProfile
    warm: frozenset[str] = frozenset()
    """Names of the models in its memory, those of the jobs it has already been given included."""
    slots: int = 1
    """Jobs that it would take now: 0 for one that has enough to do."""
    free_in: float = 0.0
    """Seconds until it would begin a job that it is given now; 0 when it is idle."""
    load: float = 0.0
    """0 idle to 1: the share of its capacity that is taken."""
    idle_since: float = 0.0
    """Monotonic seconds: the longest idle one is the first of equals."""


@dataclass(frozen=True, slots=True)
class PoolLimits:
    """How a pool of workers grows and shrinks [5.4]. Seconds, and US dollars an hour."""

    minimum: int = 0
    maximum: int = 1
    warm: int = 0
    """Idle workers that are kept ready beyond what is busy."""
    idle_timeout: float = 300.0
    start_seconds: float = 60.0
    """What a start takes until one has been seen."""
    cost_cap: float | None = None
    """All workers of the pool together cost no more than this an hour."""


def most_workers(limits: PoolLimits, profile: WorkerProfile | None) -> int:
    """Workers that a pool may have, by number and by cost. `profile` None: nobody knows yet what
    one costs.
    """
    if limits.cost_cap is None:
        return limits.maximum
    if profile is None:
        return min(limits.maximum, 1)
    if profile.rate <= 0:
        return limits.maximum
    return min(limits.maximum, floor(limits.cost_cap / (profile.rate * SECONDS_AN_HOUR) + 1e-9))


@dataclass(frozen=True, slots=True)
class PoolWorker:
    """A worker of a pool as the autoscaler sees it."""

    id: WorkerId
    status: WorkerStatus
    idle_seconds: float = 0.0
    free_in: float = 0.0
    age_seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class PoolView:
    """A pool at one moment. `profile` None: no worker of it has ever been seen."""

    name: str
    driver: str
    limits: PoolLimits
    workers: Sequence[PoolWorker]
    profile: WorkerProfile | None = None
    start_seconds: float = 60.0
    """What a start has taken lately."""
    can_start: bool = True
    """False while the driver has just failed and is given a rest."""
