"""Attempts that go back to the queue before they have begun: how often, and how long."""

from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest

from comfyrail.clock import after
from comfyrail.jobs.job import Job, NewJob
from comfyrail.jobs.needs import JobNeeds, ModelUse
from comfyrail.jobs.outcome import LONGEST_PAUSE_SECONDS, Lost, seconds_between
from comfyrail.jobs.recovery import RetryRules
from comfyrail.jobs.states import JobState
from comfyrail.store.interface import Store
from comfyrail.store.sqlite.store import open_sqlite_store
from tests.store.test_store import TENANT, ManualClock, new_job, start

BOUNCED = Lost("the worker went away before the job began", counted=False, has_begun=False)
BEGUN = replace(BOUNCED, has_begun=True)
SUSPECT = replace(BEGUN, is_suspect=True)


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
async def store(tmp_path: Path, clock: ManualClock) -> AsyncIterator[Store]:
    opened = await open_sqlite_store(tmp_path, clock, retries=RetryRules(spread=0.0))
    yield opened
    await opened.close()


async def added(store: Store, clock: ManualClock, queue_timeout: float | None = None) -> NewJob:
    job = new_job(clock, queue_timeout=queue_timeout)
    await store.add_job(job)
    return job


async def lost(store: Store, clock: ManualClock, job: NewJob, how: Lost, after_s: float = 0) -> Job:
    attempt = await start(store, job)
    clock.move(after_s)
    return await store.finish_attempt(attempt.token, how)


def held_for(clock: ManualClock, job: Job) -> float:
    return 0.0 if job.held_until is None else (job.held_until - clock.now()) / 1000


async def bounced(store: Store, clock: ManualClock, job: NewJob, times: int) -> list[float]:
    """So many times in a row, as soon as it may start again; the seconds that it had to wait."""
    waits = []
    for _ in range(times):
        waits.append(held_for(clock, await lost(store, clock, job, BOUNCED)))
        clock.move(waits[-1])
        await store.release_due()
    return waits


async def test_bounces_are_free_twice_and_then_further_and_further_apart(
    store: Store, clock: ManualClock
) -> None:
    job = await added(store, clock)
    waits = await bounced(store, clock, job, 12)
    assert waits == [0, 0, 0.5, 1, 2, 4, 8, 16, 30, 30, 30, 30]
    found = await store.get_job(TENANT, job.id)
    assert (found.state, found.retries, found.bounces) == (JobState.QUEUED, 0, 12)
    assert seconds_between(10**6) == LONGEST_PAUSE_SECONDS


async def test_one_that_was_long_enough_on_its_worker_starts_again_at_once(
    store: Store, clock: ManualClock
) -> None:
    job = await added(store, clock)
    await bounced(store, clock, job, 4)
    assert held_for(clock, await lost(store, clock, job, BOUNCED, after_s=1.5)) == 0.5
    clock.move(0.5)
    await store.release_due()
    assert held_for(clock, await lost(store, clock, job, BOUNCED, after_s=4)) == 0


async def test_attempt_that_began_ends_the_row(store: Store, clock: ManualClock) -> None:
    job = await added(store, clock)
    await bounced(store, clock, job, 4)
    assert (await lost(store, clock, job, BEGUN)).bounces == 0
    assert await bounced(store, clock, job, 3) == [0, 0, 0.5]


async def test_patience_goes_on_while_nobody_begins_the_job(
    store: Store, clock: ManualClock
) -> None:
    job = await added(store, clock, queue_timeout=60)
    end = after(clock.now(), 60)
    while (await store.get_job(TENANT, job.id)).state is JobState.QUEUED:
        assert clock.now() < end
        again = await lost(store, clock, job, BOUNCED)
        assert again.expires_at == end
        clock.move(held_for(clock, again))
        await store.release_due()
        await store.expire_queued()
    failed = await store.get_job(TENANT, job.id)
    assert failed.fault is not None
    assert failed.fault.code == "QUEUE_TIMEOUT"
    assert clock.now() == end, "not later because it was held just then"


async def test_patience_does_not_run_while_the_queue_is_paused(
    store: Store, clock: ManualClock
) -> None:
    job = await added(store, clock, queue_timeout=60)
    await bounced(store, clock, job, 2)
    attempt = await start(store, job)
    await store.pause_queue("for a while")
    clock.move(1000)
    await store.resume_queue()
    await store.finish_attempt(attempt.token, BOUNCED)
    assert (await store.get_job(TENANT, job.id)).expires_at == after(clock.now(), 60)


async def test_one_that_began_may_wait_as_long_again(store: Store, clock: ManualClock) -> None:
    job = await added(store, clock, queue_timeout=60)
    clock.move(40)
    assert (await lost(store, clock, job, BEGUN)).expires_at == after(clock.now(), 60)


@pytest.mark.parametrize(
    ("how", "is_so"), [(BOUNCED, False), (BEGUN, False), (SUSPECT, True), (Lost("gone"), True)]
)
async def test_suspect_has_a_worker_to_itself_from_then_on(
    store: Store, clock: ManualClock, how: Lost, is_so: bool
) -> None:
    job = await added(store, clock)
    assert (await lost(store, clock, job, how)).runs_alone is is_so
    assert (await lost(store, clock, job, BEGUN)).runs_alone is is_so
    assert (await start(store, job)).runs_alone is is_so


async def test_attempt_knows_the_models_that_its_job_was_placed_by(
    store: Store, clock: ManualClock
) -> None:
    models = (ModelUse("checkpoints", "a.ckpt", 5), ModelUse("loras", "b.pt"))
    job = new_job(clock, needs=JobNeeds(frozenset({"A"}), models))
    await store.add_job(job)
    assert (await start(store, job)).models == {"a.ckpt", "b.pt"}
