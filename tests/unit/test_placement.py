"""Which job goes where, and which waits [4.3, 4.4, 4.6, 5.3]."""

import pytest

from comfyrail.ids import TenantId
from comfyrail.jobs.needs import JobNeeds, ModelUse
from comfyrail.jobs.priority import QueueClass
from comfyrail.jobs.workers import WorkerProfile
from comfyrail.scheduling.fairness import FairShares, RoundOfService
from comfyrail.scheduling.placement import PlacementRules
from tests.scheduling.making import GIGABYTE, PROFILE, busy, decide, lane, needs, pairs, worker

PLAIN = needs(types=["A"])


def test_earliest_deadline_goes_first_to_the_worker_that_was_idle_longest() -> None:
    workers = [worker("young", idle_since=9), worker("old", idle_since=1)]
    decision = decide([lane(PLAIN, 90, 30, 60)], workers)
    assert pairs(decision) == [("job-0", "old"), ("job-1", "young")]


def test_deadlines_count_over_all_lanes_and_classes() -> None:
    lanes = [
        lane(PLAIN, 20, name="low", queue_class=QueueClass.LOW),
        lane(PLAIN, 25, name="high", queue_class=QueueClass.HIGH),
    ]
    assert pairs(decide(lanes, [worker("w")])) == [("low-0", "w")]


def test_job_that_nobody_can_run_does_not_stop_those_behind_it() -> None:
    lanes = [lane(needs(types=["X"]), -99, name="never"), lane(PLAIN, 60)]
    assert pairs(decide(lanes, [worker("w")])) == [("job-0", "w")]


def test_job_goes_to_the_free_worker_that_has_its_model_warm() -> None:
    workers = [worker("cold", "y"), worker("warm", "x")]
    (placement,) = decide([lane(needs("x"), 60)], workers).placements
    assert placement.worker_id == "warm"
    assert (placement.warm_models, placement.models, placement.loads_bytes) == (1, 1, 0)


def test_placement_says_its_score_and_cost() -> None:
    rate = WorkerProfile(frozenset(), video_memory=10 * GIGABYTE, rate=0.001)
    (placement,) = decide([lane(needs("x"), 60)], [worker("w", profile=rate)]).placements
    assert placement.score == pytest.approx(0.4 * 1 + 0.35 * 0 + 0.25 * 1)
    seconds = 10 + 8  # 8 GB are loaded at 1 GB a second
    assert placement.cost == pytest.approx(seconds * 0.001 * (1 + 0.5 * 8 * GIGABYTE / (24 << 30)))
    assert placement.loads_bytes == 8 * GIGABYTE


def test_medium_job_with_slack_waits_for_a_busy_warm_worker_and_says_when_to_look_again() -> None:
    workers = [worker("cold", "y", "z"), busy("warm", "x", free_in=20)]
    decision = decide([lane(needs("x"), 100)], workers)
    assert not decision.placements
    assert decision.wake_in == pytest.approx(0.6 * 100 - 20)


def test_job_waits_no_longer_than_loads_are_worth() -> None:
    workers = [worker("cold", "y", "z"), busy("warm", "x", free_in=20)]
    rules = PlacementRules(worth_of_load=2)  # of 8 seconds
    assert pairs(decide([lane(needs("x"), 100)], workers, rules=rules)) == [("job-0", "cold")]


def test_job_whose_slack_runs_out_takes_a_cold_worker() -> None:
    workers = [worker("cold", "y", "z"), busy("warm", "x", free_in=20)]
    assert pairs(decide([lane(needs("x"), 30)], workers)) == [("job-0", "cold")]


def test_overdue_job_waits_only_where_it_runs_sooner_that_way() -> None:
    soon = [worker("cold", "y", "z"), busy("warm", "x", free_in=5)]
    late = [worker("cold", "y", "z"), busy("warm", "x", free_in=9)]
    assert pairs(decide([lane(needs("x"), -10)], soon)) == []
    assert pairs(decide([lane(needs("x"), -10)], late)) == [("job-0", "cold")]


def test_worker_with_room_for_the_model_is_used_at_once() -> None:
    workers = [worker("empty"), busy("warm", "x", free_in=20)]
    assert pairs(decide([lane(needs("x"), 100)], workers)) == [("job-0", "empty")]


def test_empty_worker_goes_to_the_group_that_has_none_rather_than_to_one_that_would_wait() -> None:
    lanes = [lane(needs("x"), 50, 51, name="x"), lane(needs("y"), 60, name="y")]
    decision = decide(lanes, [worker("w0"), worker("w1")])
    assert sorted(job for job, _ in pairs(decision)) == ["x-0", "y-0"]


def test_all_empty_workers_are_used_when_nobody_else_needs_them() -> None:
    workers = [worker(f"w{n}") for n in range(20)]
    jobs = lane(needs("x"), *range(100, 120))
    decision = decide([jobs], workers)
    assert len(decision.placements) == 20
    assert decision.wake_in is None


def test_empty_worker_is_taken_before_one_that_would_lose_a_model() -> None:
    workers = [worker("full", "q", idle_since=1), worker("empty", idle_since=9)]
    assert pairs(decide([lane(needs("x"), 50)], workers)) == [("job-0", "empty")]


def test_lanes_take_turns_at_equal_deadlines() -> None:
    lanes = [lane(PLAIN, 50, 50, name="a"), lane(needs(types=["B"]), 50, 50, name="b")]
    workers = [worker("w0"), worker("w1")]
    assert [job for job, _ in pairs(decide(lanes, workers))] == ["a-0", "b-0"]


def test_busy_worker_is_kept_for_one_job_and_the_next_looks_elsewhere() -> None:
    workers = [worker("cold", "y", "z"), busy("warm", "x", free_in=10)]
    decision = decide([lane(needs("x"), 25, 26, queue_class=QueueClass.MEDIUM)], workers)
    assert pairs(decision) == [("job-1", "cold")]


def test_jobs_of_a_group_run_back_to_back_while_others_have_time() -> None:
    lanes = [lane(needs("x"), 10, name="cold"), lane(needs("y"), 30, name="warm")]
    assert pairs(decide(lanes, [worker("w", "y", "z")])) == [("warm-0", "w")]


def test_group_does_not_hold_a_worker_while_deadlines_of_others_pass() -> None:
    lanes = [lane(needs("x"), 10, name="cold"), lane(needs("y"), 90, name="warm")]
    assert pairs(decide(lanes, [worker("w", "y", "z")])) == [("cold-0", "w")]


def test_cold_job_takes_the_worker_whose_models_nobody_waits_for() -> None:
    lanes = [lane(needs("x"), 1, name="cold"), lane(needs("y"), 60, name="warm")]
    workers = [worker("wanted", "y", idle_since=1), worker("unwanted", "q", idle_since=2)]
    assert set(pairs(decide(lanes, workers))) == {("cold-0", "unwanted"), ("warm-0", "wanted")}


def test_small_job_goes_where_its_memory_fits_best() -> None:
    large = WorkerProfile(frozenset(), video_memory=80 * GIGABYTE)
    small = WorkerProfile(frozenset(), video_memory=10 * GIGABYTE)
    workers = [worker("large", profile=large), worker("small", profile=small)]
    assert pairs(decide([lane(needs("x"), 60)], workers)) == [("job-0", "small")]


def test_worker_that_lacks_only_a_small_model_is_nearly_warm() -> None:
    both = JobNeeds(
        models=(ModelUse("checkpoints", "big", 8 * GIGABYTE), ModelUse("loras", "small", GIGABYTE))
    )
    (placement,) = decide(
        [lane(both, 60)], [worker("cold", "q"), worker("nearly", "big")]
    ).placements
    assert (placement.worker_id, placement.loads_bytes) == ("nearly", GIGABYTE)


def test_prefetch_slot_is_used_where_the_job_begins_soonest() -> None:
    workers = [worker("prefetch", "x", free_in=2, load=0.5), busy("other", "x", free_in=8)]
    assert pairs(decide([lane(needs("x"), 60, 61)], workers)) == [("job-0", "prefetch")]


def test_job_is_not_both_prefetched_and_begun_elsewhere() -> None:
    prefetch = worker("prefetch", "x", free_in=20)
    jobs = lane(needs("x"), 100)
    assert pairs(decide([jobs], [prefetch, worker("empty")])) == [("job-0", "empty")]
    assert pairs(decide([jobs], [prefetch, worker("full", "y", "z")])) == [("job-0", "prefetch")]


def test_worker_takes_no_more_jobs_than_it_has_slots() -> None:
    assert len(decide([lane(PLAIN, *range(1, 9))], [worker("w", slots=3)]).placements) == 3


def test_tenant_limit_counts_running_jobs_and_those_of_the_round() -> None:
    lanes = [lane(PLAIN, 1, 2, 3, tenant="one"), lane(PLAIN, 9, name="other", tenant="two")]
    workers = [worker(f"w{n}") for n in range(4)]
    rules = PlacementRules(tenant_limits={TenantId("one"): 3}, default_limit=7)
    decision = decide(lanes, workers, running={TenantId("one"): 2}, rules=rules)
    assert sorted(job for job, _ in pairs(decision)) == ["job-0", "other-0"]


def test_limited_tenant_is_no_reason_to_leave_a_warm_worker_idle() -> None:
    lanes = [
        lane(needs("y"), 5, name="cold", tenant="three"),
        lane(needs("x"), 10, tenant="one"),
        lane(needs("x"), 20, name="other", tenant="two"),
    ]
    rules = PlacementRules(tenant_limits={TenantId("one"): 0})
    decision = decide(lanes, [worker("w", "x", "z")], rules=rules)
    assert pairs(decision) == [("other-0", "w")]


def test_tenant_that_is_ahead_of_its_share_goes_behind_although_it_waits_longer() -> None:
    shares = FairShares()
    ahead, behind = (QueueClass.MEDIUM, TenantId("one")), (QueueClass.MEDIUM, TenantId("two"))
    shares.charge(RoundOfService({ahead: 500.0, behind: 0.0}))
    lanes = [lane(PLAIN, -500, tenant="one"), lane(PLAIN, 100, name="other", tenant="two")]
    decision = decide(lanes, [worker("w")], shares=shares)
    assert pairs(decision) == [("other-0", "w")]
    assert decision.service.seconds == {behind: 10.0}
    assert decision.service.waiting == {QueueClass.MEDIUM: 0.0}


def test_shares_of_one_class_say_nothing_about_another() -> None:
    shares = FairShares()
    shares.charge(RoundOfService({(QueueClass.HIGH, TenantId("one")): 500.0}))
    lanes = [lane(PLAIN, 10, tenant="one"), lane(PLAIN, 20, name="other", tenant="two")]
    assert pairs(decide(lanes, [worker("w")], shares=shares)) == [("job-0", "w")]


def test_round_is_short_and_asks_for_the_next_at_once() -> None:
    workers = [worker(f"w{n}") for n in range(5)]
    decision = decide([lane(PLAIN, 1, 2, 3, 4)], workers, rules=PlacementRules(most_placements=3))
    assert (len(decision.placements), decision.wake_in) == (3, 0.0)


def test_round_asks_for_more_of_a_lane_that_it_has_used_up() -> None:
    workers = [worker("w0"), worker("w1")]
    assert decide([lane(PLAIN, 1, has_more=True)], workers).wake_in == 0.0
    assert decide([lane(PLAIN, 1)], workers).wake_in is None


def test_workers_that_are_left_over_take_what_they_are_warm_for() -> None:
    waits = [lane(needs("x"), 100 + n, name=f"x{n}", tenant=f"t{n}") for n in range(5)]
    workers = [busy("warm", "x", free_in=5), worker("left", "y", "z")]
    late = lane(needs("y"), 119, name="late")
    decision = decide([*waits, late], workers, rules=PlacementRules(lookahead=2))
    assert pairs(decision) == [("late-0", "left")]


@pytest.mark.parametrize("asked", [{"pool": "b"}, {}])
@pytest.mark.parametrize("models", [0, 1])
def test_idle_worker_takes_its_job_however_many_wait_for_busy_ones(
    models: int, asked: dict[str, str]
) -> None:
    """The jobs in front are more than a round plans for."""
    here, there = {"pool": "a"}, {"pool": "b"}
    ahead = [
        lane(
            needs(*[f"m{n}"][:models], types=["A"], labels=here),
            *[1] * 16,
            name=f"ahead{n}",
            tenant=f"t{n}",
            expected=0.01,
        )
        for n in range(80)
    ]
    assert sum(len(each.jobs) for each in ahead) > PlacementRules().lookahead
    waits = lane(needs(types=["A"], labels=asked), 20, name="waits")
    busy_one = WorkerProfile(frozenset({"A"}), labels=here)
    idle_one = WorkerProfile(frozenset({"A"}), labels=there)
    workers = [
        worker("busy", *(f"m{n}" for n in range(80)), profile=busy_one, slots=0, free_in=1),
        worker("idle", profile=idle_one),
    ]
    assert pairs(decide([*ahead, waits], workers)) == [("waits-0", "idle")]


def test_job_that_waits_for_a_warm_worker_behind_many_others_is_woken_for() -> None:
    ahead = [lane(needs("x"), 100 + n, name=f"x{n}", tenant=f"t{n}") for n in range(5)]
    workers = [busy("warm", "x", "y", free_in=20), worker("cold", "q", "z")]
    late = lane(needs("y"), 119, name="late")
    decision = decide([*ahead, late], workers, rules=PlacementRules(lookahead=0))
    assert not decision.placements
    assert decision.wake_in == pytest.approx(0.6 * 100 - 20)


@pytest.mark.parametrize("expected", [float("nan"), float("inf"), -5.0])
def test_senseless_estimate_harms_nobody(expected: float) -> None:
    lanes = [lane(PLAIN, 1, name="odd", expected=expected), lane(PLAIN, 2)]
    decision = decide(lanes, [worker("w0"), worker("w1")])
    assert sorted(job for job, _ in pairs(decision)) == ["job-0", "odd-0"]
    assert all(0 <= seconds < float("inf") for seconds in decision.service.seconds.values())


def test_nothing_is_decided_without_jobs_or_workers() -> None:
    assert pairs(decide([], [worker("w")])) == []
    assert pairs(decide([lane(PLAIN, 1)], [])) == []
    assert pairs(decide([lane(PLAIN)], [worker("w", profile=PROFILE)])) == []
