"""What is done about an attempt that has failed [7.2]."""

from collections.abc import Mapping
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from comfyrail.ids import WorkerId
from comfyrail.jobs.faults import Fault
from comfyrail.jobs.job import Job
from comfyrail.jobs.needs import MEMORY_STEP, JobNeeds
from comfyrail.jobs.outcome import (
    RETRYING,
    Cancelled,
    Completed,
    Conclusion,
    Failed,
    Lost,
    Outcome,
    Past,
    conclude,
)
from comfyrail.jobs.recovery import (
    LONGEST_TIMEOUT_SECONDS,
    MAXIMUM_RETRIES,
    MOST_RETRIES,
    WORKERS_AVOIDED,
    RecoveryKind,
    Remedy,
    Retry,
    RetryRules,
    decide_retry,
    needs_after,
    timeout_after,
)
from comfyrail.jobs.states import AttemptState, JobState
from tests.unit.test_jobs import job

FAULT = Fault("execution", "NODE_FAILED", "it broke")
DELAYED = [kind for kind in RecoveryKind if kind is not RecoveryKind.ELSEWHERE]
MIDDLE = 0.5
"""The chance at which a delay is neither longer nor shorter."""

chances = st.floats(0, 1)
kinds = st.sampled_from(RecoveryKind)
amounts = st.integers(0, 1000).map(lambda steps: steps * MEMORY_STEP)
worker_ids = st.sampled_from([WorkerId(f"w{number}") for number in range(9)])


def decide(
    kind: RecoveryKind,
    retries: int = 0,
    earlier: Mapping[RecoveryKind, int] | None = None,
    limit: int = MAXIMUM_RETRIES,
    chance: float = MIDDLE,
) -> Retry | None:
    return decide_retry(Remedy(kind), retries, limit, earlier or {}, RetryRules(), chance)


def times_tried_again(kind: RecoveryKind, limit: int) -> int:
    """How often a job is tried again that fails in the same way for ever."""
    retries = 0
    while decide(kind, retries, {kind: retries} if retries else {}, limit) is not None:
        retries += 1
    return retries


def failed(kind: RecoveryKind | None = None) -> Failed:
    return Failed(FAULT, (), None if kind is None else Remedy(kind))


def test_attempt_without_a_remedy_is_not_tried_again() -> None:
    assert decide_retry(None, 0, 3, {}, RetryRules(), MIDDLE) is None
    end = conclude(job(), failed())
    assert (end.job_state, end.fault, end.retry) == (JobState.FAILED, FAULT, None)


@pytest.mark.parametrize(
    ("kind", "times"),
    [
        (RecoveryKind.LESS_MEMORY, 2),
        (RecoveryKind.MORE_TIME, 1),
        (RecoveryKind.AGAIN, 1),
        (RecoveryKind.MENDED, MAXIMUM_RETRIES),
        (RecoveryKind.ELSEWHERE, MAXIMUM_RETRIES),
    ],
)
def test_each_remedy_is_tried_as_often_as_it_may_help(kind: RecoveryKind, times: int) -> None:
    assert times_tried_again(kind, MAXIMUM_RETRIES) == times


def test_job_is_tried_again_three_times_by_itself() -> None:
    assert MAXIMUM_RETRIES == 3
    assert RetryRules().maximum == job().max_retries == MAXIMUM_RETRIES


@given(kinds, st.integers(0, MOST_RETRIES))
def test_no_job_is_tried_again_more_often_than_it_allows(kind: RecoveryKind, limit: int) -> None:
    assert times_tried_again(kind, limit) <= limit
    if kind in {RecoveryKind.ELSEWHERE, RecoveryKind.MENDED}:
        assert times_tried_again(kind, limit) == limit


@given(kinds, kinds, st.integers(0, MOST_RETRIES))
def test_limit_of_one_remedy_does_not_count_for_another(
    kind: RecoveryKind, other: RecoveryKind, retries: int
) -> None:
    retry = decide(kind, retries, {other: retries}, retries + 1)
    if kind is not other:
        assert retry is not None
    assert decide(kind, retries, {other: retries}, retries) is None


@given(kinds.filter(lambda kind: kind is not RecoveryKind.ELSEWHERE), chances)
def test_delays_grow_by_two_from_ten_seconds_and_a_fifth_is_chance(
    kind: RecoveryKind, chance: float
) -> None:
    for retries, plain in enumerate((10.0, 20.0, 40.0, 80.0)):
        retry = decide(kind, retries, limit=MOST_RETRIES, chance=chance)
        assert retry is not None
        assert retry.delay == pytest.approx(plain * (0.8 + 0.4 * chance))
        assert 0.799 * plain <= retry.delay <= 1.201 * plain


@given(st.integers(1, 1000), chances)
def test_no_delay_is_longer_than_five_minutes_and_a_fifth(retry: int, chance: float) -> None:
    assert 0 < RetryRules().seconds_before(retry, chance) <= 360.001


def test_delay_follows_the_rules_of_the_server() -> None:
    rules = RetryRules(delay=1.0, factor=3.0, longest=5.0, spread=0.0)
    delays = [rules.seconds_before(number, chance) for number, chance in ((1, 0), (2, 1), (3, 0))]
    assert delays == [1.0, 3.0, 5.0]


def test_first_retry_on_another_worker_is_at_once_and_later_ones_wait() -> None:
    kind = RecoveryKind.ELSEWHERE
    delays = []
    for retries in range(4):
        retry = decide(kind, retries, {kind: retries} if retries else {}, limit=4)
        assert retry is not None
        delays.append(retry.delay)
    assert delays == [0.0, 10.0, 20.0, 40.0]


def test_first_lost_worker_is_left_at_once_whatever_failed_before() -> None:
    earlier = {RecoveryKind.LESS_MEMORY: 1, RecoveryKind.AGAIN: 1}
    retry = decide(RecoveryKind.ELSEWHERE, 2, earlier)
    assert retry is not None
    assert retry.delay == 0.0


@given(st.floats(0.001, 1e6))
def test_more_time_is_half_as_much_again_and_a_day_at_most(seconds: float) -> None:
    longer = timeout_after(seconds, Remedy(RecoveryKind.MORE_TIME))
    assert longer == pytest.approx(min(86_400.0, 1.5 * seconds))
    assert LONGEST_TIMEOUT_SECONDS == 86_400.0


@pytest.mark.parametrize("kind", [k for k in RecoveryKind if k is not RecoveryKind.MORE_TIME])
def test_other_remedies_leave_the_timeout_as_it_is(kind: RecoveryKind) -> None:
    assert timeout_after(100_000.0, Remedy(kind)) == 100_000.0


@given(amounts, amounts)
def test_need_of_memory_falls_by_a_fifth(video: int, memory: int) -> None:
    after = needs_after(
        JobNeeds(video_memory=video, memory=memory), Remedy(RecoveryKind.LESS_MEMORY)
    )
    for before, lowered in ((video, after.video_memory), (memory, after.memory)):
        assert lowered == round(0.8 * before)


def test_job_that_ran_out_of_memory_goes_to_larger_workers_and_never_to_smaller_ones_again() -> (
    None
):
    needs = JobNeeds(video_memory=20 * MEMORY_STEP)
    for had, above in ((8 << 30, 8 << 30), (6 << 30, 8 << 30), (12 << 30, 12 << 30)):
        remedy = Remedy(RecoveryKind.LESS_MEMORY, WorkerId("w"), above_memory=had)
        needs = needs_after(needs, remedy)
        assert needs.above_memory == above
    assert needs.avoided == ()
    assert needs.video_memory == pytest.approx(20 * MEMORY_STEP * 0.8**3, abs=2)


@given(st.lists(worker_ids, max_size=20), kinds)
def test_last_five_workers_on_which_it_failed_are_avoided(
    failures: list[WorkerId], kind: RecoveryKind
) -> None:
    needs = JobNeeds(frozenset({"A"}), video_memory=4 * MEMORY_STEP)
    for worker_id in failures:
        needs = needs_after(needs, Remedy(kind, worker_id))
    latest_first = list(dict.fromkeys(reversed(failures)))[:5]
    if kind is RecoveryKind.LESS_MEMORY:
        latest_first = []
    assert list(needs.avoided) == latest_first[::-1]
    assert WORKERS_AVOIDED == 5


def test_remedy_that_names_no_worker_changes_no_needs() -> None:
    needs = JobNeeds(frozenset({"A"}), avoided=("w",))
    for kind in (RecoveryKind.MENDED, RecoveryKind.AGAIN, RecoveryKind.MORE_TIME):
        assert needs_after(needs, Remedy(kind)).group == needs.group


def test_job_that_avoids_workers_is_of_a_group_of_its_own() -> None:
    needs = JobNeeds(frozenset({"A"}))
    other = needs_after(needs, Remedy(RecoveryKind.ELSEWHERE, WorkerId("w")))
    assert other.group != needs.group
    assert JobNeeds.decode(other.encode()) == other


@pytest.mark.parametrize("kind", list(RecoveryKind))
def test_failed_attempt_with_a_remedy_is_queued_again(kind: RecoveryKind) -> None:
    end = conclude(job(retries=1), failed(kind), Past(chance=MIDDLE))
    assert (end.attempt_state, end.job_state) == (AttemptState.FAILED, JobState.QUEUED)
    assert (end.reason, end.retries, end.fault) == (RETRYING, 2, None)
    assert end.retry is not None
    assert end.retry.remedy == Remedy(kind)


@pytest.mark.parametrize("outcome", [failed(RecoveryKind.MENDED), Lost("gone")])
@pytest.mark.parametrize("limit", [0, 1, MAXIMUM_RETRIES, MOST_RETRIES])
def test_job_has_as_many_retries_as_it_was_given(outcome: Outcome, limit: int) -> None:
    last = replace(job(retries=max(0, limit - 1)), max_retries=limit)
    end = conclude(last, outcome)
    assert end.job_state is (JobState.QUEUED if limit else JobState.FAILED)
    used_up = conclude(replace(job(retries=limit), max_retries=limit), outcome)
    assert (used_up.job_state, used_up.retries) == (JobState.FAILED, limit)
    assert used_up.retry is None
    assert used_up.fault is not None


def test_last_fault_is_that_of_the_job() -> None:
    used_up = conclude(job(retries=MAXIMUM_RETRIES), failed(RecoveryKind.MENDED))
    assert used_up.fault == FAULT
    lost = conclude(job(retries=MAXIMUM_RETRIES), Lost("its lease ran out"))
    assert lost.fault is not None
    assert (lost.fault.code, lost.fault.details["cause"]) == ("WORKER_LOST", "its lease ran out")


def test_kinds_of_earlier_retries_are_counted() -> None:
    past = Past({RecoveryKind.MORE_TIME: 1}, chance=MIDDLE)
    assert conclude(job(retries=1), failed(RecoveryKind.MORE_TIME), past).fault == FAULT
    assert conclude(job(retries=1), failed(RecoveryKind.AGAIN), past).retry is not None


def test_lost_attempt_goes_to_another_worker() -> None:
    end = conclude(job(), Lost("gone"))
    assert end.retry == Retry(0.0, Remedy(RecoveryKind.ELSEWHERE, WorkerId("w")))
    second = conclude(job(retries=1), Lost("gone"), Past({RecoveryKind.ELSEWHERE: 1}))
    assert second.retry is not None
    assert second.retry.delay == 10.0


def ends_of(cancelled: Job) -> dict[str, Conclusion]:
    outcomes: dict[str, Outcome] = {
        "completed": Completed(()),
        "cancelled": Cancelled(),
        "lost": Lost("gone"),
        "uncounted": Lost("restart", counted=False),
        "hopeless": failed(),
        **{kind.value: failed(kind) for kind in RecoveryKind},
    }
    return {name: conclude(cancelled, outcome) for name, outcome in outcomes.items()}


def test_cancel_wins_over_every_retry_and_over_nothing_else() -> None:
    ends = ends_of(job(cancel_requested=True))
    assert ends.pop("completed").job_state is JobState.COMPLETED
    assert ends.pop("hopeless").job_state is JobState.FAILED
    for name, end in ends.items():
        assert (name, end.job_state, end.retry) == (name, JobState.CANCELLED, None)


def test_delays_are_spread_over_jobs_that_fail_together() -> None:
    rules = RetryRules()
    delays = {
        conclude(job(), failed(kind), Past(rules=rules, chance=chance)).retry
        for kind in DELAYED
        for chance in (0.0, 0.3, 0.9)
    }
    assert len(delays) == 3 * len(DELAYED)
