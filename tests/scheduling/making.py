"""Values that placement works on, with few words."""

from collections.abc import Iterable, Mapping

from comfyrail.clock import Instant
from comfyrail.ids import JobId, TenantId, WorkerId
from comfyrail.jobs.needs import JobNeeds, ModelUse
from comfyrail.jobs.priority import QueueClass
from comfyrail.jobs.queue import Lane, QueuedJob
from comfyrail.jobs.workers import SchedulableWorker, WorkerProfile
from comfyrail.scheduling.fairness import FairShares
from comfyrail.scheduling.placement import Decision, PlacementRules, place

NOW = Instant(1_800_000_000_000)
GIGABYTE = 1_000_000_000
PROFILE = WorkerProfile(frozenset({"A", "B"}), video_memory=24 * GIGABYTE, rate=0.001)


def needs(
    *models: str,
    types: Iterable[str] = (),
    size: int = 8 * GIGABYTE,
    labels: Mapping[str, str] | None = None,
) -> JobNeeds:
    return JobNeeds(
        frozenset(types),
        tuple(ModelUse("checkpoints", name, size) for name in models),
        video_memory=size if models else 0,
        labels=dict(labels or {}),
    )


def lane(
    job_needs: JobNeeds,
    *due_in: float,
    name: str = "job",
    tenant: str = "one",
    queue_class: QueueClass = QueueClass.MEDIUM,
    expected: float = 10.0,
    has_more: bool = False,
) -> Lane:
    """Jobs `name-0`, `name-1` … that should begin in so many seconds from now."""
    jobs = [
        QueuedJob(JobId(f"{name}-{number}"), NOW + round(1000 * seconds), expected, NOW)
        for number, seconds in enumerate(sorted(due_in))
    ]
    return Lane(queue_class, TenantId(tenant), job_needs, jobs, has_more)


def worker(
    name: str,
    *warm: str,
    profile: WorkerProfile = PROFILE,
    slots: int = 1,
    free_in: float = 0.0,
    load: float = 0.0,
    idle_since: float = 0.0,
) -> SchedulableWorker:
    return SchedulableWorker(
        WorkerId(name), profile, frozenset(warm), slots, free_in, load, idle_since
    )


def busy(name: str, *warm: str, free_in: float) -> SchedulableWorker:
    return worker(name, *warm, slots=0, free_in=free_in, load=1.0)


def decide(
    lanes: Iterable[Lane],
    workers: Iterable[SchedulableWorker],
    *,
    shares: FairShares | None = None,
    running: Mapping[TenantId, int] | None = None,
    rules: PlacementRules | None = None,
) -> Decision:
    return place(
        list(lanes),
        list(workers),
        NOW,
        shares or FairShares(),
        running or {},
        rules or PlacementRules(),
    )


def pairs(decision: Decision) -> list[tuple[str, str]]:
    return [(each.job_id, each.worker_id) for each in decision.placements]
