"""What a client's socket is told, on a real store: previews, and jobs that come and go."""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest

from comfyrail.access.principal import Principal
from comfyrail.clock import SystemClock
from comfyrail.fleet.previews import Preview, Previews
from comfyrail.jobs.events import Event
from comfyrail.jobs.job import Job, NewJob, Origin
from comfyrail.jobs.outcome import Completed
from comfyrail.store.sqlite.store import SqliteStore, open_sqlite_store
from comfyrail.usecases.comfyui_feed import ComfyuiFeeds
from tests.store.test_store import TENANT, ManualClock, new_job, start

ALICE = Principal(TENANT)


class Heard:
    """Notes what it is told."""

    def __init__(self) -> None:
        self.counts: list[int] = []
        self.begun: list[str] = []
        self.events: list[tuple[str, str]] = []
        self.pictures: list[bytes] = []
        self.news = asyncio.Event()

    def open_jobs(self, count: int) -> None:
        self.counts.append(count)
        self.news.set()

    async def begin(self, job: Job) -> None:
        self.begun.append(job.id)

    async def tell(self, job: Job, event: Event, _open_jobs: int | None) -> None:
        self.events.append((job.id, event.type))
        self.news.set()

    def show(self, _job: Job, preview: Preview) -> None:
        self.pictures.append(preview.image)
        self.news.set()

    async def until_ended(self, job_id: str) -> None:
        async with asyncio.timeout(10):
            while (job_id, "execution.completed") not in self.events:
                self.news.clear()
                await self.news.wait()

    async def until_shown(self, image: bytes) -> None:
        async with asyncio.timeout(10):
            while image not in self.pictures:
                self.news.clear()
                await self.news.wait()


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[SqliteStore]:
    opened = await open_sqlite_store(tmp_path, SystemClock())
    yield opened
    await opened.close()


def job_of(client: str = "client") -> NewJob:
    clock = ManualClock()
    clock.time = SystemClock().now()
    return replace(new_job(clock), origin=Origin("comfyui", client))


async def complete(store: SqliteStore, job: NewJob) -> None:
    await store.add_job(job)
    attempt = await start(store, job)
    await store.finish_attempt(attempt.token, Completed(()))


async def test_previews_are_shown_as_they_come(store: SqliteStore) -> None:
    previews, heard, job = Previews(), Heard(), job_of()
    feeds = ComfyuiFeeds(store, previews, SystemClock())
    await store.add_job(job)
    attempt = await start(store, job)
    task = asyncio.create_task(feeds.run(ALICE, "client", heard))
    try:
        for image in (b"one", b"two"):
            previews.put(job.id, "3", "image/jpeg", image)
            await heard.until_shown(image)
        await store.finish_attempt(attempt.token, Completed(()))
        await heard.until_ended(job.id)
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
    with previews.watching(job.id):
        assert previews._watchers.keys() == {job.id}
    assert not previews._watchers


async def test_every_job_of_a_client_is_told_of_however_quickly_it_ends(
    store: SqliteStore,
) -> None:
    heard = Heard()
    feeds = ComfyuiFeeds(store, Previews(), SystemClock())
    task = asyncio.create_task(feeds.run(ALICE, "client", heard))
    jobs = [job_of() for _ in range(30)]
    try:
        for job in jobs:
            await complete(store, job)
            await complete(store, job_of("another"))
            feeds.announce(TENANT, "client")
        for job in jobs:
            await heard.until_ended(job.id)
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)

    assert sorted(heard.begun) == [job.id for job in jobs]


async def test_an_end_is_told_again_only_to_those_who_have_not_heard_of_it(
    store: SqliteStore,
) -> None:
    feeds = ComfyuiFeeds(store, Previews(), SystemClock())
    missed = job_of()
    await complete(store, missed)
    first, second = Heard(), Heard()
    for heard in (first, second):
        task = asyncio.create_task(feeds.run(ALICE, "client", heard))
        fresh = job_of()
        await complete(store, fresh)
        feeds.announce(TENANT, "client")
        try:
            await heard.until_ended(fresh.id)
            if heard is first:
                await heard.until_ended(missed.id)
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    assert missed.id not in second.begun
