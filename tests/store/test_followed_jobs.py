"""Jobs at whose end the server has something to do, and jobs for one worker, in the store."""

from dataclasses import replace
from pathlib import Path

from comfyrail.ids import JobId
from comfyrail.jobs.job import Origin
from comfyrail.jobs.needs import JobNeeds
from comfyrail.jobs.outcome import Completed
from comfyrail.jobs.states import JobState
from comfyrail.store.interface import Store
from comfyrail.store.signals import FOLLOWED
from comfyrail.store.sqlite.store import open_sqlite_store
from tests.store.test_store import TENANT, ManualClock, clock, new_job, start, store

__all__ = ["clock", "store"]

RUN = Origin("runs", "w", b"{}", is_followed=True)


async def test_followed_jobs_are_known_until_they_are_left(
    store: Store, clock: ManualClock, tmp_path: Path
) -> None:
    jobs = [new_job(clock, origin=RUN) for _ in range(3)]
    with store.signals.subscribe(FOLLOWED) as news:
        for job in jobs:
            await store.add_job(job)
        await store.add_job(new_job(clock))
        assert await news.wait(1)
    first = await store.followed_jobs("", 2)
    assert first == [(TENANT, job.id) for job in jobs[:2]]
    assert await store.followed_jobs(first[-1][1], 2) == [(TENANT, jobs[2].id)]
    await store.leave_job(jobs[0].id)
    await store.leave_job(JobId("unknown"))
    await store.close()
    again = await open_sqlite_store(tmp_path, clock)
    assert [job_id for _, job_id in await again.followed_jobs("", 9)] == [
        jobs[1].id,
        jobs[2].id,
    ]
    await again.close()


async def test_running_jobs_are_counted_by_the_one_worker_that_they_may_go_to(
    store: Store, clock: ManualClock
) -> None:
    plain = JobNeeds(frozenset({"A"}))
    for needs in (plain, replace(plain, worker="a"), replace(plain, worker="a")):
        job = new_job(clock, needs=needs)
        await store.add_job(job)
        attempt = await start(store, job)
    await store.add_job(new_job(clock, needs=replace(plain, worker="a")))
    assert await store.running_for_worker() == {"a": 2}
    await store.finish_attempt(attempt.token, Completed(()))
    assert await store.running_for_worker() == {"a": 1}


async def test_jobs_of_a_tenant_are_counted_by_state(store: Store, clock: ManualClock) -> None:
    job = new_job(clock)
    await store.add_job(job)
    await store.add_job(new_job(clock))
    await store.add_job(new_job(clock, tenant="another"))
    attempt = await start(store, job)
    counts = await store.count_jobs_of(TENANT)
    assert counts == {
        JobState.QUEUED: 1,
        JobState.PROCESSING: 1,
        JobState.COMPLETED: 0,
        JobState.FAILED: 0,
        JobState.CANCELLED: 0,
    }
    await store.finish_attempt(attempt.token, Completed(()))
    assert (await store.count_jobs_of(TENANT))[JobState.COMPLETED] == 1
    assert await store.count_retried(TENANT) == 0
    (record,) = await store.list_attempts(TENANT, job.id)
    assert record.prompt_id == attempt.prompt_id
