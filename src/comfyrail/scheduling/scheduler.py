"""The loop that gives jobs to workers: woken by signals, and when a job's patience ends."""

from collections.abc import Sequence
from typing import Protocol

import structlog

from comfyrail.clock import Clock
from comfyrail.errors import StoreUnavailable
from comfyrail.ids import WorkerId, new_attempt_token
from comfyrail.jobs.job import Attempt
from comfyrail.jobs.priority import DEFAULT_TARGETS, WaitTargets
from comfyrail.jobs.queue import Lane, LaneKey, Placement
from comfyrail.jobs.workers import SchedulableWorker
from comfyrail.scheduling.fairness import FairShares
from comfyrail.scheduling.placement import PlacementRules, place
from comfyrail.scheduling.wait_figures import WaitFigures
from comfyrail.store.interface import Assignment, Store
from comfyrail.store.signals import QUEUE, WORKERS

log = structlog.get_logger(__name__)

LANES_A_ROUND = 2000
JOBS_A_LANE = 16
"""A round that has used up a lane's head is followed by another one at once."""
RETRY_SECONDS = 1.0
SHORTEST_REST_SECONDS = 0.01
MANY_LANES_REST_SECONDS = 0.25


class Workers(Protocol):
    """The side of the fleet that the scheduler needs."""

    def schedulable_workers(self) -> Sequence[SchedulableWorker]: ...

    async def start(self, attempts: Sequence[Attempt]) -> None: ...


class Scheduler:
    def __init__(
        self,
        store: Store,
        workers: Workers,
        owner: str,
        lease_seconds: float,
        clock: Clock,
        rules: PlacementRules | None = None,
        targets: WaitTargets = DEFAULT_TARGETS,
    ) -> None:
        self._store = store
        self._workers = workers
        self._owner = owner
        self._lease_seconds = lease_seconds
        self._clock = clock
        self._rules = rules or PlacementRules()
        self._shares = FairShares()
        self._after: LaneKey | None = None
        self.waits = WaitFigures(targets)

    async def run(self) -> None:
        with self._store.signals.subscribe(QUEUE, WORKERS) as woken:
            while True:
                try:
                    wake_in = await self.round()
                except StoreUnavailable as error:
                    log.warning("scheduling_paused", error=error.message)
                    wake_in = RETRY_SECONDS
                except Exception:  # the queue must not stand still for a fault in one round
                    log.exception("scheduling_failed")
                    wake_in = RETRY_SECONDS
                await woken.wait(wake_in)

    async def round(self) -> float | None:
        """Place what can be placed now; the seconds after which to look again unasked.

        A job that no free worker can run is passed over: those behind it need not wait for it.
        """
        while True:
            has_room = any(worker.slots for worker in self._workers.schedulable_workers())
            lanes = await self._read_lanes() if has_room else ()
            if not lanes:
                return None
            limits = self._rules.tenant_limits or self._rules.default_limit
            running = await self._store.running_by_tenant() if limits else {}
            decision = place(
                lanes,
                self._workers.schedulable_workers(),
                self._clock.now(),
                self._shares,
                running,
                self._rules,
            )
            begun = await self._begin(decision.placements)
            self._shares.charge(decision.service)
            self._count_waits(lanes, decision.placements)
            if not begun:
                return self._rest(decision.wake_in)

    def _rest(self, wake_in: float | None) -> float | None:
        if self._after is not None:  # there are lanes that this round has not seen
            wake_in = min(wake_in or MANY_LANES_REST_SECONDS, MANY_LANES_REST_SECONDS)
        return None if wake_in is None else max(SHORTEST_REST_SECONDS, wake_in)

    async def _read_lanes(self) -> Sequence[Lane]:
        """The heads of the lanes; where there are very many, others the next time."""
        lanes = await self._store.queue_lanes(JOBS_A_LANE, LANES_A_ROUND, self._after)
        self._after = lanes[-1].key if len(lanes) == LANES_A_ROUND else None
        return lanes

    def _count_waits(self, lanes: Sequence[Lane], placements: Sequence[Placement]) -> None:
        placed = {placement.job_id for placement in placements}
        now = self._clock.now()
        for lane in lanes if placed else ():
            for job in lane.jobs:
                if job.id in placed:
                    self.waits.note(lane.queue_class, max(0, now - job.submitted_at) / 1000)

    async def _begin(self, placements: Sequence[Placement]) -> int:
        if not placements:
            return 0
        assignments = [
            Assignment(each.job_id, WorkerId(each.worker_id), new_attempt_token(), each)
            for each in placements
        ]
        attempts = await self._store.start_attempts(assignments, self._owner, self._lease_seconds)
        await self._workers.start(attempts)
        return len(attempts)
