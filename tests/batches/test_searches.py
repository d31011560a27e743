"""Searches over parameters, carried on by the server [4.6]."""

from pathlib import Path
from typing import Any

import pytest

from comfyrail.errors import Conflict, InvalidWorkflow
from comfyrail.ids import BatchId, JobId
from comfyrail.jobs.batches import Batch, BatchState
from comfyrail.jobs.parameter_search import Range, Search
from comfyrail.jobs.states import JobState
from tests.batches.parts import ALICE, NUMBER, Parts, open_parts

GOAL = 3.0


def search(**changes: Any) -> Search:
    fields: dict[str, Any] = {
        "parameters": {"1.value": Range(-100, 100)},
        "trials": 40,
        "parallel": 4,
        "seed": 1,
        "score_node": "2",
    }
    return Search(**{**fields, **changes})


async def batch_of(parts: Parts, batch_id: BatchId) -> Batch:
    return (await parts.batches.status(ALICE, batch_id)).batch


async def waiting(parts: Parts, batch_id: BatchId) -> list[JobId]:
    page = await parts.members(batch_id)
    return [each.job_id for each in page.members if each.state is JobState.QUEUED and each.job_id]


async def run_round(parts: Parts, batch_id: BatchId) -> int:
    """Do what a worker would with all queued trials: the score is how near the goal is."""
    jobs = await waiting(parts, batch_id)
    for job_id in jobs:
        attempt = await parts.start(job_id)
        value = attempt.prompt["1"]["inputs"]["value"]
        await parts.finish(attempt, str(-abs(value - GOAL)))
    await parts.searches.look()
    return len(jobs)


async def run_to_the_end(parts: Parts, batch_id: BatchId) -> Batch:
    while await run_round(parts, batch_id):
        pass
    return await batch_of(parts, batch_id)


async def test_search_keeps_so_many_trials_going_and_ends_after_the_last(parts: Parts) -> None:
    accepted = await parts.submit(search(), NUMBER)
    assert (accepted.planned, len(accepted.job_ids)) == (40, 4)
    sizes = []
    while (size := await run_round(parts, accepted.batch_id)) > 0:
        sizes.append(size)
    assert sizes == [4] * 10
    batch = await batch_of(parts, accepted.batch_id)
    assert (batch.state, batch.progress, batch.counts.completed) == (BatchState.COMPLETED, 1.0, 40)
    assert await parts.searches.look() == 0, "nothing is left to do about it"


async def test_search_by_evolution_gets_nearer_than_chance(parts: Parts) -> None:
    scores: dict[str, float] = {}
    for method in ("evolution", "random"):
        accepted = await parts.submit(search(method=method), NUMBER)
        batch = await run_to_the_end(parts, accepted.batch_id)
        assert batch.best is not None
        assert abs(batch.best.parameters["1.value"] - GOAL) == pytest.approx(-batch.best.score)
        scores[method] = batch.best.score
    assert scores["evolution"] > scores["random"]


async def test_search_for_the_smallest_has_the_smallest_as_its_best(parts: Parts) -> None:
    accepted = await parts.submit(search(goal="minimize", trials=8), NUMBER)
    batch = await run_to_the_end(parts, accepted.batch_id)
    scores = [each.score for each in (await parts.members(accepted.batch_id)).members]
    assert batch.best is not None
    assert batch.best.score == min(score for score in scores if score is not None)


async def test_failed_trial_counts_and_has_no_score(parts: Parts) -> None:
    accepted = await parts.submit(search(trials=6, parallel=2), NUMBER)
    await parts.fail(accepted.job_ids[0])
    batch = await run_to_the_end(parts, accepted.batch_id)
    assert (batch.counts.failed, batch.counts.completed) == (1, 5)
    assert batch.state is BatchState.FAILED
    members = (await parts.members(accepted.batch_id)).members
    assert [each.score is None for each in members] == [True, *[False] * 5]


async def test_node_without_a_number_is_a_warning(parts: Parts) -> None:
    accepted = await parts.submit(search(trials=2, parallel=2), NUMBER)
    await parts.complete(accepted.job_ids[0], "very good")
    await parts.complete(accepted.job_ids[1], "0.5", node="1")
    assert await parts.searches.look() == 0
    batch = await batch_of(parts, accepted.batch_id)
    assert [note.index for note in batch.notes] == [0, 1]
    assert "Node '2' gave no number" in batch.notes[0].message
    assert (batch.best, batch.state) == (None, BatchState.COMPLETED)


async def test_caller_gives_the_score(parts: Parts) -> None:
    accepted = await parts.submit(search(score_node=None, trials=3, parallel=1), NUMBER)
    for number in range(3):
        (job_id,) = await waiting(parts, accepted.batch_id)
        await parts.complete(job_id)
        assert await parts.searches.look() == 1, "it waits for the score"
        batch = await batch_of(parts, accepted.batch_id)
        assert (batch.counts.awaiting_score, batch.state) == (1, BatchState.RUNNING)
        assert await waiting(parts, accepted.batch_id) == []
        await parts.batches.score(ALICE, accepted.batch_id, job_id, float(number))
        await parts.batches.score(ALICE, accepted.batch_id, job_id, float(number))
        with pytest.raises(Conflict, match="has a score already"):
            await parts.batches.score(ALICE, accepted.batch_id, job_id, 99.0)
        await parts.searches.look()
    batch = await batch_of(parts, accepted.batch_id)
    assert (batch.state, batch.best and batch.best.score) == (BatchState.COMPLETED, 2.0)


async def test_search_by_a_node_takes_no_score_of_the_caller(parts: Parts) -> None:
    accepted = await parts.submit(search(), NUMBER)
    with pytest.raises(Conflict) as caught:
        await parts.batches.score(ALICE, accepted.batch_id, accepted.job_ids[0], 1.0)
    assert caught.value.code == "SCORE_NOT_EXPECTED"


async def test_failure_stops_a_search_that_is_to_stop(parts: Parts) -> None:
    accepted = await parts.submit(search(), NUMBER, stop_on_error=True)
    await parts.fail(accepted.job_ids[0])
    while await parts.searches.look():
        pass
    batch = await batch_of(parts, accepted.batch_id)
    assert (batch.state, batch.counts.failed, batch.counts.cancelled) == (BatchState.FAILED, 1, 3)
    assert len((await parts.members(accepted.batch_id)).members) == 4


async def test_cancelled_search_makes_no_more_trials(parts: Parts) -> None:
    accepted = await parts.submit(search(score_node=None), NUMBER)
    await parts.complete(accepted.job_ids[0])
    await parts.batches.cancel(ALICE, accepted.batch_id)
    while await parts.searches.look():
        pass
    batch = await batch_of(parts, accepted.batch_id)
    assert (batch.state, batch.counts.cancelled) == (BatchState.CANCELLED, 3)
    assert batch.counts.awaiting_score == 0


async def test_both_ends_of_a_range_are_checked_before_the_search_begins(parts: Parts) -> None:
    graph = {
        "1": {"class_type": "PrimitiveInt", "inputs": {"value": 0}},
        "2": {"class_type": "PreviewAny", "inputs": {"source": ["1", 0]}},
    }
    plan = search(parameters={"1.value": Range(0, 1e19, step=1e4, integer=True)})
    with pytest.raises(InvalidWorkflow, match=r"With 1\.value="):
        await parts.submit(plan, graph)
    with pytest.raises(InvalidWorkflow, match=r"'7.value'"):
        await parts.submit(search(parameters={"7.value": (1, 2)}), graph)
    assert (await parts.batches.page(ALICE, None, 10))[0] == []


async def test_search_goes_on_after_a_restart_as_if_there_had_been_none(tmp_path: Path) -> None:
    async with open_parts(tmp_path / "a") as parts:
        accepted = await parts.submit(search(trials=20), NUMBER)
        whole = await run_to_the_end(parts, accepted.batch_id)
    async with open_parts(tmp_path / "b") as parts:
        accepted = await parts.submit(search(trials=20), NUMBER)
        await run_round(parts, accepted.batch_id)
    rounds = 1
    while True:
        async with open_parts(tmp_path / "b") as parts:
            await parts.searches.look()
            if not await run_round(parts, accepted.batch_id):
                halting = await batch_of(parts, accepted.batch_id)
                break
        rounds += 1
    assert rounds == 5
    assert whole.best is not None
    assert halting.best is not None
    assert halting.best.parameters == whole.best.parameters
