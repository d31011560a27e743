"""What a round is given of the queue: the heads of the lanes that some worker can run.

One caller can make thousands of lanes that nobody can ever run. Their groups are remembered, so
that rounds pass over them; and of many lanes a round is given some of each class, the next round
others, so that no class stands outside while another is placed.
"""

from collections.abc import Sequence

from comfyrail.jobs.queue import Lane, LaneKey
from comfyrail.jobs.workers import SchedulableWorker, WorkerProfile
from comfyrail.scheduling.candidates import CandidateMemo, shared_memo
from comfyrail.store.interface import Store

LANES_A_CLASS = 1000
JOBS_A_LANE = 16
"""A round that has used up a lane's head is followed by another one at once."""
GROUPS_KEPT = 100_000


class LaneReader:
    def __init__(
        self,
        store: Store,
        memo: CandidateMemo = shared_memo,
        lanes_a_class: int = LANES_A_CLASS,
        groups_kept: int = GROUPS_KEPT,
    ) -> None:
        self._store = store
        self._memo = memo
        self._lanes_a_class = lanes_a_class
        self._groups_kept = groups_kept
        self._profiles: frozenset[WorkerProfile] = frozenset()
        self._unrunnable: set[str] = set()
        """Groups that no worker of these profiles can run."""
        self._reached: tuple[LaneKey, ...] = ()

    @property
    def has_unseen(self) -> bool:
        """Whether there are lanes that the last look has left for the next one."""
        return bool(self._reached)

    async def read(self, workers: Sequence[SchedulableWorker]) -> Sequence[Lane]:
        """The lanes that one of these workers, free or not, can run."""
        self._note(frozenset(worker.profile for worker in workers))
        lanes = await self._store.queue_lanes(
            JOBS_A_LANE, self._lanes_a_class, *self._reached, skip=self._unrunnable
        )
        self._reached = lanes.reached
        return [lane for lane in lanes if self._is_runnable(lane)]

    def _note(self, profiles: frozenset[WorkerProfile]) -> None:
        """What no worker could run is not run by fewer of them either."""
        if not profiles <= self._profiles:
            self._unrunnable.clear()
        self._profiles = profiles

    def _is_runnable(self, lane: Lane) -> bool:
        if any(self._memo.can_run(lane.needs, profile) for profile in self._profiles):
            return True
        if len(self._unrunnable) < self._groups_kept:
            self._unrunnable.add(lane.needs.group)
        return False
