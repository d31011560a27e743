"""Single attempts on scripted workers, without a fleet and a scheduler around them."""

import asyncio
import json
from collections import defaultdict
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import aiohttp

from comfyrail.clock import Clock, SystemClock
from comfyrail.errors import WorkerError
from comfyrail.fleet.accounts import Account, Measured, NoAccounts
from comfyrail.fleet.comfyui.client import ComfyClient
from comfyrail.fleet.company import Company
from comfyrail.fleet.connection import WorkerConnection
from comfyrail.fleet.conversion import Converter
from comfyrail.fleet.inputs import WorkerInputs
from comfyrail.fleet.previews import Previews
from comfyrail.fleet.session import AttemptSession, SessionTimes
from comfyrail.ids import JobId, TenantId, WorkerId, new_attempt_token, new_job_id
from comfyrail.jobs.events import Event
from comfyrail.jobs.job import Attempt, Job, NewJob, Output, Usage
from comfyrail.jobs.needs import job_needs
from comfyrail.jobs.priority import standing_of
from comfyrail.jobs.recovery import MAXIMUM_RETRIES
from comfyrail.results.disk_blobs import DiskBlobStore
from comfyrail.store.interface import Assignment, Store
from comfyrail.store.sqlite.store import open_sqlite_store
from tests.fleet.scripted_worker import GRAPH, ScriptedWorker

TENANT = TenantId("t")
WORKER = WorkerId("w1")
TIMES = SessionTimes(poll_interval=0.3, unreachable_limit=1.0, retry_interval=0.1, stop_limit=0.5)


class HasUrl(Protocol):
    @property
    def url(self) -> str: ...


class MeasuringAccount:
    """Remembers what it was told."""

    def __init__(self) -> None:
        self.measured: Measured | None = None

    def weights(self) -> Mapping[str, float]:
        return {}

    def settle(self, measured: Measured) -> Usage:
        self.measured = measured
        return Usage(0.0)


@dataclass(frozen=True, slots=True)
class Run:
    """An attempt under way."""

    attempt: Attempt
    session: AttemptSession
    task: "asyncio.Task[None]"

    @property
    def job_id(self) -> JobId:
        return self.attempt.job_id


class Bench:
    def __init__(self, folder: Path, store: Store, http: aiohttp.ClientSession) -> None:
        self.store = store
        self.clock: Clock = SystemClock()
        self.previews = Previews()
        self.inputs: WorkerInputs | None = None
        self.times = TIMES
        self._http = http
        self._folder = folder / "blobs"
        self._blobs = DiskBlobStore(self._folder)
        self._tasks: list[asyncio.Task[None]] = []
        self._companies: defaultdict[WorkerConnection, Company] = defaultdict(Company)

    async def connect(self, worker: HasUrl) -> WorkerConnection:
        """A socket to the worker that comes back whenever it drops."""
        client = ComfyClient(worker.url, self._http, self.times.unreachable_limit / 2)
        connection = WorkerConnection(client, "comfyrail-bench")
        self._tasks.append(asyncio.create_task(_keep_open(connection)))
        await self.until(lambda: connection.is_open)
        return connection

    async def attempt(
        self,
        *,
        timeout: float = 30,
        graph: Mapping[str, Mapping[str, Any]] = GRAPH,
        expected: float = 30,
        max_retries: int = MAXIMUM_RETRIES,
    ) -> Attempt:
        """A job whose attempt was just begun in the store."""
        now = self.clock.now()
        job = NewJob(
            id=new_job_id(),
            tenant=TENANT,
            prompt=json.dumps(graph).encode(),
            node_count=len(graph),
            needs=job_needs((node["class_type"] for node in graph.values()), ()),
            priority=5,
            standing=standing_of(5),
            timeout_seconds=timeout,
            expected_seconds=expected,
            submitted_at=now,
            max_retries=max_retries,
        )
        await self.store.add_job(job)
        assignment = Assignment(job.id, WORKER, new_attempt_token())
        (attempt,) = await self.store.start_attempts([assignment], "bench", 60)
        return attempt

    async def begin(
        self,
        connection: WorkerConnection,
        *,
        timeout: float = 30,
        graph: Mapping[str, Mapping[str, Any]] = GRAPH,
        expected: float = 30,
        account: Account | None = None,
        max_retries: int = MAXIMUM_RETRIES,
    ) -> Run:
        attempt = await self.attempt(
            timeout=timeout, graph=graph, expected=expected, max_retries=max_retries
        )
        return self.run(attempt, connection, adopted=False, account=account)

    def run(
        self,
        attempt: Attempt,
        connection: WorkerConnection,
        *,
        adopted: bool,
        account: Account | None = None,
        converter: Converter | None = None,
    ) -> Run:
        session = AttemptSession(
            attempt,
            connection,
            store=self.store,
            sink=self._blobs,
            clock=self.clock,
            times=self.times,
            account=account or NoAccounts().open(attempt, None),
            inputs=self.inputs,
            previews=self.previews,
            seat=self._companies[connection].join(runs_alone=attempt.runs_alone),
            converter=converter,
        )
        task = asyncio.create_task(session.run(adopted=adopted))
        self._tasks.append(task)
        return Run(attempt, session, task)

    async def end(self, run: Run) -> Job:
        """The job when the attempt is over: ended, or queued again."""
        async with asyncio.timeout(20):
            await run.task
        return await self.store.get_job(TENANT, run.job_id)

    async def events(self, job_id: JobId) -> list[Event]:
        return list(await self.store.events_after(TENANT, job_id, 0, 1000))

    async def outputs(self, job_id: JobId) -> list[tuple[Output, bytes]]:
        found = await self.store.list_outputs(TENANT, job_id)
        return [(each, (self._folder / each.file.blob_key).read_bytes()) for each in found]

    async def until(self, look: Callable[[], Any], limit: float = 10) -> None:
        async with asyncio.timeout(limit):
            while not look():  # noqa: ASYNC110 - the state of another part
                await asyncio.sleep(0.005)

    async def close(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)


@asynccontextmanager
async def open_bench(folder: Path) -> AsyncIterator[Bench]:
    store = await open_sqlite_store(folder, SystemClock())
    try:
        async with aiohttp.ClientSession() as http:
            bench = Bench(folder, store, http)
            try:
                yield bench
            finally:
                await bench.close()
    finally:
        await store.close()


async def _keep_open(connection: WorkerConnection) -> None:
    while True:
        with suppress(WorkerError):
            await connection.follow(opened=lambda: None)
        await asyncio.sleep(0.02)


@asynccontextmanager
async def playing(script: Callable[[ScriptedWorker, str], Any]) -> AsyncIterator[ScriptedWorker]:
    worker = ScriptedWorker(script)
    await worker.start()
    try:
        yield worker
    finally:
        await worker.stop()


async def succeed(worker: ScriptedWorker, prompt_id: str) -> None:
    worker.succeed(prompt_id, "a.png")
    await worker.say("executing", node=None, prompt_id=prompt_id)


async def silent(_worker: ScriptedWorker, _prompt_id: str) -> None:
    return
