"""States, outcomes, priority [4.1, 4.2, 4.3]."""

import pytest

from comfyrail.clock import Instant
from comfyrail.errors import IllegalTransition
from comfyrail.ids import JobId, TenantId, WorkerId
from comfyrail.jobs.faults import Fault
from comfyrail.jobs.job import Job, Progress
from comfyrail.jobs.outcome import Cancelled, Completed, Failed, Lost, conclude
from comfyrail.jobs.priority import (
    TIER_FACTORS,
    Factors,
    QueueClass,
    effective_priority,
    expected_time_factor,
    standing_of,
)
from comfyrail.jobs.recovery import MAXIMUM_RETRIES
from comfyrail.jobs.states import JobState, check_transition


def job(*, retries: int = 0, cancel_requested: bool = False) -> Job:
    return Job(
        id=JobId("j"),
        tenant=TenantId("t"),
        state=JobState.PROCESSING,
        reason=None,
        priority=5,
        rank=0,
        timeout_seconds=1,
        expected_seconds=1,
        submitted_at=Instant(0),
        started_at=Instant(0),
        completed_at=None,
        attempts=1,
        retries=retries,
        worker_id=WorkerId("w"),
        cancel_requested=cancel_requested,
        progress=Progress(),
        fault=None,
        last_event=1,
    )


@pytest.mark.parametrize("state", list(JobState))
def test_final_states_lead_nowhere(state: JobState) -> None:
    for to in JobState:
        if state.is_final:
            with pytest.raises(IllegalTransition):
                check_transition(state, to)


def test_queued_job_cannot_complete_without_running() -> None:
    with pytest.raises(IllegalTransition):
        check_transition(JobState.QUEUED, JobState.COMPLETED)


def test_each_outcome_leads_to_its_state() -> None:
    fault = Fault("execution", "X", "x")
    assert conclude(job(), Completed(())).job_state is JobState.COMPLETED
    assert conclude(job(), Failed(fault)).fault == fault
    assert conclude(job(), Cancelled()).job_state is JobState.CANCELLED
    assert conclude(job(), Lost("gone")).job_state is JobState.QUEUED


def test_lost_job_is_retried_until_its_retries_are_used_up() -> None:
    again = conclude(job(retries=MAXIMUM_RETRIES - 1), Lost("gone"))
    assert (again.job_state, again.retries) == (JobState.QUEUED, MAXIMUM_RETRIES)
    end = conclude(job(retries=MAXIMUM_RETRIES), Lost("gone"))
    assert end.job_state is JobState.FAILED
    assert end.fault is not None
    assert end.fault.code == "WORKER_LOST"


def test_restart_of_the_server_costs_no_retry() -> None:
    end = conclude(job(retries=MAXIMUM_RETRIES), Lost("restart", counted=False))
    assert (end.job_state, end.retries) == (JobState.QUEUED, MAXIMUM_RETRIES)


def test_lost_job_that_was_to_be_cancelled_is_cancelled() -> None:
    assert conclude(job(cancel_requested=True), Lost("x")).job_state is JobState.CANCELLED


def test_wait_targets_are_those_of_the_classes_and_fall_with_priority() -> None:
    targets = [standing_of(priority).target_seconds for priority in range(1, 11)]
    assert targets == sorted(targets, reverse=True)
    assert len(set(targets)) == 10
    assert (targets[0], targets[3], targets[7]) == (600.0, 120.0, 30.0)


def test_classes_are_those_of_the_priorities() -> None:
    classes = [standing_of(priority).queue_class for priority in range(1, 11)]
    low, medium, high = QueueClass.LOW, QueueClass.MEDIUM, QueueClass.HIGH
    assert classes == [low] * 3 + [medium] * 4 + [high] * 3
    assert standing_of(10, is_batch=True).queue_class is QueueClass.BATCH


def test_waiting_job_overtakes_later_ones_of_higher_priority() -> None:
    low, high = standing_of(1), standing_of(10)
    assert high.rank(Instant(500_000)) < low.rank(Instant(0)) < high.rank(Instant(600_000))


@pytest.mark.parametrize(("tier", "factor"), TIER_FACTORS.items())
def test_tier_multiplies_the_priority(tier: str, factor: float) -> None:
    assert effective_priority(4, tier, Factors()) == pytest.approx(4 * factor)


def test_each_factor_counts_a_fifth_and_the_result_stays_within_one_and_ten() -> None:
    factors = Factors(expected_time=0.3, resources=-0.5, cache=1.0, quota=-1.0)
    expected = 5 * 1.06 * 0.9 * 1.2 * 0.8
    assert effective_priority(5, "basic", factors) == pytest.approx(expected)
    assert effective_priority(10, "enterprise", factors) == 10
    assert effective_priority(1, "free", factors) == 1
    assert effective_priority(5, "basic", Factors(cache=40.0)) == pytest.approx(6.0)


def test_short_jobs_go_earlier_and_long_ones_later() -> None:
    assert [expected_time_factor(seconds) for seconds in (1, 30, 300, 301)] == [0.3, 0, 0, -0.2]
