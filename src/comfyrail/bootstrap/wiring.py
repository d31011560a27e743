"""Builds the parts of a server and runs its loops."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Protocol

import aiohttp

from comfyrail.access.principal import LOCAL_USER
from comfyrail.api.services import Services
from comfyrail.bootstrap.policy import cost_rates, read_policies
from comfyrail.bootstrap.settings import Settings
from comfyrail.bootstrap.workforce import agents_welcome, open_workforce
from comfyrail.clock import SystemClock
from comfyrail.fleet.catalogs import FleetCatalog
from comfyrail.fleet.context import WorkerContext
from comfyrail.fleet.fleet import Fleet
from comfyrail.fleet.lease_keeper import LeaseKeeper
from comfyrail.fleet.previews import Previews
from comfyrail.fleet.session import SessionTimes
from comfyrail.fleet.workload import PrefetchRules
from comfyrail.ids import new_uuid
from comfyrail.jobs.priority import WaitTargets
from comfyrail.library.library import WorkflowLibrary
from comfyrail.network.outgoing import OutgoingHttp
from comfyrail.network.probe import HttpUrlProbe
from comfyrail.results.blobs import LocalBlobStore
from comfyrail.scheduling.autoscaler import Autoscaler
from comfyrail.scheduling.placement import PlacementRules
from comfyrail.scheduling.queue_keeper import QueueKeeper
from comfyrail.scheduling.scheduler import Scheduler
from comfyrail.store.sqlite.store import open_sqlite_store
from comfyrail.usecases.analysts import CurrentAnalyst
from comfyrail.usecases.batch_jobs import BatchJobs
from comfyrail.usecases.batch_searches import BatchSearches
from comfyrail.usecases.batches import Batches
from comfyrail.usecases.checks import WorkflowChecks
from comfyrail.usecases.convert import ConvertWorkflow
from comfyrail.usecases.estimates import Estimates
from comfyrail.usecases.figures import Figures
from comfyrail.usecases.health import CheckReadiness
from comfyrail.usecases.jobs import Jobs
from comfyrail.usecases.library import Library
from comfyrail.usecases.nodes import NodeTypes
from comfyrail.usecases.plan import PlanWorkflow
from comfyrail.usecases.queue import Queue
from comfyrail.usecases.standing import Standings
from comfyrail.usecases.submit import SubmitWorkflow
from comfyrail.usecases.validate import ValidateWorkflow
from comfyrail.usecases.waits import WaitForecast

BLOB_FOLDER = "blobs"
INPUT_FOLDER = "input"


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
        previews = Previews()
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
                input_folder=settings.data / INPUT_FOLDER,
                previews=previews,
                prefetch=PrefetchRules(settings.prefetch_seconds, max(1, settings.prefetch_jobs)),
            )
        )
        stack.push_async_callback(fleet.shut_down)
        workforce = await open_workforce(settings, store, fleet, http, clock)
        stack.push_async_callback(workforce.pools.close)
        await stack.enter_async_context(agents_welcome(settings, workforce.agents))
        targets = WaitTargets(
            settings.wait_high, settings.wait_medium, settings.wait_low, settings.wait_batch
        )
        rules = PlacementRules(default_limit=settings.tenant_concurrency or None)
        scheduler = Scheduler(
            store, fleet, owner, settings.lease_seconds, clock, rules=rules, targets=targets
        )
        waits = WaitForecast(fleet.schedulable_workers, clock)
        waits.state = await store.queue_state()
        store.figures.predict_wait = waits.predict
        _run(stack, scheduler, "scheduler")
        _run(stack, QueueKeeper(store, clock), "queue-keeper")
        _run(stack, workforce.pools, "pools")
        _run(stack, Autoscaler(store, workforce.pools, fleet, clock, targets), "autoscaler")
        _run(stack, LeaseKeeper(store, fleet, settings.lease_seconds), "lease-keeper")
        _run(stack, estimates, "estimates")
        standings = Standings(fleet, clock, targets)
        queue = Queue(store, scheduler.waits.by_class, waits, targets)
        library = Library(workflows, lambda: fleet.catalog)
        outgoing = await stack.enter_async_context(OutgoingHttp())
        probe = HttpUrlProbe(outgoing) if settings.check_urls else None
        checks = WorkflowChecks(fleet, library, estimates, read_policies(settings), probe)
        submit = SubmitWorkflow(
            store, clock, checks, estimates, standings, waits, settings.queue_timeout
        )
        batch_jobs = BatchJobs(submit)
        _run(stack, BatchSearches(store, batch_jobs, blobs), "batch-searches")
        yield Services(
            submit=submit,
            validate=ValidateWorkflow(checks),
            plan=PlanWorkflow(checks, estimates),
            convert=ConvertWorkflow(fleet),
            nodes=NodeTypes(fleet),
            figures=Figures(queue, fleet, estimates),
            jobs=Jobs(store, blobs, clock, fleet.load_of, waits, standings, previews),
            batches=Batches(store, clock, batch_jobs, library),
            queue=queue,
            workers=workforce.workers,
            library=library,
            check_readiness=CheckReadiness(store, fleet, workforce.pools),
        )


class _Loop(Protocol):
    async def run(self) -> None: ...


def _run(stack: AsyncExitStack, loop: _Loop, name: str) -> None:
    """Own a loop's task: it is awaited when the server stops."""
    task = asyncio.create_task(loop.run(), name=name)

    async def stop() -> None:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)

    stack.push_async_callback(stop)
