"""From when on the jobs of a batch wait: not before it is accepted, however long that takes."""

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from comfyrail.clock import Instant, after
from comfyrail.ids import BatchId, JobId
from comfyrail.jobs.batches import BatchItem, BatchKind, Grid, NewBatch, WorkflowSource
from comfyrail.jobs.job import Job
from comfyrail.store.interface import JobFilter
from comfyrail.store.sqlite import batch_operations
from comfyrail.store.sqlite.writer import Transaction
from comfyrail.usecases.batch_jobs import BatchBase
from comfyrail.usecases.batch_turns import BatchTurns
from tests.batches.parts import ALICE, CHUNK, LateClock, Parts, open_parts
from tests.graphs import picture

PATIENCE = 30.0
COUNT = 2 * CHUNK + 3


@pytest.fixture
def clock() -> LateClock:
    return LateClock()


@pytest.fixture
async def parts(tmp_path: Path, clock: LateClock) -> AsyncIterator[Parts]:
    async with open_parts(tmp_path, clock=clock) as opened:
        yield opened


@pytest.fixture
def slow_store(monkeypatch: pytest.MonkeyPatch, clock: LateClock) -> None:
    """Every job of a large batch takes ten seconds to be stored."""
    hold = batch_operations._hold

    def hold_slowly(tx: Transaction, job_id: JobId) -> None:
        clock.move(10)
        hold(tx, job_id)

    monkeypatch.setattr(batch_operations, "_hold", hold_slowly)


async def all_jobs(parts: Parts) -> list[Job]:
    page = await parts.store.list_jobs(ALICE.tenant, JobFilter(), None, 1000)
    return sorted(page.jobs, key=lambda job: job.batch_index or 0)


def seconds_between(first: Instant, second: Instant | None) -> float:
    assert second is not None
    return (second - first) / 1000


@pytest.mark.usefixtures("slow_store")
@pytest.mark.parametrize("paused", [False, True])
async def test_queue_timeout_does_not_run_while_a_batch_is_being_stored(
    parts: Parts, clock: LateClock, *, paused: bool
) -> None:
    expired: list[JobId] = []
    if paused:
        await parts.store.pause_queue(None)

    async def keep_looking() -> None:
        while True:
            found, _ = await parts.store.expire_queued()
            expired.extend(found)

    keeper = asyncio.create_task(keep_looking())
    plan = Grid({"1.color": list(range(COUNT))})
    accepted = await parts.submit(plan, queue_timeout=PATIENCE)
    keeper.cancel()
    assert expired == []
    jobs = await all_jobs(parts)
    assert {job.submitted_at for job in jobs} == {accepted.submitted_at}
    batch = (await parts.batches.status(ALICE, accepted.batch_id)).batch
    assert batch.submitted_at == accepted.submitted_at
    for job in jobs:
        assert seconds_between(accepted.submitted_at, job.expires_at) >= PATIENCE
    if not paused:
        clock.move(PATIENCE + 10)
        assert len((await parts.store.expire_queued())[0]) == COUNT


@pytest.mark.usefixtures("slow_store")
async def test_jobs_of_a_large_batch_are_ranked_in_order_from_its_acceptance(parts: Parts) -> None:
    first = await parts.submit(Grid({"1.color": list(range(COUNT))}))
    jobs = await all_jobs(parts)
    target = jobs[0].rank - first.submitted_at
    assert [job.rank - first.submitted_at for job in jobs] == list(range(target, target + COUNT))
    assert target == 3_600_000, "what the class batch is promised"


@pytest.mark.usefixtures("slow_store")
async def test_large_batch_for_later_waits_from_then_on(parts: Parts, clock: LateClock) -> None:
    later = after(clock.now(), 86_400)
    plan = Grid({"1.color": list(range(COUNT))})
    await parts.submit(plan, queue_timeout=PATIENCE, not_before=later)
    jobs = await all_jobs(parts)
    assert {job.expires_at for job in jobs} == {after(later, PATIENCE)}
    assert {job.rank - later - (job.batch_index or 0) for job in jobs} == {3_600_000}
    assert await parts.store.expire_queued() == ((), None)


async def test_queue_timeout_does_not_run_while_a_batch_is_being_checked(
    parts: Parts, clock: LateClock
) -> None:
    batch_id = BatchId("b")
    base = BatchBase(WorkflowSource(json.dumps(picture()).encode()), queue_timeout=PATIENCE)
    with BatchTurns().admit(ALICE.tenant) as making:
        made = await parts.jobs.make_all(ALICE, batch_id, base, [BatchItem({})] * 2, making)
    clock.move(2 * PATIENCE)
    added = await parts.store.add_batch(
        NewBatch(batch_id, ALICE.tenant, BatchKind.LIST, 2), made.jobs
    )
    assert (await parts.store.expire_queued())[0] == ()
    for job in await all_jobs(parts):
        assert job.submitted_at == added.accepted_at
        assert seconds_between(added.accepted_at, job.expires_at) == PATIENCE
