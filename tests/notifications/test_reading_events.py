"""Reading all events of a tenant [9.2]: bounded work a reply, places that are kept, rights that are
taken away; and the writer of events that are of no job.
"""

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import aclosing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from comfyrail.access.permissions import Permission
from comfyrail.access.principal import LOCAL_USER, Principal
from comfyrail.api import feed as feed_api
from comfyrail.clock import SystemClock
from comfyrail.errors import Gone, StoreUnavailable
from comfyrail.jobs.events import EventType
from comfyrail.notifications import notices as notices_module
from comfyrail.notifications import streams
from comfyrail.notifications.notices import Notices
from comfyrail.notifications.streams import FeedFilter
from comfyrail.store.feed import OPERATOR
from comfyrail.store.sqlite.store import SqliteStore, open_sqlite_store
from comfyrail.usecases import feed as feed_usecase
from comfyrail.usecases.feed import Feed

RARE = FeedFilter(frozenset({EventType.QUEUE_RESUMED}))


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[SqliteStore]:
    opened = await open_sqlite_store(tmp_path, SystemClock())
    yield opened
    await opened.close()


async def tell(store: SqliteStore, count: int, event: EventType = EventType.QUEUE_PAUSED) -> None:
    for _ in range(count):
        await store.add_notice(LOCAL_USER.tenant, event, {})


async def test_reply_looks_at_so_many_events_and_says_where_to_go_on(
    store: SqliteStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in (streams, feed_usecase):
        monkeypatch.setattr(module, "PAGE", 5)
    monkeypatch.setattr(feed_usecase, "MOST_LOOKED_AT", 20)
    await tell(store, 33)
    await tell(store, 1, EventType.QUEUE_RESUMED)
    feed = Feed(store, SystemClock())
    first = await feed.page(LOCAL_USER, 0, RARE, 100, wait=5)
    assert (first.entries, first.reached, first.has_more) == ((), 20, True)
    second = await feed.page(LOCAL_USER, first.reached, RARE, 100, wait=5)
    assert [each.type for each in second.entries] == [EventType.QUEUE_RESUMED]


async def test_limit_says_how_many_are_shown_not_how_many_are_read(
    store: SqliteStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    await tell(store, 40)
    await tell(store, 2, EventType.QUEUE_RESUMED)
    reads = 0
    read = store.feed_after

    async def counted(*values: Any, **named: Any) -> Any:
        nonlocal reads
        reads += 1
        return await read(*values, **named)

    monkeypatch.setattr(store, "feed_after", counted)
    feed = Feed(store, SystemClock())
    page = await feed.page(LOCAL_USER, 0, RARE, 1, wait=0)
    assert ([each.sequence for each in page.entries], page.reached, page.has_more) == (
        [41],
        41,
        True,
    )
    page = await feed.page(LOCAL_USER, page.reached, RARE, 1, wait=0)
    assert ([each.sequence for each in page.entries], page.has_more) == ([42], False)
    assert reads == 2


async def test_number_that_no_event_has_had_is_refused(store: SqliteStore) -> None:
    await tell(store, 3)
    feed = Feed(store, SystemClock())
    assert [await feed.beginning(each) for each in (None, 0, 3)] == [3, 0, 3]
    with pytest.raises(Gone, match="restored backup") as caught:
        await feed.beginning(4)
    assert caught.value.code == "EVENTS_RESTARTED"


async def test_stream_that_shows_little_says_how_far_it_is(
    store: SqliteStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(feed_api, "FAR_BEHIND", 10)
    await tell(store, 25)
    pages = Feed(store, SystemClock()).follow(lambda: LOCAL_USER, 0, RARE)
    async with aclosing(feed_api._frames(pages, 0)) as frames, asyncio.timeout(20):
        opening, position = await anext(frames), await anext(frames)
    assert opening.encode().startswith(b"id: 0\r\nevent: open\r\n")
    assert position.encode() == b"id: 25\r\n\r\n"


async def test_who_may_no_longer_look_at_the_fleet_sees_no_more_of_it(store: SqliteStore) -> None:
    who = [LOCAL_USER]
    pages = Feed(store, SystemClock()).follow(lambda: who[0], 0, FeedFilter())
    await store.add_notice(OPERATOR, EventType.QUEUE_PAUSED, {})
    async with asyncio.timeout(20):
        assert [each.type for each in (await anext(pages)).entries] == [EventType.QUEUE_PAUSED]
        who[0] = without(LOCAL_USER, Permission.FLEET_READ)
        await store.add_notice(OPERATOR, EventType.QUEUE_RESUMED, {})
        await store.add_notice(LOCAL_USER.tenant, EventType.WEBHOOK_DISABLED, {})
        assert [each.type for each in (await anext(pages)).entries] == [EventType.WEBHOOK_DISABLED]
    await pages.aclose()


def without(principal: Principal, permission: Permission) -> Principal:
    return replace(principal, permissions=principal.permissions - {permission})


class FailingStore:
    """Fails as it is told, and keeps the rest."""

    def __init__(self, *failures: Exception) -> None:
        self.failures = list(failures)
        self.written: list[Mapping[str, Any]] = []
        self.is_away = False
        self.tries = 0

    async def add_notice(self, _tenant: Any, _type: Any, data: Mapping[str, Any]) -> None:
        self.tries += 1
        await asyncio.sleep(0)
        if self.is_away:
            raise StoreUnavailable("full")
        if self.failures:
            raise self.failures.pop(0)
        self.written.append(data)


async def until(condition: Any) -> None:
    async with asyncio.timeout(20):
        while not condition():  # noqa: ASYNC110 - what is waited for has no event
            await asyncio.sleep(0.001)


async def test_notice_that_cannot_be_written_does_not_end_the_others() -> None:
    store = FailingStore(ValueError("odd"), StoreUnavailable("full"))
    notices = Notices(store, retry_seconds=0)  # type: ignore[arg-type]
    for number in range(3):
        notices.tell(EventType.QUEUE_PAUSED, number=number)
    task = asyncio.create_task(notices.run())
    await until(lambda: len(store.written) == 2)
    task.cancel()
    assert store.written == [{"number": 1}, {"number": 2}]


async def test_while_nothing_can_be_written_the_oldest_notices_give_way(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(notices_module, "MOST_WAITING", 3)
    store = FailingStore()
    store.is_away = True
    notices = Notices(store, retry_seconds=0)  # type: ignore[arg-type]
    task = asyncio.create_task(notices.run())
    notices.tell(EventType.QUEUE_PAUSED, number=0)
    await until(lambda: store.tries > 1)
    for number in range(1, 6):
        notices.tell(EventType.QUEUE_PAUSED, number=number)
    tries = store.tries
    await until(lambda: store.tries > tries + 2)
    store.is_away = False
    await until(lambda: {"number": 5} in store.written)
    task.cancel()
    assert store.written == [{"number": number} for number in (3, 4, 5)]
