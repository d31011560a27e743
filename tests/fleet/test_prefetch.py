"""What a worker offers the scheduler, and jobs that wait in its own queue [5.3, 6.1]."""

import asyncio
import os
import signal
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from comfyrail.fleet.drivers.local import LocalHost
from comfyrail.fleet.traits import WorkerTraits
from comfyrail.fleet.workload import PrefetchRules
from comfyrail.ids import WorkerId
from comfyrail.jobs.events import EventType
from comfyrail.jobs.states import JobState
from comfyrail.jobs.workers import SchedulableWorker, WorkerStatus
from comfyrail.store.interface import WorkerRecord
from tests.fleet.house import TENANT, House, open_house, playing, succeed
from tests.fleet.scripted_worker import OBJECT_INFO, ScriptedWorker
from tests.graphs import slow_picture

W1 = WorkerId("w1")


@pytest.fixture
async def house(tmp_path: Path) -> AsyncIterator[House]:
    async with open_house(tmp_path) as opened:
        yield opened


async def begins(worker: ScriptedWorker, prompt_id: str) -> None:
    """Says that it has begun, and then nothing more."""
    await worker.say("execution_start", prompt_id=prompt_id)


async def silent(worker: ScriptedWorker, prompt_id: str) -> None:
    """Takes a prompt and says nothing."""


def offer(house: House, worker_id: WorkerId = W1) -> SchedulableWorker:
    return next(each for each in house.fleet.schedulable_workers() if each.id == worker_id)


async def up(house: House, worker: ScriptedWorker, name: str = "w1", **traits: Any) -> WorkerId:
    worker_id = await house.add(worker, name, WorkerTraits(**traits))
    await house.has_status(worker_id, WorkerStatus.IDLE)
    return worker_id


def loading(*names: str) -> dict[str, Any]:
    loader = {"input": {"required": {"ckpt_name": [list(names)]}}, "output": ["IMAGE"]}
    return {**OBJECT_INFO, "Load": loader}


def graph_with(model: str) -> dict[str, Any]:
    return {
        "1": {"class_type": "Load", "inputs": {"ckpt_name": model}},
        "2": {"class_type": "Keep", "inputs": {"image": ["1", 0]}},
    }


# What it offers


async def test_idle_worker_offers_one_slot_and_a_busy_one_says_when_it_is_free(
    house: House,
) -> None:
    async with playing(begins) as worker:
        await up(house, worker)
        idle = offer(house)
        assert (idle.slots, idle.free_in, idle.load) == (1, 0.0, 0.0)
        await house.submit(expected=1000)
        await house.until(lambda: offer(house).load)
        busy = offer(house)
        assert (busy.slots, busy.load) == (0, 1.0)
        assert 900 < busy.free_in <= 1000


async def test_asking_again_costs_nothing_until_something_changes(house: House) -> None:
    async with playing(begins) as first, playing(succeed) as second:
        await up(house, first)
        await up(house, second, "w2")
        await asyncio.sleep(0.05)
        offers = house.fleet.schedulable_workers()
        assert house.fleet.schedulable_workers() is offers
        before = {each.id: each for each in offers}
        await house.submit(expected=1000)
        await house.until(lambda: any(each.load for each in house.fleet.schedulable_workers()))
        after = {each.id: each for each in house.fleet.schedulable_workers()}
        same = [key for key in before if before[key] is after[key]]
        assert len(same) == 1, "only the one that was given a job is described anew"


async def test_workers_that_are_alike_share_one_profile(house: House) -> None:
    async with (
        playing(succeed) as first,
        playing(succeed) as second,
        playing(succeed) as third,
        playing(succeed) as other,
    ):
        other.object_info = loading("a.ckpt")
        await up(house, first, "w1", labels={"region": "eu"})
        await up(house, second, "w2", labels={"region": "eu"})
        await up(house, third, "w3", labels={"region": "us"})
        await up(house, other, "w4", labels={"region": "eu"})
        profiles = {each.id: each.profile for each in house.fleet.schedulable_workers()}
        assert profiles[WorkerId("w1")] is profiles[WorkerId("w2")]
        assert len({id(each) for each in profiles.values()}) == 3
        assert profiles[WorkerId("w3")].labels == {"region": "us"}
        assert "Load" in profiles[WorkerId("w4")].node_types


async def test_models_are_known_by_folder_and_an_empty_folder_is_told(house: House) -> None:
    async with playing(succeed) as worker:
        worker.models = {"checkpoints": {"a.ckpt": 5}, "loras": {}}
        await up(house, worker)
        await house.until(lambda: offer(house).profile.models)
        assert offer(house).profile.models == {
            "checkpoints": frozenset({"a.ckpt"}),
            "loras": frozenset(),
        }


@pytest.mark.parametrize(
    ("options", "warm"), [([], {"b.ckpt"}), (["--cache-lru=4"], {"a.ckpt", "b.ckpt"})]
)
async def test_models_of_the_jobs_it_has_count_as_warm_as_far_as_it_keeps_them(
    house: House, options: list[str], warm: set[str]
) -> None:
    async with playing(silent) as worker:
        worker.options = options
        worker.object_info = loading("a.ckpt", "b.ckpt")
        await up(house, worker)
        await house.submit(graph=graph_with("a.ckpt"), expected=0.1)
        await house.until(lambda: offer(house).warm == {"a.ckpt"})
        await house.submit(graph=graph_with("b.ckpt"), expected=0.1)
        await house.until(lambda: offer(house).warm == warm)
        assert house.fleet.view(W1).warm_models == (), "nothing has been loaded yet"


async def test_job_that_asks_for_a_label_goes_to_a_worker_that_has_it(house: House) -> None:
    async with playing(succeed) as first, playing(succeed) as second:
        await up(house, first, "w1", labels={"region": "us"})
        await up(house, second, "w2", labels={"region": "eu"})
        for _ in range(3):
            job = await house.ended(await house.submit(labels={"region": "eu"}))
            assert job.worker_id == "w2"
        assert first.submitted == []


# Prefetch


async def test_next_job_is_on_the_worker_before_the_first_one_ends(house: House) -> None:
    async with playing(begins) as worker:
        await up(house, worker)
        await house.submit(expected=2.5)
        await house.until(lambda: worker.submitted)
        await house.submit(expected=100)
        assert len(worker.queue) == 1, "there is more than the horizon left"
        # Nothing happens meanwhile: the approach of the end alone must wake the scheduler.
        await house.until(lambda: len(worker.submitted) == 2)
        assert len(worker.queue) == 2
        assert len(house.fleet.view(W1).current_jobs) == 2


async def test_short_jobs_flow_up_to_the_depth(tmp_path: Path) -> None:
    async with (
        open_house(tmp_path, prefetch=PrefetchRules(horizon=2.0, depth=3)) as house,
        playing(silent) as worker,
    ):
        await up(house, worker)
        for _ in range(6):
            await house.submit(expected=0.05)
        await house.until(lambda: len(worker.submitted) == 3)
        assert offer(house).slots == 0
        worker.succeed(worker.submitted[0])
        await worker.say("executing", node=None, prompt_id=worker.submitted[0])
        await house.until(lambda: len(worker.submitted) == 4)


async def test_one_job_at_most_waits_behind_one_of_unknown_length(house: House) -> None:
    async with playing(begins) as worker:
        await up(house, worker)
        jobs = [await house.submit(expected=0) for _ in range(4)]
        await house.until(lambda: len(worker.submitted) == 2)
        assert offer(house).slots == 0
        states = [(await house.store.get_job(TENANT, each)).state for each in jobs]
        assert states.count(JobState.QUEUED) == 2


async def test_job_behind_one_that_takes_too_long_goes_to_another_worker(tmp_path: Path) -> None:
    async with (
        open_house(tmp_path, prefetch=PrefetchRules(horizon=0.2)) as house,
        playing(begins) as slow,
        playing(succeed) as other,
    ):
        slow.is_serial = True
        await up(house, slow)
        await house.submit(expected=0.01)
        waiting = await house.submit(expected=0.01)
        await house.until(lambda: len(slow.submitted) == 2)
        await up(house, other, "w2")
        done = await house.ended(waiting)
        assert (done.state, done.worker_id, done.retries) == (JobState.COMPLETED, "w2", 0)
        assert slow.submitted[1] in slow.deleted, "it was taken out of the first worker's queue"


async def test_depth_of_one_is_no_prefetching(tmp_path: Path) -> None:
    async with (
        open_house(tmp_path, prefetch=PrefetchRules(depth=1)) as house,
        playing(silent) as worker,
    ):
        await up(house, worker)
        await house.submit(expected=0.01)
        await house.submit(expected=0.01)
        await house.until(lambda: worker.submitted)
        assert offer(house).slots == 0


async def test_free_worker_goes_before_the_queue_of_a_busy_one(house: House) -> None:
    async with playing(silent) as first, playing(silent) as second:
        await up(house, first)
        await up(house, second, "w2")
        await house.submit(expected=0.5)
        await house.submit(expected=0.5)
        await house.until(lambda: first.submitted and second.submitted)


async def test_job_that_waits_on_a_worker_is_done_after_the_one_before_it(house: House) -> None:
    async def runs(worker: ScriptedWorker, prompt_id: str) -> None:
        await worker.say("execution_start", prompt_id=prompt_id)
        await asyncio.sleep(0.05)
        await succeed(worker, prompt_id)

    async with playing(runs) as worker:
        worker.is_serial = True
        await up(house, worker)
        jobs = [await house.submit(expected=0.05) for _ in range(12)]
        ended = [await house.ended(job_id) for job_id in jobs]
        assert {(job.state, job.attempts) for job in ended} == {(JobState.COMPLETED, 1)}
        assert house.fleet.view(W1).status in {WorkerStatus.IDLE, WorkerStatus.BUSY}


async def test_kill_of_a_worker_with_a_job_behind_the_running_one_loses_neither(
    tmp_path: Path,
) -> None:
    """kill -9 of a real process: both jobs end, each once."""
    async with open_house(tmp_path, prefetch=PrefetchRules(horizon=1000)) as house:
        host = LocalHost(tmp_path / "worker", tmp_path / "input")
        record = WorkerRecord(W1, "local", None, house.clock.now())
        await house.store.save_worker(record)
        house.fleet.add(W1, host, record.added_at)
        await house.has_status(W1, WorkerStatus.IDLE)
        jobs = [await house.submit(graph=slow_picture(1.0, color), expected=5) for color in (1, 2)]
        await house.until(lambda: len(house.fleet.view(W1).current_jobs) == 2)
        first = house.fleet.find(W1).attempts.workload.held
        await house.until(lambda: any(held.session.has_begun for held in first.values()))
        assert host.pid is not None
        os.kill(host.pid, signal.SIGKILL)
        ended = [await house.ended(job_id) for job_id in jobs]
        assert [job.state for job in ended] == [JobState.COMPLETED] * 2
        assert [job.attempts for job in ended] == [2, 2]
        for job in ended:
            assert len(await house.store.list_outputs(TENANT, job.id)) == 1
            events = await house.store.events_after(TENANT, job.id, 0, 1000)
            assert sum(event.type is EventType.COMPLETED for event in events) == 1
        assert [job.retries for job in ended] == [0, 0], "nobody knows which one it ended of"
        assert all(job.runs_alone for job in ended)
