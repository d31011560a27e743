"""Adding, listing, draining and removing workers [5.1, 5.2, 10.3]."""

import asyncio
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from comfyrail.clock import Clock
from comfyrail.errors import Conflict, WorkerError, WorkerRefused, WorkerUnreachable
from comfyrail.fleet.comfyui.client import ComfyClient
from comfyrail.fleet.drivers.interface import HostContext
from comfyrail.fleet.drivers.registry import driver_named
from comfyrail.fleet.figures import FleetFigures
from comfyrail.fleet.fleet import Fleet
from comfyrail.fleet.traits import WorkerTraits
from comfyrail.fleet.view import WorkerView
from comfyrail.ids import WorkerId
from comfyrail.store.interface import Store, WorkerRecord

WORKER_NAME = re.compile(r"[a-z0-9]([a-z0-9-]{0,38}[a-z0-9])?")
MOST_LABELS = 20
LONGEST_LABEL = 100
MOST_LOG_LINES = 10_000


@dataclass(frozen=True, slots=True)
class NewWorker:
    """What someone asks for. `name` None: the server finds one."""

    driver: str
    config: Mapping[str, Any]
    name: str | None = None
    labels: Mapping[str, str] = field(default_factory=dict)


class Workers:
    def __init__(self, store: Store, fleet: Fleet, clock: Clock, context: HostContext) -> None:
        self._store = store
        self._fleet = fleet
        self._clock = clock
        self._context = context
        self._changing = asyncio.Lock()

    def list(self) -> Sequence[WorkerView]:
        return self._fleet.views()

    def show(self, worker_id: WorkerId) -> WorkerView:
        return self._fleet.view(worker_id)

    def figures(self) -> FleetFigures:
        return self._fleet.figures()

    async def add(self, wanted: NewWorker) -> WorkerView:
        """Add a worker of any driver. One that is already running is refused unless it answers."""
        config = driver_named(wanted.driver).check(wanted.config)
        _check_labels(wanted.labels)
        async with self._changing:
            return await self._add(wanted, config)

    async def _add(self, wanted: NewWorker, config: Mapping[str, Any]) -> WorkerView:
        records = await self._store.list_workers()
        worker_id = _choose_id(wanted, {record.id for record in records})
        host = driver_named(wanted.driver).host(worker_id, config, self._context)
        self._refuse_double(host.place)
        endpoint = config["url"] if wanted.driver == "static" else None
        if endpoint is not None:
            await self._knock(endpoint)
        record = WorkerRecord(
            worker_id,
            wanted.driver,
            endpoint,
            self._clock.now(),
            config=config,
            labels=dict(wanted.labels),
        )
        await self._store.save_worker(record)
        traits = WorkerTraits(labels=record.labels)
        self._fleet.add(record.id, host, record.added_at, traits)
        return self._fleet.view(worker_id)

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
        async with self._changing:
            for record in await self._store.list_workers():
                if record.driver == "agent" and record.config.get("name") == name:
                    return
            wanted = NewWorker("agent", {"name": name}, _agent_id(name), labels)
            await self._add(wanted, driver_named("agent").check(wanted.config))

    async def _knock(self, endpoint: str) -> None:
        try:
            await ComfyClient(endpoint, self._context.http).system_stats()
        except WorkerUnreachable as error:
            advice = "Is it running, and is the address right?"
            raise _refused(error, f"{error.message} {advice}", endpoint) from error
        except WorkerError as error:
            message = f"What answers at {endpoint} is no ComfyUI: {error.message}"
            raise _refused(error, message, endpoint) from error

    async def remove(self, worker_id: WorkerId) -> None:
        """Let go of a worker, end it if it is ours; its running jobs go elsewhere."""
        async with self._changing:
            view = self._fleet.view(worker_id)
            if view.pool is not None:
                advice = (
                    "start the server with fewer --workers"
                    if view.pool == "local"
                    else ("change the pool in the fleet file")
                )
                raise Conflict(
                    f"'{worker_id}' belongs to the pool '{view.pool}', which would replace it: "
                    f"{advice} instead.",
                    code="WORKER_IN_POOL",
                    details={"pool": view.pool},
                )
            await self._fleet.remove(worker_id)
            if view.driver == "agent" and self._context.agents is not None:
                # It would come back with its next line: its agent is sent home.
                await self._context.agents.dismiss(await self._agent_name(worker_id))
            await self._store.remove_worker(worker_id)

    async def _agent_name(self, worker_id: WorkerId) -> str:
        records = await self._store.list_workers()
        return next(str(each.config["name"]) for each in records if each.id == worker_id)

    async def drain(self, worker_id: WorkerId) -> WorkerView:
        """Let it finish what it has begun and give it nothing more. One of a pool is ended then."""
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


def _check_labels(labels: Mapping[str, str]) -> None:
    if len(labels) > MOST_LABELS or any(
        not text or len(text) > LONGEST_LABEL for pair in labels.items() for text in pair
    ):
        raise WorkerRefused(
            f"labels has {MOST_LABELS} entries of 1 to {LONGEST_LABEL} characters at most.",
            code="INVALID_LABELS",
        )


def _refused(error: WorkerError, message: str, endpoint: str) -> WorkerRefused:
    return WorkerRefused(message, code=error.code, details={"url": endpoint})


def _agent_id(name: str) -> str:
    """An agent's name in the letters that workers' names have."""
    plain = re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")[:32].strip("-")
    return f"agent-{plain}" if plain else "agent"


def _choose_id(wanted: NewWorker, taken: set[WorkerId]) -> WorkerId:
    if wanted.name is None:
        # The server's own pool has the names local-1, local-2, …
        stem = "engine" if wanted.driver == "local" else wanted.driver
        number = 1
        while f"{stem}-{number}" in taken:
            number += 1
        return WorkerId(f"{stem}-{number}")
    if not WORKER_NAME.fullmatch(wanted.name):
        raise WorkerRefused(
            f"A worker's name has 1 to 40 small letters, digits and hyphens, not "
            f"{wanted.name[:60]!r}.",
            code="INVALID_WORKER_NAME",
        )
    if wanted.name in taken:
        raise Conflict(
            f"There is a worker '{wanted.name}' already. Choose another name.",
            code="WORKER_EXISTS",
            details={"worker_id": wanted.name},
        )
    return WorkerId(wanted.name)
