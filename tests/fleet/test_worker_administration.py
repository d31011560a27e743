"""Adding, naming and removing workers while others do the same [5.1, 5.2]."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from comfyrail.errors import Conflict, WorkerNotFound, WorkerRefused
from comfyrail.fleet.drivers.agent import AgentLines
from comfyrail.fleet.drivers.interface import HostContext
from comfyrail.fleet.drivers.static import StaticHost
from comfyrail.fleet.pools import Pool, Pools
from comfyrail.ids import WorkerId
from comfyrail.jobs.workers import PoolLimits
from comfyrail.store.interface import WorkerRecord
from comfyrail.usecases.workers import NewWorker, Workers
from tests.fleet.house import House, open_house, playing, succeed


class Administration:
    def __init__(self, house: House, folder: Path) -> None:
        self.house = house
        self.agents = AgentLines()
        hosts = HostContext(folder, house.context.http, house.clock)
        with_agents = HostContext(folder, house.context.http, house.clock, agents=self.agents)
        self.pools = Pools(house.fleet, house.store, house.clock, hosts)
        self.workers = Workers(house.store, house.fleet, house.clock, hosts, self.pools)
        self.with_agents = Workers(house.store, house.fleet, house.clock, with_agents, self.pools)

    async def names(self) -> set[str]:
        return {record.id for record in await self.house.store.list_workers()}


@pytest.fixture
async def office(tmp_path: Path) -> AsyncIterator[Administration]:
    async with open_house(tmp_path) as house:
        opened = Administration(house, tmp_path)
        await opened.pools.add(Pool("gpu", "local", limits=PoolLimits(maximum=2)))
        yield opened


def static(url: str, name: str | None = None, **labels: str) -> NewWorker:
    return NewWorker("static", {"url": url}, name, labels)


# Names


@pytest.mark.parametrize("name", ["gpu-0", "gpu-1", "gpu-99"])
async def test_names_of_a_pools_workers_are_reserved(office: Administration, name: str) -> None:
    async with playing(succeed) as worker:
        with pytest.raises(Conflict, match="pool 'gpu'") as raised:
            await office.workers.add(static(worker.url, name))
        assert raised.value.code == "WORKER_NAME_RESERVED"
        assert (await office.workers.add(static(worker.url, "gpu-one"))).id == "gpu-one"


async def test_name_that_the_server_finds_is_not_a_pools(office: Administration) -> None:
    await office.pools.add(Pool("static", "local"))
    async with playing(succeed) as worker:
        assert (await office.workers.add(static(worker.url))).id == "static-worker-1"


async def test_label_pool_is_refused(office: Administration) -> None:
    async with playing(succeed) as worker:
        with pytest.raises(WorkerRefused, match="pool"):
            await office.workers.add(static(worker.url, pool="gpu"))


async def test_agents_whose_names_are_one_in_plain_letters_are_two_workers(
    office: Administration,
) -> None:
    for name in ("one", "ONE_", "one", "1"):
        await office.with_agents.take_agent(name, {})
    await office.pools.add(Pool("agent", "local"))
    await office.with_agents.take_agent("2", {})
    names = await office.names() - {"gpu-0", "agent-0"}
    assert {"agent-one", "agent-1"} < names
    others = sorted(names - {"agent-one", "agent-1"})
    assert len(others) == 2
    assert others[0].startswith("agent-2-")
    assert others[1].startswith("agent-one-")


# Refusals


async def test_agent_for_a_server_that_takes_none_is_a_wrong_request(
    office: Administration,
) -> None:
    with pytest.raises(WorkerRefused) as raised:
        await office.workers.add(NewWorker("agent", {"name": "one"}))
    assert raised.value.code == "NO_AGENTS"


async def test_worker_of_the_fleet_file_is_not_removed_by_a_caller(
    office: Administration,
) -> None:
    record = WorkerRecord(
        WorkerId("studio"), "static", "http://127.0.0.1:9", office.house.clock.now(), origin="file"
    )
    await office.house.store.save_worker(record)
    office.house.fleet.add(record.id, StaticHost("http://127.0.0.1:9"), record.added_at)
    with pytest.raises(Conflict, match="fleet file") as raised:
        await office.workers.remove(record.id)
    assert raised.value.code == "WORKER_IN_FLEET_FILE"
    assert record.id in await office.names()


# Nobody waits for somebody else's worker


async def test_address_that_answers_slowly_holds_up_nobody_else(
    office: Administration, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with playing(succeed) as slow, playing(succeed) as quick:
        slow.is_frozen = True
        waiting = asyncio.create_task(office.workers.add(static(slow.url)))
        await office.house.until(lambda: slow.calls)
        assert (await office.workers.add(static(quick.url))).id == "static-1"
        assert not waiting.done()
        monkeypatch.setattr("comfyrail.usecases.workers.QUICK_SECONDS", 0.05)
        with pytest.raises(WorkerRefused, match="does not answer within"):
            await office.workers.add(static(slow.url))
        slow.is_frozen = False
        assert (await waiting).id == "static-2"


async def test_worker_that_is_slow_to_end_holds_up_nobody_else(office: Administration) -> None:
    class SlowHost(StaticHost):
        stops = 0

        async def stop(self) -> None:
            self.stops += 1
            await may_end.wait()

    may_end = asyncio.Event()
    host = SlowHost("http://127.0.0.1:9")
    slow = WorkerId("slow")
    now = office.house.clock.now()
    await office.house.store.save_worker(WorkerRecord(slow, "static", None, now))
    office.house.fleet.add(slow, host, now)
    async with playing(succeed) as worker:
        await office.workers.add(static(worker.url, "other"))
        removals = [asyncio.create_task(office.workers.remove(slow)) for _ in range(2)]
        await office.house.until(lambda: host.stops)
        await office.workers.remove(WorkerId("other"))
        await office.workers.add(static(worker.url, "third"))
        with pytest.raises(Conflict):
            await office.workers.add(static("http://127.0.0.1:1", "slow"))
        may_end.set()
        done = await asyncio.gather(*removals, return_exceptions=True)
        assert [type(each) for each in done if each] == [WorkerNotFound], "it was ended once"
        assert host.stops == 1
        assert await office.names() == {"gpu-0", "third"}
