"""What the store says of its jobs and its queue, against what is on disk and in the model."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from comfyrail.clock import Instant
from comfyrail.ids import JobId, TenantId
from comfyrail.jobs.job import AttemptRecord, Job, Output
from comfyrail.jobs.priority import QueueClass
from comfyrail.jobs.queue import Lane, QueuePlace, QueueTotals
from comfyrail.jobs.states import JobState
from comfyrail.store.interface import JobFilter, Store
from tests.store.life_cycle.model import Model, ModelJob
from tests.store.life_cycle.observed import Observation

MANY = 1000


@dataclass(frozen=True, slots=True)
class Said:
    """All that a store says, of one moment in which nobody writes."""

    jobs: dict[JobId, Job]
    lanes: list[Lane]
    places: dict[JobId, QueuePlace | None]
    totals: QueueTotals
    counts: dict[JobState, int]


async def ask_all(store: Store, tenants: tuple[TenantId, ...], job_ids: list[JobId]) -> Said:
    pages = [await store.list_jobs(tenant, JobFilter(), None, MANY) for tenant in tenants]
    return Said(
        {job.id: job for page in pages for job in page.jobs},
        list(await store.queue_lanes(MANY, MANY)),
        {job_id: await store.queue_place(job_id) for job_id in job_ids},
        await store.queue_totals(),
        dict(await store.count_jobs()),
    )


def untruths(said: Said, seen: Observation, model: Model) -> list[str]:
    """What the store says and is not so."""
    return [
        *_wrong_jobs(said, model),
        *_wrong_lanes(said, seen, model),
        *_wrong_places(said, seen),
        *_wrong_totals(said.totals, seen, Instant(model.wall)),
        *_wrong_counts(said, seen),
    ]


def _wrong_jobs(said: Said, model: Model) -> Iterator[str]:
    if said.jobs.keys() != model.jobs.keys():
        yield f"lists {sorted(said.jobs)} for {sorted(model.jobs)}"
        return
    for job_id, job in said.jobs.items():
        known = model.jobs[job_id]
        if job.state is not known.state:
            yield f"{job_id} is said to be {job.state}, not {known.state}"
        expires = None if known.expires is None else model.by_the_wall(known.expires)
        if known.is_waiting and job.expires_at != expires:
            yield f"{job_id} is said to expire at {job.expires_at}, not at {expires}"
        if known.held is not None and job.held_until != known.held.earliest:
            yield f"{job_id} is said to be held until {job.held_until}, not {known.held}"


def _wrong_lanes(said: Said, seen: Observation, model: Model) -> Iterator[str]:
    """A queued job that is neither held nor in a lane would never start."""
    expected = [] if model.is_paused else [row["id"] for row in seen.waiting()]
    found = [(job.rank, job.id) for lane in said.lanes for job in lane.jobs]
    if [job_id for _, job_id in sorted(found)] != expected:
        yield f"jobs {found} are in lanes, and {expected} may start"
    for lane in said.lanes:
        ranks = [(job.rank, job.id) for job in lane.jobs]
        if ranks != sorted(ranks) or lane.has_more:
            yield f"a lane is {ranks}, more: {lane.has_more}"
        for job in lane.jobs:
            known = model.jobs[job.id]
            if (lane.queue_class, lane.tenant, lane.needs) != _lane_of(known):
                yield f"{job.id} is in the lane of {lane.key}"


def _lane_of(job: ModelJob) -> tuple[object, ...]:
    return job.queue_class, job.tenant, job.needs


def _wrong_places(said: Said, seen: Observation) -> Iterator[str]:
    expected: dict[JobId, QueuePlace] = {}
    ahead = 0.0
    for position, row in enumerate(seen.waiting(), 1):
        expected[JobId(row["id"])] = QueuePlace(position, ahead)
        ahead += row["expected_seconds"]
    for job_id, place in said.places.items():
        right = expected.get(job_id)
        if not _is_same(place, right):
            yield f"{job_id} is said to be at {place}, not {right}"


def _is_same(place: QueuePlace | None, right: QueuePlace | None) -> bool:
    if place is None or right is None:
        return place is right
    is_close = _is_close(place.seconds_ahead, right.seconds_ahead)
    return place.position == right.position and is_close


def _wrong_totals(totals: QueueTotals, seen: Observation, now: Instant) -> Iterator[str]:
    for queue_class in QueueClass:
        rows = [row for row in seen.waiting() if row["queue_class"] == queue_class]
        jobs, seconds = totals.by_class[queue_class]
        right = sum(row["expected_seconds"] for row in rows)
        if jobs != len(rows) or not _is_close(seconds, right):
            yield f"{queue_class}: {jobs} jobs of {seconds} s, and there are {len(rows)}, {right} s"
    states = [(row["state"], row["held_until"] is not None) for row in seen.jobs.values()]
    held, processing = states.count(("queued", True)), [each for each, _ in states]
    if (totals.scheduled, totals.processing) != (held, processing.count("processing")):
        yield f"{totals.scheduled} scheduled and {totals.processing} processing of {states}"
    late = sum(row["rank"] // 100 < now // 100 for row in seen.waiting())
    if totals.late != late:
        yield f"{totals.late} late, not {late}"


def _wrong_counts(said: Said, seen: Observation) -> Iterator[str]:
    states = [row["state"] for row in seen.jobs.values()]
    for state in (JobState.QUEUED, JobState.PROCESSING):
        if said.counts.get(state, 0) != states.count(state):
            yield f"{said.counts} counted in {states}"


def _is_close(value: float, right: float) -> bool:
    return math.isclose(value, right, rel_tol=1e-9, abs_tol=1e-6)


async def untruths_of_job(store: Store, job: ModelJob) -> list[str]:
    """What the store says of one job beyond its lists, and is not so."""
    attempts = await store.list_attempts(job.tenant, job.id)
    outputs = await store.list_outputs(job.tenant, job.id)
    prompt = await store.prompt_of(job.tenant, job.id)
    needs = await store.needs_of(job.id)
    events = await store.events_after(job.tenant, job.id, 0, MANY)
    return [
        *_wrong_attempts(attempts, job),
        *_wrong_outputs(outputs, job),
        *([] if prompt == job.prompt else [f"{job.id}: another graph"]),
        *([] if needs == job.needs or not job.is_active else [f"{job.id}: needs {needs}"]),
        *([] if len(events) == len(job.events) else [f"{job.id}: {len(events)} events"]),
    ]


def _wrong_attempts(attempts: Sequence[AttemptRecord], job: ModelJob) -> Iterator[str]:
    found = [(each.number, each.worker_id, each.state, each.recovery) for each in attempts]
    right = [(each.number, each.worker_id, each.state, each.recovery) for each in job.attempts]
    if found != right:
        yield f"{job.id}: attempts {found}, not {right}"


def _wrong_outputs(outputs: Sequence[Output], job: ModelJob) -> Iterator[str]:
    latest = max((each.attempt for each in job.outputs), default=0)
    is_complete = job.state is JobState.COMPLETED
    right = [
        each
        for each in job.outputs
        if not each.is_partial or (each.attempt == latest and not is_complete)
    ]
    found = [(each.file.id, each.attempt, each.is_partial) for each in outputs]
    if found != [(each.id, each.attempt, each.is_partial) for each in right]:
        yield f"{job.id}: outputs {found}, not {right}"
