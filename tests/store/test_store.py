"""The behavioural suite of the store: every backend passes it."""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from comfyrail.clock import Instant, SystemClock
from comfyrail.errors import (
    ConfigurationError,
    Conflict,
    JobNotFound,
    OutputNotFound,
    StaleAttempt,
)
from comfyrail.ids import (
    AttemptToken,
    JobId,
    OutputId,
    TenantId,
    WorkerId,
    new_attempt_token,
    new_job_id,
)
from comfyrail.jobs.events import EventType, NewEvent
from comfyrail.jobs.faults import Fault
from comfyrail.jobs.job import Attempt, NewJob, NewOutput, Progress, Usage
from comfyrail.jobs.needs import JobNeeds
from comfyrail.jobs.outcome import Cancelled, Completed, Failed, Lost
from comfyrail.jobs.priority import standing_of
from comfyrail.jobs.queue import QueuedJob, QueuePlace
from comfyrail.jobs.states import JobState
from comfyrail.store.interface import Assignment, JobFilter, JobWishes, Store, WorkerRecord
from comfyrail.store.signals import QUEUE, cancel_topic, job_topic
from comfyrail.store.sqlite.store import open_sqlite_store

TENANT = TenantId("t")
WORKER = WorkerId("w")


class ManualClock(SystemClock):
    """Time stands still unless it is moved; the wall clock can be set besides."""

    def __init__(self) -> None:
        self.time = Instant(1_800_000_000_000)
        self.seconds = 1000.0

    def now(self) -> Instant:
        return self.time

    def monotonic(self) -> float:
        return self.seconds

    def move(self, seconds: float) -> None:
        self.seconds += seconds
        self.set_forward(seconds)

    def set_forward(self, seconds: float) -> None:
        self.time = Instant(self.time + round(seconds * 1000))


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
async def store(tmp_path: Path, clock: ManualClock) -> AsyncIterator[Store]:
    opened = await open_sqlite_store(tmp_path, clock)
    yield opened
    await opened.close()


def new_job(clock: ManualClock, priority: int = 5, **changes: Any) -> NewJob:
    job = NewJob(
        id=new_job_id(),
        tenant=TENANT,
        prompt=b'{"1": {"class_type": "A", "inputs": {}}}',
        node_count=1,
        needs=JobNeeds(frozenset({"A"})),
        priority=priority,
        standing=standing_of(priority),
        timeout_seconds=10,
        expected_seconds=30,
        submitted_at=clock.now(),
    )
    return replace(job, **changes)


async def start(store: Store, job: NewJob, lease: float = 15, owner: str = "me") -> Attempt:
    assignment = Assignment(job.id, WORKER, new_attempt_token())
    (attempt,) = await store.start_attempts([assignment], owner, lease)
    return attempt


async def queued_and_started(store: Store, clock: ManualClock) -> Attempt:
    job = new_job(clock)
    await store.add_job(job)
    return await start(store, job)


def an_output(name: str = "a.png") -> NewOutput:
    return NewOutput(
        OutputId(name), "3", "images", name, "", False, "image/png", 5, "00", "00/" + "0" * 64
    )


async def types_of(store: Store, job_id: JobId) -> list[str]:
    events = await store.events_after(TENANT, job_id, 0, 1000)
    assert [event.number for event in events] == list(range(1, len(events) + 1))
    return [event.type.removeprefix("execution.") for event in events]


async def test_added_job_is_queued_with_its_first_event(store: Store, clock: ManualClock) -> None:
    job = new_job(clock)
    added = await store.add_job(job)
    assert (added.job_id, added.place) == (job.id, QueuePlace(1, 0.0))
    found = await store.get_job(TENANT, job.id)
    assert (found.state, found.attempts, found.last_event) == (JobState.QUEUED, 0, 1)
    assert await types_of(store, job.id) == ["queued"]


async def heads(store: Store) -> list[JobId]:
    """Queued jobs that may start, by deadline."""
    lanes = await store.queue_lanes(100, 100)
    return [job.id for job in sorted((j for lane in lanes for j in lane.jobs), key=by_deadline)]


def by_deadline(job: QueuedJob) -> tuple[int, JobId]:
    return job.rank, job.id


async def position(store: Store, job_id: JobId) -> int | None:
    place = await store.queue_place(job_id)
    return place.position if place else None


async def test_head_of_the_queue_is_by_priority_then_age(store: Store, clock: ManualClock) -> None:
    jobs = {}
    for priority in (1, 5, 10, 8):
        jobs[priority] = new_job(clock, priority)
        await store.add_job(jobs[priority])
    clock.move(1)
    later = new_job(clock, 10)
    await store.add_job(later)
    assert await heads(store) == [jobs[10].id, later.id, jobs[8].id, jobs[5].id, jobs[1].id]
    assert await position(store, jobs[5].id) == 4


async def test_job_of_another_tenant_does_not_exist(store: Store, clock: ManualClock) -> None:
    job = new_job(clock)
    await store.add_job(job)
    stranger = TenantId("stranger")
    for look in (
        store.get_job(stranger, job.id),
        store.events_after(stranger, job.id, 0, 10),
        store.list_outputs(stranger, job.id),
        store.request_cancel(stranger, job.id),
    ):
        with pytest.raises(JobNotFound):
            await look
    assert (await store.list_jobs(stranger, JobFilter(), None, 10)).jobs == []


async def test_wishes_of_a_job_are_kept_for_its_owner(store: Store, clock: ManualClock) -> None:
    job = replace(new_job(clock), execution_config=b'{"strategy":"parallel"}', queue_timeout=7.5)
    await store.add_job(job)
    assert await store.wishes_of(TENANT, job.id) == JobWishes(b'{"strategy":"parallel"}', 7.5)
    with pytest.raises(JobNotFound):
        await store.wishes_of(TenantId("stranger"), job.id)


async def test_job_is_started_once_however_often_it_is_assigned(
    store: Store, clock: ManualClock
) -> None:
    job = new_job(clock)
    await store.add_job(job)
    tries = [[Assignment(job.id, WORKER, new_attempt_token())] for _ in range(20)]
    started = await asyncio.gather(*(store.start_attempts(each, "me", 15) for each in tries))
    assert sum(len(attempts) for attempts in started) == 1
    assert (await store.get_job(TENANT, job.id)).attempts == 1


async def test_attempt_carries_the_graph(store: Store, clock: ManualClock) -> None:
    attempt = await queued_and_started(store, clock)
    assert attempt.prompt == {"1": {"class_type": "A", "inputs": {}}}
    assert attempt.prompt_id == attempt.token


async def test_completion_keeps_outputs_and_last_events_in_order(
    store: Store, clock: ManualClock
) -> None:
    attempt = await queued_and_started(store, clock)
    last = [NewEvent(EventType.NODE_COMPLETED, {"node_id": "1"})]
    outcome = Completed((an_output("a.png"), an_output("b.png")))
    job = await store.finish_attempt(attempt.token, outcome, last)
    assert (job.state, job.progress.fraction) == (JobState.COMPLETED, 1.0)
    assert await types_of(store, job.id) == ["queued", "started", "node_completed", "completed"]
    outputs = await store.list_outputs(TENANT, job.id)
    assert [output.file.filename for output in outputs] == ["a.png", "b.png"]
    found = await store.get_output(TENANT, job.id, OutputId("b.png"))
    assert not found.is_partial
    with pytest.raises(OutputNotFound):
        await store.get_output(TENANT, job.id, OutputId("c.png"))
    assert await store.find_output(TENANT, OutputId("b.png")) == found
    for tenant, name in ((TENANT, "c.png"), (TenantId("other"), "b.png")):
        with pytest.raises(OutputNotFound):
            await store.find_output(tenant, OutputId(name))


async def test_attempt_ends_once(store: Store, clock: ManualClock) -> None:
    attempt = await queued_and_started(store, clock)
    ends = [store.finish_attempt(attempt.token, Completed(())) for _ in range(5)]
    results = await asyncio.gather(*ends, return_exceptions=True)
    assert sum(isinstance(result, StaleAttempt) for result in results) == 4
    assert (await types_of(store, attempt.job_id)).count("completed") == 1


async def test_failed_job_keeps_its_fault_and_partial_outputs(
    store: Store, clock: ManualClock
) -> None:
    attempt = await queued_and_started(store, clock)
    fault = Fault("execution", "NODE_FAILED", "it broke", {"node_id": "1"})
    job = await store.finish_attempt(attempt.token, Failed(fault, (an_output(),)))
    assert job.fault == fault
    assert [output.is_partial for output in await store.list_outputs(TENANT, job.id)] == [True]


async def test_lost_attempt_requeues_its_job_and_its_token_is_dead(
    store: Store, clock: ManualClock
) -> None:
    attempt = await queued_and_started(store, clock)
    job = await store.finish_attempt(attempt.token, Lost("gone"))
    assert (job.state, job.reason, job.retries) == (JobState.QUEUED, "retrying", 1)
    (head,) = await heads(store)
    (second,) = await store.start_attempts(
        [Assignment(head, WORKER, new_attempt_token())], "me", 15
    )
    with pytest.raises(StaleAttempt):
        await store.finish_attempt(attempt.token, Completed(()))
    with pytest.raises(StaleAttempt):
        await store.record_events(attempt.token, [NewEvent(EventType.PROGRESS)], None)
    await store.finish_attempt(second.token, Completed(()))
    assert await types_of(store, job.id) == [
        "queued",
        "started",
        "queued",
        "started",
        "completed",
    ]


async def test_expired_lease_gives_the_job_back(store: Store, clock: ManualClock) -> None:
    attempt = await queued_and_started(store, clock)
    clock.move(10)
    assert await store.extend_leases([attempt.token], 15) == []
    clock.move(14)
    assert await store.expire_leases() == []
    clock.move(2)
    assert await store.expire_leases() == [attempt.job_id]
    assert await store.extend_leases([attempt.token], 15) == [attempt.token]
    assert (await store.get_job(TENANT, attempt.job_id)).state is JobState.QUEUED


async def test_attempts_of_a_dead_server_are_adopted_under_new_tokens(
    tmp_path: Path, clock: ManualClock
) -> None:
    first = await open_sqlite_store(tmp_path, clock)
    attempt = await queued_and_started(first, clock)
    assert await first.adopt_attempts(WORKER, "other", 15) == []
    await first.close()
    second = await open_sqlite_store(tmp_path, clock)
    (adopted,) = await second.adopt_attempts(WORKER, "new", 15)
    assert adopted.prompt_id == attempt.prompt_id
    assert adopted.token != attempt.token
    assert await second.adopt_attempts(WORKER, "third", 15) == []
    with pytest.raises(StaleAttempt):
        await second.finish_attempt(attempt.token, Completed(()))
    await second.finish_attempt(adopted.token, Completed(()))
    await second.close()


async def test_attempts_can_be_adopted_however_long_the_server_was_away(
    tmp_path: Path, clock: ManualClock
) -> None:
    first = await open_sqlite_store(tmp_path, clock)
    attempt = await queued_and_started(first, clock)
    await first.close()
    clock.move(3600)
    second = await open_sqlite_store(tmp_path, clock)
    assert await second.expire_leases() == []
    (adopted,) = await second.adopt_attempts(WORKER, "new", 15)
    assert adopted.job_id == attempt.job_id
    await second.close()


async def test_attempt_that_nobody_adopts_is_given_back(tmp_path: Path, clock: ManualClock) -> None:
    first = await open_sqlite_store(tmp_path, clock)
    attempt = await queued_and_started(first, clock)
    await first.close()
    second = await open_sqlite_store(tmp_path, clock, lease_seconds=2)
    clock.move(3)
    assert await second.expire_leases() == [attempt.job_id]
    await second.close()


async def test_queued_job_is_cancelled_at_once_and_again_without_harm(
    store: Store, clock: ManualClock
) -> None:
    job = new_job(clock)
    await store.add_job(job)
    for _ in range(2):
        cancelled = await store.request_cancel(TENANT, job.id)
        assert cancelled.state is JobState.CANCELLED
    assert await types_of(store, job.id) == ["queued", "cancelled"]
    assert await heads(store) == []


async def test_running_job_is_asked_to_stop(store: Store, clock: ManualClock) -> None:
    attempt = await queued_and_started(store, clock)
    with store.signals.subscribe(cancel_topic(attempt.job_id)) as asked:
        job = await store.request_cancel(TENANT, attempt.job_id)
        assert (job.state, job.cancel_requested) == (JobState.PROCESSING, True)
        assert await asked.wait(5)
    ended = await store.finish_attempt(attempt.token, Cancelled())
    assert ended.state is JobState.CANCELLED


async def test_ended_job_cannot_be_cancelled(store: Store, clock: ManualClock) -> None:
    attempt = await queued_and_started(store, clock)
    await store.finish_attempt(attempt.token, Completed(()))
    with pytest.raises(Conflict, match="completed already"):
        await store.request_cancel(TENANT, attempt.job_id)


async def test_progress_is_kept_with_its_events(store: Store, clock: ManualClock) -> None:
    attempt = await queued_and_started(store, clock)
    progress = Progress(0.5, "1", 1, 2)
    await store.record_events(attempt.token, [NewEvent(EventType.PROGRESS, {"a": 1})], progress)
    assert (await store.get_job(TENANT, attempt.job_id)).progress == progress


async def test_those_who_wait_are_woken_after_the_commit(store: Store, clock: ManualClock) -> None:
    job = new_job(clock)
    with store.signals.subscribe(QUEUE, job_topic(job.id)) as woken:
        assert not await woken.wait(0.01)
        await store.add_job(job)
        assert await woken.wait(5)
    assert not {QUEUE, job_topic(job.id)} & set(store.signals.subscribers)


async def test_pages_go_through_all_jobs_newest_first(store: Store, clock: ManualClock) -> None:
    jobs = [new_job(clock) for _ in range(7)]
    for job in jobs:
        await store.add_job(job)
    await start(store, jobs[3])
    seen: list[JobId] = []
    cursor = None
    while True:
        page = await store.list_jobs(TENANT, JobFilter(), cursor, 3)
        seen += [job.id for job in page.jobs]
        cursor = page.next_cursor
        if cursor is None:
            break
    assert seen == sorted((job.id for job in jobs), reverse=True)
    page = await store.list_jobs(TENANT, JobFilter(JobState.PROCESSING), None, 10)
    assert [job.id for job in page.jobs] == [jobs[3].id]
    both = JobFilter(states=frozenset({JobState.PROCESSING, JobState.QUEUED}))
    page = await store.list_jobs(TENANT, both, jobs[4].id, 2)
    assert [job.id for job in page.jobs] == [jobs[3].id, jobs[2].id]
    assert page.next_cursor == jobs[2].id
    assert await store.count_jobs() == {JobState.QUEUED: 6, JobState.PROCESSING: 1}


async def test_everything_is_there_after_reopening(tmp_path: Path, clock: ManualClock) -> None:
    first = await open_sqlite_store(tmp_path, clock)
    job = new_job(clock)
    await first.add_job(job)
    await first.save_worker(WorkerRecord(WORKER, "static", "http://x:1", clock.now()))
    await first.save_catalog(WORKER, "print", b'{"A": {}}')
    await first.close()
    second = await open_sqlite_store(tmp_path, clock)
    assert (await second.get_job(TENANT, job.id)).state is JobState.QUEUED
    (worker,) = await second.list_workers()
    assert (worker.endpoint, worker.catalog_fingerprint) == ("http://x:1", "print")
    assert await second.list_catalogs() == {"print": b'{"A": {}}'}
    await second.remove_worker(WORKER)
    assert await second.list_catalogs() == {}
    await second.close()


async def test_folder_in_use_is_refused_with_the_process(
    store: Store, tmp_path: Path, clock: ManualClock
) -> None:
    assert await store.count_jobs()
    with pytest.raises(ConfigurationError, match="in use by another Comfyrail server"):
        await open_sqlite_store(tmp_path, clock)


async def test_writes_that_wait_together_share_commits_and_one_bad_one_harms_no_other(
    store: Store, clock: ManualClock
) -> None:
    jobs = [new_job(clock) for _ in range(300)]
    twice = [store.add_job(job) for job in [*jobs, jobs[0]]]
    stale = [store.finish_attempt(AttemptToken("no"), Completed(())) for _ in range(5)]
    results = await asyncio.gather(*twice, *stale, return_exceptions=True)
    failures = [result for result in results if isinstance(result, BaseException)]
    assert len(failures) == 6
    assert (await store.count_jobs())[JobState.QUEUED] == 300


async def test_caller_that_gives_up_does_not_undo_the_write(
    store: Store, clock: ManualClock
) -> None:
    job = new_job(clock)
    task = asyncio.create_task(store.add_job(job))
    await asyncio.sleep(0)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    await store.check()
    assert (await store.get_job(TENANT, job.id)).state is JobState.QUEUED


async def test_cancel_between_start_and_subscription_can_be_seen(
    store: Store, clock: ManualClock
) -> None:
    attempt = await queued_and_started(store, clock)
    assert not await store.is_cancel_requested(attempt.job_id)
    await store.request_cancel(TENANT, attempt.job_id)
    assert await store.is_cancel_requested(attempt.job_id)


async def test_server_does_not_adopt_what_it_runs_itself(store: Store, clock: ManualClock) -> None:
    attempt = await queued_and_started(store, clock)
    clock.move(60)
    assert await store.adopt_attempts(WORKER, "me", 15) == []
    (taken,) = await store.adopt_attempts(WORKER, "other", 15)
    assert taken.job_id == attempt.job_id


async def test_attempt_without_owner_that_expires_costs_no_retry(
    tmp_path: Path, clock: ManualClock
) -> None:
    first = await open_sqlite_store(tmp_path, clock)
    attempt = await queued_and_started(first, clock)
    await first.close()
    second = await open_sqlite_store(tmp_path, clock)
    clock.move(60)
    await second.expire_leases()
    job = await second.get_job(TENANT, attempt.job_id)
    assert (job.state, job.retries) == (JobState.QUEUED, 0)
    await second.close()


async def test_cancel_and_completion_at_once_give_one_end(store: Store, clock: ManualClock) -> None:
    for _ in range(30):
        attempt = await queued_and_started(store, clock)
        results = await asyncio.gather(
            store.request_cancel(TENANT, attempt.job_id),
            store.finish_attempt(attempt.token, Completed(())),
            store.request_cancel(TENANT, attempt.job_id),
            return_exceptions=True,
        )
        job = await store.get_job(TENANT, attempt.job_id)
        assert job.state is JobState.COMPLETED
        assert isinstance(results[2], Conflict)
        types = await types_of(store, attempt.job_id)
        assert types.count("completed") == 1
        assert "cancelled" not in types


async def finished(store: Store, clock: ManualClock, usage: Usage) -> JobId:
    attempt = await queued_and_started(store, clock)
    await store.finish_attempt(attempt.token, Completed(()), usage=usage)
    return attempt.job_id


async def test_job_costs_what_all_its_attempts_cost(store: Store, clock: ManualClock) -> None:
    job = new_job(clock, estimated_cost=0.5)
    await store.add_job(job)
    assert (await store.get_job(TENANT, job.id)).cost is None
    first = await start(store, job)
    await store.finish_attempt(first.token, Lost("gone"), usage=Usage(0.25))
    second = await start(store, job)
    await store.finish_attempt(second.token, Completed(()), usage=Usage(0.5))
    found = await store.get_job(TENANT, job.id)
    assert (found.estimated_cost, found.cost) == (0.5, 0.75)


async def test_records_are_kept_in_order_and_the_oldest_go(
    store: Store, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("comfyrail.store.sqlite.transitions.RECORDS_KEPT", 3)
    await finished(store, clock, Usage(0.0))
    for number in range(5):
        await finished(store, clock, Usage(0.0, b"%d" % number))
    kept = await store.records_after(0)
    assert [content for _, content in kept] == [b"2", b"3", b"4"]
    assert await store.records_after(kept[1][0]) == kept[2:]


async def test_description_of_a_worker_is_remembered(store: Store, clock: ManualClock) -> None:
    await store.save_worker(WorkerRecord(WORKER, "static", "http://x", clock.now()))
    await store.describe_worker(WORKER, b"{}")
    await store.save_worker(WorkerRecord(WORKER, "static", "http://y", clock.now()))
    (found,) = await store.list_workers()
    assert (found.endpoint, found.description) == ("http://y", b"{}")
