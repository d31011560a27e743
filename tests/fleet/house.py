"""A store, a fleet and a scheduler around scripted workers."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Coroutine, Iterable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp

from comfyrail.clock import SystemClock
from comfyrail.fleet.catalogs import FleetCatalog
from comfyrail.fleet.context import WorkerContext
from comfyrail.fleet.conversion import Converter
from comfyrail.fleet.drivers.static import StaticHost
from comfyrail.fleet.fleet import Fleet
from comfyrail.fleet.health import HealthRules
from comfyrail.fleet.remedies import Mender, NoMender
from comfyrail.fleet.session import SessionTimes
from comfyrail.fleet.traits import WorkerTraits
from comfyrail.fleet.workload import PrefetchRules
from comfyrail.ids import JobId, TenantId, WorkerId, new_job_id
from comfyrail.jobs.job import Job, NewJob
from comfyrail.jobs.needs import ModelUse, job_needs
from comfyrail.jobs.output_config import AS_IT_IS, OutputConfig
from comfyrail.jobs.priority import standing_of
from comfyrail.jobs.recovery import MAXIMUM_RETRIES, RetryRules
from comfyrail.jobs.states import JobState
from comfyrail.jobs.workers import WorkerStatus
from comfyrail.notifications.streams import follow_events
from comfyrail.results.disk_blobs import DiskBlobStore
from comfyrail.scheduling.queue_keeper import QueueKeeper
from comfyrail.scheduling.scheduler import Scheduler
from comfyrail.store.interface import Store, WorkerRecord
from comfyrail.store.sqlite.store import open_sqlite_store
from tests.fleet.scripted_worker import GRAPH, Script, ScriptedWorker

TENANT = TenantId("t")
TIMES = SessionTimes(poll_interval=0.3, unreachable_limit=1.0, retry_interval=0.1, stop_limit=0.5)

HEALTH = HealthRules(failures=3, first_rest=0.1, longest_rest=1.0)
"""A worker that fails again and again is soon tried again: one alone must end its jobs."""

RETRIES = RetryRules(delay=0.05)


class House:
    """A store, a fleet and a scheduler around scripted workers."""

    def __init__(self, store: Store, fleet: Fleet, context: WorkerContext, folder: Path) -> None:
        self.store = store
        self.fleet = fleet
        self.context = context
        self.folder = folder
        self.clock = context.clock

    async def add(
        self,
        worker: ScriptedWorker,
        name: str = "w1",
        traits: WorkerTraits | None = None,
        url: str | None = None,
    ) -> WorkerId:
        # Of two records one alone may have an address, whatever drivers they are of.
        endpoint = worker.url if url is None else None
        record = WorkerRecord(WorkerId(name), "static", endpoint, self.clock.now())
        await self.store.save_worker(record)
        self.fleet.add(record.id, StaticHost(url or worker.url), record.added_at, traits)
        return record.id

    async def submit(
        self,
        timeout: float = 30,
        graph: Mapping[str, Mapping[str, Any]] = GRAPH,
        expected: float = 30.0,
        priority: int = 5,
        labels: Mapping[str, str] | None = None,
        models: Iterable[ModelUse] = (),
        max_retries: int = MAXIMUM_RETRIES,
        output_config: OutputConfig = AS_IT_IS,
    ) -> JobId:
        needs = job_needs((node["class_type"] for node in graph.values()), models, labels=labels)
        job = NewJob(
            id=new_job_id(),
            tenant=TENANT,
            prompt=json.dumps(graph).encode(),
            node_count=len(graph),
            needs=needs,
            priority=priority,
            standing=standing_of(priority),
            timeout_seconds=timeout,
            expected_seconds=expected,
            submitted_at=self.clock.now(),
            max_retries=max_retries,
            output_config=output_config,
        )
        await self.store.add_job(job)
        return job.id

    async def has_status(self, worker_id: WorkerId, status: WorkerStatus) -> None:
        await self.until(lambda: self.fleet.view(worker_id).status is status)

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
async def open_house(
    folder: Path,
    owner: str = "me",
    prefetch: PrefetchRules | None = None,
    health: HealthRules | None = None,
    times: SessionTimes = TIMES,
    retries: RetryRules = RETRIES,
    mender: Mender | None = None,
    converter: Converter | None = None,
) -> AsyncIterator[House]:
    clock = SystemClock()
    async with AsyncExitStack() as stack:
        store = await open_sqlite_store(folder, clock, retries=retries)
        stack.push_async_callback(store.close)
        http = await stack.enter_async_context(aiohttp.ClientSession())
        catalog = FleetCatalog(store)
        await catalog.load()
        context = WorkerContext(
            store,
            catalog,
            DiskBlobStore(folder / "blobs"),
            http,
            clock,
            times,
            owner,
            15,
            prefetch=prefetch or PrefetchRules(),
            health=health or HEALTH,
            mender=mender or NoMender(),
            converter=converter,
        )
        fleet = Fleet(context)
        stack.push_async_callback(fleet.shut_down)
        own(stack, Scheduler(store, fleet, owner, 15, clock).run())
        own(stack, QueueKeeper(store, clock).run())
        yield House(store, fleet, context, folder)


def own(stack: AsyncExitStack, loop: Coroutine[Any, Any, None]) -> None:
    task = asyncio.create_task(loop)

    async def stop() -> None:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)

    stack.push_async_callback(stop)


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
