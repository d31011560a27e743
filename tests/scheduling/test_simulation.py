"""The simulator, and what the placement reaches in it."""

from collections import Counter
from dataclasses import replace
from itertools import pairwise

import msgspec
import pytest

from comfyrail.jobs.priority import DEFAULT_TARGETS, QueueClass
from comfyrail.scheduling.simulation.compare import run_policy
from comfyrail.scheduling.simulation.figures import figures_of, max_min_shares, mean_of, percentile
from comfyrail.scheduling.simulation.policies import POLICIES
from comfyrail.scheduling.simulation.run import Simulation, Trace
from comfyrail.scheduling.simulation.scenario import (
    Arrivals,
    ModelSet,
    Pattern,
    RunTimes,
    Scenario,
    Tenant,
    WorkerSet,
    read_scenario,
)
from comfyrail.scheduling.simulation.workers import make_workers
from comfyrail.scheduling.simulation.workload import GIGABYTE, Workload, make_workload

SMALL = Scenario(
    jobs=300,
    workers=(WorkerSet(2, 12.0), WorkerSet(2, 24.0)),
    arrivals=Arrivals(load=0.7),
    models=ModelSet(count=5, size_gb=(4.0, 20.0)),
    classes={QueueClass.HIGH: 0.3, QueueClass.LOW: 0.5, QueueClass.BATCH: 0.2},
    tenants=(Tenant("one"), Tenant("two", 3.0)),
)


def run(scenario: Scenario, policy: str, seed: int = 0) -> Trace:
    return Simulation(scenario, make_workload(scenario, seed), POLICIES[policy](scenario)).run()


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("pattern", Pattern)
def test_every_job_runs_once_where_it_fits_and_none_beside_another(
    policy: str, pattern: Pattern
) -> None:
    scenario = msgspec.structs.replace(SMALL, arrivals=Arrivals(pattern, load=1.5))
    trace = run(scenario, policy)
    assert Counter(each.job.id for each in trace.begun) == {
        job.id: 1 for job in make_workload(scenario, 0).jobs
    }
    free_at: Counter[int] = Counter()
    for each in trace.begun:
        assert trace.workers[each.worker].can_run(each.job.needs)
        assert each.at >= max(each.job.arrival, free_at[each.worker])
        free_at[each.worker] = each.ends  # type: ignore[assignment] # a Counter of moments


def test_run_is_repeatable_and_seeds_differ() -> None:
    def story(seed: int) -> list[tuple[str, int, float]]:
        return [(each.job.id, each.worker, each.at) for each in run(SMALL, "comfyrail", seed).begun]

    assert story(1) == story(1)
    assert story(1) != story(2)


def test_policies_are_given_the_same_jobs() -> None:
    assert make_workload(SMALL, 3).jobs == make_workload(SMALL, 3).jobs


def test_workload_is_as_the_scenario_says() -> None:
    scenario = read_scenario("twenty-models")
    jobs = make_workload(scenario, 0).jobs
    assert len(jobs) == 4000
    mean = sum(job.seconds for job in jobs) / len(jobs)
    assert mean == pytest.approx(12, rel=0.05)
    assert len(jobs) / jobs[-1].arrival == pytest.approx(0.8 * 8 / 12, rel=0.05)
    classes = Counter(job.queue_class for job in jobs)
    assert classes[QueueClass.MEDIUM] / len(jobs) == pytest.approx(0.5, abs=0.03)
    models = Counter(job.needs.group for job in jobs).most_common()
    assert len(models) == 20
    assert models[0][1] / models[1][1] == pytest.approx(2, rel=0.25)
    assert all(6 * GIGABYTE <= job.needs.model_bytes <= 12 * GIGABYTE for job in jobs)


def test_worker_drops_the_model_that_it_has_used_least_recently() -> None:
    scenario = Scenario(
        jobs=40, workers=(WorkerSet(1, 20.0),), models=ModelSet(20, (8.0, 8.0), 0.0)
    )
    by_model = {job.needs.models[0].name: job for job in make_workload(scenario, 0).jobs}
    first, second, third = list(by_model.values())[:3]
    (worker,) = make_workers(scenario)
    for job, loads in ((first, 1), (second, 2), (first, 2), (third, 3), (first, 3), (second, 4)):
        loading, seconds = worker.begin(job, 0.0)
        worker.end(0.0)
        assert worker.loads == loads
        assert seconds == pytest.approx(loading + job.seconds)
    assert worker.warm == {first.needs.models[0].name, second.needs.models[0].name}


def test_twenty_models_half_the_run_reaches_what_is_promised() -> None:
    scenario = msgspec.structs.replace(read_scenario("twenty-models"), jobs=1500)
    ours, idlest, pressure = (
        run_policy(scenario, name, 0) for name in ("comfyrail", "least-loaded", "swarmui")
    )
    assert ours.unfinished == 0
    assert ours.loads <= 0.5 * idlest.loads
    assert ours.loads <= 0.75 * pressure.loads
    for queue_class, waits in ours.waits.items():
        assert waits.p95_running <= DEFAULT_TARGETS.of(queue_class)
    assert ours.waits[QueueClass.HIGH].mean <= 0.5 * pressure.waits[QueueClass.HIGH].mean


def test_greedy_tenant_gets_its_share_and_no_more() -> None:
    scenario = msgspec.structs.replace(read_scenario("greedy-tenant"), jobs=3000)
    ours = run_policy(scenario, "comfyrail", 0)
    assert ours.tenants["greedy"].fair == pytest.approx(0.25, abs=0.01)
    assert ours.tenants["greedy"].distance <= 0.1
    assert run_policy(scenario, "fifo", 0).tenants["greedy"].distance > 1


def test_overload_does_not_end_in_loading() -> None:
    scenario = msgspec.structs.replace(
        read_scenario("twenty-models"), jobs=800, arrivals=Arrivals(load=1.5)
    )
    ours, pressure = (run_policy(scenario, name, 0) for name in ("comfyrail", "swarmui"))
    assert ours.makespan <= 1.15 * pressure.makespan


def test_two_models_on_two_workers_are_loaded_once_each() -> None:
    scenario = Scenario(
        jobs=40,
        workers=(WorkerSet(2, 12.0),),
        models=ModelSet(2, (8.0, 8.0), 0.0),
        arrivals=Arrivals(Pattern.AT_ONCE),
        run_seconds=RunTimes(5.0, 0.1),
    )
    drawn = make_workload(scenario, 0)
    alternating = Workload(
        [replace(job, needs=drawn.groups[job.number % 2]) for job in drawn.jobs], drawn.groups
    )
    loads = {
        name: sum(
            worker.loads
            for worker in Simulation(scenario, alternating, POLICIES[name](scenario)).run().workers
        )
        for name in ("comfyrail", "round-robin")
    }
    assert loads["comfyrail"] == 2
    assert loads["round-robin"] > 10


def test_bound_is_below_what_any_policy_reaches() -> None:
    runs = {name: run_policy(SMALL, name, 0) for name in POLICIES}
    assert runs["bound"].loads == 5
    for name, each in runs.items():
        if name != "bound":
            assert runs["bound"].loads <= each.loads
            assert runs["bound"].waits[QueueClass.HIGH].mean <= each.waits[QueueClass.HIGH].mean


def test_run_can_be_stopped_early_and_says_what_waits() -> None:
    scenario = msgspec.structs.replace(
        SMALL, arrivals=Arrivals(Pattern.AT_ONCE), stop_after=100.0, round_seconds=1.0
    )
    trace = run(scenario, "comfyrail")
    figures = figures_of(scenario, "comfyrail", 0, trace)
    assert max(each.at for each in trace.begun) <= 101
    assert figures.unfinished == 300 - figures.jobs > 0
    assert 0.8 <= figures.utilization <= 1
    assert sum(each.share for each in figures.tenants.values()) == pytest.approx(1)


def test_rounds_keep_their_distance() -> None:
    scenario = msgspec.structs.replace(SMALL, round_seconds=5.0)
    moments = sorted({each.at for each in run(scenario, "fifo").begun})
    assert min(b - a for a, b in pairwise(moments)) >= 5.0


@pytest.mark.parametrize(
    ("asked", "capacity", "fair"),
    [
        ({"a": 10, "b": 10}, 10, {"a": 5, "b": 5}),
        ({"a": 1, "b": 50, "c": 90}, 31, {"a": 1, "b": 15, "c": 15}),
        ({"a": 1, "b": 2}, 30, {"a": 1, "b": 2}),
    ],
)
def test_max_min_fair_shares(
    asked: dict[str, float], capacity: float, fair: dict[str, float]
) -> None:
    assert max_min_shares(asked, capacity) == fair


def test_means_over_seeds() -> None:
    one, two = (run_policy(SMALL, "fifo", seed) for seed in (0, 1))
    mean = mean_of([one, two])
    assert mean.loads == round((one.loads + two.loads) / 2)
    low = [each.waits[QueueClass.LOW].p95 for each in (one, two)]
    assert mean.waits[QueueClass.LOW].p95 == pytest.approx(sum(low) / 2)


def test_percentiles_of_few_values() -> None:
    assert [percentile([1, 2, 3], part) for part in (0, 0.5, 0.99)] == [1, 2, 3]
    assert percentile([], 0.5) == 0


def test_expected_times_are_not_the_true_ones() -> None:
    jobs = make_workload(SMALL, 0).jobs
    assert all(job.expected != job.seconds for job in jobs)
    exact = msgspec.structs.replace(SMALL, run_seconds=RunTimes(estimate_sigma=0.0))
    assert all(job.expected == job.seconds for job in make_workload(exact, 0).jobs)
