"""The loop that lets pools grow and shrink."""

import asyncio
from collections.abc import Sequence
from typing import Protocol

import structlog

from comfyrail.clock import Clock, Instant
from comfyrail.errors import ComfyrailError, StoreUnavailable
from comfyrail.ids import WorkerId
from comfyrail.jobs.priority import DEFAULT_TARGETS, WaitTargets
from comfyrail.jobs.queue import Backlog
from comfyrail.jobs.workers import PoolView, SchedulableWorker, WorkerProfile, WorkerStatus
from comfyrail.scheduling.autoscaling import ScaleDecision, Supply, plan_scale
from comfyrail.scheduling.forecast import HISTORY_MINUTES, ArrivalHistory, Forecast
from comfyrail.store.interface import Store
from comfyrail.store.signals import QUEUE, WORKERS

log = structlog.get_logger(__name__)

LOOK_SECONDS = 5.0
SHORTEST_REST_SECONDS = 1.0
REST_PER_LOOK = 20.0
"""Looking takes a twentieth of the time at most: a very long queue takes long to count."""

_CAPACITY = frozenset((WorkerStatus.STARTING, WorkerStatus.IDLE, WorkerStatus.BUSY))


class ScalablePools(Protocol):
    """The side of the fleet's pools that the autoscaler needs."""

    def views(self) -> Sequence[PoolView]: ...

    async def start_one(self, name: str) -> WorkerId: ...

    async def retire(self, worker_id: WorkerId) -> None: ...


class Workers(Protocol):
    def schedulable_workers(self) -> Sequence[SchedulableWorker]: ...


class Autoscaler:
    def __init__(
        self,
        store: Store,
        pools: ScalablePools,
        workers: Workers,
        clock: Clock,
        targets: WaitTargets = DEFAULT_TARGETS,
        shortest_rest: float = SHORTEST_REST_SECONDS,
    ) -> None:
        self._store = store
        self._pools = pools
        self._workers = workers
        self._clock = clock
        self._targets = targets
        self._shortest_rest = shortest_rest
        self._history = ArrivalHistory()
        self._forecast = Forecast()

    @property
    def forecast(self) -> Forecast:
        """The latest."""
        return self._forecast

    async def run(self) -> None:
        with self._store.signals.subscribe(QUEUE, WORKERS) as woken:
            while True:
                wake_in, took = LOOK_SECONDS, 0.0
                try:
                    wake_in, took = await self.look()
                except StoreUnavailable as error:
                    log.warning("scaling_paused", error=error.message)
                except Exception:  # pools must not stay as they are for a fault in one look
                    log.exception("scaling_failed")
                await asyncio.sleep(max(self._shortest_rest, REST_PER_LOOK * took))
                await woken.wait(wake_in)

    async def look(self) -> tuple[float, float]:
        """Decide for each pool once, the cheapest first: what it takes on is not counted again.
        The seconds after which to look again unasked, and those that it took to see what waits.
        """
        now, began = self._clock.now(), self._clock.monotonic()
        views = sorted(self._pools.views(), key=_cheapest_first)
        if not views:
            return LOOK_SECONDS, 0.0
        await self._learn(now)
        demand = await self._demand()
        took = self._clock.monotonic() - began
        supplies = self._supplies_outside(views)
        for view in views:
            decision = plan_scale(view, demand, supplies, self._forecast, now, self._targets)
            await self._carry_out(view, decision)
            supplies = [*supplies, *_supply_of(view, decision.start)]
        return min(LOOK_SECONDS, *(_next_timeout(view) for view in views)), took

    async def _demand(self) -> Sequence[Backlog]:
        """While the queue stands still nobody needs a worker for what is in it; nor does a new one
        help what may go to a certain worker only.
        """
        if (await self._store.queue_state()).is_paused:
            return ()
        return [each for each in await self._store.backlog() if not each.needs.worker]

    async def _learn(self, now: Instant) -> None:
        minute = now // 60_000
        if self._history.taken_to == minute:
            return
        since = self._history.taken_to
        since = minute - HISTORY_MINUTES if since is None else since
        arrivals = await self._store.arrivals(Instant(since * 60_000))
        self._history.take_in(arrivals, minute)
        self._forecast = self._history.forecast(minute)

    def _supplies_outside(self, views: Sequence[PoolView]) -> Sequence[Supply]:
        """Workers that are in no pool, by what they can run."""
        pooled = {worker.id for view in views for worker in view.workers}
        free: dict[WorkerProfile, list[float]] = {}
        for worker in self._workers.schedulable_workers():
            if worker.id not in pooled:
                free.setdefault(worker.profile, []).append(worker.free_in)
        return [Supply(profile, free_in) for profile, free_in in free.items()]

    async def _carry_out(self, view: PoolView, decision: ScaleDecision) -> None:
        if decision.start or decision.retire:
            log.info(
                "pool_scaled",
                pool=view.name,
                start=decision.start,
                retire=list(decision.retire),
                workers=len(view.workers),
                reason=decision.reason,
            )
        try:
            for _ in range(decision.start):
                await self._pools.start_one(view.name)
            for worker_id in decision.retire:
                await self._pools.retire(worker_id)
        except ComfyrailError as error:
            log.warning("pool_not_scaled", pool=view.name, error=error.message)


def _cheapest_first(view: PoolView) -> tuple[float, str]:
    return (float("inf") if view.profile is None else view.profile.rate, view.name)


def _next_timeout(view: PoolView) -> float:
    """Seconds until the next idle worker has been idle for too long."""
    left = (
        view.limits.idle_timeout - each.idle_seconds
        for each in view.workers
        if each.status is WorkerStatus.IDLE
    )
    return min((max(0.0, each) for each in left if each > 0), default=LOOK_SECONDS)


def _supply_of(view: PoolView, started: int) -> Sequence[Supply]:
    """The pool's workers for the pools after it."""
    if view.profile is None:
        return ()
    free_in = [
        max(0.0, view.start_seconds - each.age_seconds)
        if each.status is WorkerStatus.STARTING
        else each.free_in
        for each in view.workers
        if each.status in _CAPACITY
    ]
    free_in += [view.start_seconds] * started
    return [Supply(view.profile, free_in)] if free_in else ()
