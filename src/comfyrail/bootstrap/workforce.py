"""The server's workers: its own pool, those of the fleet file, those it remembers, agents."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace

import aiohttp
import structlog
from aiohttp import web

from comfyrail.bootstrap.fleet_file import RESERVED_POOL, FleetPlan, PoolPlan, read_fleet_file
from comfyrail.bootstrap.settings import Settings, secrets
from comfyrail.clock import Clock
from comfyrail.errors import ComfyrailError
from comfyrail.fleet.drivers.agent import AgentLines, agent_app
from comfyrail.fleet.drivers.interface import HostContext
from comfyrail.fleet.drivers.registry import driver_named
from comfyrail.fleet.fleet import Fleet
from comfyrail.fleet.pools import Pool, Pools
from comfyrail.fleet.traits import WorkerTraits
from comfyrail.ids import WorkerId
from comfyrail.jobs.workers import PoolLimits
from comfyrail.process import listen, url_of
from comfyrail.store.interface import Store, WorkerRecord
from comfyrail.usecases.workers import Workers

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Workforce:
    pools: Pools
    workers: Workers
    agents: AgentLines | None


async def open_workforce(
    settings: Settings, store: Store, fleet: Fleet, http: aiohttp.ClientSession, clock: Clock
) -> Workforce:
    """Take up all workers. Raises ConfigurationError where the fleet file is not right."""
    plan = read_fleet_file(settings.fleet)
    agents = AgentLines() if settings.agent_port is not None else None
    hosts = HostContext(
        data=settings.data,
        http=http,
        clock=clock,
        engine_config=settings.engine_config and settings.engine_config.absolute(),
        secrets=secrets(),
        agents=agents,
    )
    workers = Workers(store, fleet, clock, hosts)
    if agents is not None:
        agents.on_new = workers.take_agent
    await _adopt_own(store)
    await _save_planned(plan, store, clock)
    for record in await store.list_workers():
        if record.pool is None:
            _take_up(record, fleet, hosts)
    pools = Pools(fleet, store, clock, hosts)
    await pools.open([_local_pool(settings), *map(_pool, plan.pools)])
    await pools.look()  # the least that is wanted starts at once
    return Workforce(pools, workers, agents)


@asynccontextmanager
async def agents_welcome(settings: Settings, agents: AgentLines | None) -> AsyncIterator[None]:
    """Let agents dial in, where that is wanted, at a door of their own."""
    if agents is None or settings.agent_port is None or settings.agent_token is None:
        yield
        return
    app = agent_app(agents, settings.agent_token.get_secret_value())
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=1.0)
    await runner.setup()
    try:
        with listen(settings.agent_host, settings.agent_port) as listener:
            await web.SockSite(runner, listener).start()
            log.info("agents_welcome", url=url_of(listener))
            yield
    finally:
        await runner.cleanup()


def _local_pool(settings: Settings) -> Pool:
    """Engine workers as child processes: as many as --workers says, always."""
    count = settings.workers
    return Pool(RESERVED_POOL, "local", limits=PoolLimits(minimum=count, maximum=count))


def _pool(plan: PoolPlan) -> Pool:
    return Pool(plan.name, plan.driver, plan.config, plan.limits, plan.labels, plan.warm_up)


async def _adopt_own(store: Store) -> None:
    """Workers that --workers made before there were pools are of the pool now."""
    for record in await store.list_workers():
        number = record.id.removeprefix(f"{RESERVED_POOL}-")
        if record.driver == "local" and record.pool is None and number.isdecimal():
            await store.save_worker(replace(record, pool=RESERVED_POOL))


async def _save_planned(plan: FleetPlan, store: Store, clock: Clock) -> None:
    """Workers of the fleet file are remembered like those that were added; the file counts."""
    known = {record.id: record for record in await store.list_workers()}
    for each in plan.workers:
        before = known.get(WorkerId(each.name))
        await store.save_worker(
            WorkerRecord(
                WorkerId(each.name),
                each.driver,
                each.config["url"] if each.driver == "static" else None,
                before.added_at if before else clock.now(),
                config=each.config,
                labels=each.labels,
                is_cordoned=before.is_cordoned if before else False,
            )
        )


def _take_up(record: WorkerRecord, fleet: Fleet, hosts: HostContext) -> None:
    """One that cannot be had now, for want of a package or a setting, must not stop the others."""
    config = record.config
    if record.driver == "static" and not config:
        config = {"url": record.endpoint}  # as versions before this one wrote it
    try:
        driver = driver_named(record.driver)
        host = driver.host(record.id, driver.check(config), hosts)
    except ComfyrailError as error:
        log.warning("worker_left_out", worker_id=record.id, error=error.message)
        return
    traits = WorkerTraits(labels=record.labels)
    fleet.add(record.id, host, record.added_at, traits, is_cordoned=record.is_cordoned)
