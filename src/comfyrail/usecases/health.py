"""Whether the server can do its work now."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

from comfyrail.errors import NotReady
from comfyrail.fleet.fleet import Fleet
from comfyrail.jobs.states import JobState
from comfyrail.jobs.workers import WorkerStatus
from comfyrail.store.interface import Store


@dataclass(frozen=True, slots=True)
class ReadinessReport:
    queued: int
    processing: int
    workers: Mapping[str, int]


class CheckReadiness:
    """Raises StoreUnavailable or NotReady unless a submitted job would be kept and run now."""

    def __init__(self, store: Store, fleet: Fleet) -> None:
        self._store = store
        self._fleet = fleet

    async def __call__(self) -> ReadinessReport:
        await self._store.check()
        workers = Counter(str(view.status) for view in self._fleet.views())
        if not workers[WorkerStatus.IDLE] + workers[WorkerStatus.BUSY]:
            raise NotReady(
                "No worker is ready yet. Jobs are accepted and wait for one.",
                details={"workers": dict(workers)},
                retry_after=1.0,
            )
        counts = await self._store.count_jobs()
        return ReadinessReport(counts[JobState.QUEUED], counts[JobState.PROCESSING], dict(workers))
