"""The queue as the scheduler sees it: lanes of jobs that are alike."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from comfyrail.clock import Instant
from comfyrail.ids import JobId, TenantId
from comfyrail.jobs.needs import JobNeeds
from comfyrail.jobs.priority import QueueClass


@dataclass(frozen=True, slots=True)
class QueuedJob:
    """What placement needs to know of one job. `rank`: the instant by which it should start."""

    id: JobId
    rank: int
    expected_seconds: float
    submitted_at: Instant


@dataclass(frozen=True, slots=True)
class Lane:
    """Queued jobs of one class, tenant and group, earliest deadline first.

    `has_more`: there are further ones behind those in `jobs`.
    """

    queue_class: QueueClass
    tenant: TenantId
    needs: JobNeeds
    jobs: Sequence[QueuedJob]
    has_more: bool = False

    @property
    def key(self) -> "LaneKey":
        return LaneKey(self.queue_class, self.tenant, self.needs.group)


@dataclass(frozen=True, slots=True, order=True)
class LaneKey:
    queue_class: QueueClass
    tenant: TenantId
    group: str


@dataclass(frozen=True, slots=True)
class Backlog:
    """What waits in one group, over all tenants of a class: for scaling and for waits."""

    queue_class: QueueClass
    needs: JobNeeds
    jobs: int
    expected_seconds: float
    oldest_rank: int


@dataclass(frozen=True, slots=True)
class QueuePlace:
    """Where a job stands: its place from 1 by deadline, and the work before it in seconds."""

    position: int
    seconds_ahead: float


@dataclass(frozen=True, slots=True)
class QueueTotals:
    """Jobs that wait, and the seconds they are expected to take, by class.

    `scheduled` are held back for later, `late` should have started by now.
    """

    by_class: Mapping[QueueClass, tuple[int, float]]
    scheduled: int
    processing: int
    late: int


@dataclass(frozen=True, slots=True)
class QueueState:
    """Whether the queue stands still, since when and why."""

    paused_at: Instant | None = None
    reason: str | None = None

    @property
    def is_paused(self) -> bool:
        return self.paused_at is not None


@dataclass(frozen=True, slots=True)
class Placement:
    """A decision: this job on this worker, and why. Kept with the attempt and told in its event.

    `score` is the GPU score [5.3]; `cost` US dollars as expected on that worker.
    """

    job_id: JobId
    worker_id: str
    score: float = 0.0
    cost: float | None = None
    warm_models: int = 0
    models: int = 0
    loads_bytes: int = 0
