"""Pools: workers that are alike, made and ended by a driver as they are needed [5.4].

A pool's worker has a record before it exists, so that none is ever running that nobody knows of.
What the pool's workers can run is remembered under the id of its likeness (`gpu-0` of pool `gpu`),
which is never a worker: jobs are checked against it while the pool has no worker at all.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import structlog

from comfyrail.clock import Clock
from comfyrail.errors import ComfyrailError, Conflict, NotFound, StoreUnavailable, WorkerError
from comfyrail.fleet.drivers.interface import Driver, HostContext, WorkerHost
from comfyrail.fleet.drivers.registry import driver_named
from comfyrail.fleet.figures import PoolStanding
from comfyrail.fleet.fleet import Fleet
from comfyrail.fleet.pool_state import PoolRules, PoolState
from comfyrail.fleet.traits import WorkerTraits, labels_of
from comfyrail.fleet.warm_up import Prompt
from comfyrail.fleet.worker import LiveWorker
from comfyrail.ids import WorkerId
from comfyrail.jobs.workers import (
    PoolLimits,
    PoolView,
    PoolWorker,
    WorkerProfile,
    WorkerStatus,
    most_workers,
)
from comfyrail.store.interface import Store, WorkerRecord
from comfyrail.store.signals import WORKERS

log = structlog.get_logger(__name__)

LOOK_SECONDS = 1.0
SHORTEST_REST_SECONDS = 0.05
REST_PER_LOOK = 10.0
"""Looking at pools takes a tenth of a core at most, however many workers they have."""
FAILED_STARTS = 3
FIRST_RETRY_SECONDS = 1.0
LAST_RETRY_SECONDS = 60.0
_LEAVING = frozenset((WorkerStatus.DRAINING, WorkerStatus.STOPPED))


@dataclass(frozen=True, slots=True)
class Pool:
    """As a person wrote it. `config`: settings of the driver for each worker."""

    name: str
    driver: str
    config: Mapping[str, Any] = field(default_factory=dict)
    limits: PoolLimits = field(default_factory=PoolLimits)
    labels: Mapping[str, str] = field(default_factory=dict)
    warm_up: Prompt | None = None

    @property
    def likeness(self) -> WorkerId:
        return WorkerId(f"{self.name}-0")


class Pools:
    """Keeps each pool's minimum, and removes what does not come up. More workers than that are
    others' decision. `run` goes on until it is cancelled.
    """

    def __init__(
        self,
        fleet: Fleet,
        store: Store,
        clock: Clock,
        hosts: HostContext,
        rules: PoolRules | None = None,
        drivers: Callable[[str], Driver] = driver_named,
    ) -> None:
        self._fleet = fleet
        self._store = store
        self._clock = clock
        self._hosts = hosts
        self._rules = rules or PoolRules()
        self._drivers = drivers
        self._pools: dict[str, Pool] = {}
        self._states: dict[str, PoolState] = {}
        self._ending: dict[WorkerId, asyncio.Task[None]] = {}

    # What others ask

    def list(self) -> Sequence[Pool]:
        return list(self._pools.values())

    def get(self, name: str) -> Pool:
        """Raises NotFound."""
        pool = self._pools.get(name)
        if pool is None:
            known = ", ".join(sorted(self._pools)) or "none"
            raise NotFound(f"There is no pool '{name}'. The pools are: {known}.")
        return pool

    def trouble(self, name: str) -> str | None:
        """Why the pool's last worker did not come up; None when one has since."""
        self.get(name)
        return self._states[name].error

    def standings(self) -> Mapping[str, PoolStanding]:
        """How each pool fares, by name."""
        return {name: self._standing(pool) for name, pool in sorted(self._pools.items())}

    def pool_of(self, worker_id: str) -> str | None:
        """The pool to whose workers alone this name belongs; None where anybody may have it."""
        name, _, number = worker_id.rpartition("-")
        return name if name in self._pools and number.isdecimal() else None

    def views(self) -> Sequence[PoolView]:
        return [self._view(pool) for pool in self._pools.values()]

    def is_ending(self, worker_id: WorkerId) -> bool:
        return worker_id in self._ending

    # What it is told

    async def open(self, pools: Iterable[Pool]) -> None:
        """The server has started: take up the pools and the workers that they had. Workers of
        pools that are no more, or may have fewer now, are ended.
        """
        for each in pools:
            await self.add(each)
        for record in sorted(await self._store.list_workers(), key=_by_number):
            if record.pool is None:
                continue
            pool = self._pools.get(record.pool)
            if pool is not None and record.id == pool.likeness:
                continue
            state = None if pool is None else self._states[pool.name]
            if pool is not None and state is not None:
                state.reserve_number(record.id.removeprefix(f"{pool.name}-"))
                if len(self._fleet.members(pool.name)) < pool.limits.maximum:
                    self._take_up(record, pool, state)
                    continue
            self.end_leaked(record, state)

    async def add(self, pool: Pool) -> None:
        """Keep a pool. Raises WorkerRefused when its settings are wrong, Conflict when there is
        one of this name.
        """
        if pool.name in self._pools:
            raise Conflict(f"There is a pool '{pool.name}' already.")
        driver = self._drivers(pool.driver)
        config = driver.check(pool.config)
        known = {record.id for record in await self._store.list_workers()}
        if pool.likeness not in known:
            await self._store.save_worker(self._record(pool, pool.likeness))
        self._pools[pool.name] = pool
        self._states[pool.name] = PoolState(driver, config, self._rules, self._clock)
        self._fleet.open_pool(pool.name, pool.likeness)
        self._store.signals.notify(WORKERS)

    async def change_limits(self, name: str, limits: PoolLimits) -> None:
        pool = self.get(name)
        self._pools[name] = replace(pool, limits=limits)
        self._store.signals.notify(WORKERS)

    async def remove(self, name: str) -> None:
        """End a pool and all of its workers at once; their jobs go back to the queue."""
        pool = self.get(name)
        state = self._states[name]
        del self._pools[name], self._states[name]
        await asyncio.gather(
            *(
                self._end(each.id, state, self._stopping(each.id))
                for each in self._fleet.members(name)
            )
        )
        await self._store.remove_worker(pool.likeness)
        self._fleet.close_pool(name, pool.likeness)

    async def start_one(self, name: str) -> WorkerId:
        """Begin to start a worker. Its record is written first."""
        pool = self.get(name)
        state = self._states[name]
        number = state.take_number()
        while self._fleet.has(WorkerId(f"{name}-{number}")):
            number = state.take_number()  # someone gave this name to another worker
        record = self._record(pool, WorkerId(f"{name}-{number}"))
        try:
            host = state.driver.host(record.id, state.config, self._hosts)
            await self._store.save_worker(record)
        except BaseException as error:
            state.give_number_back(number)
            state.note_failure(str(error))
            raise
        self._add(record, pool, host)
        log.info("pool_worker_started", pool=name, worker_id=record.id)
        return record.id

    async def retire(self, worker_id: WorkerId) -> None:
        """Drain a worker; it is stopped and removed when it has ended what it has."""
        await self._fleet.drain(worker_id)
        log.info("pool_worker_retired", worker_id=worker_id)

    def end_leaked(self, record: WorkerRecord, state: PoolState | None = None) -> None:
        """Begin to end a worker that nobody wants any more, wherever it runs, and to forget it:
        its pool has no place for it, or it is in the fleet file no more.
        """
        try:
            host = self._host_of(record)
        except ComfyrailError as error:
            # Its record stays, so that the next start of the server tries again.
            log.warning("leaked_worker_not_ended", worker_id=record.id, error=error.message)
        else:
            log.info("leaked_worker_found", worker_id=record.id, pool=record.pool)
            self._begin_to_end(record.id, state, host.stop)

    # The loop

    async def run(self) -> None:
        with self._store.signals.subscribe(WORKERS) as woken:
            while True:
                began = self._clock.monotonic()
                try:
                    await self.look()
                except StoreUnavailable as error:
                    log.warning("pools_not_kept", error=error.message)
                except Exception:  # pools must be kept after any fault in one look
                    log.exception("pool_keeping_failed")
                took = self._clock.monotonic() - began
                await asyncio.sleep(max(SHORTEST_REST_SECONDS, REST_PER_LOOK * took))
                await woken.wait(LOOK_SECONDS)

    async def look(self) -> None:
        """Remove what has been drained or does not come up, then start what is missing."""
        for name, state in list(self._states.items()):
            for worker in self._fleet.members(name):
                if worker.id not in self._ending:
                    self._look_at(worker, state)
        for name, pool in list(self._pools.items()):
            await self._keep_minimum(pool, self._states[name])

    async def close(self) -> None:
        """The server stops: what is being ended is ended by the next one."""
        for task in list(self._ending.values()):
            task.cancel()
        await asyncio.gather(*self._ending.values(), return_exceptions=True)

    def _look_at(self, worker: LiveWorker, state: PoolState) -> None:
        if worker.start_seconds is not None:
            state.note_ready(worker.id, worker.start_seconds)
        if worker.status is WorkerStatus.STOPPED:
            self._begin_to_end(worker.id, state, self._stopping(worker.id))
        elif worker.status is not WorkerStatus.DRAINING:
            trouble = self._trouble_of(worker)
            if trouble is not None:
                log.warning("pool_worker_given_up", worker_id=worker.id, error=trouble)
                state.note_failure(trouble)
                self._begin_to_end(worker.id, state, self._stopping(worker.id))

    def _trouble_of(self, worker: LiveWorker) -> str | None:
        """Why a worker is to be given up."""
        if worker.status is WorkerStatus.FAILED or worker.life.failed_starts >= FAILED_STARTS:
            return worker.error or "it did not start"
        if worker.unready_seconds() <= self._rules.ready_limit:
            return None
        reason = f": {worker.error}" if worker.error else "."
        return f"It was not ready within {self._rules.ready_limit:g} s{reason}"

    async def _keep_minimum(self, pool: Pool, state: PoolState) -> None:
        """A pool that nobody has ever seen a worker of starts one, to learn what it can run."""
        if not state.can_start:
            return
        wanted = max(pool.limits.minimum, 0 if self._profile_of(pool) else 1)
        members = self._fleet.members(pool.name)
        present = sum(each.status not in _LEAVING for each in members)
        # Those that leave are still there: together they must not be more than the maximum.
        room = most_workers(pool.limits, self._profile_of(pool)) - len(members)
        for _ in range(min(wanted - present, room)):
            try:
                await self.start_one(pool.name)
            except ComfyrailError as error:
                log.warning("pool_worker_not_started", pool=pool.name, error=error.message)
                return

    # Small parts

    def _standing(self, pool: Pool) -> PoolStanding:
        state = self._states[pool.name]
        return PoolStanding(
            pool.driver,
            pool.limits.minimum,
            pool.limits.maximum,
            state.error,
            state.rests_until,
        )

    def _view(self, pool: Pool) -> PoolView:
        state = self._states[pool.name]
        return PoolView(
            name=pool.name,
            driver=pool.driver,
            limits=pool.limits,
            workers=[_pool_worker(worker) for worker in self._fleet.members(pool.name)],
            profile=self._profile_of(pool),
            start_seconds=state.start_seconds or pool.limits.start_seconds,
            can_start=state.can_start,
        )

    def _profile_of(self, pool: Pool) -> WorkerProfile | None:
        return self._fleet.remembered_profile(pool.likeness, labels_of(self._traits(pool)))

    def _traits(self, pool: Pool) -> WorkerTraits:
        return WorkerTraits(pool.name, pool.labels, pool.warm_up, pool.likeness)

    def _record(self, pool: Pool, worker_id: WorkerId) -> WorkerRecord:
        return WorkerRecord(
            worker_id,
            pool.driver,
            None,
            self._clock.now(),
            pool=pool.name,
            config=pool.config,
            labels=pool.labels,
        )

    def _take_up(self, record: WorkerRecord, pool: Pool, state: PoolState) -> None:
        try:
            host = state.driver.host(record.id, state.config, self._hosts)
        except ComfyrailError as error:
            log.warning("worker_left_out", worker_id=record.id, error=error.message)
        else:
            self._add(record, pool, host)

    def _add(self, record: WorkerRecord, pool: Pool, host: WorkerHost) -> None:
        traits = self._traits(pool)
        self._fleet.add(record.id, host, record.added_at, traits, is_cordoned=record.is_cordoned)

    def _begin_to_end(
        self, worker_id: WorkerId, state: PoolState | None, stop: Callable[[], Awaitable[None]]
    ) -> None:
        task = asyncio.create_task(self._end(worker_id, state, stop), name=f"end-{worker_id}")
        self._ending[worker_id] = task
        task.add_done_callback(lambda _: self._ending.pop(worker_id, None))

    async def _end(
        self, worker_id: WorkerId, state: PoolState | None, stop: Callable[[], Awaitable[None]]
    ) -> None:
        """A worker that cannot be ended now is not forgotten: it may cost money."""
        pause = FIRST_RETRY_SECONDS
        while True:
            try:
                await stop()
                await self._store.remove_worker(worker_id)
            except (WorkerError, StoreUnavailable) as error:
                log.warning("pool_worker_not_ended", worker_id=worker_id, error=error.message)
            except Exception:  # also after a fault of ours it must not be left running
                log.exception("pool_worker_not_ended", worker_id=worker_id)
            else:
                break
            await asyncio.sleep(pause)
            pause = min(LAST_RETRY_SECONDS, pause * 2)
        self._fleet.forget(worker_id)
        if state is not None:
            state.forget(worker_id)
        self._store.signals.notify(WORKERS)
        log.info("pool_worker_removed", worker_id=worker_id)

    def _stopping(self, worker_id: WorkerId) -> Callable[[], Awaitable[None]]:
        async def stop() -> None:
            if self._fleet.has(worker_id):
                await self._fleet.remove(worker_id)

        return stop

    def _host_of(self, record: WorkerRecord) -> WorkerHost:
        driver = self._drivers(record.driver)
        return driver.host(record.id, driver.check(record.config), self._hosts)


def _by_number(record: WorkerRecord) -> tuple[int, str]:
    """The lowest numbers first: they stay."""
    return len(record.id), record.id


def _pool_worker(worker: LiveWorker) -> PoolWorker:
    status = worker.status
    if status is WorkerStatus.UNHEALTHY and worker.start_seconds is None:
        status = WorkerStatus.STARTING  # it is tried again, and given up in time
    if worker.is_cordoned and status in {WorkerStatus.IDLE, WorkerStatus.BUSY}:
        status = WorkerStatus.DRAINING  # it takes no jobs
    return PoolWorker(
        worker.id,
        status,
        idle_seconds=worker.idle_seconds(),
        free_in=worker.attempts.workload.free_in(),
        age_seconds=worker.age_seconds(),
    )
