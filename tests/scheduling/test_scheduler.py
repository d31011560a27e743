"""The scheduler before a queue with many lanes: what a round is given, and when it looks again."""

from collections.abc import AsyncIterator, Sequence
from pathlib import Path

import pytest

from comfyrail.ids import JobId, WorkerId
from comfyrail.jobs.job import Attempt
from comfyrail.jobs.needs import JobNeeds
from comfyrail.jobs.priority import QueueClass, standing_of
from comfyrail.jobs.workers import SchedulableWorker, WorkerProfile
from comfyrail.scheduling import scheduler as scheduling
from comfyrail.scheduling.lane_reader import LaneReader
from comfyrail.scheduling.scheduler import Scheduler
from comfyrail.store.interface import Store
from comfyrail.store.sqlite import lanes as sqlite_lanes
from comfyrail.store.sqlite.store import open_sqlite_store
from tests.store.test_store import ManualClock, new_job

PLAIN = WorkerProfile(frozenset({"A"}))
LABELLED = WorkerProfile(frozenset({"A"}), labels={"n": "3"})


class Fleet:
    """Workers that take one job each and never end it."""

    def __init__(self, *profiles: WorkerProfile) -> None:
        self.profiles = list(profiles)
        self.begun: list[JobId] = []
        self._busy: set[str] = set()

    def schedulable_workers(self) -> Sequence[SchedulableWorker]:
        return [
            SchedulableWorker(
                WorkerId(f"w{number}"),
                profile,
                slots=int(f"w{number}" not in self._busy),
                free_in=60.0 if f"w{number}" in self._busy else 0.0,
            )
            for number, profile in enumerate(self.profiles)
        ]

    async def start(self, attempts: Sequence[Attempt]) -> None:
        self.begun.extend(attempt.job_id for attempt in attempts)
        self._busy.update(attempt.worker_id for attempt in attempts)


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
async def store(tmp_path: Path, clock: ManualClock) -> AsyncIterator[Store]:
    opened = await open_sqlite_store(tmp_path, clock)
    yield opened
    await opened.close()


async def add(store: Store, clock: ManualClock, priority: int = 5, **labels: str) -> JobId:
    needs = JobNeeds(frozenset({"A"}), labels=labels)
    job = new_job(clock, priority, needs=needs, standing=standing_of(priority))
    await store.add_job(job)
    return job.id


async def test_lanes_that_nobody_can_run_are_looked_at_once(
    store: Store, clock: ManualClock
) -> None:
    for number in range(9):
        await add(store, clock, n=str(number))
    wanted = await add(store, clock)
    reader = LaneReader(store, lanes_a_class=2)
    workers = Fleet(PLAIN).schedulable_workers()
    for _ in range(5):
        await reader.read(workers)
    (lane,) = await reader.read(workers)
    assert [job.id for job in lane.jobs] == [wanted]
    assert not reader.has_unseen


async def test_new_kind_of_worker_is_shown_what_nobody_could_run(
    store: Store, clock: ManualClock
) -> None:
    for number in range(9):
        await add(store, clock, n=str(number))
    reader = LaneReader(store)
    assert not await reader.read(Fleet(PLAIN).schedulable_workers())
    (lane,) = await reader.read(Fleet(PLAIN, LABELLED).schedulable_workers())
    assert lane.needs.labels == LABELLED.labels
    assert not await reader.read(Fleet(PLAIN).schedulable_workers())
    assert await reader.read(Fleet(LABELLED).schedulable_workers())


async def test_more_groups_than_are_remembered_are_still_left_out(
    store: Store, clock: ManualClock
) -> None:
    for number in range(5):
        await add(store, clock, n=str(number))
    reader = LaneReader(store, groups_kept=2)
    for _ in range(3):
        assert not await reader.read(Fleet(PLAIN).schedulable_workers())


async def test_urgent_lanes_are_in_every_round_however_many_others_there_are(
    store: Store, clock: ManualClock
) -> None:
    profile = WorkerProfile(frozenset({f"type {number}" for number in range(9)}))
    for number in range(9):
        needs = JobNeeds(frozenset({f"type {number}"}))
        await store.add_job(new_job(clock, 1, needs=needs, standing=standing_of(1)))
    needs = JobNeeds(frozenset({"type 0"}))
    await store.add_job(new_job(clock, 10, needs=needs, standing=standing_of(10)))
    reader = LaneReader(store, lanes_a_class=2)
    for _ in range(6):
        lanes = await reader.read(Fleet(profile).schedulable_workers())
        assert [lane.queue_class for lane in lanes] == [QueueClass.HIGH, *[QueueClass.LOW] * 2]
        assert reader.has_unseen


async def test_queue_that_nobody_can_run_is_not_looked_at_again_without_news(
    store: Store, clock: ManualClock
) -> None:
    for number in range(5):
        await add(store, clock, n=str(number))
    fleet = Fleet(PLAIN)
    scheduler = Scheduler(store, fleet, "me", 15, clock)
    assert await scheduler.round() is None
    job = await add(store, clock)
    await scheduler.round()
    assert fleet.begun == [job]


async def test_rests_grow_while_there_are_unseen_lanes_and_nothing_begins(
    store: Store, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sqlite_lanes, "SKIPPED_IN_A_CLASS", 2)
    for number in range(9):
        await add(store, clock, n=str(number))
    scheduler = Scheduler(store, Fleet(PLAIN), "me", 15, clock)
    await scheduler.round()
    rests = [await scheduler.round() for _ in range(12)]
    assert None not in rests
    assert rests == sorted(rests, key=lambda rest: rest or 0)
    assert rests[0] == scheduling.SHORTEST_REST_SECONDS
    assert rests[-1] == scheduling.LONGEST_REST_SECONDS
