"""Pools of workers that grow, shrink and mend themselves [5.4]."""

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from comfyrail.errors import Conflict, DriverRefused, NotFound, WorkerError, WorkerUnreachable
from comfyrail.fleet.drivers.interface import Driver, HostContext
from comfyrail.fleet.drivers.registry import driver_named
from comfyrail.fleet.drivers.static import StaticHost
from comfyrail.fleet.pool_state import PoolRules
from comfyrail.fleet.pools import Pool, Pools
from comfyrail.ids import WorkerId
from comfyrail.jobs.priority import WaitTargets
from comfyrail.jobs.states import JobState
from comfyrail.jobs.workers import PoolLimits, WorkerStatus
from comfyrail.scheduling.autoscaler import Autoscaler
from comfyrail.store.interface import WorkerRecord
from tests.fleet.house import TENANT, House, open_house, own, playing, succeed
from tests.fleet.scripted_worker import GRAPH, Script, ScriptedWorker
from tests.graphs import slow_picture

RULES = PoolRules(ready_limit=20, first_rest=0.2, longest_rest=2)
TARGETS = WaitTargets(high=0.5, medium=1.0, low=2.0, batch=4.0)


class ScriptedDriver:
    """Makes a scripted worker for each worker of a pool."""

    name = "scripted"

    def __init__(self, script: Script = succeed) -> None:
        self.script = script
        self.error: WorkerError | None = None
        self.stop_error: WorkerError | None = None
        self.starts = 0
        self.running: dict[WorkerId, ScriptedWorker] = {}
        self.stopped: list[WorkerId] = []
        self.is_mute = False

    def check(self, config: Mapping[str, Any]) -> Mapping[str, Any]:
        return config

    def host(
        self, worker_id: WorkerId, config: Mapping[str, Any], context: HostContext
    ) -> "ScriptedHost":
        del config, context
        return ScriptedHost(worker_id, self)


class ScriptedHost(StaticHost):
    driver = "scripted"
    shares_inputs = True

    def __init__(self, worker_id: WorkerId, driver: ScriptedDriver) -> None:
        super().__init__("http://127.0.0.1:9")
        self._id = worker_id
        self._driver = driver

    @property
    def place(self) -> str | None:
        return None

    async def start(self) -> str:
        self._driver.starts += 1
        if self._driver.error is not None:
            raise self._driver.error
        if self._driver.is_mute:
            await asyncio.get_running_loop().create_future()
        if self._id not in self._driver.running:
            worker = self._driver.running[self._id] = ScriptedWorker(self._driver.script)
            await worker.start()
        return self._driver.running[self._id].url

    async def stop(self) -> None:
        if self._driver.stop_error is not None:
            raise self._driver.stop_error
        self._driver.stopped.append(self._id)
        worker = self._driver.running.pop(self._id, None)
        if worker is not None:
            await worker.stop()

    async def release(self) -> None:
        """It outlives the server."""


class Estate:
    """A house with pools."""

    def __init__(self, house: House, pools: Pools) -> None:
        self.house = house
        self.pools = pools

    def members(self, name: str = "gpu") -> dict[str, WorkerStatus]:
        return {worker.id: worker.status for worker in self.house.fleet.members(name)}

    async def settled(self) -> None:
        """Until what is being ended has been ended, its record too."""
        await wait(lambda: not self.pools._ending)

    def ready(self, name: str = "gpu") -> int:
        up = {WorkerStatus.IDLE, WorkerStatus.BUSY}
        return sum(status in up for status in self.members(name).values())


@asynccontextmanager
async def open_estate(
    folder: Path,
    *pools: Pool,
    driver: ScriptedDriver | None = None,
    scales: bool = False,
    rules: PoolRules = RULES,
) -> AsyncIterator[Estate]:
    def find(name: str) -> Driver:
        return driver if driver is not None and name == driver.name else driver_named(name)

    async with open_house(folder) as house, AsyncExitStack() as stack:
        hosts = HostContext(folder, house.context.http, house.clock)
        kept = Pools(house.fleet, house.store, house.clock, hosts, rules, find)
        await kept.open(pools)
        stack.push_async_callback(kept.close)
        own(stack, kept.run())
        if scales:
            own(
                stack,
                Autoscaler(house.store, kept, house.fleet, house.clock, TARGETS, 0.1).run(),
            )
        yield Estate(house, kept)


@pytest.fixture
async def driver() -> AsyncIterator[ScriptedDriver]:
    made = ScriptedDriver()
    yield made
    for worker in made.running.values():
        await worker.stop()


def pool(**limits: Any) -> Pool:
    return Pool("gpu", "scripted", {"size": 1}, PoolLimits(**{"maximum": 4, **limits}))


async def wait(look: Callable[[], Any], limit: float = 20.0) -> None:
    async with asyncio.timeout(limit):
        while not look():  # noqa: ASYNC110 - the state of another part
            await asyncio.sleep(0.02)


# With real processes


async def test_burst_makes_a_pool_grow_from_zero_and_it_goes_back_to_zero(
    tmp_path: Path,
) -> None:
    """0 workers, 50 jobs: up within the limits, all done once, back to 0."""
    limits = PoolLimits(maximum=3, idle_timeout=1.0, start_seconds=0.5)
    engines = Pool("engines", "local", {}, limits)
    async with open_estate(tmp_path, engines, scales=True) as estate:
        house = estate.house
        # A pool that was never seen starts one worker to learn what it can run.
        await wait(lambda: estate.pools.views()[0].profile)
        await wait(lambda: not estate.members("engines"), 30)
        assert house.fleet.figures().pools["engines"].total == 0
        assert "EmptyImage" in house.fleet.catalog, "known although there is no worker"
        jobs = [
            await house.submit(graph=slow_picture(0.1, color), expected=0.3) for color in range(50)
        ]
        most = 0

        def all_done() -> bool:
            nonlocal most
            most = max(most, len(estate.members("engines")))
            return not counts

        counts: dict[JobState, int] = {JobState.QUEUED: 50}
        while not all_done():
            counts = {key: each for key, each in (await house.store.count_jobs()).items() if each}
            await asyncio.sleep(0.05)
        assert 2 <= most <= 3
        for job_id in jobs:
            job = await house.store.get_job(TENANT, job_id)
            assert (job.state, job.attempts) == (JobState.COMPLETED, 1)
            assert len(await house.store.list_outputs(TENANT, job_id)) == 1
        await wait(lambda: not estate.members("engines"), 30)
        await estate.settled()
        assert [record.id for record in await house.store.list_workers()] == ["engines-0"]


# The minimum


async def test_minimum_is_kept_without_any_decision(tmp_path: Path, driver: ScriptedDriver) -> None:
    async with open_estate(tmp_path, pool(minimum=2), driver=driver) as estate:
        await wait(lambda: estate.ready() == 2)
        assert set(estate.members()) == {"gpu-1", "gpu-2"}
        await estate.pools.retire(WorkerId("gpu-1"))
        await wait(lambda: "gpu-1" in driver.stopped)
        await wait(lambda: estate.ready() == 2)
        records = {record.id: record for record in await estate.house.store.list_workers()}
        assert records[WorkerId("gpu-2")].pool == "gpu"
        assert records[WorkerId("gpu-2")].config == {"size": 1}


async def test_pool_that_was_never_seen_starts_one_worker_to_learn_from(
    tmp_path: Path, driver: ScriptedDriver
) -> None:
    async with open_estate(tmp_path, pool(), driver=driver) as estate:
        await wait(lambda: estate.ready() == 1)
        await wait(lambda: estate.pools.views()[0].profile)
        await estate.pools.retire(WorkerId("gpu-1"))
        await wait(lambda: not estate.members())
        profile = estate.pools.views()[0].profile
        assert profile is not None
        assert profile.node_types == {"Make", "Keep"}
        assert profile.labels == {"pool": "gpu"}
        assert set(estate.house.fleet.catalog.types) == {"Make", "Keep"}
    async with open_estate(tmp_path, pool(), driver=driver) as again:
        profile = again.pools.views()[0].profile
        assert profile is not None
        assert profile.node_types == {"Make", "Keep"}
        await again.pools.look()
        assert again.members() == {}, "it is known what it can run"


async def test_workers_of_a_pool_come_back_with_the_server(
    tmp_path: Path, driver: ScriptedDriver
) -> None:
    async with open_estate(tmp_path, pool(minimum=2), driver=driver) as estate:
        await wait(lambda: estate.ready() == 2)
    assert driver.stopped == []
    running = dict(driver.running)
    async with open_estate(tmp_path, pool(), driver=driver) as again:
        await wait(lambda: again.ready() == 2)
        assert driver.running == running, "they are found again, not made anew"
        assert await again.pools.start_one("gpu") == "gpu-3"


async def test_workers_of_a_pool_that_is_no_more_are_ended(
    tmp_path: Path, driver: ScriptedDriver
) -> None:
    async with open_estate(tmp_path, pool(minimum=2), driver=driver) as estate:
        await wait(lambda: estate.ready() == 2)
    driver.stop_error = WorkerUnreachable("The cloud is down.")
    async with open_estate(tmp_path, driver=driver) as again:
        assert len(await again.house.store.list_workers()) == 3, "tried again the next time"
    driver.stop_error = None
    async with open_estate(tmp_path, driver=driver) as again:
        await again.settled()
        assert list(await again.house.store.list_workers()) == []
        assert driver.running == {}
        assert not again.house.fleet.catalog, "nobody can run anything any more"


async def test_pool_that_may_have_fewer_now_ends_the_others(
    tmp_path: Path, driver: ScriptedDriver
) -> None:
    async with open_estate(tmp_path, pool(minimum=3), driver=driver) as estate:
        await wait(lambda: estate.ready() == 3)
    async with open_estate(tmp_path, pool(minimum=1, maximum=1), driver=driver) as again:
        await wait(lambda: again.ready() == 1)
        await again.settled()
        assert set(again.members()) == {"gpu-1"}
        assert set(driver.running) == {"gpu-1"}
        assert len(await again.house.store.list_workers()) == 2


async def test_numbers_that_are_free_are_used_again(tmp_path: Path, driver: ScriptedDriver) -> None:
    async with open_estate(tmp_path, pool(minimum=3), driver=driver) as estate:
        await wait(lambda: estate.ready() == 3)
        await estate.pools.change_limits("gpu", PoolLimits(maximum=4))
        await estate.pools.retire(WorkerId("gpu-2"))
        await wait(lambda: len(estate.members()) == 2)
        await estate.settled()
        assert await estate.pools.start_one("gpu") == "gpu-2"


# Retiring


async def test_worker_that_is_retired_ends_its_job_first(
    tmp_path: Path, driver: ScriptedDriver
) -> None:
    async def begins(worker: ScriptedWorker, prompt_id: str) -> None:
        await worker.say("execution_start", prompt_id=prompt_id)

    driver.script = begins
    async with open_estate(tmp_path, pool(minimum=1), driver=driver) as estate:
        await wait(lambda: estate.ready() == 1)
        worker = driver.running[WorkerId("gpu-1")]
        job_id = await estate.house.submit()
        await wait(lambda: worker.submitted)
        held = estate.house.fleet.find(WorkerId("gpu-1")).attempts.workload.held
        await wait(lambda: all(each.session.has_begun for each in held.values()))
        await estate.pools.change_limits("gpu", PoolLimits(maximum=1))
        await estate.pools.retire(WorkerId("gpu-1"))
        await estate.pools.look()
        assert estate.members() == {"gpu-1": WorkerStatus.DRAINING}
        assert driver.stopped == []
        await succeed(worker, worker.submitted[0])
        job = await estate.house.ended(job_id)
        assert (job.state, job.attempts) == (JobState.COMPLETED, 1)
        await wait(lambda: driver.stopped and not estate.members())


async def test_worker_that_cannot_be_ended_is_tried_again(
    tmp_path: Path, driver: ScriptedDriver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("comfyrail.fleet.pools.FIRST_RETRY_SECONDS", 0.05)
    async with open_estate(tmp_path, pool(minimum=1), driver=driver) as estate:
        await wait(lambda: estate.ready() == 1)
        await estate.pools.change_limits("gpu", PoolLimits(maximum=1))
        driver.stop_error = WorkerUnreachable("429: too many requests")
        await estate.pools.retire(WorkerId("gpu-1"))
        await wait(lambda: "429" in (estate.house.fleet.view(WorkerId("gpu-1")).error or ""))
        assert WorkerId("gpu-1") in estate.members()
        driver.stop_error = None
        await wait(lambda: not estate.members())
        assert driver.running == {}


async def test_removed_pool_leaves_nothing_behind(tmp_path: Path, driver: ScriptedDriver) -> None:
    async with open_estate(tmp_path, pool(minimum=2), driver=driver) as estate:
        await wait(lambda: estate.ready() == 2)
        await estate.pools.remove("gpu")
        assert driver.running == {}
        assert list(await estate.house.store.list_workers()) == []
        assert not estate.house.fleet.catalog
        with pytest.raises(NotFound):
            await estate.pools.start_one("gpu")


# Drivers that fail


async def test_driver_that_refuses_gets_a_growing_rest(
    tmp_path: Path, driver: ScriptedDriver
) -> None:
    driver.error = DriverRefused("There is no image 'comfy:1'.")
    rules = PoolRules(ready_limit=20, first_rest=60)
    async with open_estate(tmp_path, pool(minimum=1), driver=driver, rules=rules) as estate:
        await wait(lambda: driver.starts and not estate.members())
        view = estate.pools.views()[0]
        assert not view.can_start
        standing = estate.pools.standings()["gpu"]
        assert standing.error == estate.pools.trouble("gpu") == "There is no image 'comfy:1'."
        assert standing.rests_until is not None
        assert standing.rests_until > estate.house.clock.now()
        await estate.pools.look()
        assert driver.starts == 1
        await estate.settled()
        names = [record.id for record in await estate.house.store.list_workers()]
        assert names == ["gpu-0"], "nothing is left of the one that did not start"


async def test_pool_mends_itself_when_the_driver_works_again(
    tmp_path: Path, driver: ScriptedDriver
) -> None:
    driver.error = DriverRefused("No GPU is free.")
    async with open_estate(tmp_path, pool(minimum=1), driver=driver) as estate:
        await wait(lambda: driver.starts >= 2)
        driver.error = None
        await wait(lambda: estate.ready() == 1)
        await wait(lambda: estate.pools.trouble("gpu") is None)


async def test_driver_that_fails_for_a_while_is_tried_some_times_and_then_rests(
    tmp_path: Path, driver: ScriptedDriver
) -> None:
    driver.error = WorkerUnreachable("500 from the cloud")
    rules = PoolRules(ready_limit=20, first_rest=60)
    async with open_estate(tmp_path, pool(minimum=1), driver=driver, rules=rules) as estate:
        await wait(lambda: driver.starts and not estate.members())
        assert driver.starts == 3
        assert not estate.pools.views()[0].can_start


async def test_worker_that_never_gets_ready_is_given_up(
    tmp_path: Path, driver: ScriptedDriver
) -> None:
    driver.is_mute = True
    rules = PoolRules(ready_limit=0.3, first_rest=60)
    async with open_estate(tmp_path, pool(minimum=1), driver=driver, rules=rules) as estate:
        await wait(lambda: driver.starts and not estate.members())
        assert "not ready within" in (estate.pools.trouble("gpu") or "")
        assert not estate.pools.views()[0].can_start


# Small things


async def test_start_seconds_are_those_that_were_seen(
    tmp_path: Path, driver: ScriptedDriver
) -> None:
    async with open_estate(tmp_path, pool(start_seconds=77.0), driver=driver) as estate:
        assert estate.pools.views()[0].start_seconds == 77.0
        await wait(lambda: estate.pools.views()[0].start_seconds < 20)


async def test_figures_are_given_by_pool(tmp_path: Path, driver: ScriptedDriver) -> None:
    async with (
        open_estate(tmp_path, pool(minimum=2), driver=driver) as estate,
        playing(succeed) as other,
    ):
        await wait(lambda: estate.ready() == 2)
        await estate.house.add(other, "alone")
        await estate.house.has_status(WorkerId("alone"), WorkerStatus.IDLE)
        figures = estate.house.fleet.figures()
        assert (figures.overall.total, figures.pools["gpu"].total) == (3, 2)
        assert figures.pools["gpu"].available == 2


async def test_warm_up_of_a_pool_is_run_on_each_worker(
    tmp_path: Path, driver: ScriptedDriver
) -> None:
    warm = Pool("gpu", "scripted", limits=PoolLimits(minimum=2, maximum=2), warm_up=GRAPH)
    async with open_estate(tmp_path, warm, driver=driver) as estate:
        await wait(lambda: estate.ready() == 2)
        assert [len(worker.submitted) for worker in driver.running.values()] == [1, 1]


async def test_two_pools_of_one_name_are_refused(tmp_path: Path, driver: ScriptedDriver) -> None:
    async with open_estate(tmp_path, pool(), driver=driver) as estate:
        with pytest.raises(Conflict):
            await estate.pools.add(pool())


async def test_pool_that_nobody_needs_any_more_does_not_keep_its_workers_for_a_paused_queue(
    tmp_path: Path, driver: ScriptedDriver
) -> None:
    async with open_estate(tmp_path, pool(idle_timeout=0.2), driver=driver, scales=True) as estate:
        await wait(lambda: estate.pools.views()[0].profile)
        await wait(lambda: not estate.members())
        await estate.house.store.pause_queue(None)
        starts = driver.starts
        job_id = await estate.house.submit()
        await asyncio.sleep(0.5)
        assert driver.starts == starts
        await estate.house.store.resume_queue()
        assert (await estate.house.ended(job_id)).state is JobState.COMPLETED


async def test_record_of_a_pool_is_not_a_worker_of_its_own(
    tmp_path: Path, driver: ScriptedDriver
) -> None:
    async with open_estate(tmp_path, pool(minimum=1), driver=driver) as estate:
        await wait(lambda: estate.ready() == 1)
        assert [view.id for view in estate.house.fleet.views()] == ["gpu-1"]
        (likeness,) = [
            record
            for record in await estate.house.store.list_workers()
            if record.id == WorkerId("gpu-0")
        ]
        assert isinstance(likeness, WorkerRecord)
        assert likeness.catalog_fingerprint is not None
