"""The queue in the store: lanes, places, time, pauses, keys [4.2]-[4.7]."""

import asyncio
import random
import sqlite3
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from comfyrail.clock import Instant, after
from comfyrail.errors import Conflict, IdempotencyMismatch, JobNotFound, StoreUnavailable
from comfyrail.ids import JobId, TenantId, WorkerId, new_attempt_token
from comfyrail.jobs.events import EventType
from comfyrail.jobs.job import IdempotencyKey, NewJob
from comfyrail.jobs.needs import JobNeeds, ModelUse
from comfyrail.jobs.outcome import Lost
from comfyrail.jobs.priority import QueueClass, standing_of
from comfyrail.jobs.queue import LaneKey
from comfyrail.jobs.states import JobState
from comfyrail.store.interface import Assignment, Store
from comfyrail.store.sqlite.database import connect, migrate
from comfyrail.store.sqlite.migrations import all_migrations
from comfyrail.store.sqlite.store import SqliteStore, open_sqlite_store
from tests.store.test_store import TENANT, ManualClock, new_job

OTHER = TenantId("other")


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
async def store(tmp_path: Path, clock: ManualClock) -> AsyncIterator[SqliteStore]:
    opened = await open_sqlite_store(tmp_path, clock)
    yield opened
    await opened.close()


def with_model(clock: ManualClock, name: str, priority: int = 5, **changes: Any) -> NewJob:
    needs = JobNeeds(frozenset({"A"}), (ModelUse("checkpoints", name, 5),))
    return new_job(clock, priority, needs=needs, **changes)


async def begin(store: Store, job_id: JobId) -> None:
    assignment = Assignment(job_id, WorkerId("w"), new_attempt_token())
    assert await store.start_attempts([assignment], "me", 15)


async def test_lanes_are_by_class_tenant_and_group_with_their_needs(
    store: Store, clock: ManualClock
) -> None:
    jobs = [
        with_model(clock, "a"),
        with_model(clock, "b"),
        with_model(clock, "a", 9),
        with_model(clock, "a", tenant=OTHER),
        with_model(clock, "a"),
    ]
    for job in jobs:
        await store.add_job(job)
    lanes = {lane.key: [job.id for job in lane.jobs] for lane in await store.queue_lanes(10, 10)}
    a, b = jobs[0].needs.group, jobs[1].needs.group
    assert lanes == {
        LaneKey(QueueClass.MEDIUM, TENANT, a): [jobs[0].id, jobs[4].id],
        LaneKey(QueueClass.MEDIUM, TENANT, b): [jobs[1].id],
        LaneKey(QueueClass.HIGH, TENANT, a): [jobs[2].id],
        LaneKey(QueueClass.MEDIUM, OTHER, a): [jobs[3].id],
    }
    needs = [lane.needs for lane in await store.queue_lanes(10, 10)]
    assert {each.models for each in needs} == {jobs[0].needs.models, jobs[1].needs.models}


async def test_lanes_go_around_from_where_the_last_look_ended(
    store: Store, clock: ManualClock
) -> None:
    for name in "abcde":
        await store.add_job(with_model(clock, name))
    everything = {lane.key for lane in await store.queue_lanes(1, 10)}
    seen, after_key = set(), None
    for _ in range(3):
        lanes = await store.queue_lanes(1, 2, after_key)
        assert len(lanes) == 2
        after_key = lanes[-1].key
        seen |= {lane.key for lane in lanes}
    assert seen == everything
    whole = await store.queue_lanes(1, 10, after_key)
    assert sorted(str(lane.key) for lane in whole) == sorted(str(key) for key in everything)


async def test_lane_says_whether_more_stand_behind(store: Store, clock: ManualClock) -> None:
    for _ in range(3):
        await store.add_job(new_job(clock))
    (short,) = await store.queue_lanes(2, 10)
    (whole,) = await store.queue_lanes(3, 10)
    assert (len(short.jobs), short.has_more) == (2, True)
    assert (len(whole.jobs), whole.has_more) == (3, False)


async def test_places_are_right_however_jobs_come_and_go(
    store: SqliteStore, clock: ManualClock
) -> None:
    chance = random.Random(5)
    waiting: dict[JobId, NewJob] = {}
    for _ in range(300):
        clock.move(chance.choice([0, 0, 0.001, 0.05, 3, 400]))
        job = new_job(clock, chance.randint(1, 10), expected_seconds=chance.choice([1.0, 2.0]))
        added = await store.add_job(job)
        ahead = [each for each in waiting.values() if (each.rank, each.id) < (job.rank, job.id)]
        assert added.place is not None
        assert added.place.position == len(ahead) + 1
        assert added.place.seconds_ahead == sum(each.expected_seconds for each in ahead)
        waiting[job.id] = job
        if chance.random() < 0.3:
            gone = waiting.pop(chance.choice(list(waiting)))
            await (
                begin(store, gone.id)
                if chance.random() < 0.5
                else store.request_cancel(TENANT, gone.id)
            )
    ordered = sorted(waiting.values(), key=lambda job: (job.rank, job.id))
    for number in (0, len(ordered) // 2, len(ordered) - 1):
        place = await store.queue_place(ordered[number].id)
        assert place is not None
        assert place.position == number + 1


async def test_places_are_known_again_after_a_restart(tmp_path: Path, clock: ManualClock) -> None:
    first = await open_sqlite_store(tmp_path, clock)
    jobs = [new_job(clock) for _ in range(3)]
    for job in jobs:
        await first.add_job(job)
    await first.close()
    second = await open_sqlite_store(tmp_path, clock)
    place = await second.queue_place(jobs[-1].id)
    assert place is not None
    assert (place.position, place.seconds_ahead) == (3, 60)
    await second.close()


async def test_write_that_fails_leaves_no_trace_in_the_places(
    tmp_path: Path, store: SqliteStore, clock: ManualClock
) -> None:
    other = sqlite3.connect(tmp_path / "comfyrail.db", isolation_level=None)
    store._writer.lock_seconds = 0.0
    other.execute("BEGIN IMMEDIATE")
    with pytest.raises(StoreUnavailable):
        await store.add_job(new_job(clock))
    other.execute("ROLLBACK")
    other.close()
    twice = new_job(clock)
    results = await asyncio.gather(
        store.add_job(twice), store.add_job(twice), return_exceptions=True
    )
    assert sum(isinstance(result, Exception) for result in results) == 1
    added = await store.add_job(new_job(clock))
    assert added.place is not None
    assert added.place.position == 2


async def test_job_for_later_is_held_and_let_in_when_its_time_comes(
    store: Store, clock: ManualClock
) -> None:
    job = new_job(clock, not_before=after(clock.now(), 60))
    assert (await store.add_job(job)).place is None
    held = await store.get_job(TENANT, job.id)
    assert (held.state, held.reason) == (JobState.QUEUED, "scheduled")
    assert await store.queue_lanes(5, 5) == []
    assert await store.queue_place(job.id) is None
    assert await store.release_due() == job.not_before
    clock.move(60)
    assert await store.release_due() is None
    ((found,),) = [lane.jobs for lane in await store.queue_lanes(5, 5)]
    assert found.id == job.id
    assert found.submitted_at == job.not_before, "it waits since then"
    assert (await store.get_job(TENANT, job.id)).reason is None
    counts = await store.count_jobs()
    assert counts[JobState.QUEUED] == 1
    await begin(store, job.id)


async def test_held_job_can_be_cancelled(store: Store, clock: ManualClock) -> None:
    job = new_job(clock, not_before=after(clock.now(), 60))
    await store.add_job(job)
    assert (await store.request_cancel(TENANT, job.id)).state is JobState.CANCELLED
    clock.move(61)
    assert await store.release_due() is None
    added = await store.add_job(new_job(clock))
    assert added.place is not None
    assert added.place.position == 1


async def test_job_that_waits_too_long_fails_with_advice(store: Store, clock: ManualClock) -> None:
    short = new_job(clock, queue_timeout=10)
    for job in (short, new_job(clock)):
        await store.add_job(job)
    assert await store.expire_queued() == ((), after(clock.now(), 10))
    clock.move(10)
    assert await store.expire_queued() == ([short.id], None)
    failed = await store.get_job(TENANT, short.id)
    assert failed.state is JobState.FAILED
    assert failed.fault is not None
    assert (failed.fault.category, failed.fault.code) == ("timeout", "QUEUE_TIMEOUT")
    events = await store.events_after(TENANT, short.id, 0, 10)
    assert [event.type for event in events] == [EventType.QUEUED, EventType.FAILED]
    (lane,) = await store.queue_lanes(5, 5)
    assert len(lane.jobs) == 1


async def test_patience_begins_anew_for_a_job_that_comes_back(
    store: Store, clock: ManualClock
) -> None:
    job = new_job(clock, queue_timeout=10)
    await store.add_job(job)
    assignment = Assignment(job.id, WorkerId("w"), new_attempt_token())
    await store.start_attempts([assignment], "me", 15)
    clock.move(100)
    assert (await store.expire_queued())[0] == ()
    await store.finish_attempt(assignment.token, Lost("gone"))
    assert (await store.expire_queued())[0] == ()
    clock.move(10)
    assert (await store.expire_queued())[0] == [job.id]


async def test_pause_does_not_count_against_patience(store: Store, clock: ManualClock) -> None:
    before = new_job(clock, queue_timeout=10)
    await store.add_job(before)
    clock.move(4)
    await store.pause_queue(None)
    clock.move(1000)
    during = new_job(clock, queue_timeout=10)
    await store.add_job(during)
    assert (await store.expire_queued())[0] == ()
    clock.move(1000)
    await store.resume_queue()
    assert (await store.get_job(TENANT, before.id)).expires_at == after(clock.now(), 6)
    assert await store.expire_queued() == ((), after(clock.now(), 6))
    clock.move(6)
    assert (await store.expire_queued())[0] == [before.id]
    clock.move(4)
    assert (await store.expire_queued())[0] == [during.id]


async def test_places_stay_right_when_a_group_of_writes_is_taken_back(
    store: SqliteStore, clock: ManualClock
) -> None:
    job = new_job(clock)
    await store.add_job(job)
    twice = new_job(clock)

    async def fail() -> None:
        with pytest.raises(sqlite3.IntegrityError):
            await asyncio.gather(store.add_job(twice), store.add_job(twice))

    await asyncio.gather(
        store.reprioritize(TENANT, job.id, 9, standing_of(9)),
        store.request_cancel(TENANT, job.id),
        fail(),
    )
    await store.request_cancel(TENANT, twice.id)
    assert store.figures.before_bucket(1 << 60) == (0, 0.0)
    assert set(store.figures.by_class().values()) == {(0, 0.0)}


async def test_clock_that_steps_back_holds_nothing(store: Store, clock: ManualClock) -> None:
    job = new_job(clock)
    clock.move(-1)
    added = await store.add_job(job)
    assert added.place is not None
    assert (await store.get_job(TENANT, job.id)).reason is None


async def test_totals_are_those_of_the_queue(store: Store, clock: ManualClock) -> None:
    for priority in (1, 5, 5, 9):
        await store.add_job(new_job(clock, priority))
    await store.add_job(new_job(clock, not_before=after(clock.now(), 5000)))
    clock.move(130)
    totals = await store.queue_totals()
    counts = {queue_class.value: jobs for queue_class, (jobs, _) in totals.by_class.items()}
    assert counts == {"high": 1, "medium": 2, "low": 1, "batch": 0}
    assert totals.by_class[QueueClass.MEDIUM][1] == 60
    assert (totals.scheduled, totals.processing, totals.late) == (1, 0, 3)


async def test_other_priority_gives_another_place(store: Store, clock: ManualClock) -> None:
    jobs = [new_job(clock) for _ in range(3)]
    for job in jobs:
        await store.add_job(job)
    changed = await store.reprioritize(TENANT, jobs[2].id, 9, standing_of(9))
    assert (changed.priority, changed.queue_class) == (9, QueueClass.HIGH)
    place = await store.queue_place(jobs[2].id)
    assert place is not None
    assert place.position == 1
    last = (await store.events_after(TENANT, jobs[2].id, 0, 10))[-1]
    assert (last.type, last.data["reason"]) == (EventType.QUEUED, "reprioritized")
    await begin(store, jobs[2].id)
    with pytest.raises(Conflict):
        await store.reprioritize(TENANT, jobs[2].id, 1, standing_of(1))
    with pytest.raises(JobNotFound):
        await store.reprioritize(OTHER, jobs[1].id, 1, standing_of(1))


async def test_pause_is_remembered(tmp_path: Path, clock: ManualClock) -> None:
    first = await open_sqlite_store(tmp_path, clock)
    await first.pause_queue("maintenance")
    await first.close()
    second = await open_sqlite_store(tmp_path, clock)
    state = await second.queue_state()
    assert (state.paused_at, state.reason) == (clock.now(), "maintenance")
    await second.add_job(new_job(clock))
    assert await second.queue_lanes(5, 5) == []
    assert not (await second.resume_queue()).is_paused
    assert not (await second.queue_state()).is_paused
    assert len(await second.queue_lanes(5, 5)) == 1
    await second.close()


async def test_same_key_and_request_give_the_same_job_also_at_once(
    store: Store, clock: ManualClock
) -> None:
    key = IdempotencyKey("k", "fingerprint")
    jobs = [new_job(clock, idempotency=key) for _ in range(5)]
    added = await asyncio.gather(*(store.add_job(job) for job in jobs))
    assert len({each.job_id for each in added}) == 1
    assert sum(each.is_replay for each in added) == 4
    (lane,) = await store.queue_lanes(10, 10)
    assert len(lane.jobs) == 1
    found = await store.find_by_key(TENANT, key)
    assert found is not None
    assert found.job_id == added[0].job_id


async def test_key_is_for_one_request_and_one_tenant_and_a_day(
    store: Store, clock: ManualClock
) -> None:
    key = IdempotencyKey("k", "one")
    first = await store.add_job(new_job(clock, idempotency=key))
    with pytest.raises(IdempotencyMismatch):
        await store.add_job(new_job(clock, idempotency=replace(key, fingerprint="two")))
    other = await store.add_job(new_job(clock, idempotency=key, tenant=OTHER))
    assert other.job_id != first.job_id
    clock.move(86_401)
    again = await store.add_job(new_job(clock, idempotency=key))
    assert again.job_id != first.job_id


async def test_backlog_and_arrivals_tell_what_waits_and_what_came(
    store: Store, clock: ManualClock
) -> None:
    # Ids carry the real time: arrivals are found by them.
    clock.time = Instant(int(new_job(clock).id.replace("-", "")[:12], 16))
    jobs = [with_model(clock, "a"), with_model(clock, "a", tenant=OTHER), with_model(clock, "b")]
    for job in jobs:
        await store.add_job(job)
    await begin(store, jobs[2].id)
    (waiting,) = await store.backlog()
    assert (waiting.jobs, waiting.expected_seconds) == (2, 60)
    assert waiting.needs.models == jobs[0].needs.models
    arrived = await store.arrivals(Instant(clock.now() - 60_000))
    assert sum(count for count, _ in arrived.values()) == 3
    assert await store.running_by_tenant() == {TENANT: 1}


def test_jobs_of_before_are_in_the_groups_of_their_node_types(tmp_path: Path) -> None:
    connection = connect(tmp_path)
    for migration in all_migrations()[:3]:
        connection.executescript(migration.sql)
    connection.execute("PRAGMA user_version = 3")
    connection.execute(
        "INSERT INTO jobs (id, tenant, state, priority, rank, node_types, timeout_seconds,"
        " expected_seconds, submitted_at) VALUES ('j', 't', 'queued', 9, 7, ?, 1, 1, 0)",
        (b'["A","B"]',),
    )
    migrate(connection)
    (row,) = connection.execute("SELECT queue_class, queue_group FROM jobs").fetchall()
    needs = JobNeeds(frozenset({"A", "B"}))
    assert tuple(row) == ("high", needs.group)
    (kept,) = connection.execute("SELECT key, needs FROM job_groups").fetchall()
    assert (kept["key"], JobNeeds.decode(kept["needs"])) == (needs.group, needs)
    connection.close()
