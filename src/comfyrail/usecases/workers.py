"""Adding, listing and removing workers."""

import asyncio
from collections.abc import Sequence

import aiohttp

from comfyrail.clock import Clock
from comfyrail.errors import Conflict, WorkerError, WorkerRefused, WorkerUnreachable
from comfyrail.fleet.comfyui.client import ComfyClient
from comfyrail.fleet.drivers.static import StaticHost, normal_endpoint, same_place
from comfyrail.fleet.fleet import Fleet
from comfyrail.fleet.worker import WorkerView
from comfyrail.ids import WorkerId
from comfyrail.store.interface import Store, WorkerRecord


class Workers:
    def __init__(
        self, store: Store, fleet: Fleet, http: aiohttp.ClientSession, clock: Clock
    ) -> None:
        self._store = store
        self._fleet = fleet
        self._http = http
        self._clock = clock
        self._changing = asyncio.Lock()

    def list(self) -> Sequence[WorkerView]:
        return self._fleet.views()

    def show(self, worker_id: WorkerId) -> WorkerView:
        return self._fleet.view(worker_id)

    async def add(self, url: str) -> WorkerView:
        """Add an existing ComfyUI or `comfyrail worker`. Refused unless it answers like one."""
        endpoint = normal_endpoint(url)
        async with self._changing:
            return await self._add(endpoint)

    async def _add(self, endpoint: str) -> WorkerView:
        records = await self._store.list_workers()
        if any(record.endpoint and same_place(record.endpoint, endpoint) for record in records):
            raise Conflict(f"A worker at {endpoint} is there already.", code="WORKER_EXISTS")
        try:
            await ComfyClient(endpoint, self._http).system_stats()
        except WorkerUnreachable as error:
            advice = "Is it running, and is the address right?"
            raise _refused(error, f"{error.message} {advice}", endpoint) from error
        except WorkerError as error:
            message = f"What answers at {endpoint} is no ComfyUI: {error.message}"
            raise _refused(error, message, endpoint) from error
        record = WorkerRecord(
            _free_id({record.id for record in records}), "static", endpoint, self._clock.now()
        )
        await self._store.save_worker(record)
        self._fleet.add(record.id, StaticHost(endpoint), record.added_at)
        return self._fleet.view(record.id)

    async def remove(self, worker_id: WorkerId) -> None:
        """Let go of a worker that was added by URL; its running jobs go elsewhere."""
        async with self._changing:
            if self._fleet.view(worker_id).driver != "static":
                raise Conflict(
                    f"'{worker_id}' belongs to the server: start it with fewer --workers instead.",
                    code="WORKER_IS_LOCAL",
                )
            await self._fleet.remove(worker_id)
            await self._store.remove_worker(worker_id)


def _refused(error: WorkerError, message: str, endpoint: str) -> WorkerRefused:
    return WorkerRefused(message, code=error.code, details={"url": endpoint})


def _free_id(taken: set[WorkerId]) -> WorkerId:
    number = 1
    while f"static-{number}" in taken:
        number += 1
    return WorkerId(f"static-{number}")
