"""Builds the parts of a server and runs its loops."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager

import aiohttp

from comfyrail.access.principal import LOCAL_USER
from comfyrail.api.services import Services
from comfyrail.bootstrap.policy import cost_rates, read_policies
from comfyrail.bootstrap.settings import Settings
from comfyrail.clock import SystemClock
from comfyrail.fleet.catalogs import FleetCatalog
from comfyrail.fleet.drivers.local import LocalHost
from comfyrail.fleet.drivers.static import StaticHost
from comfyrail.fleet.fleet import Fleet
from comfyrail.fleet.lease_keeper import LeaseKeeper
from comfyrail.fleet.session import SessionTimes
from comfyrail.fleet.worker import WorkerContext
from comfyrail.ids import WorkerId, new_uuid
from comfyrail.library.library import WorkflowLibrary
from comfyrail.network.outgoing import OutgoingHttp
from comfyrail.network.probe import HttpUrlProbe
from comfyrail.results.blobs import LocalBlobStore
from comfyrail.scheduling.scheduler import Scheduler
from comfyrail.store.interface import Store, WorkerRecord
from comfyrail.store.sqlite.store import open_sqlite_store
from comfyrail.usecases.analysts import CurrentAnalyst
from comfyrail.usecases.checks import WorkflowChecks
from comfyrail.usecases.convert import ConvertWorkflow
from comfyrail.usecases.estimates import Estimates
from comfyrail.usecases.figures import Figures
from comfyrail.usecases.health import CheckReadiness
from comfyrail.usecases.jobs import Jobs
from comfyrail.usecases.library import Library
from comfyrail.usecases.nodes import NodeTypes
from comfyrail.usecases.plan import PlanWorkflow
from comfyrail.usecases.submit import SubmitWorkflow
from comfyrail.usecases.validate import ValidateWorkflow
from comfyrail.usecases.workers import Workers

BLOB_FOLDER = "blobs"
INPUT_FOLDER = "input"
CACHE_FOLDER = "cache"
WORKER_FOLDER = "workers"


@asynccontextmanager
async def running_server(settings: Settings) -> AsyncIterator[Services]:
    """Everything that runs behind the API, from open to orderly stop."""
    clock = SystemClock()
    owner = new_uuid()
    async with AsyncExitStack() as stack:
        store = await open_sqlite_store(settings.data, clock, settings.lease_seconds)
        stack.push_async_callback(store.close)
        blobs = LocalBlobStore(settings.data / BLOB_FOLDER)
        workflows = WorkflowLibrary(settings.data, LOCAL_USER.tenant)
        stack.callback(workflows.close)
        http = await stack.enter_async_context(
            aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0))
        )
        catalog = FleetCatalog(store)
        await catalog.load()
        analyst = CurrentAnalyst(lambda: catalog.merged, catalog.model_sizes)
        estimates = Estimates(store, clock, cost_rates(settings), analyst)
        times = SessionTimes(
            poll_interval=settings.poll_seconds, unreachable_limit=settings.lease_seconds
        )
        fleet = Fleet(
            WorkerContext(
                store=store,
                catalog=catalog,
                sink=blobs,
                http=http,
                clock=clock,
                times=times,
                owner=owner,
                lease_seconds=settings.lease_seconds,
                accounts=estimates,
            )
        )
        stack.push_async_callback(fleet.shut_down)
        await _add_local_workers(settings, store, fleet)
        await _add_static_workers(store, fleet)
        _run(stack, Scheduler(store, fleet, owner, settings.lease_seconds), "scheduler")
        _run(stack, LeaseKeeper(store, fleet, settings.lease_seconds), "lease-keeper")
        _run(stack, estimates, "estimates")
        library = Library(workflows, lambda: fleet.catalog)
        outgoing = await stack.enter_async_context(OutgoingHttp())
        probe = HttpUrlProbe(outgoing) if settings.check_urls else None
        checks = WorkflowChecks(fleet, library, estimates, read_policies(settings), probe)
        yield Services(
            submit=SubmitWorkflow(store, clock, checks, estimates),
            validate=ValidateWorkflow(checks),
            plan=PlanWorkflow(checks, estimates),
            convert=ConvertWorkflow(fleet),
            nodes=NodeTypes(fleet),
            figures=Figures(store, fleet, estimates),
            jobs=Jobs(store, blobs, clock, fleet.load_of),
            workers=Workers(store, fleet, http, clock),
            library=library,
            check_readiness=CheckReadiness(store, fleet),
        )


async def _add_local_workers(settings: Settings, store: Store, fleet: Fleet) -> None:
    clock = SystemClock()
    wanted = [WorkerId(f"local-{number}") for number in range(1, settings.workers + 1)]
    known = {record.id: record for record in await store.list_workers()}
    for worker_id, record in known.items():
        if record.driver == LocalHost.driver and worker_id not in wanted:
            await store.remove_worker(worker_id)
    for worker_id in wanted:
        record = known.get(worker_id) or WorkerRecord(worker_id, "local", None, clock.now())
        await store.save_worker(record)
        folder = settings.data / WORKER_FOLDER / worker_id
        host = LocalHost(
            folder.absolute(),
            (settings.data / INPUT_FOLDER).absolute(),
            cache_folder=(settings.data / CACHE_FOLDER).absolute(),
            engine_config=settings.engine_config and settings.engine_config.absolute(),
        )
        fleet.add(worker_id, host, record.added_at)


async def _add_static_workers(store: Store, fleet: Fleet) -> None:
    for record in await store.list_workers():
        if record.driver == StaticHost.driver and record.endpoint is not None:
            fleet.add(record.id, StaticHost(record.endpoint), record.added_at)


def _run(stack: AsyncExitStack, loop: Scheduler | LeaseKeeper | Estimates, name: str) -> None:
    """Own a loop's task: it is awaited when the server stops."""
    task = asyncio.create_task(loop.run(), name=name)

    async def stop() -> None:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)

    stack.push_async_callback(stop)
