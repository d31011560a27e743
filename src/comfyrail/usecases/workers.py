"""Adding, listing, draining and removing workers [5.1, 5.2, 10.3]."""

import asyncio
import hashlib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any
from weakref import WeakValueDictionary

from comfyrail.access.permissions import Permission
from comfyrail.access.principal import Principal
from comfyrail.clock import Clock
from comfyrail.errors import (
    Conflict,
    DriverRefused,
    WorkerError,
    WorkerRefused,
    WorkerUnreachable,
)
from comfyrail.fleet.comfyui.client import QUICK_SECONDS, ComfyClient
from comfyrail.fleet.drivers.interface import HostContext, WorkerHost
from comfyrail.fleet.drivers.registry import driver_named
from comfyrail.fleet.figures import FleetFigures, PoolStanding
from comfyrail.fleet.fleet import Fleet
from comfyrail.fleet.pools import Pools
from comfyrail.fleet.traits import WorkerTraits, labels_fault
from comfyrail.fleet.view import WorkerView
from comfyrail.ids import WorkerId
from comfyrail.jobs.workers import WorkerStatus
from comfyrail.store.interface import Store, WorkerRecord

WORKER_NAME = re.compile(r"[a-z0-9]([a-z0-9-]{0,38}[a-z0-9])?")
MOST_LOG_LINES = 10_000
LOOK_SECONDS = 0.1
KNOCK_ADVICE = "Is it running, and is the address right?"


@dataclass(frozen=True, slots=True)
class NewWorker:
    """What someone asks for. `name` None: the server finds one."""

    driver: str
    config: Mapping[str, Any]
    name: str | None = None
    labels: Mapping[str, str] = field(default_factory=dict)


class Workers:
    def __init__(
        self, store: Store, fleet: Fleet, clock: Clock, context: HostContext, pools: Pools
    ) -> None:
        self._store = store
        self._fleet = fleet
        self._clock = clock
        self._context = context
        self._pools = pools
        self._adding = asyncio.Lock()
        """Held while a name is chosen and written down: never while someone else is waited for."""
        self._removing: WeakValueDictionary[WorkerId, asyncio.Lock] = WeakValueDictionary()
        """By worker: to end one may take its time."""

    def list(self, principal: Principal) -> Sequence[WorkerView]:
        return [_as_seen_by(principal, view) for view in self._fleet.views()]

    def show(self, principal: Principal, worker_id: WorkerId) -> WorkerView:
        return _as_seen_by(principal, self._fleet.view(worker_id))

    def figures(self) -> FleetFigures:
        return self._fleet.figures()

    def pools(self) -> Mapping[str, PoolStanding]:
        """What each pool is to be, and how its driver fares."""
        return self._pools.standings()

    async def add(self, wanted: NewWorker) -> WorkerView:
        """Add a worker of any driver. One that is already running is refused unless it answers."""
        config = driver_named(wanted.driver).check(wanted.config)
        if wanted.driver == "static":
            # Before anything is held: whoever is slow to answer must not keep others waiting.
            await self._prepare(wanted, config)
            await self._knock(config["url"])
        async with self._adding:
            return await self._add(wanted, config)

    async def find_or_add(self, wanted: NewWorker) -> tuple[WorkerView, bool]:
        """The worker that is where this one would be, or this one; and whether it is new."""
        try:
            return await self.add(wanted), True
        except Conflict as error:
            owner = error.details.get("worker_id")
            if error.code != "WORKER_EXISTS" or owner is None or owner == wanted.name:
                raise
            return self._fleet.view(WorkerId(owner)), False

    async def wait_until_up(self, worker_id: WorkerId, seconds: float) -> WorkerView:
        """The worker as soon as it takes jobs, or cannot come up; as it is when the time is up."""
        end = self._clock.monotonic() + seconds
        while True:
            view = self._fleet.view(worker_id)
            if view.status is not WorkerStatus.STARTING or self._clock.monotonic() >= end:
                return view
            await asyncio.sleep(LOOK_SECONDS)

    def can_remove_outputs(self, worker_id: WorkerId) -> bool:
        """Whether what a run has saved on the worker can be removed from here."""
        return self._fleet.can_remove_outputs(worker_id)

    async def _add(self, wanted: NewWorker, config: Mapping[str, Any]) -> WorkerView:
        worker_id, host = await self._prepare(wanted, config)
        record = WorkerRecord(
            worker_id,
            wanted.driver,
            config["url"] if wanted.driver == "static" else None,
            self._clock.now(),
            config=config,
            labels=dict(wanted.labels),
        )
        await self._store.save_worker(record)
        traits = WorkerTraits(labels=record.labels)
        self._fleet.add(record.id, host, record.added_at, traits)
        return self._fleet.view(worker_id)

    async def _prepare(
        self, wanted: NewWorker, config: Mapping[str, Any]
    ) -> tuple[WorkerId, WorkerHost]:
        """The worker's id and host. Raises Conflict or WorkerRefused where it cannot be added."""
        fault = labels_fault(wanted.labels)
        if fault is not None:
            raise WorkerRefused(fault, code="INVALID_LABELS")
        taken = {record.id for record in await self._store.list_workers()}
        worker_id = self._choose_id(wanted, taken)
        try:
            host = driver_named(wanted.driver).host(worker_id, config, self._context)
        except DriverRefused as error:
            raise WorkerRefused(error.message, code=error.code, details=error.details) from error
        self._refuse_double(host.place)
        return worker_id, host

    def _choose_id(self, wanted: NewWorker, taken: set[WorkerId]) -> WorkerId:
        if wanted.name is None:
            return self._next_id("engine" if wanted.driver == "local" else wanted.driver, taken)
        if not WORKER_NAME.fullmatch(wanted.name):
            raise WorkerRefused(
                f"A worker's name has 1 to 40 small letters, digits and hyphens, not "
                f"{wanted.name[:60]!r}.",
                code="INVALID_WORKER_NAME",
            )
        pool = self._pools.pool_of(wanted.name)
        if pool is not None:
            raise Conflict(
                f"'{wanted.name}' is a name that the pool '{pool}' gives to its own workers. "
                "Choose another name.",
                code="WORKER_NAME_RESERVED",
                details={"pool": pool},
            )
        if wanted.name in taken:
            raise Conflict(
                f"There is a worker '{wanted.name}' already. Choose another name.",
                code="WORKER_EXISTS",
                details={"worker_id": wanted.name},
            )
        return WorkerId(wanted.name)

    def _next_id(self, stem: str, taken: set[WorkerId]) -> WorkerId:
        if self._pools.pool_of(f"{stem}-1") is not None:
            return self._next_id(f"{stem}-worker", taken)
        number = 1
        while f"{stem}-{number}" in taken:
            number += 1
        return WorkerId(f"{stem}-{number}")

    def _refuse_double(self, place: str | None) -> None:
        owner = self._fleet.owner_of(place) if place is not None else None
        if owner is not None:
            raise Conflict(
                f"The worker at {place} is there already, as '{owner}'.",
                code="WORKER_EXISTS",
                details={"worker_id": owner},
            )

    async def take_agent(self, name: str, labels: Mapping[str, str]) -> None:
        """An agent has dialed in: it is a worker from now on, whose line may come and go."""
        async with self._adding:
            records = await self._store.list_workers()
            for record in records:
                if record.driver == "agent" and record.config.get("name") == name:
                    return
            worker_id = _agent_id(name)
            is_taken = any(record.id == worker_id for record in records)
            if is_taken or self._pools.pool_of(worker_id) is not None:
                # Names that differ may be the same in the letters that workers' names have.
                worker_id = f"{worker_id[:33]}-{hashlib.sha256(name.encode()).hexdigest()[:6]}"
            wanted = NewWorker("agent", {"name": name}, worker_id, labels)
            await self._add(wanted, driver_named("agent").check(wanted.config))

    async def _knock(self, endpoint: str) -> None:
        try:
            async with asyncio.timeout(QUICK_SECONDS):
                await ComfyClient(endpoint, self._context.http).system_stats()
        except TimeoutError as error:
            slow = WorkerUnreachable(
                f"The worker at {endpoint} does not answer within {QUICK_SECONDS:g} s."
            )
            raise _refused(slow, f"{slow.message} {KNOCK_ADVICE}", endpoint) from error
        except WorkerUnreachable as error:
            raise _refused(error, f"{error.message} {KNOCK_ADVICE}", endpoint) from error
        except WorkerError as error:
            message = f"What answers at {endpoint} is no ComfyUI: {error.message}"
            raise _refused(error, message, endpoint) from error

    async def remove(self, worker_id: WorkerId) -> None:
        """Let go of a worker, end it if it is ours; its running jobs go elsewhere."""
        async with self._removing.setdefault(worker_id, asyncio.Lock()):
            view = self._fleet.view(worker_id)
            _refuse_removal_from_pool(view)
            record = await self._record_of(worker_id)
            if record is not None and record.origin == "file":
                raise Conflict(
                    f"'{worker_id}' is in the fleet file. Take it out there and start the server "
                    "anew; to have it stopped until then, drain it.",
                    code="WORKER_IN_FLEET_FILE",
                    details={"worker_id": worker_id},
                )
            await self._fleet.remove(worker_id)
            agents = self._context.agents
            if agents is not None and record is not None and record.driver == "agent":
                # It would come back with its next line: its agent is sent home.
                await agents.dismiss(str(record.config["name"]))
            await self._store.remove_worker(worker_id)

    async def _record_of(self, worker_id: WorkerId) -> WorkerRecord | None:
        records = await self._store.list_workers()
        return next((record for record in records if record.id == worker_id), None)

    async def drain(self, worker_id: WorkerId) -> WorkerView:
        """Let it finish what it has begun and give it nothing more. One of a pool is ended then;
        another one stays stopped until it is resumed, also over restarts.
        """
        await self._fleet.drain(worker_id)
        return self._fleet.view(worker_id)

    async def cordon(self, worker_id: WorkerId) -> WorkerView:
        """Give it no new jobs until it is resumed; remembered over restarts."""
        await self._fleet.cordon(worker_id)
        return self._fleet.view(worker_id)

    async def resume(self, worker_id: WorkerId) -> WorkerView:
        """Take a cordoned, drained or blocked worker back."""
        await self._fleet.resume(worker_id)
        return self._fleet.view(worker_id)

    async def logs(self, worker_id: WorkerId, lines: int) -> str:
        return await self._fleet.logs(worker_id, max(1, min(MOST_LOG_LINES, lines)))


def _refuse_removal_from_pool(view: WorkerView) -> None:
    if view.pool is not None:
        advice = (
            "start the server with fewer --workers"
            if view.pool == "local"
            else "change the pool in the fleet file"
        )
        raise Conflict(
            f"'{view.id}' belongs to the pool '{view.pool}', which would replace it: "
            f"{advice} instead.",
            code="WORKER_IN_POOL",
            details={"pool": view.pool},
        )


def _refused(error: WorkerError, message: str, endpoint: str) -> WorkerRefused:
    return WorkerRefused(message, code=error.code, details={"url": endpoint})


def _agent_id(name: str) -> str:
    """An agent's name in the letters that workers' names have."""
    plain = re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")[:32].strip("-")
    return f"agent-{plain}" if plain else "agent"


def _as_seen_by(principal: Principal, view: WorkerView) -> WorkerView:
    """Those who do not run the server see what a worker is, not whose jobs it has, where it is, or
    what went wrong on it: that may be somebody's text.
    """
    if principal.may(Permission.FLEET_WRITE):
        return view
    return replace(
        view,
        endpoint=None,
        current_jobs=(),
        error=None if view.error is None else "It has a fault; ask whoever runs the server.",
        error_detail=None,
        health=replace(view.health, cause=None, breakers=()),
    )
