"""Jobs that a worker does not begin, for whatever reason: they are not tried without a rest."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from comfyrail.fleet.connection import WorkerConnection
from comfyrail.fleet.health import HealthRules
from comfyrail.fleet.model_breakers import BreakerRules
from comfyrail.ids import WorkerId
from comfyrail.jobs.job import Attempt
from comfyrail.jobs.outcome import FREE_BOUNCES
from comfyrail.jobs.states import JobState
from tests.fleet.house import TENANT, House, open_house, playing, succeed
from tests.fleet.test_model_breakers import (
    BAD,
    breaker_of,
    cannot_load_bad,
    graph_with,
    is_open,
    submit,
    up,
)

W1 = WorkerId("w1")


@pytest.fixture
async def house(tmp_path: Path) -> AsyncIterator[House]:
    rules = BreakerRules(rest=1000.0, longest_rest=1000.0)
    async with open_house(tmp_path, health=HealthRules(models=rules)) as opened:
        yield opened


async def test_job_that_was_placed_without_a_models_name_is_not_refused_for_it(
    house: House,
) -> None:
    """What placement does not know of, it cannot go by."""
    async with playing(cannot_load_bad) as worker:
        await up(house, worker)
        await submit(house, BAD)
        await house.until(lambda: is_open(house))
        given = len(worker.submitted)
        job_id = await house.submit(graph=graph_with(BAD), expected=0.1, max_retries=1)
        job = await house.ended(job_id)
        assert (job.state, job.attempts) == (JobState.FAILED, 2)
        assert len(worker.submitted) == given + 2


async def test_success_with_a_model_of_another_name_closes_its_breaker(house: House) -> None:
    async with playing(cannot_load_bad) as worker:
        await up(house, worker)
        await house.ended(await house.submit(graph=graph_with(BAD), max_retries=0))
        assert breaker_of(house) is not None
        worker.script = succeed
        job = await house.ended(await house.submit(graph=graph_with(BAD)))
        assert job.state is JobState.COMPLETED
        await house.until(lambda: breaker_of(house) is None)


async def test_worker_that_begins_nothing_gets_a_job_less_and_less_often(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with playing(succeed) as worker:
        await up(house, worker)
        attempts = house.fleet.find(W1).attempts

        def refuse(attempt: Attempt, connection: WorkerConnection, *, adopted: bool) -> None:
            del connection, adopted
            attempts.refuse(attempt.token, "it does not want to")

        with monkeypatch.context() as patched:
            patched.setattr(attempts, "begin", refuse)
            job_id = await house.submit()
            job = await house.store.get_job(TENANT, job_id)
            while not job.is_held:
                await house.in_state(job_id, JobState.QUEUED)
                job = await house.store.get_job(TENANT, job_id)
            assert (job.attempts, job.bounces) == (FREE_BOUNCES + 1, FREE_BOUNCES + 1)
        done = await house.ended(job_id)
        assert (done.state, done.retries) == (JobState.COMPLETED, 0)
        assert worker.submitted
