"""Jobs that were on one worker together when it ended: none pays for what another one did [7.4]."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from comfyrail.fleet.company import Company
from comfyrail.fleet.drivers.local import LocalHost, LocalSettings
from comfyrail.fleet.drivers.static import StaticHost
from comfyrail.fleet.worker import TRUSTED
from comfyrail.fleet.workload import PrefetchRules, Workload
from comfyrail.ids import JobId, WorkerId, new_attempt_token
from comfyrail.jobs.job import Job
from comfyrail.jobs.outcome import Lost
from comfyrail.jobs.priority import standing_of
from comfyrail.jobs.states import JobState
from comfyrail.jobs.workers import WorkerStatus
from comfyrail.store.interface import Assignment, WorkerRecord
from tests.fleet.house import TENANT, House, open_house, playing, succeed
from tests.fleet.scripted_worker import ScriptedWorker

W1 = WorkerId("w1")
DEEP = PrefetchRules(horizon=1000)

DEADLY_NODES = """
import os
import signal
import time


class Die:
    @classmethod
    def INPUT_TYPES(cls):
        return {"required": {"number": ("INT", {"default": 0})}}

    RETURN_TYPES = ()
    OUTPUT_NODE = True
    FUNCTION = "run"

    def run(self, number):
        os.kill(os.getpid(), signal.SIGKILL)


class Nap:
    @classmethod
    def INPUT_TYPES(cls):
        return {"required": {"number": ("INT", {"default": 0})}}

    RETURN_TYPES = ()
    OUTPUT_NODE = True
    FUNCTION = "run"

    def run(self, number):
        time.sleep(0.1)
        return {"ui": {"text": [str(number)]}}


NODE_CLASS_MAPPINGS = {"Die": Die, "Nap": Nap}
"""


# Who may have been it


def test_one_that_has_a_worker_to_itself_is_certain() -> None:
    company = Company()
    first, second = company.join(), company.join()
    first.take()
    assert [first.is_certain, second.is_certain] == [True, False], "one is not there yet"
    second.take()
    assert [first.is_certain, second.is_certain] == [False, False]


def test_known_end_of_one_makes_the_other_certain_and_an_unknown_one_does_not() -> None:
    company = Company()
    first, second, third = company.join(), company.join(), company.join()
    for seat in (first, second, third):
        seat.take()
    first.settle()
    first.leave()
    third.leave()
    assert not second.is_certain
    third.settle()
    later = company.join()
    later.take()
    assert not second.is_certain


def test_one_that_runs_alone_waits_for_all_before_it_and_keeps_all_behind_it_waiting() -> None:
    company = Company()
    woken: list[str] = []
    first, alone, last = company.join(), company.join(runs_alone=True), company.join()
    alone.wake = lambda: woken.append("alone")
    last.wake = lambda: woken.append("last")
    assert [seat.has_turn for seat in (first, alone, last)] == [True, False, False]
    first.leave()
    assert woken == ["alone", "last"]
    assert [seat.has_turn for seat in (alone, last)] == [True, False]
    alone.leave()
    assert last.has_turn


# Jobs on workers


class EndingHost(StaticHost):
    def __init__(self, url: str) -> None:
        super().__init__(url)
        self.ended = asyncio.Event()

    async def wait_ended(self) -> str:
        await self.ended.wait()
        self.ended.clear()
        return "the process ended"


@pytest.fixture
async def house(tmp_path: Path) -> AsyncIterator[House]:
    async with open_house(tmp_path, prefetch=DEEP) as opened:
        yield opened


async def silent(_worker: ScriptedWorker, _prompt_id: str) -> None:
    """Takes a prompt and says nothing."""


async def up(house: House, worker: ScriptedWorker) -> EndingHost:
    worker.is_serial = True
    host = EndingHost(worker.url)
    record = WorkerRecord(W1, "static", None, house.clock.now())
    await house.store.save_worker(record)
    house.fleet.add(W1, host, record.added_at)
    await house.until(lambda: house.fleet.view(W1).status in TRUSTED)
    return host


def workload(house: House) -> Workload:
    return house.fleet.find(W1).attempts.workload


def slots(house: House) -> int:
    return next(each.slots for each in house.fleet.schedulable_workers() if each.id == W1)


async def ends(worker: ScriptedWorker, number: int) -> None:
    await succeed(worker, worker.submitted[number])


async def suspected_job(house: House) -> JobId:
    """A job that may be what a worker has ended of; there must be no worker yet."""
    job_id = await house.submit(expected=1)
    token = new_attempt_token()
    await house.store.start_attempts([Assignment(job_id, WorkerId("w0"), token)], "me", 15)
    lost = Lost("the process ended", counted=False, is_suspect=True)
    await house.store.finish_attempt(token, lost)
    return job_id


async def test_job_whose_end_nobody_has_seen_yet_does_not_pay_for_the_one_behind_it(
    house: House,
) -> None:
    async with playing(silent) as worker:
        host = await up(house, worker)
        innocent = await house.submit(expected=1, max_retries=0)
        await house.until(lambda: worker.queue)
        killer = await house.submit(expected=1, max_retries=0)
        await house.until(lambda: worker.pending)
        await worker.say("execution_start", prompt_id=worker.submitted[0])
        await house.until(lambda: any(h.session.has_begun for h in workload(house).held.values()))
        # The first has ended there, and the second has begun: nobody has told.
        worker.queue.clear()
        worker.pending.clear()
        host.ended.set()
        await house.until(lambda: len(worker.submitted) == 3)
        assert house.fleet.view(W1).health.failures == 0
        assert slots(house) == 0, "they run one by one"
        assert len(workload(house).held) == 1
        await ends(worker, 2)
        await house.until(lambda: len(worker.submitted) == 4)
        worker.queue.clear()
        host.ended.set()
        jobs = {each: await house.ended(each) for each in (innocent, killer)}
        attempts = {each: job.attempts for each, job in jobs.items()}
        assert attempts == {innocent: 2, killer: 2}
        by_state = {job.state: job for job in jobs.values()}
        assert by_state.keys() == {JobState.COMPLETED, JobState.FAILED}
        fault = by_state[JobState.FAILED].fault
        assert fault is not None
        assert fault.code == "WORKER_LOST", "it had the worker to itself"
        assert house.fleet.view(W1).health.failures == 1


async def test_worker_that_was_lost_with_several_jobs_takes_one_at_a_time_until_one_succeeds(
    house: House,
) -> None:
    async with playing(silent) as worker:
        host = await up(house, worker)
        for _ in range(2):
            await house.submit(expected=1)
        await house.until(lambda: len(worker.submitted) == 2)
        worker.queue.clear()
        worker.pending.clear()
        await house.store.pause_queue("until it is back")
        fresh = [await house.submit(expected=1, priority=10) for _ in range(2)]
        host.ended.set()
        await house.until(lambda: not workload(house).held)
        await house.has_status(W1, WorkerStatus.IDLE)
        await house.store.resume_queue()
        await house.until(lambda: len(worker.submitted) == 3)
        assert workload(house).jobs[0] in fresh
        assert slots(house) == 0
        await ends(worker, 2)
        await house.until(lambda: len(worker.submitted) == 4)
        assert workload(house).jobs[0] in fresh
        assert not house.fleet.find(W1).attempts.is_cautious


async def test_suspect_is_handed_over_when_the_worker_is_empty_and_nothing_is_behind_it(
    house: House,
) -> None:
    async with playing(silent) as worker:
        suspect = await suspected_job(house)
        await up(house, worker)
        await house.until(lambda: worker.submitted)
        await house.submit(expected=1)
        assert slots(house) == 0
        assert workload(house).jobs == (suspect,)
        await ends(worker, 0)
        await house.until(lambda: len(worker.submitted) == 2)


async def with_suspect_behind_another(house: House, worker: ScriptedWorker) -> JobId:
    """On the worker's list, and not on the worker."""
    suspect = await suspected_job(house)
    await house.store.pause_queue("until the other is there")
    await up(house, worker)
    await house.store.reprioritize(TENANT, suspect, 1, standing_of(1))
    await house.submit(expected=1, priority=10)
    await house.store.resume_queue()
    await house.until(lambda: suspect in workload(house).jobs and worker.submitted)
    return suspect


async def test_suspect_behind_another_waits_until_that_has_ended(house: House) -> None:
    async with playing(silent) as worker:
        suspect = await with_suspect_behind_another(house, worker)
        assert len(workload(house).jobs) == 2
        assert len(worker.submitted) == 1
        assert slots(house) == 0
        await ends(worker, 0)
        await house.until(lambda: len(worker.submitted) == 2)
        await ends(worker, 1)
        assert (await house.ended(suspect)).state is JobState.COMPLETED


async def test_suspect_that_waits_for_its_turn_can_be_cancelled(house: House) -> None:
    async with playing(silent) as worker:
        suspect = await with_suspect_behind_another(house, worker)
        await house.store.request_cancel(TENANT, suspect)
        assert (await house.ended(suspect)).state is JobState.CANCELLED
        assert len(worker.submitted) == 1
        await house.until(lambda: len(workload(house).held) == 1)
        assert slots(house) > 0, "others may be behind the one that runs again"


async def test_suspect_that_waits_for_its_turn_goes_back_with_the_worker_at_no_cost(
    house: House,
) -> None:
    async with playing(silent) as worker:
        suspect = await with_suspect_behind_another(house, worker)
        await house.fleet.drain(W1)
        await house.in_state(suspect, JobState.QUEUED)
        job = await house.store.get_job(TENANT, suspect)
        assert (job.retries, job.bounces, job.runs_alone) == (0, 1, True)
        assert len(worker.submitted) == 1


async def test_jobs_between_those_that_kill_their_process_all_end_well(house: House) -> None:
    """Real processes, and no retries: only those that kill may fail."""
    pack = house.folder / "deadly.py"
    pack.write_text(DEADLY_NODES)
    settings = LocalSettings(nodes=(str(pack),))
    host = LocalHost(house.folder / "worker", house.folder / "input", settings=settings)
    await house.store.save_worker(WorkerRecord(W1, "local", None, house.clock.now()))
    house.fleet.add(W1, host, house.clock.now())
    await house.has_status(W1, WorkerStatus.IDLE)

    async def submit(kind: str, number: int) -> JobId:
        node = {"class_type": kind, "inputs": {"number": number}}
        return await house.submit(graph={"1": node}, expected=0.1, max_retries=0)

    naps = [await submit("Nap", number) for number in range(3)]
    killer = await submit("Die", 0)
    naps += [await submit("Nap", number) for number in range(3, 6)]
    ended: list[Job] = [await house.ended(each) for each in naps]
    assert [job.state for job in ended] == [JobState.COMPLETED] * len(naps)
    fault = (await house.ended(killer)).fault
    assert fault is not None
    assert fault.code == "WORKER_LOST"
