"""Whether the server can do its work now."""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from comfyrail.errors import NotReady
from comfyrail.fleet.fleet import Fleet
from comfyrail.fleet.pools import Pools
from comfyrail.jobs.workers import WorkerStatus, most_workers
from comfyrail.store.interface import Store


@dataclass(frozen=True, slots=True)
class ReadinessReport:
    queued: int
    processing: int
    workers: Mapping[str, int]
    can_start: int
    """Workers that pools without a single one would start for work."""
    is_paused: bool


class CheckReadiness:
    """Raises StoreUnavailable or NotReady unless a submitted job would be kept, and run now or as
    soon as a pool has started a worker for it.
    """

    def __init__(
        self,
        store: Store,
        fleet: Fleet,
        pools: Pools,
        obstacles: Sequence[Callable[[], None]] = (),
    ) -> None:
        """`obstacles` raise while something else stands in the way."""
        self._store = store
        self._fleet = fleet
        self._pools = pools
        self._obstacles = obstacles

    async def __call__(self) -> ReadinessReport:
        for raise_if_any in self._obstacles:
            raise_if_any()
        await self._store.check()
        workers = Counter(str(view.status) for view in self._fleet.views())
        can_start = self._can_start()
        if not workers[WorkerStatus.IDLE] + workers[WorkerStatus.BUSY] + can_start:
            standings = self._pools.standings()
            troubles = {name: pool.error for name, pool in standings.items() if pool.error}
            raise NotReady(
                "No worker is ready yet. Jobs are accepted and wait for one.",
                details={"workers": dict(workers), "pools": troubles},
                retry_after=1.0,
            )
        totals = await self._store.queue_totals()
        return ReadinessReport(
            sum(jobs for jobs, _ in totals.by_class.values()) + totals.scheduled,
            totals.processing,
            dict(workers),
            can_start,
            (await self._store.queue_state()).is_paused,
        )

    def _can_start(self) -> int:
        """A pool that has scaled to zero is at rest, not out of order."""
        return sum(
            most_workers(pool.limits, pool.profile)
            for pool in self._pools.views()
            if not pool.limits.minimum and pool.profile is not None and pool.can_start
        )
