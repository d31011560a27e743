"""The loop that gives jobs to workers: woken by signals, and when a job's patience ends."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Protocol

import structlog

from comfyrail.clock import Clock
from comfyrail.errors import StoreUnavailable
from comfyrail.ids import WorkerId, new_attempt_token
from comfyrail.jobs.job import Attempt
from comfyrail.jobs.priority import DEFAULT_TARGETS, WaitTargets
from comfyrail.jobs.queue import Lane, Placement
from comfyrail.jobs.workers import SchedulableWorker
from comfyrail.scheduling.fairness import FairShares
from comfyrail.scheduling.lane_reader import LaneReader
from comfyrail.scheduling.placement import Decision, PlacementRules, place
from comfyrail.scheduling.wait_figures import WaitFigures
from comfyrail.store.interface import Assignment, Store
from comfyrail.store.signals import QUEUE, WORKERS

log = structlog.get_logger(__name__)

RETRY_SECONDS = 1.0
SHORTEST_REST_SECONDS = 0.01
LONGEST_REST_SECONDS = 1.0
"""Between looks at a queue with more lanes than one look takes in, while nothing can begin and
nothing happens: each rest is twice as long as the one before."""


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
        self._rules = replace(rules or PlacementRules(), targets=targets)
        self._shares = FairShares()
        self._lanes = LaneReader(store)
        self._rest_seconds = SHORTEST_REST_SECONDS
        self._held: set[str] = set()
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
                if await woken.wait(wake_in):
                    self._rest_seconds = SHORTEST_REST_SECONDS

    def hold(self, reason: str) -> None:
        """Give out no jobs until every reason for that is gone."""
        self._held.add(reason)

    def release(self, reason: str) -> None:
        self._held.discard(reason)
        self._store.signals.notify(QUEUE)

    async def round(self) -> float | None:
        """Place what can be placed now; the seconds after which to look again unasked.

        A job that no free worker can run is passed over: those behind it need not wait for it.
        """
        while not self._held:
            workers = self._workers.schedulable_workers()
            if not any(worker.slots for worker in workers):
                return None
            lanes = await self._lanes.read(workers)
            decision = await self._decide(lanes)
            begun = await self._begin(decision.placements)
            self._shares.charge(decision.service)
            self._count_waits(lanes, decision.placements)
            if not begun:
                return self._rest(decision.wake_in)
            self._rest_seconds = SHORTEST_REST_SECONDS
        return None

    async def _decide(self, lanes: Sequence[Lane]) -> Decision:
        if not lanes:
            return Decision(())
        limits = self._rules.tenant_limits or self._rules.default_limit
        running = await self._store.running_by_tenant() if limits else {}
        is_bound = any(lane.needs.worker for lane in lanes)
        bound = await self._store.running_for_worker() if is_bound else {}
        workers = self._workers.schedulable_workers()
        return place(
            lanes,
            workers,
            self._clock.now(),
            self._shares,
            running,
            self._rules,
            running_for_worker=bound,
        )

    def _rest(self, wake_in: float | None) -> float | None:
        if self._lanes.has_unseen:
            rest, longer = self._rest_seconds, 2 * self._rest_seconds
            self._rest_seconds = min(longer, LONGEST_REST_SECONDS)
            wake_in = rest if wake_in is None else min(wake_in, rest)
        return None if wake_in is None else max(SHORTEST_REST_SECONDS, wake_in)

    def _count_waits(self, lanes: Sequence[Lane], placements: Sequence[Placement]) -> None:
        placed = {placement.job_id for placement in placements}
        now = self._clock.now()
        for lane in lanes if placed else ():
            for job in lane.jobs:
                if job.id in placed:
                    self.waits.note(lane.queue_class, max(0, now - job.submitted_at) / 1000)

    async def _begin(self, placements: Sequence[Placement]) -> int:
        if not placements or self._held:
            return 0
        assignments = [
            Assignment(each.job_id, WorkerId(each.worker_id), new_attempt_token(), each)
            for each in placements
        ]
        attempts = await self._store.start_attempts(assignments, self._owner, self._lease_seconds)
        await self._workers.start(attempts)
        return len(attempts)
