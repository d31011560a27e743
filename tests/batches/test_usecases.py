"""Submitting, watching and stopping batches, around a real store [4.6]."""

import asyncio
import json

import pytest

from comfyrail.clock import SystemClock, after
from comfyrail.errors import (
    BatchNotFound,
    Conflict,
    IdempotencyMismatch,
    InvalidWorkflow,
    MalformedRequest,
    RequestError,
)
from comfyrail.ids import BatchId, JobId
from comfyrail.jobs.batches import (
    BatchItem,
    BatchState,
    Grid,
    ItemList,
    Variant,
    Variants,
    WorkflowSource,
)
from comfyrail.jobs.job import IdempotencyKey
from comfyrail.jobs.outcome import Cancelled, Lost
from comfyrail.jobs.parameter_search import Range, Search
from comfyrail.jobs.priority import QueueClass
from comfyrail.jobs.states import JobState
from comfyrail.store.signals import QUEUE
from comfyrail.usecases import batch_jobs
from comfyrail.usecases.batch_jobs import BatchBase
from comfyrail.usecases.batch_turns import BatchTurns
from comfyrail.usecases.library import Draft
from tests.batches.parts import ALICE, BOB, CHUNK, Parts, parameters_of
from tests.graphs import picture


async def queued_jobs(parts: Parts) -> int:
    return (await parts.store.count_jobs())[JobState.QUEUED]


async def startable_jobs(parts: Parts) -> int:
    return sum(len(lane.jobs) for lane in await parts.store.queue_lanes(100_000, 100))


async def test_list_becomes_jobs_in_order_with_their_parameters(parts: Parts) -> None:
    items = [
        BatchItem({"1.width": 10}, "small"),
        BatchItem({"1": {"width": 20}}, priority=9),
        BatchItem({}),
    ]
    accepted = await parts.submit(
        ItemList(items), parameters={"1": {"width": 5, "height": 7}}, name="three"
    )
    assert (accepted.name, accepted.planned, len(accepted.job_ids)) == ("three", 3, 3)
    page = await parts.members(accepted.batch_id)
    assert [member.job_id for member in page.members] == accepted.job_ids
    assert [member.name for member in page.members] == ["small", None, None]
    assert parameters_of(page) == [{"1.width": 10}, {"1": {"width": 20}}, {}]
    sizes = []
    for job_id in accepted.job_ids:
        inputs = (await parts.start(job_id)).prompt["1"]["inputs"]
        sizes.append((inputs["width"], inputs["height"]))
    assert sizes == [(10, 7), (20, 7), (5, 7)]


async def test_jobs_wait_for_quiet_times_unless_a_priority_is_given(parts: Parts) -> None:
    items = [BatchItem({}), BatchItem({}, priority=9)]
    accepted = await parts.submit(ItemList(items))
    jobs = [await parts.store.get_job(ALICE.tenant, each) for each in accepted.job_ids]
    assert [job.queue_class for job in jobs] == [QueueClass.BATCH, QueueClass.HIGH]
    assert jobs[0].expires_at is None
    assert [job.batch_index for job in jobs] == [0, 1]
    accepted = await parts.submit(ItemList([BatchItem({})]), priority=5)
    job = await parts.store.get_job(ALICE.tenant, accepted.job_ids[0])
    assert job.queue_class is not QueueClass.BATCH


async def test_variants_run_in_turns_with_the_same_seeds(parts: Parts) -> None:
    other = WorkflowSource(json.dumps(picture(height=99)).encode())
    plan = Variants(
        {"a": Variant({"1.height": 1}), "b": Variant(source=other, repeat=1)},
        {"1.width": [11, 22]},
    )
    accepted = await parts.submit(plan)
    page = await parts.members(accepted.batch_id)
    assert [member.name for member in page.members] == ["a", "b", "a"]
    assert [each["1.width"] for each in parameters_of(page)] == [11, 11, 22]
    prompts = [(await parts.start(each)).prompt["1"]["inputs"] for each in accepted.job_ids]
    assert [each["height"] for each in prompts] == [1, 99, 1]


async def test_all_items_are_checked_before_any_is_stored(parts: Parts) -> None:
    items = [BatchItem({"1.width": 1 if number % 2 else -1}) for number in range(8)]
    items[3] = BatchItem({"1.widht": 5}, "typo")
    with pytest.raises(InvalidWorkflow) as caught:
        await parts.submit(ItemList(items))
    findings = caught.value.details["findings"]
    assert {finding["details"]["item"] for finding in findings} == {0, 2, 3, 4, 6}
    assert caught.value.details["items"] == [0, 2, 3, 4, 6]
    assert "Item 3 (typo)" in next(each["message"] for each in findings if "typo" in str(each))
    assert "'width'" in next(each["message"] for each in findings if "typo" in str(each))
    assert await queued_jobs(parts) == 0
    assert (await parts.batches.page(ALICE, None, 10))[0] == []


async def test_far_too_many_bad_items_are_not_all_listed(parts: Parts) -> None:
    items = [BatchItem({"1.width": -1})] * 3000
    with pytest.raises(InvalidWorkflow) as caught:
        await parts.submit(ItemList(items))
    assert len(caught.value.details["items"]) == 20


async def test_wrong_priority_of_an_item_is_named(parts: Parts) -> None:
    with pytest.raises(MalformedRequest, match="Item 1: priority is 1"):
        await parts.submit(ItemList([BatchItem({}), BatchItem({}, priority=11)]))


async def test_grid_of_a_billion_is_refused_without_being_made(parts: Parts) -> None:
    values = list(range(1000))
    plan = Grid({"1.width": values, "1.height": values, "1.color": values})
    with pytest.raises(RequestError, match="1,000,000,000 jobs") as caught:
        await parts.submit(plan)
    assert caught.value.code == "BATCH_TOO_LARGE"
    endless = Grid({str(number): values for number in range(100)})
    with pytest.raises(RequestError, match=r"about 10\^300 jobs"):
        await parts.submit(endless)


async def test_large_batch_starts_only_when_all_of_it_is_stored(parts: Parts) -> None:
    count = 3 * CHUNK + 7
    seen: list[int] = []

    async def look() -> None:
        while True:
            seen.append(await startable_jobs(parts))
            await asyncio.sleep(0)

    watcher = asyncio.create_task(look())
    accepted = await parts.submit(Grid({"1.color": list(range(count))}))
    watcher.cancel()
    assert len(accepted.job_ids) == count
    assert await startable_jobs(parts) == count
    partly = [number for number in seen if 0 < number < CHUNK]
    assert not partly
    place = await parts.store.queue_place(accepted.job_ids[-1])
    assert place is not None
    assert place.position == count
    colors = [
        member.parameters["1.color"] for member in (await parts.members(accepted.batch_id)).members
    ]
    assert colors == list(range(count))


async def test_large_batch_waits_for_its_time(parts: Parts) -> None:
    later = after(SystemClock().now(), 3600)
    count = CHUNK + 1
    accepted = await parts.submit(Grid({"1.color": list(range(count))}), not_before=later)
    assert await startable_jobs(parts) == 0
    assert await parts.store.release_due() == later
    assert (await parts.batches.status(ALICE, accepted.batch_id)).batch.counts.queued == count


async def test_checks_of_a_batch_let_others_at_the_event_loop(parts: Parts) -> None:
    is_done, turns = False, 0

    async def count_turns() -> None:
        nonlocal turns
        while not is_done:
            turns += 1
            await asyncio.sleep(0)

    counter = asyncio.create_task(count_turns())
    with BatchTurns().admit(ALICE.tenant) as making:
        await parts.jobs.make_all(
            ALICE,
            BatchId("b"),
            BatchBase(WorkflowSource(json.dumps(picture()).encode())),
            [BatchItem({"1.color": number}) for number in range(300)],
            making,
        )
    is_done = True
    await counter
    assert turns > 3, "others have their turns while the checks run"


async def test_counts_progress_and_end_add_up(parts: Parts) -> None:
    accepted = await parts.submit(Grid({"1.color": [1, 2, 3, 4]}))
    first, second, third, fourth = accepted.job_ids
    status = await parts.batches.status(ALICE, accepted.batch_id)
    assert status.batch.state is BatchState.RUNNING
    assert (status.batch.progress, status.batch.started_at) == (0.0, None)
    await parts.complete(first)
    await parts.start(second)
    batch = (await parts.batches.status(ALICE, accepted.batch_id)).batch
    counts = batch.counts
    assert (counts.completed, counts.processing, counts.queued) == (1, 1, 2)
    assert batch.progress == 0.25
    assert batch.started_at is not None
    assert batch.completed_at is None
    await parts.store.request_cancel(ALICE.tenant, third)
    await parts.complete(fourth)
    batch = (await parts.batches.status(ALICE, accepted.batch_id)).batch
    assert (batch.counts.completed, batch.counts.cancelled, batch.progress) == (2, 1, 0.75)


async def test_batch_with_a_failed_job_ends_as_failed(parts: Parts) -> None:
    accepted = await parts.submit(Grid({"1.color": [1, 2]}))
    await parts.fail(accepted.job_ids[0])
    assert await parts.searches.look() == 0
    await parts.complete(accepted.job_ids[1])
    batch = (await parts.batches.status(ALICE, accepted.batch_id)).batch
    assert (batch.state, batch.progress) == (BatchState.FAILED, 1.0)
    assert batch.completed_at is not None
    member = (await parts.members(accepted.batch_id)).members[0]
    assert member.fault is not None
    assert member.fault.message == "It broke."


async def test_first_failure_cancels_what_is_queued_but_not_what_runs(parts: Parts) -> None:
    accepted = await parts.submit(Grid({"1.color": list(range(6))}), stop_on_error=True)
    await parts.complete(accepted.job_ids[0])
    assert await parts.searches.look() == 1
    running = await parts.start(accepted.job_ids[1])
    await parts.fail(accepted.job_ids[2])
    assert await parts.searches.look() == 1
    batch = (await parts.batches.status(ALICE, accepted.batch_id)).batch
    assert (batch.counts.cancelled, batch.counts.processing) == (3, 1)
    assert batch.state is BatchState.RUNNING
    assert batch.stopped_at is not None
    assert not await parts.store.is_cancel_requested(accepted.job_ids[1])
    await parts.finish(running)
    assert await parts.searches.look() == 0
    batch = (await parts.batches.status(ALICE, accepted.batch_id)).batch
    assert (batch.state, batch.counts.completed) == (BatchState.FAILED, 2)


async def test_nothing_of_a_batch_starts_after_its_first_failure(parts: Parts) -> None:
    accepted = await parts.submit(Grid({"1.color": list(range(4))}), stop_on_error=True)
    running = await parts.start(accepted.job_ids[1])
    await parts.fail(accepted.job_ids[0])
    batch = (await parts.batches.status(ALICE, accepted.batch_id)).batch
    assert batch.stopped_at is not None
    assert not await parts.try_to_start(accepted.job_ids[2])
    await parts.store.finish_attempt(running.token, Lost("the worker is gone"))
    assert not await parts.try_to_start(accepted.job_ids[1])
    with parts.store.signals.subscribe(QUEUE) as news:
        await parts.searches.look()
        assert await news.wait(0), "a worker that was kept for one of them is free again"
    batch = (await parts.batches.status(ALICE, accepted.batch_id)).batch
    assert (batch.counts.failed, batch.counts.cancelled) == (1, 3)


async def test_failure_does_not_stop_other_batches(parts: Parts) -> None:
    plan = Grid({"1.color": [1, 2]})
    patient = await parts.submit(plan)
    other = await parts.submit(plan, stop_on_error=True)
    await parts.fail(patient.job_ids[0])
    assert await parts.try_to_start(patient.job_ids[1])
    assert await parts.try_to_start(other.job_ids[0])


async def test_job_of_a_cancelled_batch_does_not_start(parts: Parts) -> None:
    accepted = await parts.submit(Grid({"1.color": [1, 2]}))
    await parts.store.cancel_batch(ALICE.tenant, accepted.batch_id)
    assert not await parts.try_to_start(accepted.job_ids[0])


async def test_cancel_ends_queued_jobs_and_asks_for_the_end_of_running_ones(parts: Parts) -> None:
    accepted = await parts.submit(Grid({"1.color": list(range(CHUNK * 2 + 5))}))
    attempt = await parts.start(accepted.job_ids[0])
    batch = (await parts.batches.cancel(ALICE, accepted.batch_id)).batch
    assert (batch.counts.queued, batch.counts.processing) == (0, 1)
    assert await parts.store.is_cancel_requested(accepted.job_ids[0])
    await parts.store.finish_attempt(attempt.token, Cancelled())
    status = await parts.batches.cancel(ALICE, accepted.batch_id)
    assert status.batch.state is BatchState.CANCELLED
    assert await startable_jobs(parts) == 0


async def test_batch_that_has_ended_cannot_be_cancelled(parts: Parts) -> None:
    accepted = await parts.submit(ItemList([BatchItem({})]))
    await parts.complete(accepted.job_ids[0])
    with pytest.raises(Conflict) as caught:
        await parts.batches.cancel(ALICE, accepted.batch_id)
    assert caught.value.code == "BATCH_ENDED"


@pytest.mark.parametrize("count", [2, CHUNK + 1])
async def test_same_request_under_the_same_key_is_one_batch(parts: Parts, count: int) -> None:
    plan = Grid({"1.color": list(range(count))})
    key = IdempotencyKey("k", "f")
    first, second = await asyncio.gather(parts.submit(plan, key=key), parts.submit(plan, key=key))
    third = await parts.submit(plan, key=key)
    assert first.batch_id == second.batch_id == third.batch_id
    assert third.is_replay
    assert sorted([first.is_replay, second.is_replay]) == [False, True]
    assert third.job_ids == first.job_ids
    assert await queued_jobs(parts) == count
    with pytest.raises(IdempotencyMismatch):
        await parts.submit(plan, key=IdempotencyKey("k", "other"))
    other = await parts.submit(plan, principal=BOB, key=key)
    assert not other.is_replay


async def test_other_tenants_batches_do_not_exist(parts: Parts) -> None:
    search = Search({"1.width": Range(1, 9, integer=True)}, trials=2, parallel=1)
    accepted = await parts.submit(search)
    batch_id, job_id = accepted.batch_id, accepted.job_ids[0]
    await parts.complete(job_id)
    for call in (
        parts.batches.status(BOB, batch_id),
        parts.batches.members(BOB, batch_id, -1, 10),
        parts.batches.cancel(BOB, batch_id),
        parts.batches.score(BOB, batch_id, job_id, 1.0),
        parts.batches.status(ALICE, BatchId("no-such")),
    ):
        with pytest.raises(BatchNotFound):
            await call
    assert (await parts.batches.page(BOB, None, 10))[0] == []
    mine = await parts.submit(ItemList([BatchItem({})]), principal=BOB)
    with pytest.raises(Conflict):
        await parts.batches.score(BOB, mine.batch_id, job_id, 1.0)
    assert (await parts.batches.status(ALICE, batch_id)).batch.cancelled_at is None


async def test_batches_are_listed_newest_first_in_pages(parts: Parts) -> None:
    made = [(await parts.submit(ItemList([BatchItem({})]))).batch_id for _ in range(5)]
    found: list[BatchId] = []
    cursor: BatchId | None = None
    while True:
        page, cursor = await parts.batches.page(ALICE, cursor, 2)
        found += [status.batch.id for status in page]
        if cursor is None:
            break
    assert found == made[::-1]


async def test_job_of_nobody_gets_no_score(parts: Parts) -> None:
    search = Search({"1.width": Range(1, 9, integer=True)}, trials=1, parallel=1)
    accepted = await parts.submit(search)
    with pytest.raises(BatchNotFound):
        await parts.batches.score(ALICE, accepted.batch_id, JobId("none"), 1.0)
    with pytest.raises(Conflict, match="when it has completed"):
        await parts.batches.score(ALICE, accepted.batch_id, accepted.job_ids[0], 1.0)
    with pytest.raises(MalformedRequest):
        await parts.batches.score(ALICE, accepted.batch_id, accepted.job_ids[0], float("nan"))


async def test_batch_keeps_the_version_that_a_workflow_had(parts: Parts) -> None:
    await parts.library.save(ALICE, "w", Draft(json.dumps(picture(height=11)).encode()))
    plan = Search({"1.width": (1, 2)}, trials=2, parallel=1, score_node="2")
    accepted = await parts.submit(plan, source=WorkflowSource(workflow_id="w"))
    await parts.library.save(ALICE, "w", Draft(json.dumps(picture(height=22)).encode()))
    await parts.complete(accepted.job_ids[0], "1")
    await parts.searches.look()
    second = (await parts.members(accepted.batch_id)).members[1]
    assert second.job_id is not None
    assert (await parts.start(second.job_id)).prompt["1"]["inputs"]["height"] == 11


async def test_trial_that_cannot_be_submitted_any_more_counts_as_failed(parts: Parts) -> None:
    await parts.library.save(ALICE, "w", Draft(json.dumps(picture()).encode()))
    plan = Search({"1.width": (1, 2)}, trials=3, parallel=1, score_node="2")
    accepted = await parts.submit(plan, source=WorkflowSource(workflow_id="w"))
    await parts.library.delete(ALICE, "w")
    await parts.complete(accepted.job_ids[0], "1")
    while await parts.searches.look():
        pass
    batch = (await parts.batches.status(ALICE, accepted.batch_id)).batch
    assert (batch.state, batch.counts.unmade) == (BatchState.FAILED, 2)
    assert "There is no workflow 'w'" in batch.notes[0].message


async def test_workflows_that_are_too_large_together_are_refused(
    parts: Parts, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(batch_jobs, "MOST_BYTES", 2000)
    with pytest.raises(RequestError, match="too large together") as caught:
        await parts.submit(Grid({"1.color": list(range(50))}))
    assert caught.value.code == "BATCH_TOO_LARGE"
    assert await queued_jobs(parts) == 0
