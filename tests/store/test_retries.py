"""Retries in the store [7.2]: delays, what is different then, clocks that are set, leases."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from comfyrail.clock import after
from comfyrail.errors import JobNotFound, StaleAttempt
from comfyrail.ids import JobId, TenantId, WorkerId, new_attempt_token
from comfyrail.jobs.events import Event, EventType
from comfyrail.jobs.faults import Fault
from comfyrail.jobs.job import Attempt, NewJob
from comfyrail.jobs.needs import MEMORY_STEP, JobNeeds
from comfyrail.jobs.outcome import Completed, Failed, Lost, Outcome
from comfyrail.jobs.priority import standing_of
from comfyrail.jobs.recovery import RecoveryKind, Remedy, RetryRules
from comfyrail.jobs.states import AttemptState, JobState
from comfyrail.scheduling.queue_keeper import QueueKeeper
from comfyrail.store.interface import Assignment, Store
from comfyrail.store.sqlite.store import open_sqlite_store
from tests.store.test_store import TENANT, WORKER, ManualClock, an_output, heads, new_job, start

FAULT = Fault("resource", "OUT_OF_MEMORY", "no room", {"node_id": "1"})
HOUR = 3600.0
EVEN = RetryRules(spread=0.0)
"""Delays without chance."""


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
async def store(tmp_path: Path, clock: ManualClock) -> AsyncIterator[Store]:
    opened = await open_sqlite_store(tmp_path, clock, retries=EVEN)
    yield opened
    await opened.close()


@pytest.fixture
def keeper(store: Store, clock: ManualClock) -> QueueKeeper:
    return QueueKeeper(store, clock)


async def added(store: Store, clock: ManualClock, **changes: Any) -> NewJob:
    job = new_job(clock, **changes)
    await store.add_job(job)
    return job


async def tried(store: Store, job: NewJob, outcome: Outcome) -> Attempt:
    attempt = await start(store, job)
    await store.finish_attempt(attempt.token, outcome)
    return attempt


async def released(store: Store, clock: ManualClock, seconds: float) -> None:
    clock.move(seconds)
    await store.release_due()


def failed(kind: RecoveryKind, **changes: Any) -> Failed:
    return Failed(FAULT, (), Remedy(kind, **changes))


async def queued_events(store: Store, job_id: JobId) -> list[Event]:
    events = await store.events_after(TENANT, job_id, 1, 100)
    return [event for event in events if event.type is EventType.QUEUED]


async def is_startable(store: Store, job: NewJob) -> bool:
    return job.id in await heads(store)


async def test_retry_is_held_for_its_delay_and_then_queued_again(
    store: Store, clock: ManualClock
) -> None:
    job = await added(store, clock)
    attempt = await start(store, job)
    found = await store.finish_attempt(attempt.token, failed(RecoveryKind.MENDED))
    due = after(clock.now(), 10)
    assert (found.state, found.reason) == (JobState.QUEUED, "retrying")
    assert (found.held_until, found.retries, found.worker_id) == (due, 1, None)
    assert await store.queue_place(job.id) is None
    assert (await store.queue_totals()).scheduled == 1
    assignment = Assignment(job.id, WORKER, new_attempt_token())
    assert await store.start_attempts([assignment], "me", 15) == []

    clock.move(9.999)
    assert await store.release_due() == due
    assert not await is_startable(store, job)
    clock.move(0.001)
    assert await store.release_due() is None
    again = await store.get_job(TENANT, job.id)
    assert (again.held_until, again.reason, again.retries) == (None, "retrying", 1)
    assert await is_startable(store, job)
    second = await start(store, job)
    assert second.number == 2
    assert (await store.get_job(TENANT, job.id)).reason is None


async def test_delays_double_and_every_attempt_tells_how_it_went_on(
    store: Store, clock: ManualClock
) -> None:
    job = await added(store, clock)
    for delay in (10, 20, 40):
        await tried(store, job, failed(RecoveryKind.MENDED))
        await released(store, clock, delay - 0.001)
        assert not await is_startable(store, job)
        await released(store, clock, 0.001)
        assert await is_startable(store, job)
    await tried(store, job, failed(RecoveryKind.MENDED))

    end = await store.get_job(TENANT, job.id)
    assert (end.state, end.fault, end.retries) == (JobState.FAILED, FAULT, 3)
    attempts = await store.list_attempts(TENANT, job.id)
    assert [each.number for each in attempts] == [1, 2, 3, 4]
    assert [each.retry_delay for each in attempts] == [10, 20, 40, None]
    kinds = [RecoveryKind.MENDED] * 3
    assert [each.recovery for each in attempts] == [*kinds, None]
    for each in attempts:
        assert (each.state, each.fault, each.cause) == (AttemptState.FAILED, FAULT, None)
        assert each.worker_id == WORKER
        assert each.ended_at is not None
    with pytest.raises(JobNotFound):
        await store.list_attempts(TenantId("stranger"), job.id)


async def test_delays_of_jobs_that_fail_together_are_spread(
    tmp_path: Path, clock: ManualClock
) -> None:
    store = await open_sqlite_store(tmp_path, clock)
    delays = []
    for _ in range(20):
        job = await added(store, clock)
        await tried(store, job, failed(RecoveryKind.AGAIN))
        (attempt,) = await store.list_attempts(TENANT, job.id)
        held_until = (await store.get_job(TENANT, job.id)).held_until
        assert attempt.retry_delay is not None
        assert held_until == after(clock.now(), attempt.retry_delay)
        delays.append(attempt.retry_delay)
    assert all(8 <= delay <= 12 for delay in delays)
    assert len(set(delays)) > 10
    await store.close()


async def test_events_tell_what_failed_and_what_is_done_about_it(
    store: Store, clock: ManualClock
) -> None:
    job = await added(store, clock)
    await tried(store, job, failed(RecoveryKind.MORE_TIME, avoid=WORKER))
    (held,) = await queued_events(store, job.id)
    assert held.data == {
        "priority": 5,
        "reason": "retrying",
        "attempt": 1,
        "retries": 1,
        "cause": "no room",
        "worker_id": WORKER,
        "error": {
            "category": "resource",
            "code": "OUT_OF_MEMORY",
            "message": "no room",
            "details": {"node_id": "1"},
            "retry_after": None,
        },
        "retry_at": after(clock.now(), 10),
        "recovery": "more_time",
        "delay": 10,
        "timeout": 15,
    }
    await released(store, clock, 10)
    _, due = await queued_events(store, job.id)
    assert (due.data["reason"], due.data["queue_position"]) == ("retrying", 1)


async def test_lost_worker_is_left_at_once_and_the_second_time_after_a_delay(
    store: Store, clock: ManualClock
) -> None:
    job = await added(store, clock)
    await tried(store, job, Lost("its machine is gone"))
    assert await is_startable(store, job)
    (event,) = await queued_events(store, job.id)
    assert event.data["cause"] == "its machine is gone"
    assert (event.data["recovery"], event.data["delay"]) == ("another_worker", 0)
    assert event.data["queue_position"] == 1
    assert "retry_at" not in event.data
    assert "error" not in event.data
    assert (await store.needs_of(job.id)).avoided == (WORKER,)

    await tried(store, job, Lost("again"))
    assert not await is_startable(store, job)
    first, second = await store.list_attempts(TENANT, job.id)
    assert (first.state, first.cause, first.fault) == (
        AttemptState.LOST,
        "its machine is gone",
        None,
    )
    assert (first.retry_delay, second.retry_delay) == (0, 10)


async def test_attempt_that_nobody_counts_tells_of_no_retry(
    store: Store, clock: ManualClock
) -> None:
    job = await added(store, clock, max_retries=0)
    await tried(store, job, Lost("the server was restarted", counted=False))
    (attempt,) = await store.list_attempts(TENANT, job.id)
    assert (attempt.recovery, attempt.retry_delay) == (None, None)
    assert (await store.needs_of(job.id)).avoided == ()
    assert await is_startable(store, job)


async def test_job_that_ran_out_of_memory_asks_for_less_on_a_larger_worker(
    store: Store, clock: ManualClock
) -> None:
    needs = JobNeeds(frozenset({"A"}), video_memory=10 * MEMORY_STEP, memory=5 * MEMORY_STEP)
    job = await added(store, clock, needs=needs)
    lean = failed(RecoveryKind.LESS_MEMORY, avoid=WORKER, above_memory=8 << 30)
    await tried(store, job, lean)
    await released(store, clock, 10)
    asked = await store.needs_of(job.id)
    assert (asked.video_memory, asked.memory) == (8 * MEMORY_STEP, 4 * MEMORY_STEP)
    assert (asked.above_memory, asked.avoided) == (8 << 30, ())
    (lane,) = await store.queue_lanes(10, 10)
    assert lane.needs == asked
    await tried(store, job, lean)
    await released(store, clock, 20)
    await tried(store, job, lean)
    end = await store.get_job(TENANT, job.id)
    assert (end.state, end.fault, end.retries) == (JobState.FAILED, FAULT, 2)


async def test_job_that_took_too_long_gets_half_as_much_time_again_once(
    store: Store, clock: ManualClock
) -> None:
    job = await added(store, clock, timeout_seconds=70_000.0)
    await tried(store, job, failed(RecoveryKind.MORE_TIME))
    assert (await store.get_job(TENANT, job.id)).timeout_seconds == 86_400.0
    await released(store, clock, 10)
    second = await start(store, job)
    assert second.timeout_seconds == 86_400.0
    end = await store.finish_attempt(second.token, failed(RecoveryKind.MORE_TIME))
    assert (end.state, end.retries) == (JobState.FAILED, 1)


async def test_remedies_of_several_kinds_add_up(store: Store, clock: ManualClock) -> None:
    job = await added(store, clock, max_retries=10)
    steps = [
        (failed(RecoveryKind.ELSEWHERE, avoid=WorkerId("w1")), 0),
        (failed(RecoveryKind.AGAIN), 20),
        (failed(RecoveryKind.MORE_TIME, avoid=WorkerId("w2")), 40),
        (failed(RecoveryKind.ELSEWHERE, avoid=WorkerId("w1")), 40),
    ]
    for outcome, delay in steps:
        await tried(store, job, outcome)
        await released(store, clock, delay)
        assert await is_startable(store, job)
    attempts = await store.list_attempts(TENANT, job.id)
    assert [each.retry_delay for each in attempts] == [delay for _, delay in steps]
    assert (await store.needs_of(job.id)).avoided == ("w2", "w1")
    assert (await store.get_job(TENANT, job.id)).timeout_seconds == 15


async def test_next_attempt_has_the_mended_graph(store: Store, clock: ManualClock) -> None:
    job = await added(store, clock)
    prompt = b'{"1":{"class_type":"B","inputs":{}},"2":{"class_type":"B","inputs":{}}}'
    mended = failed(RecoveryKind.MENDED, prompt=prompt, node_count=2, changes=("A is now B",))
    await tried(store, job, mended)
    (event,) = await queued_events(store, job.id)
    assert event.data["changes"] == ["A is now B"]
    assert event.data["recovery"] == "mended_workflow"
    await released(store, clock, 10)
    second = await start(store, job)
    assert {node["class_type"] for node in second.prompt.values()} == {"B"}
    assert second.progress.total_nodes == 2
    assert await store.prompt_of(TENANT, job.id) == prompt


async def test_job_without_retries_fails_with_its_fault(store: Store, clock: ManualClock) -> None:
    job = await added(store, clock, max_retries=0)
    await tried(store, job, failed(RecoveryKind.MENDED, prompt=b'{"9":{}}'))
    end = await store.get_job(TENANT, job.id)
    assert (end.state, end.fault, end.retries) == (JobState.FAILED, FAULT, 0)
    assert await store.prompt_of(TENANT, job.id) == job.prompt
    assert (await store.needs_of(job.id)) == job.needs


async def test_partial_outputs_of_earlier_attempts_are_shown_until_one_completes(
    store: Store, clock: ManualClock
) -> None:
    job = await added(store, clock)
    await tried(store, job, Failed(FAULT, (an_output("a"),), Remedy(RecoveryKind.MENDED)))
    (partial,) = await store.list_outputs(TENANT, job.id)
    assert (partial.file.filename, partial.attempt, partial.is_partial) == ("a", 1, True)
    await released(store, clock, 10)
    await tried(store, job, Completed((an_output("b"),)))
    (whole,) = await store.list_outputs(TENANT, job.id)
    assert (whole.file.filename, whole.attempt, whole.is_partial) == ("b", 2, False)


async def test_held_retry_is_cancelled_at_once_and_never_comes_back(
    store: Store, clock: ManualClock
) -> None:
    job = await added(store, clock)
    await tried(store, job, failed(RecoveryKind.MENDED))
    cancelled = await store.request_cancel(TENANT, job.id)
    assert (cancelled.state, cancelled.reason) == (JobState.CANCELLED, None)
    assert (await store.queue_totals()).scheduled == 0
    clock.move(HOUR)
    assert await store.release_due() is None
    assert (await store.get_job(TENANT, job.id)).state is JobState.CANCELLED


async def test_job_that_is_to_be_cancelled_is_not_tried_again(
    store: Store, clock: ManualClock
) -> None:
    job = await added(store, clock)
    attempt = await start(store, job)
    await store.request_cancel(TENANT, job.id)
    end = await store.finish_attempt(attempt.token, failed(RecoveryKind.MENDED))
    assert (end.state, end.fault, end.retries) == (JobState.CANCELLED, None, 0)
    (record,) = await store.list_attempts(TENANT, job.id)
    assert (record.state, record.fault) == (AttemptState.FAILED, FAULT)
    assert (record.recovery, record.retry_delay) == (None, None)


async def test_retry_and_its_history_outlive_a_restart(tmp_path: Path, clock: ManualClock) -> None:
    first = await open_sqlite_store(tmp_path, clock, retries=EVEN)
    job = await added(first, clock)
    await tried(first, job, failed(RecoveryKind.MORE_TIME, avoid=WORKER))
    await first.close()
    clock.move(9)
    second = await open_sqlite_store(tmp_path, clock, retries=EVEN)
    assert await second.release_due() == after(clock.now(), 1)
    await released(second, clock, 1)
    assert await is_startable(second, job)
    assert (await second.needs_of(job.id)).avoided == (WORKER,)
    await tried(second, job, failed(RecoveryKind.MORE_TIME))
    assert (await second.get_job(TENANT, job.id)).state is JobState.FAILED
    await second.close()


async def test_patience_of_a_retry_begins_when_it_may_start(
    store: Store, clock: ManualClock, keeper: QueueKeeper
) -> None:
    job = await added(store, clock, queue_timeout=5)
    await tried(store, job, failed(RecoveryKind.MENDED))
    clock.move(10)
    await keeper.look()
    clock.move(4.999)
    await keeper.look()
    assert await is_startable(store, job)
    clock.move(0.001)
    await keeper.look()
    assert (await store.get_job(TENANT, job.id)).state is JobState.FAILED


# The wall clock is set


@pytest.mark.parametrize("seconds", [HOUR, -HOUR])
async def test_wall_clock_that_is_set_ends_no_lease(
    store: Store, clock: ManualClock, seconds: float
) -> None:
    job = await added(store, clock)
    attempt = await start(store, job, lease=15)
    clock.set_forward(seconds)
    clock.move(14)
    assert await store.expire_leases() == []
    assert await store.adopt_attempts(WORKER, "other", 15) == []
    assert await store.extend_leases([attempt.token], 15) == []
    clock.set_forward(-seconds)
    clock.move(14.999)
    assert await store.expire_leases() == []
    clock.move(0.002)
    assert await store.expire_leases() == [job.id]


@pytest.mark.parametrize("seconds", [HOUR, -HOUR])
async def test_wall_clock_that_is_set_changes_nobodys_patience(
    store: Store, clock: ManualClock, keeper: QueueKeeper, seconds: float
) -> None:
    job = await added(store, clock, queue_timeout=30)
    clock.move(10)
    clock.set_forward(seconds)
    await keeper.look()
    assert await is_startable(store, job)
    found = await store.get_job(TENANT, job.id)
    assert found.expires_at == after(clock.now(), 20)
    clock.move(19.9)
    await keeper.look()
    assert await is_startable(store, job)
    clock.move(0.1)
    await keeper.look()
    assert (await store.get_job(TENANT, job.id)).state is JobState.FAILED


@pytest.mark.parametrize("seconds", [HOUR, -HOUR])
async def test_wall_clock_that_is_set_makes_a_retry_neither_earlier_nor_later(
    store: Store, clock: ManualClock, keeper: QueueKeeper, seconds: float
) -> None:
    job = await added(store, clock)
    await tried(store, job, failed(RecoveryKind.MENDED))
    clock.move(4)
    clock.set_forward(seconds)
    await keeper.look()
    assert (await store.get_job(TENANT, job.id)).held_until == after(clock.now(), 6)
    clock.move(5.9)
    await keeper.look()
    assert not await is_startable(store, job)
    clock.move(0.1)
    await keeper.look()
    assert await is_startable(store, job)


@pytest.mark.parametrize("seconds", [HOUR, -HOUR])
async def test_job_for_a_time_of_day_starts_at_that_time(
    store: Store, clock: ManualClock, keeper: QueueKeeper, seconds: float
) -> None:
    job = await added(store, clock, not_before=after(clock.now(), 2 * HOUR))
    clock.set_forward(seconds)
    await keeper.look()
    clock.move(2 * HOUR - seconds - 0.1)
    await keeper.look()
    assert not await is_startable(store, job)
    clock.move(0.1)
    await keeper.look()
    assert await is_startable(store, job)


@pytest.mark.parametrize("seconds", [HOUR, -HOUR])
async def test_patience_of_a_job_for_later_begins_at_its_time_though_the_clock_was_set(
    store: Store, clock: ManualClock, keeper: QueueKeeper, seconds: float
) -> None:
    job = await added(store, clock, not_before=after(clock.now(), 2 * HOUR), queue_timeout=30)
    clock.set_forward(seconds)
    await keeper.look()
    clock.move(2 * HOUR - seconds)
    await keeper.look()
    assert await is_startable(store, job)
    clock.move(29.9)
    await keeper.look()
    assert await is_startable(store, job)
    clock.move(0.1)
    await keeper.look()
    assert (await store.get_job(TENANT, job.id)).state is JobState.FAILED


async def test_patience_of_a_job_for_later_begins_at_its_time_though_the_queue_was_paused(
    store: Store, clock: ManualClock, keeper: QueueKeeper
) -> None:
    job = await added(store, clock, not_before=after(clock.now(), HOUR), queue_timeout=30)
    await store.pause_queue(None)
    clock.move(HOUR / 2)
    await store.resume_queue()
    clock.move(HOUR / 2)
    await keeper.look()
    clock.move(30)
    await keeper.look()
    assert (await store.get_job(TENANT, job.id)).state is JobState.FAILED


@pytest.mark.parametrize("seconds", [HOUR, -HOUR])
async def test_clock_that_is_set_during_a_pause_changes_nobodys_patience(
    store: Store, clock: ManualClock, keeper: QueueKeeper, seconds: float
) -> None:
    job = await added(store, clock, queue_timeout=30)
    clock.move(10)
    await store.pause_queue("repair")
    clock.move(60)
    clock.set_forward(seconds)
    await keeper.look()
    clock.move(60)
    state = await store.resume_queue()
    await keeper.look()
    assert not state.is_paused
    found = await store.get_job(TENANT, job.id)
    assert (found.state, found.expires_at) == (JobState.QUEUED, after(clock.now(), 20))
    clock.move(20)
    await keeper.look()
    assert (await store.get_job(TENANT, job.id)).state is JobState.FAILED


async def test_pause_and_its_reason_outlive_a_clock_that_is_set(
    store: Store, clock: ManualClock, keeper: QueueKeeper
) -> None:
    await store.pause_queue("repair")
    clock.move(60)
    clock.set_forward(-HOUR)
    await keeper.look()
    state = await store.queue_state()
    assert (state.is_paused, state.reason) == (True, "repair")
    assert state.paused_at == after(clock.now(), -60)


async def test_clock_that_is_merely_put_right_is_not_noted_and_many_times_is(
    store: Store, clock: ManualClock, keeper: QueueKeeper
) -> None:
    job = await added(store, clock)
    await tried(store, job, failed(RecoveryKind.MENDED))
    due = (await store.get_job(TENANT, job.id)).held_until
    assert due is not None
    clock.set_forward(-0.6)
    await keeper.look()
    assert (await store.get_job(TENANT, job.id)).held_until == due
    clock.set_forward(-0.6)
    await keeper.look()
    assert (await store.get_job(TENANT, job.id)).held_until == after(due, -1.2)


async def test_reprioritized_job_says_when_it_expires_by_the_clock(
    store: Store, clock: ManualClock
) -> None:
    job = await added(store, clock, queue_timeout=30)
    await store.pause_queue(None)
    clock.move(60)
    await store.resume_queue()
    moved = await store.reprioritize(TENANT, job.id, 9, standing_of(9))
    assert moved.expires_at == after(clock.now(), 30)
    assert moved == await store.get_job(TENANT, job.id)


# Attempts change hands


async def test_attempts_that_are_given_up_can_be_adopted_at_once(
    store: Store, clock: ManualClock
) -> None:
    mine = await added(store, clock)
    attempt = await start(store, mine, lease=1000, owner="me")
    others = await start(store, await added(store, clock), lease=1000, owner="you")
    await store.release_attempts("me", 15)
    (adopted,) = await store.adopt_attempts(WORKER, "new", 15)
    assert (adopted.job_id, adopted.prompt_id) == (mine.id, attempt.prompt_id)
    with pytest.raises(StaleAttempt):
        await store.finish_attempt(attempt.token, Completed(()))
    await store.finish_attempt(adopted.token, Completed(()))
    await store.finish_attempt(others.token, Completed(()))


async def test_attempt_that_is_given_up_and_that_nobody_adopts_costs_no_retry(
    store: Store, clock: ManualClock
) -> None:
    job = await added(store, clock, max_retries=0)
    await start(store, job, lease=1000, owner="me")
    await store.release_attempts("me", 15)
    clock.move(15)
    assert await store.expire_leases() == []
    clock.move(0.001)
    assert await store.expire_leases() == [job.id]
    found = await store.get_job(TENANT, job.id)
    assert (found.state, found.retries, found.reason) == (JobState.QUEUED, 0, "retrying")
    assert await is_startable(store, job)


async def test_owner_that_gave_its_attempts_up_may_still_end_one_that_nobody_has_adopted(
    store: Store, clock: ManualClock
) -> None:
    job = await added(store, clock)
    attempt = await start(store, job, owner="me")
    await store.release_attempts("me", 15)
    end = await store.finish_attempt(attempt.token, Completed(()))
    assert end.state is JobState.COMPLETED
    assert await store.adopt_attempts(WORKER, "new", 15) == []
