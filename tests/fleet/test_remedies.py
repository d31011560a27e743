"""How an attempt that failed is tried again: a real store and scheduler, scripted workers."""

from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from typing import Any

import msgspec
import pytest

from comfyrail.fleet.remedies import Mended
from comfyrail.ids import JobId, TenantId, WorkerId
from comfyrail.jobs.events import Event, EventType
from comfyrail.jobs.recovery import RecoveryKind
from comfyrail.jobs.states import AttemptState, JobState
from comfyrail.jobs.workers import WorkerStatus
from tests.fleet.bench import silent
from tests.fleet.house import TENANT, House, open_house, playing, succeed
from tests.fleet.scripted_worker import GRAPH, ScriptedWorker

MENDED = {**GRAPH, "1": {**GRAPH["1"], "inputs": {"mended": True}}}


class ScriptedMender:
    """Says what a test wants it to find."""

    def __init__(self) -> None:
        self.finds = Mended()
        self.breaks = False
        self.asked: list[tuple[TenantId, Mapping[str, Any]]] = []

    async def mend(self, tenant: TenantId, prompt: Mapping[str, Any]) -> Mended:
        self.asked.append((tenant, prompt))
        if self.breaks:
            raise RuntimeError("broken")
        return self.finds


@pytest.fixture
def mender() -> ScriptedMender:
    return ScriptedMender()


@pytest.fixture
async def house(tmp_path: Path, mender: ScriptedMender) -> AsyncIterator[House]:
    async with open_house(tmp_path, mender=mender) as opened:
        yield opened


def fails(exception_type: str, message: str, times: int = 99) -> Any:
    """A script that fails for so many prompts and succeeds afterwards."""

    async def script(worker: ScriptedWorker, prompt_id: str) -> None:
        if len(worker.submitted) <= times:
            error = {
                "node_id": "1",
                "node_type": "Make",
                "exception_type": exception_type,
                "exception_message": message,
            }
            worker.end(prompt_id, "error", [["execution_error", error]])
            await worker.say("executing", node=None, prompt_id=prompt_id)
        else:
            await succeed(worker, prompt_id)

    return script


async def up(house: House, worker: ScriptedWorker, name: str) -> None:
    await house.has_status(await house.add(worker, name), WorkerStatus.IDLE)


async def events_of(house: House, job_id: JobId) -> list[Event]:
    return list(await house.store.events_after(TENANT, job_id, 0, 1000))


async def recoveries(house: House, job_id: JobId) -> list[RecoveryKind | None]:
    return [each.recovery for each in await house.store.list_attempts(TENANT, job_id)]


async def test_error_that_may_pass_is_tried_once_more_and_elsewhere(house: House) -> None:
    script = fails("RuntimeError", "something odd")
    async with playing(script) as bad, playing(succeed) as good:
        await up(house, bad, "w1")
        job_id = await house.submit()
        await house.until(lambda: bad.submitted)
        await up(house, good, "w2")
        job = await house.ended(job_id)
        assert (job.state, job.worker_id, job.retries) == (JobState.COMPLETED, "w2", 1)
        assert await recoveries(house, job_id) == [RecoveryKind.AGAIN, None]
        again = (await events_of(house, job_id))[2:]
        told = next(each.data for each in again if each.type is EventType.QUEUED)
        assert told["error"]["code"] == "NODE_FAILED"
        assert told["recovery"] == "again"
        assert told["delay"] > 0


async def test_error_that_comes_every_time_ends_the_job_at_once(
    house: House, mender: ScriptedMender
) -> None:
    async with playing(fails("ValueError", "no such mode")) as worker:
        await up(house, worker, "w1")
        job = await house.ended(await house.submit())
        assert (job.state, job.attempts) == (JobState.FAILED, 1)
        assert job.fault is not None
        assert job.fault.suggested_action
        assert len(mender.asked) == 1, "the graph was looked at again before"


async def test_graph_that_can_be_mended_runs_again_mended(
    house: House, mender: ScriptedMender
) -> None:
    mender.finds = Mended(msgspec.json.encode(MENDED), len(MENDED), changes=("mode is 'a' now",))
    async with playing(fails("ValueError", "no such mode", 1)) as worker:
        await up(house, worker, "w1")
        job_id = await house.submit()
        job = await house.ended(job_id)
        assert (job.state, job.retries) == (JobState.COMPLETED, 1)
        assert worker.prompts[worker.submitted[-1]]["prompt"]["1"]["inputs"]["mended"] is True
        told = [each.data for each in await events_of(house, job_id) if "changes" in each.data]
        assert [each["changes"] for each in told] == [["mode is 'a' now"]]


async def test_graph_that_is_no_longer_right_says_what_is_wrong(
    house: House, mender: ScriptedMender
) -> None:
    mender.finds = Mended(findings=[{"message": "there is no such node any more"}])
    async with playing(fails("RuntimeError", "something odd")) as worker:
        await up(house, worker, "w1")
        job = await house.ended(await house.submit())
        assert (job.state, job.attempts) == (JobState.FAILED, 1)
        assert job.fault is not None
        assert job.fault.details["findings"] == [{"message": "there is no such node any more"}]


async def test_job_without_memory_is_tried_twice_more_with_a_smaller_need(house: House) -> None:
    async with playing(fails("torch.OutOfMemoryError", "Allocation on device")) as worker:
        await up(house, worker, "w1")
        job_id = await house.submit()
        job = await house.ended(job_id)
        assert (job.state, job.attempts, job.retries) == (JobState.FAILED, 3, 2)
        assert await recoveries(house, job_id) == [
            RecoveryKind.LESS_MEMORY,
            RecoveryKind.LESS_MEMORY,
            None,
        ]
        await house.until(lambda: len(worker.freed) == 3)


async def test_job_that_ran_too_long_gets_half_as_much_time_again_once(house: House) -> None:
    async with playing(silent) as worker:
        worker.obeys_interrupts = True
        await up(house, worker, "w1")
        job_id = await house.submit(timeout=0.2)
        job = await house.ended(job_id)
        assert (job.state, job.attempts) == (JobState.FAILED, 2)
        assert job.timeout_seconds == pytest.approx(0.3)
        assert job.fault is not None
        assert job.fault.code == "EXECUTION_TIMEOUT"
        assert await recoveries(house, job_id) == [RecoveryKind.MORE_TIME, None]


async def test_job_that_asks_for_no_retries_has_none(house: House) -> None:
    async with playing(fails("RuntimeError", "something odd")) as worker:
        await up(house, worker, "w1")
        job = await house.ended(await house.submit(max_retries=0))
        assert (job.state, job.attempts) == (JobState.FAILED, 1)


async def test_mender_that_breaks_does_not_keep_the_job_from_ending(
    house: House, mender: ScriptedMender
) -> None:
    mender.breaks = True
    async with playing(fails("ValueError", "no such mode")) as worker:
        await up(house, worker, "w1")
        job_id = await house.submit()
        job = await house.ended(job_id)
        assert job.state is JobState.FAILED
        (attempt,) = await house.store.list_attempts(TENANT, job_id)
        assert (attempt.state, attempt.worker_id) == (AttemptState.FAILED, WorkerId("w1"))
