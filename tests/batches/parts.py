"""The server's parts around batches, without HTTP and without workers: tests play the workers."""

import json
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import aiohttp

from comfyrail.access.principal import Principal
from comfyrail.clock import Clock, Instant, SystemClock
from comfyrail.engine.builtin import builtin_registry
from comfyrail.engine.folders import Folders
from comfyrail.fleet.catalogs import FleetCatalog
from comfyrail.fleet.context import WorkerContext
from comfyrail.fleet.fleet import Fleet
from comfyrail.fleet.session import SessionTimes
from comfyrail.ids import BatchId, JobId, OutputId, TenantId, WorkerId, new_attempt_token
from comfyrail.jobs.batches import Plan, WorkflowSource
from comfyrail.jobs.faults import Fault
from comfyrail.jobs.job import Attempt, IdempotencyKey, NewOutput
from comfyrail.jobs.outcome import Completed, Failed
from comfyrail.library.library import WorkflowLibrary
from comfyrail.planning.cost import CostRates
from comfyrail.results.disk_blobs import DiskBlobStore
from comfyrail.store.interface import Assignment, MemberPage, Store, WorkerRecord
from comfyrail.store.sqlite.store import SqliteStore, open_sqlite_store
from comfyrail.usecases.analysts import CurrentAnalyst
from comfyrail.usecases.batch_jobs import BatchBase, BatchJobs
from comfyrail.usecases.batch_searches import BatchSearches
from comfyrail.usecases.batches import BatchAccepted, Batches, BatchSubmission
from comfyrail.usecases.checks import WorkflowChecks
from comfyrail.usecases.estimates import Estimates
from comfyrail.usecases.library import Library
from comfyrail.usecases.policies import Policies
from comfyrail.usecases.standing import Standings
from comfyrail.usecases.submit import SubmitWorkflow
from comfyrail.usecases.waits import WaitForecast
from tests.graphs import picture

ALICE = Principal(TenantId("alice"))
BOB = Principal(TenantId("bob"))
WORKER = WorkerId("w")
CHUNK = 20
"""Jobs that these tests store in one step."""

NUMBER = {
    "1": {"class_type": "PrimitiveFloat", "inputs": {"value": 0.0}},
    "2": {"class_type": "PreviewAny", "inputs": {"source": ["1", 0]}},
}
"""Shows a number as text."""


class LateClock(SystemClock):
    """The wall clock, and as much later as time is said to have passed."""

    def __init__(self) -> None:
        self._later = 0

    def now(self) -> Instant:
        return Instant(super().now() + self._later)

    def monotonic(self) -> float:
        return super().monotonic() + self._later / 1000

    def move(self, seconds: float) -> None:
        self._later += round(seconds * 1000)


@dataclass(frozen=True, slots=True)
class Parts:
    store: SqliteStore
    blobs: DiskBlobStore
    batches: Batches
    searches: BatchSearches
    jobs: BatchJobs
    library: Library

    async def submit(
        self,
        plan: Plan,
        workflow: Any = None,
        principal: Principal = ALICE,
        *,
        name: str | None = None,
        stop_on_error: bool = False,
        key: IdempotencyKey | None = None,
        **base: Any,
    ) -> BatchAccepted:
        source = WorkflowSource(json.dumps(workflow or picture()).encode())
        made = BatchBase(**{"source": source, **base})
        submission = BatchSubmission(made, plan, name, stop_on_error, key)
        return await self.batches.submit(principal, submission)

    async def members(self, batch_id: BatchId, principal: Principal = ALICE) -> MemberPage:
        return await self.batches.members(principal, batch_id, -1, 500)

    async def start(self, job_id: JobId) -> Attempt:
        (attempt,) = await self.try_to_start(job_id)
        return attempt

    async def try_to_start(self, job_id: JobId) -> Sequence[Attempt]:
        assignment = Assignment(job_id, WORKER, new_attempt_token())
        return await self.store.start_attempts([assignment], "me", 60.0)

    async def complete(self, job_id: JobId, text: str | None = None, node: str = "2") -> None:
        """Run a job to its end; a node of it shows the text."""
        await self.finish(await self.start(job_id), text, node)

    async def finish(self, attempt: Attempt, text: str | None = None, node: str = "2") -> None:
        outputs = () if text is None else (await self._text(node, text),)
        await self.store.finish_attempt(attempt.token, Completed(outputs))

    async def fail(self, job_id: JobId) -> None:
        attempt = await self.start(job_id)
        fault = Fault("execution", "NODE_FAILED", "It broke.")
        await self.store.finish_attempt(attempt.token, Failed(fault))

    async def _text(self, node: str, text: str) -> NewOutput:
        async def chunks() -> AsyncIterator[bytes]:
            yield text.encode()

        blob = await self.blobs.save(chunks())
        return NewOutput(
            id=OutputId("o"),
            node_id=node,
            kind="text",
            filename="text.txt",
            subfolder="",
            is_temporary=False,
            content_type="text/plain",
            size=blob.size,
            sha256=blob.sha256,
            blob_key=blob.key,
        )


@asynccontextmanager
async def open_parts(
    folder: Path, most_jobs: int = 10_000, clock: Clock | None = None
) -> AsyncIterator[Parts]:
    clock = clock or SystemClock()
    store = await open_sqlite_store(folder, clock)
    await _remember_worker(store)
    blobs = DiskBlobStore(folder / "blobs")
    workflows = WorkflowLibrary(folder, ALICE.tenant)
    catalog = FleetCatalog(store)
    await catalog.load()
    async with aiohttp.ClientSession() as http:
        fleet = Fleet(
            WorkerContext(
                store=store,
                catalog=catalog,
                sink=blobs,
                http=http,
                clock=clock,
                times=SessionTimes(),
                owner="me",
                lease_seconds=60.0,
            )
        )
        analyst = CurrentAnalyst(lambda: catalog.merged, catalog.model_sizes)
        estimates = Estimates(store, clock, CostRates(), analyst)
        library = Library(workflows, lambda: catalog.merged)
        checks = WorkflowChecks(fleet, library, estimates, Policies(), None)
        waits = WaitForecast(lambda: (), clock)
        submit = SubmitWorkflow(store, clock, checks, estimates, Standings(fleet, clock), waits)
        jobs = BatchJobs(submit)
        batches = Batches(store, clock, jobs, library, most_jobs)
        try:
            searches = BatchSearches(store, jobs, blobs)
            yield Parts(store, blobs, batches, searches, jobs, library)
        finally:
            workflows.close()
            await store.close()


async def _remember_worker(store: Store) -> None:
    """The engine's nodes, as a worker that was seen before."""
    await store.save_worker(WorkerRecord(WORKER, "local", None, SystemClock().now()))
    await store.save_catalog(WORKER, "engine", _object_info())


@cache
def _object_info() -> bytes:
    nowhere = Path("nowhere")
    return json.dumps(builtin_registry().object_info(Folders.under(nowhere, nowhere))).encode()


def parameters_of(page: MemberPage) -> Sequence[Mapping[str, Any]]:
    return [member.parameters for member in page.members]
