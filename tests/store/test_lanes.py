"""Looks at many lanes: class by class, bounded, and going on where the last one ended."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from comfyrail.ids import TenantId
from comfyrail.jobs.needs import JobNeeds
from comfyrail.jobs.priority import QueueClass, standing_of
from comfyrail.jobs.queue import LaneKey
from comfyrail.store.interface import Store
from comfyrail.store.sqlite import lanes as sqlite_lanes
from comfyrail.store.sqlite.store import open_sqlite_store
from tests.store.test_store import ManualClock, new_job


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
async def store(tmp_path: Path, clock: ManualClock) -> AsyncIterator[Store]:
    opened = await open_sqlite_store(tmp_path, clock)
    yield opened
    await opened.close()


async def add(
    store: Store, clock: ManualClock, label: str, priority: int = 5, tenant: str = "one"
) -> LaneKey:
    needs = JobNeeds(frozenset({"A"}), labels={"label": label})
    standing = standing_of(priority)
    job = new_job(clock, priority, needs=needs, tenant=TenantId(tenant), standing=standing)
    await store.add_job(job)
    return LaneKey(standing.queue_class, TenantId(tenant), needs.group)


async def test_each_class_has_its_part_of_a_look_and_the_most_urgent_comes_first(
    store: Store, clock: ManualClock
) -> None:
    for priority in (1, 5, 10):
        for label in "abc":
            await add(store, clock, label, priority)
    lanes = await store.queue_lanes(1, 2)
    high, medium, low = QueueClass.HIGH, QueueClass.MEDIUM, QueueClass.LOW
    assert [lane.queue_class for lane in lanes] == [high, high, medium, medium, low, low]
    assert [key.queue_class for key in lanes.reached] == [high, medium, low]


async def test_looks_go_around_in_each_class_for_itself(store: Store, clock: ManualClock) -> None:
    few = {await add(store, clock, label, 10) for label in "ab"}
    many = {
        await add(store, clock, label, 1, tenant) for label in "abcd" for tenant in ("x", "y", "z")
    }
    seen: set[LaneKey] = set()
    reached: tuple[LaneKey, ...] = ()
    for _ in range(4):
        lanes = await store.queue_lanes(1, 3, *reached)
        keys = {lane.key for lane in lanes}
        assert few <= keys
        assert len(keys) == len(lanes) == 5
        seen |= keys - few
        reached = lanes.reached
    assert seen == many


async def test_look_at_all_lanes_has_nothing_left_to_reach(
    store: Store, clock: ManualClock
) -> None:
    keys = [await add(store, clock, label) for label in "abc"]
    assert (await store.queue_lanes(1, 3)).reached == ()
    assert (await store.queue_lanes(1, 3, keys[0])).reached == ()
    assert len((await store.queue_lanes(1, 2)).reached) == 1


async def test_groups_to_skip_take_no_place_in_a_look(store: Store, clock: ManualClock) -> None:
    wanted = await add(store, clock, "wanted")
    skip = {(await add(store, clock, f"unwanted {number}")).group for number in range(9)}
    lanes = await store.queue_lanes(1, 1, skip=skip)
    assert [lane.key for lane in lanes] == [wanted]
    assert lanes.reached == ()


async def test_look_passes_over_a_bounded_number_and_the_next_one_goes_on(
    store: Store, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sqlite_lanes, "SKIPPED_IN_A_CLASS", 4)
    wanted = {await add(store, clock, f"wanted {number}") for number in range(3)}
    skip = {(await add(store, clock, f"unwanted {number}")).group for number in range(9)}
    seen: set[LaneKey] = set()
    reached: tuple[LaneKey, ...] = ()
    for _ in range(3):
        lanes = await store.queue_lanes(1, 10, *reached, skip=skip)
        assert lanes.reached
        seen |= {lane.key for lane in lanes}
        reached = lanes.reached
    assert seen == wanted


async def test_more_groups_than_are_found_at_once_are_each_seen_once(
    store: Store, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sqlite_lanes, "GROUPS_AT_ONCE", 2)
    keys = [
        await add(store, clock, str(number), tenant=tenant)
        for tenant in ("x", "y")
        for number in range(7)
    ]
    found = [lane.key for lane in await store.queue_lanes(1, 100)]
    assert found == sorted(keys, key=lambda key: (key.tenant, key.group))
