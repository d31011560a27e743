"""Builds the parts of a server and runs its loops."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from typing import Any, Protocol

import aiohttp

from comfyrail.access.principal import LOCAL_USER
from comfyrail.api.services import Services
from comfyrail.bootstrap.policy import cost_rates, read_policies
from comfyrail.bootstrap.settings import Settings
from comfyrail.bootstrap.storage import hold_while_in_trouble
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
from comfyrail.jobs.recovery import RetryRules
from comfyrail.library.library import WorkflowLibrary
from comfyrail.network.outgoing import OutgoingHttp
from comfyrail.network.probe import HttpUrlProbe
from comfyrail.results.blobs import LocalBlobStore
from comfyrail.results.sweeper import BlobSweeper
from comfyrail.scheduling.autoscaler import Autoscaler
from comfyrail.scheduling.placement import PlacementRules
from comfyrail.scheduling.queue_keeper import QueueKeeper
from comfyrail.scheduling.scheduler import Scheduler
from comfyrail.store.sqlite.store import SqliteStore, open_sqlite_store
from comfyrail.store.storage_watch import StorageWatch
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
from comfyrail.usecases.mend import MendWorkflow
from comfyrail.usecases.nodes import NodeTypes
from comfyrail.usecases.plan import PlanWorkflow
from comfyrail.usecases.queue import Queue
from comfyrail.usecases.shutdown import Shutdown, hand_over
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
        retries = RetryRules(settings.max_retries, settings.retry_delay)
        store = await open_sqlite_store(settings.data, clock, settings.lease_seconds, retries)
        stack.push_async_callback(store.close)
        storage, blobs = _open_storage(settings, store)
        workflows = WorkflowLibrary(settings.data, LOCAL_USER.tenant)
        stack.callback(workflows.close)
        http = await stack.enter_async_context(
            aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0))
        )
        catalog = FleetCatalog(store)
        await catalog.load()
        analyst = CurrentAnalyst(lambda: catalog.merged, catalog.model_sizes)
        estimates = Estimates(store, clock, cost_rates(settings), analyst)
        previews = Previews()
        mender = MendWorkflow()
        stack.push_async_callback(hand_over, store, owner, settings.lease_seconds)
        fleet = Fleet(
            WorkerContext(
                store=store,
                catalog=catalog,
                sink=blobs,
                http=http,
                clock=clock,
                owner=owner,
                accounts=estimates,
                previews=previews,
                mender=mender,
                is_disk_in_trouble=partial(_is_in_trouble, storage),
                **_fleet_rules(settings),
            )
        )
        stack.push_async_callback(fleet.shut_down)
        workforce = await open_workforce(settings, store, fleet, http, clock)
        stack.push_async_callback(workforce.pools.close)
        await stack.enter_async_context(agents_welcome(settings, workforce.agents))
        targets = _targets(settings)
        rules = PlacementRules(default_limit=settings.tenant_concurrency or None)
        scheduler = Scheduler(
            store, fleet, owner, settings.lease_seconds, clock, rules=rules, targets=targets
        )
        shutdown = Shutdown(scheduler, fleet, store, clock)
        waits = WaitForecast(fleet.schedulable_workers, clock)
        await hold_while_in_trouble(storage, scheduler, waits)
        _run(stack, storage, "storage-watch")
        _run(stack, BlobSweeper(blobs, store), "blob-sweeper")
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
        mender.checks = checks
        submit = SubmitWorkflow(
            store,
            clock,
            checks,
            estimates,
            standings,
            waits,
            settings.queue_timeout,
            settings.max_retries,
            refuse_new_work=storage.refuse_new_work,
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
            check_readiness=CheckReadiness(
                store, fleet, workforce.pools, (shutdown.refuse, storage.refuse_new_work)
            ),
            shutdown=shutdown,
            replies=store,
        )


def _open_storage(settings: Settings, store: SqliteStore) -> tuple[StorageWatch, LocalBlobStore]:
    folder = settings.data / BLOB_FOLDER
    storage = StorageWatch(
        (settings.data, folder), settings.min_free_bytes, store.signals, store.find_loss
    )
    return storage, LocalBlobStore(folder, storage.doubt)


async def _is_in_trouble(storage: StorageWatch) -> bool:
    await storage.look(is_doubted=True)
    return storage.trouble is not None


def _fleet_rules(settings: Settings) -> dict[str, Any]:
    """What the settings say of how workers are used."""
    return {
        "times": SessionTimes(
            poll_interval=settings.poll_seconds, unreachable_limit=settings.lease_seconds
        ),
        "lease_seconds": settings.lease_seconds,
        "input_folder": settings.data / INPUT_FOLDER,
        "prefetch": PrefetchRules(settings.prefetch_seconds, max(1, settings.prefetch_jobs)),
    }


def _targets(settings: Settings) -> WaitTargets:
    return WaitTargets(
        settings.wait_high, settings.wait_medium, settings.wait_low, settings.wait_batch
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
