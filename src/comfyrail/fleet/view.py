"""A worker as callers see it [5.1]."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from comfyrail.clock import Instant
from comfyrail.fleet.health import WorkerHealth
from comfyrail.ids import JobId, WorkerId
from comfyrail.jobs.faults import Fault
from comfyrail.jobs.workers import WorkerStatus


@dataclass(frozen=True, slots=True)
class WorkerView:
    """What a caller may see of a worker. Memory is that of its device, in bytes."""

    id: WorkerId
    driver: str
    endpoint: str | None
    status: WorkerStatus
    current_jobs: tuple[JobId, ...]
    """Those that it has been given: the one that runs, and those behind it."""
    node_types: int
    device: str | None
    memory_total: int | None
    memory_free: int | None
    added_at: Instant
    last_active_at: Instant | None
    error: str | None
    pool: str | None = None
    labels: Mapping[str, str] = field(default_factory=dict)
    models: int = 0
    """Files of models that it has."""
    warm_models: tuple[str, ...] = ()
    """Those that its last jobs have loaded, as far as they fit into its memory."""
    load: float = 0.0
    health: WorkerHealth = field(default_factory=WorkerHealth)
    is_cordoned: bool = False
    error_detail: Fault | None = None
    """The same as `error`, with its category, its code and what to do about it."""
