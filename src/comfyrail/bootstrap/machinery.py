"""What runs whether anybody asks or not: store, workers, scheduler and the loops that keep them."""

import asyncio
from contextlib import AsyncExitStack
from dataclasses import dataclass
from functools import partial
from typing import Any, Protocol

import aiohttp

from comfyrail import __version__
from comfyrail.access.tenant_limits import TenantLimits
from comfyrail.bootstrap.assets import INPUT_FOLDER
from comfyrail.bootstrap.blobs import open_blobs, watched_folders
from comfyrail.bootstrap.media import MediaParts, open_media
from comfyrail.bootstrap.policy import cost_rates
from comfyrail.bootstrap.settings import Settings
from comfyrail.bootstrap.storage import hold_while_in_trouble
from comfyrail.bootstrap.workforce import Workforce, agents_welcome, open_workforce
from comfyrail.clock import Clock, SystemClock
from comfyrail.fleet.catalogs import FleetCatalog
from comfyrail.fleet.context import WorkerContext
from comfyrail.fleet.fleet import Fleet
from comfyrail.fleet.lease_keeper import LeaseKeeper
from comfyrail.fleet.previews import Previews
from comfyrail.fleet.prompt_secrets import PromptSecrets
from comfyrail.fleet.session import SessionTimes
from comfyrail.fleet.workload import PrefetchRules
from comfyrail.ids import new_uuid
from comfyrail.jobs.events import EventType
from comfyrail.jobs.priority import WaitTargets
from comfyrail.jobs.recovery import RetryRules
from comfyrail.notifications.notices import Notices
from comfyrail.results.blob_store import BlobStore
from comfyrail.results.sweeper import BlobSweeper
from comfyrail.scheduling.autoscaler import Autoscaler
from comfyrail.scheduling.placement import PlacementRules
from comfyrail.scheduling.queue_keeper import QueueKeeper
from comfyrail.scheduling.scheduler import Scheduler
from comfyrail.store.sqlite.store import SqliteStore, open_sqlite_store
from comfyrail.store.storage_watch import StorageWatch
from comfyrail.usecases.analysts import CurrentAnalyst
from comfyrail.usecases.estimates import Estimates
from comfyrail.usecases.mend import MendWorkflow
from comfyrail.usecases.shutdown import Shutdown, hand_over
from comfyrail.usecases.waits import WaitForecast


@dataclass(frozen=True, slots=True)
class Machinery:
    """The parts that use cases are made of."""

    clock: Clock
    store: SqliteStore
    storage: StorageWatch
    blobs: BlobStore
    media: MediaParts
    http: aiohttp.ClientSession
    estimates: Estimates
    previews: Previews
    secrets: PromptSecrets
    mender: MendWorkflow
    fleet: Fleet
    workforce: Workforce
    limits: TenantLimits
    targets: WaitTargets
    scheduler: Scheduler
    shutdown: Shutdown
    waits: WaitForecast


async def start_machinery(settings: Settings, stack: AsyncExitStack) -> Machinery:
    """Open and start everything; the stack stops it in the right order."""
    clock = SystemClock()
    owner = new_uuid()
    retries = RetryRules(settings.max_retries, settings.retry_delay)
    store = await open_sqlite_store(settings.data, clock, settings.lease_seconds, retries)
    stack.push_async_callback(store.close)
    storage = StorageWatch(
        watched_folders(settings), settings.min_free_bytes, store.signals, store.find_loss
    )
    blobs = await open_blobs(settings, stack, storage.doubt)
    media = open_media(settings, stack, store, blobs)
    http = await stack.enter_async_context(
        aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0))
    )
    catalog = FleetCatalog(store)
    await catalog.load()
    analyst = CurrentAnalyst(lambda: catalog.merged, catalog.model_sizes)
    estimates = Estimates(store, clock, cost_rates(settings), analyst)
    previews, secrets = Previews(), PromptSecrets(clock)
    mender = MendWorkflow()
    notices = Notices(store)
    notices.tell(EventType.SERVER_STARTED, version=__version__)
    run_loop(stack, notices, "notices")
    stack.push_async_callback(hand_over, store, owner, settings.lease_seconds)
    fleet = Fleet(
        WorkerContext(
            store=store,
            catalog=catalog,
            sink=blobs,
            converter=media.converter,
            http=http,
            clock=clock,
            owner=owner,
            accounts=estimates,
            previews=previews,
            secrets=secrets,
            mender=mender,
            is_disk_in_trouble=partial(_is_in_trouble, storage),
            tell=notices.tell,
            **_fleet_rules(settings),
        )
    )
    stack.push_async_callback(fleet.shut_down)
    workforce = await open_workforce(settings, store, fleet, http, clock)
    stack.push_async_callback(workforce.pools.close)
    await stack.enter_async_context(agents_welcome(settings, workforce.agents))
    targets = _targets(settings)
    most = settings.tenant_concurrency or None
    limits = TenantLimits(store, most)
    await limits.load()
    rules = PlacementRules(
        tenant_limits=limits.concurrent,
        default_limit=most,
        worker_limit=settings.run_concurrency or None,
    )
    scheduler = Scheduler(
        store, fleet, owner, settings.lease_seconds, clock, rules=rules, targets=targets
    )
    waits = WaitForecast(fleet.schedulable_workers, clock)
    await hold_while_in_trouble(storage, scheduler, waits, notices)
    waits.state = await store.queue_state()
    store.figures.predict_wait = waits.predict
    machinery = Machinery(
        clock=clock,
        store=store,
        storage=storage,
        blobs=blobs,
        media=media,
        http=http,
        estimates=estimates,
        previews=previews,
        secrets=secrets,
        mender=mender,
        fleet=fleet,
        workforce=workforce,
        limits=limits,
        targets=targets,
        scheduler=scheduler,
        shutdown=Shutdown(scheduler, fleet, store, clock),
        waits=waits,
    )
    _run_loops(settings, stack, machinery)
    return machinery


def _run_loops(settings: Settings, stack: AsyncExitStack, parts: Machinery) -> None:
    store, fleet, pools = parts.store, parts.fleet, parts.workforce.pools
    run_loop(stack, parts.storage, "storage-watch")
    run_loop(stack, BlobSweeper(parts.blobs, store), "blob-sweeper")
    if parts.media.keeper is not None:
        run_loop(stack, parts.media.keeper, "media-keeper")
    run_loop(stack, parts.scheduler, "scheduler")
    run_loop(stack, QueueKeeper(store, parts.clock), "queue-keeper")
    run_loop(stack, pools, "pools")
    run_loop(stack, Autoscaler(store, pools, fleet, parts.clock, parts.targets), "autoscaler")
    run_loop(stack, LeaseKeeper(store, fleet, settings.lease_seconds), "lease-keeper")
    run_loop(stack, parts.estimates, "estimates")


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


class Loop(Protocol):
    async def run(self) -> None: ...


def run_loop(stack: AsyncExitStack, loop: Loop, name: str) -> None:
    """Own a loop's task: it is awaited when the server stops."""
    task = asyncio.create_task(loop.run(), name=name)

    async def stop() -> None:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)

    stack.push_async_callback(stop)
