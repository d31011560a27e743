"""All events of a tenant in one order, and those of no job [9.1]."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from comfyrail.clock import Instant, SystemClock
from comfyrail.ids import JobId, TenantId, WorkerId
from comfyrail.jobs.events import EventType
from comfyrail.store.feed import OPERATOR, FeedWhere
from comfyrail.store.interface import WorkerRecord
from comfyrail.store.sqlite.store import SqliteStore, open_sqlite_store
from tests.store.test_store import ManualClock, new_job

ALICE, BOB = TenantId("alice"), TenantId("bob")


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[SqliteStore]:
    opened = await open_sqlite_store(tmp_path, SystemClock())
    yield opened
    await opened.close()


async def types_of(store: SqliteStore, tenant: TenantId, *, operator: bool) -> list[EventType]:
    page = await store.feed_after(tenant, 0, 100, with_operator=operator)
    return [each.type for each in page.entries]


async def test_tenants_do_not_see_each_others_events(store: SqliteStore) -> None:
    await store.add_notice(ALICE, EventType.WEBHOOK_DISABLED, {"url": "x"})
    await store.add_notice(OPERATOR, EventType.QUEUE_PAUSED, {})
    await store.add_notice(BOB, EventType.WEBHOOK_DISABLED, {"url": "y"})
    assert await types_of(store, ALICE, operator=False) == [EventType.WEBHOOK_DISABLED]
    assert await types_of(store, BOB, operator=True) == [
        EventType.QUEUE_PAUSED,
        EventType.WEBHOOK_DISABLED,
    ]


async def test_page_says_how_far_it_reaches(store: SqliteStore) -> None:
    for number in range(5):
        tenant = OPERATOR if number % 2 else ALICE
        await store.add_notice(tenant, EventType.QUEUE_PAUSED, {"number": number})
    after, seen = 0, []
    while True:
        page = await store.feed_after(ALICE, after, 2, with_operator=True)
        if not page.entries:
            break
        after = page.reached
        seen += [each.data["number"] for each in page.entries]
    assert seen == [0, 1, 2, 3, 4]
    assert after == await store.feed_end()


async def test_worker_that_comes_and_goes_is_told_once(store: SqliteStore) -> None:
    record = WorkerRecord(WorkerId("gpu-1"), "static", "http://x", Instant(1))
    await store.save_worker(record)
    await store.save_worker(record)
    await store.save_worker(
        WorkerRecord(WorkerId("pool-0"), "local", None, Instant(1), pool="pool")
    )
    await store.remove_worker(record.id)
    await store.remove_worker(record.id)
    page = await store.feed_after(ALICE, 0, 100, with_operator=True)
    assert [(each.type, each.data["worker_id"]) for each in page.entries] == [
        (EventType.WORKER_ADDED, "gpu-1"),
        (EventType.WORKER_REMOVED, "gpu-1"),
    ]


async def job_with_events(store: SqliteStore, tenant: TenantId) -> JobId:
    job = new_job(ManualClock(), tenant=tenant)
    await store.add_job(job)
    return job.id


async def test_events_of_a_job_are_read_without_those_of_others(store: SqliteStore) -> None:
    first, second = [await job_with_events(store, ALICE) for _ in range(2)]
    await store.add_notice(BOB, EventType.WEBHOOK_DISABLED, {})
    page = await store.feed_after(ALICE, 0, 1, with_operator=True, where=FeedWhere(job_id=second))
    assert [each.job_id for each in page.entries] == [second]
    page = await store.feed_after(
        ALICE, page.reached, 1, with_operator=True, where=FeedWhere(job_id=second)
    )
    assert (page.entries, page.reached, page.has_more) == ([], await store.feed_end(), False)
    foreign = await store.feed_after(BOB, 0, 9, with_operator=True, where=FeedWhere(job_id=first))
    assert foreign.entries == []


async def test_page_of_a_type_reaches_past_all_that_it_has_looked_at(store: SqliteStore) -> None:
    for number in range(6):
        event = EventType.QUEUE_RESUMED if number == 4 else EventType.QUEUE_PAUSED
        await store.add_notice(ALICE, event, {"number": number})
    where = FeedWhere(frozenset({EventType.QUEUE_RESUMED}))
    seen, pages, after, has_more = [], 0, 0, True
    while has_more:
        page = await store.feed_after(ALICE, after, 2, with_operator=False, where=where)
        seen += [each.data["number"] for each in page.entries]
        after, has_more, pages = page.reached, page.has_more, pages + 1
    assert (seen, after) == ([4], await store.feed_end())
    assert pages <= 4


async def test_end_stays_when_the_newest_events_are_forgotten(store: SqliteStore) -> None:
    job_id = await job_with_events(store, ALICE)
    await store.add_notice(ALICE, EventType.WEBHOOK_DISABLED, {})
    await store.add_notice(OPERATOR, EventType.QUEUE_PAUSED, {})
    end = await store.feed_end()
    later = Instant(SystemClock().now() + 60_000)
    assert await store.prune_notices(Instant(0), 10) == 0
    assert await store.prune_notices(later, 1) == 1
    assert await store.prune_notices(later, 10) == 1
    page = await store.feed_after(ALICE, 0, 10, with_operator=True)
    assert {each.job_id for each in page.entries} == {job_id}
    assert await store.feed_end() == end
