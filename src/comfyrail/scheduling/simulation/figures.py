"""What is told of a run: waits, loads, use, and who got how much."""

from collections.abc import Iterable, Mapping, Sequence
from statistics import fmean

import msgspec

from comfyrail.jobs.priority import DEFAULT_TARGETS, QueueClass
from comfyrail.scheduling.simulation.run import Begun, Trace
from comfyrail.scheduling.simulation.scenario import Scenario


class Waits(msgspec.Struct, frozen=True):
    """Seconds from arrival until a worker begins the job; `missed`: those beyond the target.
    `p95_running`: the same percentile until the models are loaded too.
    """

    jobs: int
    mean: float
    p50: float
    p95: float
    p99: float
    p95_running: float
    missed: int


class TenantShare(msgspec.Struct, frozen=True):
    """Of the fleet's work while jobs still arrived, or until the run was stopped. `fair`: max-min
    fair by what each had asked for; `distance`: how far off, as a part of it.
    """

    share: float
    fair: float
    distance: float


class Figures(msgspec.Struct, frozen=True):
    policy: str
    seed: int
    jobs: int
    unfinished: int
    loads: int
    waits: dict[QueueClass, Waits]
    utilization: float
    """Of the workers' time until the last job was done or the run was stopped, loading included."""
    makespan: float
    tenants: dict[str, TenantShare]
    rounds: int
    round_mean_ms: float
    round_p99_ms: float


def figures_of(scenario: Scenario, policy: str, seed: int, trace: Trace) -> Figures:
    makespan = max((each.ends for each in trace.begun), default=0.0)
    end = min(makespan, scenario.stop_after or makespan)
    busy = sum(min(each.ends, end) - each.at for each in trace.begun)
    rounds = sorted(trace.rounds)
    return Figures(
        policy,
        seed,
        len(trace.begun),
        trace.arrived - len(trace.begun),
        sum(worker.loads for worker in trace.workers),
        {
            queue_class: _waits(queue_class, found)
            for queue_class in QueueClass
            if (found := [each for each in trace.begun if each.job.queue_class is queue_class])
        },
        busy / (end * len(trace.workers)) if end else 0.0,
        makespan,
        _tenant_shares(scenario, trace),
        len(rounds),
        1000 * fmean(rounds) if rounds else 0.0,
        1000 * percentile(rounds, 0.99),
    )


def _waits(queue_class: QueueClass, begun: Sequence[Begun]) -> Waits:
    waits = sorted(each.wait for each in begun)
    target = DEFAULT_TARGETS.of(queue_class)
    return Waits(
        len(waits),
        fmean(waits),
        percentile(waits, 0.5),
        percentile(waits, 0.95),
        percentile(waits, 0.99),
        percentile(sorted(each.until_running for each in begun), 0.95),
        sum(wait > target for wait in waits),
    )


def percentile(ordered: Sequence[float], part: float) -> float:
    """Of values in ascending order; 0 of none."""
    return ordered[min(len(ordered) - 1, int(part * len(ordered)))] if ordered else 0.0


def _tenant_shares(scenario: Scenario, trace: Trace) -> dict[str, TenantShare]:
    if not trace.begun:
        return {}
    end = max(trace.jobs[trace.arrived - 1].arrival, scenario.stop_after or 0.0)
    done = {tenant.name: 0.0 for tenant in scenario.tenants}
    asked = dict.fromkeys(done, 0.0)
    for job in trace.jobs[: trace.arrived]:
        asked[job.tenant] += job.seconds
    for each in trace.begun:
        asked[each.job.tenant] += each.loading
        done[each.job.tenant] += max(0.0, min(each.loading + each.job.seconds, end - each.at))
    total = sum(done.values()) or 1.0
    fair = max_min_shares(asked, sum(done.values()))
    return {
        name: TenantShare(
            seconds / total,
            fair[name] / total,
            abs(seconds - fair[name]) / fair[name] if fair[name] else 0.0,
        )
        for name, seconds in done.items()
    }


def max_min_shares(asked: Mapping[str, float], capacity: float) -> dict[str, float]:
    """Everybody gets what he asked for, or else as much as anybody."""
    shares: dict[str, float] = {}
    for number, (name, wish) in enumerate(sorted(asked.items(), key=lambda each: each[1])):
        shares[name] = min(wish, capacity / (len(asked) - number))
        capacity -= shares[name]
    return shares


def mean_of(runs: Iterable[Figures]) -> Figures:
    """One policy over several seeds."""
    runs = list(runs)
    classes = [each for each in QueueClass if all(each in run.waits for run in runs)]
    return Figures(
        runs[0].policy,
        -1,
        round(fmean(run.jobs for run in runs)),
        round(fmean(run.unfinished for run in runs)),
        round(fmean(run.loads for run in runs)),
        {each: _mean_waits([run.waits[each] for run in runs]) for each in classes},
        fmean(run.utilization for run in runs),
        fmean(run.makespan for run in runs),
        {
            name: TenantShare(
                fmean(run.tenants[name].share for run in runs),
                fmean(run.tenants[name].fair for run in runs),
                fmean(run.tenants[name].distance for run in runs),
            )
            for name in runs[0].tenants
        },
        round(fmean(run.rounds for run in runs)),
        fmean(run.round_mean_ms for run in runs),
        fmean(run.round_p99_ms for run in runs),
    )


def _mean_waits(waits: Sequence[Waits]) -> Waits:
    return Waits(
        round(fmean(each.jobs for each in waits)),
        fmean(each.mean for each in waits),
        fmean(each.p50 for each in waits),
        fmean(each.p95 for each in waits),
        fmean(each.p99 for each in waits),
        fmean(each.p95_running for each in waits),
        round(fmean(each.missed for each in waits)),
    )
