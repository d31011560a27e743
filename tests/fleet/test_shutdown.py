"""What becomes of jobs when the server stops, in one process [15.2]."""

import asyncio
from collections import Counter
from pathlib import Path

from comfyrail.fleet.drivers.static import StaticHost
from comfyrail.fleet.workload import PrefetchRules
from comfyrail.ids import WorkerId
from comfyrail.jobs.states import JobState
from comfyrail.scheduling.scheduler import Scheduler
from comfyrail.store.interface import JobFilter, WorkerRecord
from comfyrail.usecases.shutdown import Shutdown
from tests.fleet.house import TENANT, House, open_house, playing
from tests.fleet.scripted_worker import ScriptedWorker

DEPTH = PrefetchRules(horizon=100.0, depth=3)


class MortalHost(StaticHost):
    """Of a worker that cannot outlive the server."""

    ends_with_server = True


async def add(house: House, worker: ScriptedWorker, host: StaticHost) -> None:
    record = WorkerRecord(WorkerId("w1"), "static", worker.url, house.clock.now())
    await house.store.save_worker(record)
    house.fleet.add(record.id, host, record.added_at)


class Slow:
    """Begins the first prompt and ends it when it is told to."""

    def __init__(self) -> None:
        self.may_end = asyncio.Event()
        self.begun: list[str] = []

    async def __call__(self, worker: ScriptedWorker, prompt_id: str) -> None:
        if self.begun:
            return  # it waits behind the first one
        self.begun.append(prompt_id)
        await worker.say("execution_start", prompt_id=prompt_id)
        await self.may_end.wait()
        worker.succeed(prompt_id, "a.png")
        await worker.say("executing", node=None, prompt_id=prompt_id)


def shutdown_of(house: House) -> Shutdown:
    scheduler = Scheduler(house.store, house.fleet, "me", 15, house.clock)
    return Shutdown(scheduler, house.fleet, house.store, house.clock)


async def states(house: House) -> Counter[JobState]:
    page = await house.store.list_jobs(TENANT, JobFilter(), None, 10)
    assert all(job.retries == 0 for job in page.jobs)
    return Counter(job.state for job in page.jobs)


async def test_what_has_begun_ends_and_what_waits_behind_it_goes_back(tmp_path: Path) -> None:
    script = Slow()
    async with open_house(tmp_path, prefetch=DEPTH) as house, playing(script) as worker:
        await add(house, worker, MortalHost(worker.url))
        for _ in range(3):
            await house.submit(expected=1.0)
        await house.until(lambda: len(house.fleet.ending_jobs()) == 3 and script.begun)
        house.fleet.find(WorkerId("w1")).cordon(is_cordoned=True)  # its own scheduler is not held
        shutdown = shutdown_of(house)
        draining = asyncio.create_task(shutdown.drain(20.0))
        await house.until(lambda: len(house.fleet.ending_jobs()) == 1)
        assert await states(house) == {JobState.QUEUED: 2, JobState.PROCESSING: 1}
        assert shutdown.is_under_way
        assert not draining.done()
        script.may_end.set()
        async with asyncio.timeout(5):
            await draining
        assert await states(house) == {JobState.QUEUED: 2, JobState.COMPLETED: 1}


async def test_hurry_ends_the_wait_and_all_goes_back(tmp_path: Path) -> None:
    script = Slow()
    async with open_house(tmp_path) as house, playing(script) as worker:
        await add(house, worker, MortalHost(worker.url))
        await house.submit()
        await house.until(lambda: script.begun)
        house.fleet.find(WorkerId("w1")).cordon(is_cordoned=True)
        shutdown = shutdown_of(house)
        draining = asyncio.create_task(shutdown.drain(600.0))
        await house.until(lambda: shutdown.is_under_way)
        shutdown.hurry()
        async with asyncio.timeout(5):
            await draining
        assert await states(house) == {JobState.QUEUED: 1}


async def test_jobs_of_workers_that_live_on_are_not_waited_for_nor_touched(tmp_path: Path) -> None:
    script = Slow()
    async with open_house(tmp_path) as house, playing(script) as worker:
        await add(house, worker, StaticHost(worker.url))
        await house.submit()
        await house.until(lambda: script.begun)
        async with asyncio.timeout(5):
            await shutdown_of(house).drain(600.0)
        assert await states(house) == {JobState.PROCESSING: 1}
        script.may_end.set()
