"""The server's workers: its own pool, those of the fleet file, those it remembers, agents."""

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace

import aiohttp
import structlog
from aiohttp import web

from comfyrail.bootstrap.fleet_file import (
    RESERVED_POOL,
    FleetPlan,
    PoolPlan,
    WorkerPlan,
    read_fleet_file,
)
from comfyrail.bootstrap.settings import Settings, secrets
from comfyrail.clock import Clock
from comfyrail.errors import ComfyrailError, ConfigurationError
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
    pools = Pools(fleet, store, clock, hosts)
    workers = Workers(store, fleet, clock, hosts, pools)
    if agents is not None:
        agents.on_new = workers.take_agent
    records = await store.list_workers()
    planned = {each.name for each in plan.workers}
    gone = [each for each in records if each.origin == "file" and each.id not in planned]
    kept = {each.id: each for each in records if each not in gone}
    _refuse_likenesses(plan, records)
    _refuse_double_addresses(plan, kept)
    await _forget(gone, store, pools)
    await _save_planned(plan, kept, store, clock)
    for record in await store.list_workers():
        if record.pool is None and not pools.is_ending(record.id):
            _take_up(record, fleet, hosts)
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


def _refuse_likenesses(plan: FleetPlan, records: Sequence[WorkerRecord]) -> None:
    plain = {record.id for record in records if record.pool is None}
    for pool in map(_pool, plan.pools):
        if pool.likeness in plain:
            raise ConfigurationError(
                f"The fleet file has a pool '{pool.name}', and there is a worker "
                f"'{pool.likeness}': under that name is remembered what the pool's workers can "
                "run. Give the pool another name; or start the server without the pool and remove "
                f"the worker (comfyrail workers remove {pool.likeness})."
            )


def _refuse_double_addresses(plan: FleetPlan, kept: Mapping[WorkerId, WorkerRecord]) -> None:
    planned = {each.name for each in plan.workers}
    names: dict[str, str] = {
        record.endpoint: record.id
        for record in kept.values()
        if record.endpoint is not None and record.id not in planned
    }
    for each in plan.workers:
        endpoint = _endpoint(each)
        if endpoint is not None and names.setdefault(endpoint, each.name) != each.name:
            raise ConfigurationError(
                f"The fleet file gives the worker '{each.name}' the address {endpoint}, which is "
                f"that of the worker '{names[endpoint]}' already. Remove one of the two."
            )


async def _forget(gone: Sequence[WorkerRecord], store: Store, pools: Pools) -> None:
    """Workers that were in the fleet file and are no more go away."""
    for record in gone:
        if record.endpoint is None:
            pools.end_leaked(record)
        else:
            # Not ours to end. Its address may be in the file under another name: free it at once.
            log.info("worker_forgotten", worker_id=record.id)
            await store.remove_worker(record.id)


async def _save_planned(
    plan: FleetPlan, kept: Mapping[WorkerId, WorkerRecord], store: Store, clock: Clock
) -> None:
    """Workers of the fleet file are remembered like those that were added; the file counts."""
    for each in plan.workers:
        before = kept.get(WorkerId(each.name))
        if before is not None and before.endpoint not in {None, _endpoint(each)}:
            # Two may have changed places: no address belongs to two at any time.
            await store.save_worker(replace(before, endpoint=None))
    for each in plan.workers:
        before = kept.get(WorkerId(each.name))
        await store.save_worker(
            WorkerRecord(
                WorkerId(each.name),
                each.driver,
                _endpoint(each),
                before.added_at if before else clock.now(),
                config=each.config,
                labels=each.labels,
                origin="file",
                is_cordoned=before.is_cordoned if before else False,
                is_drained=before.is_drained if before else False,
            )
        )


def _endpoint(plan: WorkerPlan) -> str | None:
    return str(plan.config["url"]) if plan.driver == "static" else None


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
    fleet.add(
        record.id,
        host,
        record.added_at,
        traits,
        is_cordoned=record.is_cordoned,
        is_drained=record.is_drained,
    )
