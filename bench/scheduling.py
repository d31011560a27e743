"""A round of the scheduler by itself: 10,000 workers and the heads of a queue of 1,000,000 jobs."""

import asyncio
import gc
import time
from dataclasses import replace
from random import Random
from statistics import median

from comfyrail.clock import Instant
from comfyrail.ids import JobId, TenantId, WorkerId
from comfyrail.jobs.needs import JobNeeds, ModelUse
from comfyrail.jobs.priority import DEFAULT_TARGETS, QueueClass
from comfyrail.jobs.queue import Lane, QueuedJob, QueuePlace
from comfyrail.jobs.workers import SchedulableWorker, WorkerProfile
from comfyrail.scheduling.fairness import FairShares
from comfyrail.scheduling.placement import PlacementRules, place
from comfyrail.scheduling.waits import FleetSummary, predict_wait

WORKERS = 10_000
QUEUED = 1_000_000
PER_LANE = 16
NOW = Instant(1_800_000_000_000)
GIGABYTE = 1_000_000_000
ROUNDS = 15


async def rounds() -> None:
    """Bar: 50 ms a round, of the thread's processor time. The queue is longer than what is read of
    it: `has_more` says so.
    """
    await asyncio.to_thread(_measure)


def _measure() -> None:
    profiles = [
        WorkerProfile(frozenset({f"Type {n}" for n in range(500)}), video_memory=size * GIGABYTE)
        for size in (12, 24, 48)
    ]
    for models, tenants in ((20, 1), (200, 5)):
        groups = _groups(models)
        lanes = _lanes(groups, tenants)
        for free in (0, 10, 1000, WORKERS):
            for is_warm in (True, False):
                workers = _workers(profiles, groups, free, is_warm=is_warm)
                _report(lanes, workers, models, f"{'warm' if is_warm else 'cold'}")
    for labels in ({"pool": "free"}, {}):
        heads, workers = _beside_a_busy_pool(profiles[0], labels)
        _report(heads, workers, models, f"others wait for the rest, the last asks for {labels}")
    workers = _workers(profiles, groups, 10, is_warm=True)
    started = time.perf_counter()
    summary = FleetSummary(workers)
    made = time.perf_counter() - started
    started = time.perf_counter()
    for group in groups:
        predict_wait(QueuePlace(500_000, 6_000_000.0), summary, group)
    each = (time.perf_counter() - started) / len(groups)
    print(
        f"  predicted wait: {each * 1e6:.0f} µs a job, {made * 1000:.1f} ms a summary of the fleet"
    )


def _report(lanes: list[Lane], workers: list[SchedulableWorker], models: int, warm: str) -> None:
    times: list[float] = []
    placed = 0
    gc.collect()
    gc.freeze()  # what there is before a round is not looked through in it
    for _ in range(ROUNDS):
        started = time.thread_time()
        decision = place(lanes, workers, NOW, FairShares(), {}, PlacementRules())
        times.append(time.thread_time() - started)
        placed = len(decision.placements)
    gc.unfreeze()
    free = sum(worker.slots for worker in workers)
    heads = sum(len(lane.jobs) for lane in lanes)
    print(
        f"  {models:3} models, {len(lanes):5} lanes ({heads:6} jobs read of {QUEUED:,}), "
        f"{free:6} of {WORKERS:,} workers free, {warm}: {placed:6} placed, "
        f"{median(times) * 1000:5.1f} ms median, {max(times) * 1000:5.1f} ms worst"
    )


def _beside_a_busy_pool(
    profile: WorkerProfile, labels: dict[str, str]
) -> tuple[list[Lane], list[SchedulableWorker]]:
    """All lanes are for workers that are busy, but the last one: for those that are free, or for
    any.
    """
    groups = [replace(each, video_memory=0, labels={"pool": "busy"}) for each in _groups(200)]
    pools = [replace(profile, labels={"pool": name}) for name in ("busy", "free")]
    lanes = _lanes(groups, 5)
    job = QueuedJob(JobId("last"), NOW + 3_600_000, 12.0, NOW)
    lanes.append(Lane(QueueClass.BATCH, TenantId("last"), JobNeeds(labels=labels), [job]))
    workers = [
        replace(worker, profile=pools[worker.slots])
        for worker in _workers(pools, groups, 10, is_warm=True)
    ]
    return lanes, workers


def _groups(count: int) -> list[JobNeeds]:
    chance = Random(0)
    types = frozenset(f"Type {n}" for n in range(12))
    return [
        JobNeeds(types, (ModelUse("checkpoints", f"model-{n}", size),), size)
        for n in range(count)
        for size in (chance.randrange(6 * GIGABYTE, 12 * GIGABYTE),)
    ]


def _lanes(groups: list[JobNeeds], tenants: int) -> list[Lane]:
    """As the store gives them: the first jobs of each, with deadlines around now."""
    chance = Random(1)
    lanes: list[Lane] = []
    for queue_class in (QueueClass.HIGH, QueueClass.MEDIUM, QueueClass.LOW):
        target = DEFAULT_TARGETS.of(queue_class)
        for tenant in range(tenants):
            for needs in groups:
                ranks = sorted(
                    NOW + round(1000 * chance.uniform(-target, target)) for _ in range(PER_LANE)
                )
                number = len(lanes)
                jobs = [
                    QueuedJob(JobId(f"{number}-{n}"), rank, 12.0, NOW)
                    for n, rank in enumerate(ranks)
                ]
                lanes.append(Lane(queue_class, TenantId(f"t{tenant}"), needs, jobs, has_more=True))
    return lanes


def _workers(
    profiles: list[WorkerProfile], groups: list[JobNeeds], free: int, *, is_warm: bool
) -> list[SchedulableWorker]:
    chance = Random(2)
    names = [group.models[0].name for group in groups]
    return [
        SchedulableWorker(
            WorkerId(f"worker-{n}"),
            chance.choice(profiles),
            frozenset(chance.sample(names, 2)) if is_warm else frozenset(),
            slots=1 if n < free else 0,
            free_in=0.0 if n < free else chance.uniform(0, 20),
            load=0.0 if n < free else 1.0,
            idle_since=chance.random(),
        )
        for n in range(WORKERS)
    ]
