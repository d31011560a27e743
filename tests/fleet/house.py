"""A store, a fleet and a scheduler around scripted workers."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp

from comfyrail.clock import SystemClock
from comfyrail.fleet.catalogs import FleetCatalog
from comfyrail.fleet.drivers.static import StaticHost
from comfyrail.fleet.fleet import Fleet
from comfyrail.fleet.session import SessionTimes
from comfyrail.fleet.worker import WorkerContext
from comfyrail.ids import JobId, TenantId, WorkerId, new_job_id
from comfyrail.jobs.job import Job, NewJob
from comfyrail.jobs.states import JobState
from comfyrail.notifications.streams import follow_events
from comfyrail.results.blobs import LocalBlobStore
from comfyrail.scheduling.scheduler import Scheduler
from comfyrail.store.interface import Store, WorkerRecord
from comfyrail.store.sqlite.store import open_sqlite_store
from tests.fleet.scripted_worker import GRAPH, Script, ScriptedWorker

TENANT = TenantId("t")
TIMES = SessionTimes(poll_interval=0.3, unreachable_limit=1.0, retry_interval=0.1, stop_limit=0.5)


class House:
    """A store, a fleet and a scheduler around scripted workers."""

    def __init__(self, store: Store, fleet: Fleet) -> None:
        self.store = store
        self.fleet = fleet
        self.clock = SystemClock()

    async def add(self, worker: ScriptedWorker, name: str = "w1") -> None:
        record = WorkerRecord(WorkerId(name), "static", worker.url, self.clock.now())
        await self.store.save_worker(record)
        self.fleet.add(record.id, StaticHost(worker.url), record.added_at)

    async def submit(
        self, timeout: float = 30, graph: Mapping[str, Mapping[str, Any]] = GRAPH
    ) -> JobId:
        now = self.clock.now()
        types = frozenset(node["class_type"] for node in graph.values())
        prompt = json.dumps(graph).encode()
        job = NewJob(new_job_id(), TENANT, prompt, len(graph), types, 5, now, timeout, 30, now)
        await self.store.add_job(job)
        return job.id

    async def ended(self, job_id: JobId) -> Job:
        async with asyncio.timeout(20):
            async for _ in follow_events(self.store, TENANT, job_id, 0):
                continue
        job = await self.store.get_job(TENANT, job_id)
        assert job.state.is_final
        return job

    async def in_state(self, job_id: JobId, state: JobState, pause: float = 0.02) -> None:
        async with asyncio.timeout(10):
            while (await self.store.get_job(TENANT, job_id)).state is not state:  # noqa: ASYNC110
                await asyncio.sleep(pause)

    async def until(self, look: Callable[[], Any]) -> None:
        async with asyncio.timeout(10):
            while not look():  # noqa: ASYNC110 - the state of another part
                await asyncio.sleep(0.01)


@asynccontextmanager
async def open_house(folder: Path, owner: str = "me") -> AsyncIterator[House]:
    clock = SystemClock()
    store = await open_sqlite_store(folder, clock)
    async with aiohttp.ClientSession() as http:
        catalog = FleetCatalog(store)
        await catalog.load()
        blobs = LocalBlobStore(folder / "blobs")
        fleet = Fleet(WorkerContext(store, catalog, blobs, http, clock, TIMES, owner, 15))
        scheduler = asyncio.create_task(Scheduler(store, fleet, owner, 15).run())
        try:
            yield House(store, fleet)
        finally:
            scheduler.cancel()
            await asyncio.gather(scheduler, return_exceptions=True)
            await fleet.shut_down()
    await store.close()


@asynccontextmanager
async def playing(script: Script) -> AsyncIterator[ScriptedWorker]:
    worker = ScriptedWorker(script)
    await worker.start()
    try:
        yield worker
    finally:
        await worker.stop()


async def succeed(worker: ScriptedWorker, prompt_id: str) -> None:
    worker.succeed(prompt_id, "a.png")
    await worker.say("executing", node=None, prompt_id=prompt_id)
