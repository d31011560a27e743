"""Counts the workers of a fleet for its figures [5.6]."""

from collections.abc import Iterable
from dataclasses import dataclass

from comfyrail.fleet.figures import FleetFigures, PoolFigures
from comfyrail.fleet.worker import LiveWorker
from comfyrail.jobs.workers import WorkerStatus

_BROKEN = frozenset((WorkerStatus.FAILED, WorkerStatus.UNHEALTHY))


def count_figures(
    workers: Iterable[LiveWorker], pool_names: Iterable[str], now: float
) -> FleetFigures:
    """Pools without workers are counted too."""
    overall = _Count()
    pools = {name: _Count() for name in pool_names}
    for worker in workers:
        overall.add(worker, now)
        if worker.traits.pool is not None:
            pools.setdefault(worker.traits.pool, _Count()).add(worker, now)
    return FleetFigures(overall.figures(), {name: pools[name].figures() for name in sorted(pools)})


@dataclass(slots=True)
class _Count:
    total: int = 0
    available: int = 0
    allocated: int = 0
    idle: int = 0
    running: int = 0
    starting: int = 0
    failed: int = 0
    busy_seconds: float = 0.0
    up_seconds: float = 0.0

    def add(self, worker: LiveWorker, now: float) -> None:
        status = worker.status
        self.total += 1
        self.available += status is WorkerStatus.IDLE and not worker.is_cordoned
        self.allocated += bool(worker.attempts.workload)
        self.idle += status is WorkerStatus.IDLE
        self.running += status is WorkerStatus.BUSY
        self.starting += status is WorkerStatus.STARTING
        self.failed += status in _BROKEN
        busy, up = worker.attempts.meter.measure(now)
        self.busy_seconds += busy
        self.up_seconds += up

    def figures(self) -> PoolFigures:
        return PoolFigures(
            self.total,
            self.available,
            self.allocated,
            self.busy_seconds / self.up_seconds if self.up_seconds else 0.0,
            self.idle,
            self.running,
            self.starting,
            self.failed,
        )
