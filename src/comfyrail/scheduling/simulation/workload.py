"""The jobs of a scenario: drawn once from a seed, the same for every policy."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate
from math import exp
from random import Random

from comfyrail.ids import JobId, TenantId
from comfyrail.jobs.needs import JobNeeds, ModelUse
from comfyrail.jobs.priority import DEFAULT_TARGETS, QueueClass
from comfyrail.scheduling.simulation.scenario import Pattern, Scenario

GIGABYTE = 1_000_000_000


@dataclass(frozen=True, slots=True)
class SimulatedJob:
    """Times in virtual seconds. `expected` is what the scheduler is told, `seconds` the truth."""

    id: JobId
    number: int
    arrival: float
    queue_class: QueueClass
    tenant: TenantId
    needs: JobNeeds
    seconds: float
    expected: float

    @property
    def deadline(self) -> float:
        return self.arrival + DEFAULT_TARGETS.of(self.queue_class)


@dataclass(frozen=True, slots=True)
class Workload:
    jobs: Sequence[SimulatedJob]
    """In the order of their arrival."""
    groups: Sequence[JobNeeds]


def make_workload(scenario: Scenario, seed: int) -> Workload:
    chance = Random(seed)  # noqa: S311 - a simulation is to be repeatable, not secret
    groups = _groups(scenario, chance)
    wanted = list(accumulate(1 / (n + 1) ** scenario.models.zipf for n in range(len(groups))))
    classes = list(scenario.classes)
    class_weights = list(accumulate(scenario.classes.values()))
    tenants = [TenantId(tenant.name) for tenant in scenario.tenants]
    tenant_weights = list(accumulate(tenant.share for tenant in scenario.tenants))
    times = scenario.run_seconds
    centre = times.mean / exp(times.sigma**2 / 2)
    jobs: list[SimulatedJob] = []
    for number, arrival in enumerate(_arrivals(scenario, chance)):
        seconds = centre * exp(times.sigma * chance.gauss(0, 1))
        jobs.append(
            SimulatedJob(
                JobId(f"job-{number:07}"),
                number,
                arrival,
                chance.choices(classes, cum_weights=class_weights)[0],
                chance.choices(tenants, cum_weights=tenant_weights)[0],
                chance.choices(groups, cum_weights=wanted)[0],
                seconds,
                seconds * exp(times.estimate_sigma * chance.gauss(0, 1)),
            )
        )
    return Workload(jobs, groups)


def _groups(scenario: Scenario, chance: Random) -> list[JobNeeds]:
    low, high = scenario.models.size_gb
    sizes = [round(chance.uniform(low, high) * GIGABYTE) for _ in range(scenario.models.count)]
    return [
        JobNeeds(models=(ModelUse("checkpoints", f"model-{number:05}", size),), video_memory=size)
        for number, size in enumerate(sizes)
    ]


def _arrivals(scenario: Scenario, chance: Random) -> list[float]:
    arrivals = scenario.arrivals
    if arrivals.pattern is Pattern.AT_ONCE:
        return [0.0] * scenario.jobs
    rate = arrivals.load * scenario.worker_count / scenario.run_seconds.mean
    moments: list[float] = []
    moment = 0.0
    for _ in range(scenario.jobs):
        moment += chance.expovariate(rate)
        moments.append(moment)
    if arrivals.pattern is Pattern.BURSTS:
        every = arrivals.burst_every
        moments = [
            each // every * every if chance.random() < arrivals.burst_share else each
            for each in moments
        ]
    return sorted(moments)
