"""Taking workers out of service, and what befalls a worker that cannot be had [5.1, 5.5]."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from comfyrail.errors import DriverRefused, WorkerError, WorkerNotFound, WorkerUnreachable
from comfyrail.fleet.drivers.static import StaticHost
from comfyrail.fleet.workload import PrefetchRules
from comfyrail.ids import WorkerId
from comfyrail.jobs.states import JobState
from comfyrail.jobs.workers import WorkerStatus
from comfyrail.store.interface import WorkerRecord
from tests.fleet.house import TENANT, House, open_house, playing, succeed
from tests.fleet.scripted_worker import ScriptedWorker

W1, W2 = WorkerId("w1"), WorkerId("w2")


@pytest.fixture
async def house(tmp_path: Path) -> AsyncIterator[House]:
    async with open_house(tmp_path, prefetch=PrefetchRules(horizon=1000)) as opened:
        yield opened


async def begins(worker: ScriptedWorker, prompt_id: str) -> None:
    await worker.say("execution_start", prompt_id=prompt_id)


async def up(house: House, worker: ScriptedWorker, name: str = "w1") -> WorkerId:
    worker_id = await house.add(worker, name)
    await house.has_status(worker_id, WorkerStatus.IDLE)
    return worker_id


async def is_cordoned_on_disk(house: House, worker_id: WorkerId) -> bool:
    records = await house.store.list_workers()
    return next(record.is_cordoned for record in records if record.id == worker_id)


class Host(StaticHost):
    """A worker by URL whose driver does what a test says."""

    def __init__(self, endpoint: str) -> None:
        super().__init__(endpoint)
        self.error: WorkerError | None = None
        self.stop_error: WorkerError | None = None
        self.starts = 0
        self.stops = 0
        self.releases = 0

    async def start(self) -> str:
        self.starts += 1
        if self.error is not None:
            raise self.error
        return await super().start()

    async def stop(self) -> None:
        self.stops += 1
        if self.stop_error is not None:
            raise self.stop_error

    async def release(self) -> None:
        self.releases += 1


async def add_host(house: House, host: Host, worker_id: WorkerId = W1) -> None:
    await house.store.save_worker(WorkerRecord(worker_id, "static", None, house.clock.now()))
    house.fleet.add(worker_id, host, house.clock.now())


# Cordon


async def test_cordoned_worker_takes_no_new_jobs_and_ends_what_it_has(house: House) -> None:
    async with playing(begins) as worker:
        await up(house, worker)
        first = await house.submit(expected=2000)
        await house.until(lambda: worker.submitted)
        await house.fleet.cordon(W1)
        assert house.fleet.schedulable_workers() == []
        assert await is_cordoned_on_disk(house, W1)
        second = await house.submit()
        await succeed(worker, worker.submitted[0])
        assert (await house.ended(first)).state is JobState.COMPLETED
        await house.has_status(W1, WorkerStatus.IDLE)
        view = house.fleet.view(W1)
        assert view.is_cordoned
        assert (await house.store.get_job(TENANT, second)).state is JobState.QUEUED
        await house.fleet.resume(W1)
        await house.until(lambda: len(worker.submitted) == 2)
        assert not await is_cordoned_on_disk(house, W1)


async def test_cordon_of_an_unknown_worker_names_it(house: House) -> None:
    with pytest.raises(WorkerNotFound, match="'nobody'"):
        await house.fleet.cordon(WorkerId("nobody"))


# Drain


async def test_drained_worker_ends_its_job_and_gives_back_the_one_behind_it(
    house: House,
) -> None:
    async with playing(begins) as worker, playing(succeed) as other:
        worker.is_serial = True
        await up(house, worker)
        running = await house.submit(expected=50)
        waiting = await house.submit(expected=50)
        await house.until(lambda: len(worker.submitted) == 2)
        held = house.fleet.find(W1).attempts.workload.held
        await house.until(lambda: any(each.session.has_begun for each in held.values()))
        await house.fleet.drain(W1)
        assert house.fleet.view(W1).status is WorkerStatus.DRAINING
        await house.in_state(waiting, JobState.QUEUED)
        await up(house, other, "w2")
        taken = await house.ended(waiting)
        assert (taken.state, taken.worker_id, taken.retries) == (JobState.COMPLETED, "w2", 0)
        assert house.fleet.view(W1).current_jobs == (running,)
        await succeed(worker, worker.submitted[0])
        job = await house.ended(running)
        assert (job.state, job.worker_id, job.attempts) == (JobState.COMPLETED, "w1", 1)
        await house.has_status(W1, WorkerStatus.STOPPED)
        assert worker.pending == [], "what it gave back is not in its queue"


async def test_idle_worker_that_is_drained_is_stopped_until_it_is_resumed(house: House) -> None:
    async with playing(succeed) as worker:
        host = Host(worker.url)
        await add_host(house, host)
        await house.has_status(W1, WorkerStatus.IDLE)
        await house.fleet.drain(W1)
        await house.has_status(W1, WorkerStatus.STOPPED)
        assert (host.starts, host.stops) == (1, 1)
        job_id = await house.submit()
        assert await is_cordoned_on_disk(house, W1), "also after a restart it takes no jobs"
        await house.fleet.resume(W1)
        assert (await house.ended(job_id)).state is JobState.COMPLETED
        assert host.starts == 2
        assert not await is_cordoned_on_disk(house, W1)


async def test_drained_worker_stays_stopped_over_a_restart_until_it_is_resumed(
    tmp_path: Path,
) -> None:
    async with playing(succeed) as worker:
        async with open_house(tmp_path) as house:
            await add_host(house, Host(worker.url))
            await house.has_status(W1, WorkerStatus.IDLE)
            await house.fleet.drain(W1)
            await house.has_status(W1, WorkerStatus.STOPPED)
        async with open_house(tmp_path) as again:
            (record,) = await again.store.list_workers()
            assert (record.is_drained, record.is_cordoned) == (True, True)
            host = Host(worker.url)
            again.fleet.add(W1, host, record.added_at, is_cordoned=True, is_drained=True)
            assert again.fleet.view(W1).status is WorkerStatus.STOPPED
            await again.until(lambda: host.stops)
            assert host.starts == 0, "one that was left running when the server ended is stopped"
            job_id = await again.submit()
            await again.fleet.resume(W1)
            assert (await again.ended(job_id)).state is JobState.COMPLETED
            (record,) = await again.store.list_workers()
            assert (record.is_drained, record.is_cordoned) == (False, False)


async def test_drain_of_a_worker_that_never_came_up_stops_it(house: House) -> None:
    host = Host("http://127.0.0.1:9")
    await add_host(house, host)
    await house.fleet.drain(W1)
    await house.has_status(W1, WorkerStatus.STOPPED)
    assert host.stops == 1


async def test_resume_during_a_drain_goes_on_as_before(house: House) -> None:
    async with playing(begins) as worker:
        await up(house, worker)
        job_id = await house.submit(expected=2000)
        await house.until(lambda: worker.submitted)
        await house.fleet.drain(W1)
        await house.fleet.resume(W1)
        assert house.fleet.view(W1).status is WorkerStatus.BUSY
        await succeed(worker, worker.submitted[0])
        assert (await house.ended(job_id)).attempts == 1
        await house.has_status(W1, WorkerStatus.IDLE)


async def test_job_that_was_placed_while_the_drain_began_costs_nothing(house: House) -> None:
    async with playing(succeed) as worker, playing(succeed) as other:
        await up(house, worker)
        job_id = await house.submit()
        # No step of the event loop in between: the scheduler still believes in the worker.
        house.fleet.find(W1).drain()
        await house.has_status(W1, WorkerStatus.STOPPED)
        await up(house, other, "w2")
        job = await house.ended(job_id)
        assert (job.state, job.retries) == (JobState.COMPLETED, 0)


# Stop and release


async def test_remove_stops_the_worker_and_the_end_of_the_server_only_lets_go(
    house: House,
) -> None:
    async with playing(succeed) as first, playing(succeed) as second:
        removed, kept = Host(first.url), Host(second.url)
        await add_host(house, removed)
        await add_host(house, kept, W2)
        await house.has_status(W1, WorkerStatus.IDLE)
        await house.fleet.remove(W1)
        assert (removed.stops, removed.releases) == (1, 0)
        await house.fleet.shut_down()
        assert (kept.stops, kept.releases) == (0, 1)


async def test_worker_that_cannot_be_stopped_is_not_forgotten(house: House) -> None:
    async with playing(succeed) as worker:
        host = Host(worker.url)
        host.stop_error = WorkerUnreachable("The cloud does not answer.")
        await add_host(house, host)
        await house.has_status(W1, WorkerStatus.IDLE)
        with pytest.raises(WorkerUnreachable):
            await house.fleet.remove(W1)
        assert house.fleet.view(W1).error == "The cloud does not answer."
        host.stop_error = None
        await house.fleet.remove(W1)
        assert list(house.fleet.views()) == []


async def test_log_of_a_worker_comes_from_its_host(house: House) -> None:
    class Talking(Host):
        async def logs(self, lines: int) -> str:
            return f"the last {lines} lines"

    await add_host(house, Talking("http://127.0.0.1:9"))
    assert await house.fleet.logs(W1, 7) == "the last 7 lines"


# Workers that cannot be had


async def test_refusal_of_a_driver_is_told_and_tried_again_when_asked(house: House) -> None:
    async with playing(succeed) as worker:
        host = Host(worker.url)
        host.error = DriverRefused("The host key has changed.")
        await add_host(house, host)
        await house.has_status(W1, WorkerStatus.FAILED)
        assert house.fleet.view(W1).error == "The host key has changed."
        await asyncio.sleep(0.3)
        assert host.starts == 1, "trying again is of no use"
        host.error = None
        await house.fleet.resume(W1)
        await house.has_status(W1, WorkerStatus.IDLE)
        assert house.fleet.view(W1).error is None


@pytest.mark.parametrize(
    "spelling",
    ["{url}", "http://localhost:{port}", "http://[::1]:{port}/", "http://127.0.0.2:{port}/x/.."],
)
async def test_server_given_twice_is_refused_until_the_first_is_removed(
    house: House, spelling: str
) -> None:
    async with playing(succeed) as worker:
        await up(house, worker)
        port = worker.url.rpartition(":")[2]
        await house.add(worker, "w2", url=spelling.format(url=worker.url, port=port))
        await house.has_status(W2, WorkerStatus.FAILED)
        assert "'w1'" in (house.fleet.view(W2).error or "")
        assert [each.id for each in house.fleet.schedulable_workers()] == [W1]
        assert (await house.ended(await house.submit())).worker_id == "w1"
        assert house.fleet.owner_of(f"http://localhost:{port}/") == W1
        await house.fleet.remove(W1)
        await house.until(lambda: house.fleet.view(W2).status is not WorkerStatus.FAILED)


async def test_other_workers_are_not_held_up_by_a_place_that_is_taken(house: House) -> None:
    async with playing(succeed) as worker, playing(succeed) as other:
        await up(house, worker)
        await house.add(worker, "w2", url=worker.url)
        await house.has_status(W2, WorkerStatus.FAILED)
        await up(house, other, "w3")
        await house.fleet.remove(W2)
        assert house.fleet.view(W1).status is WorkerStatus.IDLE


# Figures


async def test_figures_count_what_there_is_and_how_busy_it_was(house: House) -> None:
    async with playing(begins) as first, playing(begins) as second:
        await up(house, first)
        await up(house, second, "w2")
        await house.fleet.cordon(W2)
        await house.submit(expected=2000)
        await house.until(lambda: house.fleet.figures().overall.allocated == 1)
        await house.until(lambda: house.fleet.figures().overall.utilization > 0)
        figures = house.fleet.figures().overall
        assert (figures.total, figures.available, figures.idle, figures.running) == (2, 0, 1, 1)
        assert 0 < figures.utilization < 1
        assert house.fleet.figures().pools == {}
