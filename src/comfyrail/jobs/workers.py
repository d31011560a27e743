"""What scheduling and fleet both say about workers."""

from dataclasses import dataclass
from enum import StrEnum

from comfyrail.ids import WorkerId


class WorkerStatus(StrEnum):
    STARTING = "starting"
    IDLE = "idle"
    BUSY = "busy"
    DRAINING = "draining"
    UNHEALTHY = "unhealthy"
    FAILED = "failed"
    STOPPED = "stopped"


@dataclass(frozen=True, slots=True)
class FreeWorker:
    """A worker that can take a job now; `idle_since` in seconds of the monotonic clock."""

    id: WorkerId
    node_types: frozenset[str]
    idle_since: float
