"""What attempts teach and cost, around a real store [3.2, 3.4]."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from comfyrail.clock import Instant, SystemClock
from comfyrail.fleet.accounts import Measured
from comfyrail.ids import AttemptToken, JobId, TenantId, WorkerId, new_attempt_token, new_job_id
from comfyrail.jobs.job import Attempt, NewJob, Progress, Usage
from comfyrail.jobs.needs import JobNeeds
from comfyrail.jobs.outcome import Completed
from comfyrail.jobs.priority import standing_of
from comfyrail.jobs.states import AttemptState
from comfyrail.planning.cost import CostRates
from comfyrail.planning.records import ExecutionRecord
from comfyrail.store.interface import Assignment, Store
from comfyrail.store.sqlite.store import open_sqlite_store
from comfyrail.usecases.analysts import CurrentAnalyst
from comfyrail.usecases.estimates import Estimates
from comfyrail.workflow.catalog import NodeCatalog
from tests.graphs import picture

RATES = CostRates(by_name={"gpu": 2.0})
CATALOG = NodeCatalog()
SIZES: dict[str, int] = {}


@asynccontextmanager
async def estimates(folder: Path) -> AsyncIterator[tuple[Estimates, Store]]:
    clock = SystemClock()
    store = await open_sqlite_store(folder, clock)
    made = Estimates(store, clock, RATES, CurrentAnalyst(lambda: CATALOG, lambda: SIZES))
    try:
        yield made, store
    finally:
        await store.close()


def attempt(prompt: dict[str, Any]) -> Attempt:
    return Attempt(
        JobId("j"), 1, WorkerId("w"), AttemptToken("t"), "t", AttemptState.RUNNING, Instant(0), 1.0,
        1.0, TenantId("t"), prompt, Progress(), False,
    )  # fmt: skip


def measured(*, is_whole: bool = True) -> Measured:
    return Measured(3.0, {"1": 1.0, "3": 0.5}, frozenset({"2"}), is_whole)


async def test_whole_attempt_leaves_a_record_without_what_the_user_wrote(tmp_path: Path) -> None:
    async with estimates(tmp_path) as (made, _):
        usage = made.open(attempt(picture()), "gpu").settle(measured())
        assert usage.cost == 6.0
        assert usage.record is not None
        assert b"test" not in usage.record, "the prefix of the file's name"
        record = ExecutionRecord.decode(usage.record)
        assert record is not None
        assert (record.seconds, len(record.nodes)) == (3.0, 3)


async def test_attempt_that_was_taken_over_or_failed_costs_and_teaches_nothing(
    tmp_path: Path,
) -> None:
    async with estimates(tmp_path) as (made, _):
        usage = made.open(attempt(picture()), "gpu").settle(measured(is_whole=False))
        assert (usage.cost, usage.record) == (6.0, None)


async def test_very_large_prompt_is_not_analysed_and_costs_its_time(tmp_path: Path) -> None:
    node = {"class_type": "A", "inputs": {str(number): 1 for number in range(3000)}}
    async with estimates(tmp_path) as (made, _):
        account = made.open(attempt({"1": node}), "gpu")
        assert account.weights() == {}
        assert account.settle(measured()) == Usage(6.0, seconds=3.0)


async def add_record(store: Store, content: bytes) -> None:
    now = SystemClock().now()
    prompt = b'{"1": {"class_type": "A", "inputs": {}}}'
    job = NewJob(new_job_id(), TenantId("t"), prompt, 1, JobNeeds(), 5, standing_of(5), 10, 30, now)
    await store.add_job(job)
    assignment = Assignment(job.id, WorkerId("w"), new_attempt_token())
    (started,) = await store.start_attempts([assignment], "me", 15)
    await store.finish_attempt(started.token, Completed(()), usage=Usage(0.0, content))


async def test_records_are_learned_as_they_come_and_broken_ones_passed_over(
    tmp_path: Path,
) -> None:
    async with estimates(tmp_path) as (made, store):
        usage = made.open(attempt(picture()), "gpu").settle(measured())
        assert usage.record is not None
        await add_record(store, usage.record)
        learning = asyncio.create_task(made.run())
        async with asyncio.timeout(10):
            while made.model.executions != 1:  # noqa: ASYNC110 - the state of another task
                await asyncio.sleep(0.01)
            await add_record(store, b"no record")
            await add_record(store, usage.record)
            while made.model.executions != 2:  # noqa: ASYNC110
                await asyncio.sleep(0.01)
        learning.cancel()
        await asyncio.gather(learning, return_exceptions=True)
