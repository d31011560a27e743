"""How many workers a pool should have [5.4]."""

import random
from collections.abc import Sequence

from comfyrail.clock import Instant
from comfyrail.ids import WorkerId
from comfyrail.jobs.needs import job_needs
from comfyrail.jobs.priority import QueueClass, WaitTargets
from comfyrail.jobs.queue import Backlog
from comfyrail.jobs.workers import PoolLimits, PoolView, PoolWorker, WorkerProfile, WorkerStatus
from comfyrail.scheduling.autoscaling import ScaleDecision, Supply, plan_scale
from comfyrail.scheduling.forecast import NOTHING_FORETOLD, ArrivalHistory, Forecast

NOW = Instant(1_000_000_000)
TARGETS = WaitTargets(high=30, medium=120, low=600, batch=3600)
GPU = WorkerProfile(frozenset(("Sample",)), rate=0.001)
CPU = WorkerProfile(frozenset(("Resize",)))


def waiting(
    jobs: int,
    seconds: float = 10.0,
    queue_class: QueueClass = QueueClass.MEDIUM,
    node: str = "Sample",
    slack: float | None = None,
) -> Backlog:
    slack = TARGETS.of(queue_class) if slack is None else slack
    rank = NOW + round(slack * 1000)
    return Backlog(queue_class, job_needs((node,), ()), jobs, jobs * seconds, rank)


def workers(
    count: int, status: WorkerStatus = WorkerStatus.IDLE, first: int = 1, **figures: float
) -> list[PoolWorker]:
    return [
        PoolWorker(WorkerId(f"gpu-{number}"), status, **figures)
        for number in range(first, first + count)
    ]


def pool(
    members: Sequence[PoolWorker] = (),
    profile: WorkerProfile | None = GPU,
    start_seconds: float = 20.0,
    *,
    can_start: bool = True,
    **limits: float,
) -> PoolView:
    bounds = PoolLimits(**({"maximum": 10, "idle_timeout": 300.0} | limits))  # type: ignore[arg-type]
    return PoolView("gpu", "docker", bounds, members, profile, start_seconds, can_start)


def plan(
    view: PoolView,
    *demand: Backlog,
    others: Sequence[Supply] = (),
    forecast: Forecast = NOTHING_FORETOLD,
) -> ScaleDecision:
    return plan_scale(view, demand, others, forecast, NOW, TARGETS)


# Growing


def test_pool_without_work_stays_at_zero() -> None:
    assert plan(pool()) == ScaleDecision()


def test_one_job_that_nothing_can_run_starts_one_worker_whatever_its_class() -> None:
    decision = plan(pool(), waiting(1, queue_class=QueueClass.BATCH))
    assert decision.start == 1
    assert "no worker can run" in decision.reason


def test_work_of_a_kind_that_the_pool_cannot_run_is_not_counted() -> None:
    assert plan(pool(), waiting(500, node="Resize")).start == 0


def test_pool_that_was_never_seen_counts_only_what_nobody_else_can_run() -> None:
    unknown = pool(profile=None)
    others = [Supply(CPU, [0.0])]
    assert plan(unknown, waiting(500, node="Resize"), others=others).start == 0
    assert plan(unknown, waiting(1, node="Sample"), others=others).start == 1


def test_pool_grows_as_far_as_the_wait_target_asks_and_no_further() -> None:
    # 100 jobs of 60 s within about 120 s, 20 s of them for the start: some 2.7 jobs a worker.
    decision = plan(pool(maximum=100), waiting(100, seconds=60))
    assert 30 <= decision.start <= 40
    relaxed = plan(pool(maximum=100), waiting(100, seconds=60, queue_class=QueueClass.LOW))
    assert 5 <= relaxed.start < decision.start / 3
    assert "class medium" in decision.reason


def test_urgent_work_before_them_counts_for_those_behind() -> None:
    alone = plan(pool(maximum=100), waiting(20, seconds=60))
    behind = plan(pool(maximum=100), waiting(20, 60), waiting(40, 60, queue_class=QueueClass.HIGH))
    assert behind.start > alone.start


def test_maximum_is_never_passed_whatever_waits() -> None:
    assert plan(pool(maximum=3), waiting(1_000_000, seconds=60)).start == 3
    full = pool(workers(3, WorkerStatus.BUSY, free_in=50.0), maximum=3)
    decision = plan(full, waiting(1_000_000, seconds=60))
    assert (decision.start, decision.retire) == (0, ())
    assert "no more than 3" in decision.reason


def test_workers_that_are_starting_are_counted() -> None:
    first = plan(pool(maximum=100), waiting(100, seconds=60)).start
    starting = workers(first, WorkerStatus.STARTING)
    assert plan(pool(starting, maximum=100), waiting(100, seconds=60)).start == 0


def test_never_more_workers_than_jobs() -> None:
    assert plan(pool(maximum=100), waiting(3, seconds=10_000)).start == 3


def test_busy_workers_that_are_free_in_time_are_enough() -> None:
    busy = workers(2, WorkerStatus.BUSY, free_in=15.0)
    assert plan(pool(busy), waiting(2, seconds=600)).start == 0


def test_workers_outside_the_pool_take_their_part() -> None:
    others = [Supply(GPU, [0.0] * 5)]
    assert plan(pool(), waiting(5, seconds=60), others=others).start == 0
    assert plan(pool(), waiting(200, seconds=60), others=others).start > 0


def test_others_do_not_count_for_what_only_the_pool_can_run() -> None:
    others = [Supply(CPU, [0.0] * 1000)]
    assert plan(pool(), waiting(100, seconds=60), others=others).start == 10


def test_late_work_asks_for_more_than_early_work() -> None:
    early = plan(pool(maximum=100), waiting(100, seconds=60)).start
    late = plan(pool(maximum=100), waiting(100, seconds=60, slack=-60)).start
    assert late > early


def test_cost_cap_bounds_the_pool() -> None:
    # 0.001 dollars a second are 3.60 an hour.
    assert plan(pool(cost_cap=8.0), waiting(1000, seconds=60)).start == 2
    assert plan(pool(cost_cap=3.0), waiting(1000, seconds=60)).start == 0
    unknown = pool(profile=None, cost_cap=8.0)
    assert plan(unknown, waiting(1000, seconds=60)).start == 1, "to learn what one costs"


def test_driver_that_rests_is_left_alone() -> None:
    decision = plan(pool(can_start=False), waiting(10))
    assert decision.start == 0
    assert "rests" in decision.reason


def test_idle_workers_although_jobs_wait_show_that_more_would_not_help() -> None:
    idle = workers(1, idle_seconds=20.0)
    assert plan(pool(idle), waiting(1000, seconds=60)).start == 0


def test_warm_workers_are_kept_beyond_the_busy_ones() -> None:
    busy = workers(3, WorkerStatus.BUSY)
    assert plan(pool(busy, warm=2)).start == 2
    ready = [*busy, *workers(1, first=4), *workers(1, WorkerStatus.STARTING, first=5)]
    assert plan(pool(ready, warm=2)).start == 0


# Shrinking


def test_idle_workers_go_after_the_timeout_and_not_before() -> None:
    members = [
        *workers(1, idle_seconds=299.0),
        *workers(1, first=2, idle_seconds=301.0),
        *workers(1, first=3, idle_seconds=900.0),
    ]
    decision = plan(pool(members))
    assert (decision.start, decision.retire) == (0, ("gpu-3", "gpu-2"))


def test_minimum_and_warm_ones_stay() -> None:
    members = workers(4, idle_seconds=1000.0)
    assert len(plan(pool(members, minimum=3)).retire) == 1
    assert len(plan(pool(members, warm=4)).retire) == 0
    assert len(plan(pool(members, minimum=1, warm=2)).retire) == 2


def test_busy_and_leaving_workers_are_not_retired() -> None:
    members = [
        *workers(2, WorkerStatus.BUSY, idle_seconds=0.0),
        *workers(2, WorkerStatus.DRAINING, first=3, idle_seconds=1000.0),
    ]
    assert plan(pool(members)) == ScaleDecision()


def test_more_than_the_maximum_go_at_once() -> None:
    members = [*workers(2, idle_seconds=1.0), *workers(3, WorkerStatus.BUSY, first=3)]
    assert len(plan(pool(members, maximum=4)).retire) == 1
    leaving = [*members, *workers(1, WorkerStatus.DRAINING, first=6)]
    assert len(plan(pool(leaving, maximum=5)).retire) == 0


def test_nothing_is_retired_while_more_are_wanted() -> None:
    members = [
        *workers(2, WorkerStatus.BUSY, free_in=500.0),
        *workers(1, first=3, idle_seconds=1000.0),
    ]
    assert plan(pool(members, warm=3, maximum=3)).retire == ()


# Looking ahead


def test_workers_are_started_ahead_of_a_foretold_load() -> None:
    load = [0.0] * 10 + [4.0] * 50
    decision = plan(pool(start_seconds=600), forecast=Forecast(load))
    assert decision.start == 5
    assert "foretold" in decision.reason
    assert plan(pool(start_seconds=60), forecast=Forecast(load)).start == 0, "too early"


def test_workers_that_will_be_needed_soon_are_kept() -> None:
    members = workers(3, idle_seconds=1000.0)
    soon = Forecast([0.0] * 4 + [2.0] * 56)
    assert len(plan(pool(members), forecast=soon).retire) == 0
    later = Forecast([0.0] * 30 + [2.0] * 30)
    assert len(plan(pool(members), forecast=later).retire) == 3


def test_steady_load_neither_starts_nor_retires() -> None:
    """What is started for a load is kept for it: no flapping, whatever the load."""
    for tenths in range(200):
        forecast = Forecast([tenths / 10] * 60)
        started = plan(pool(maximum=1000), forecast=forecast).start
        members = workers(started, idle_seconds=100_000.0)
        after = plan(pool(members, maximum=1000), forecast=forecast)
        assert (after.start, after.retire) == (0, ()), tenths


def history(loads: dict[int, tuple[int, float]], until: int) -> Forecast:
    taken = ArrivalHistory()
    taken.take_in(loads, until)
    return taken.forecast(until)


def test_nothing_is_foretold_from_one_burst() -> None:
    assert history({100: (50, 5000.0)}, 105).load == ()
    assert max(history({100: (50, 50.0)}, 160).load) < 0.2


def test_steady_arrivals_are_foretold_near_their_load() -> None:
    chance = random.Random(7)
    arrivals = {
        minute: (jobs, jobs * 30.0)
        for minute in range(2000)
        if (jobs := sum(chance.random() < 0.1 for _ in range(60)))
    }
    foretold = history(arrivals, 2000).load
    # 6 jobs of half a minute each minute keep 3 workers busy; a high quantile is a bit more.
    assert all(2.5 < load < 6 for load in foretold)


def test_long_jobs_that_come_rarely_are_load_too() -> None:
    arrivals = dict.fromkeys(range(0, 600, 10), (1, 1200.0))
    assert all(1.5 < load < 3 for load in history(arrivals, 600).load)


def test_burst_of_every_hour_is_seen_coming() -> None:
    arrivals = {hour * 60: (100, 6000.0) for hour in range(12)}
    foretold = history(arrivals, 11 * 60 + 30).load
    assert foretold[30] > 20
    assert foretold[15] < 1


def test_busy_time_of_the_day_is_seen_coming() -> None:
    day = dict.fromkeys(range(540, 1020), (10, 600.0))
    arrivals = {number * 1440 + minute: each for number in range(3) for minute, each in day.items()}
    morning = history(arrivals, 3 * 1440 + 520).load
    assert max(morning[:15]) < 1
    assert min(morning[25:]) > 5


def test_history_taken_in_bit_by_bit_is_the_same_history() -> None:
    arrivals = {minute: (minute % 7, minute % 7 * 20.0) for minute in range(900)}
    bit_by_bit = ArrivalHistory()
    for minute in range(0, 901, 30):
        seen = {each: arrivals[each] for each in range(max(0, minute - 40), minute)}
        bit_by_bit.take_in(seen, minute)
    assert bit_by_bit.forecast(900) == history(arrivals, 900)


def test_odd_figures_are_left_out() -> None:
    arrivals = {
        minute: (1, value)
        for minute, value in enumerate([float("nan"), float("inf"), -5.0, 0.0] * 20)
    }
    assert history(arrivals, 90).load == ()


def test_ten_thousand_workers_are_planned_for_quickly() -> None:
    members = workers(10_000, WorkerStatus.BUSY, free_in=100.0)
    demand = [waiting(1000, seconds=5, node="Sample") for _ in range(200)]
    assert plan(pool(members, maximum=20_000), *demand).start > 0
