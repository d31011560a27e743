"""A batch that the disk or a lock refuses half-way leaves nothing behind, and nobody sees it."""

import asyncio
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import closing
from pathlib import Path

import pytest

from comfyrail.errors import StorageFull, StoreUnavailable
from comfyrail.ids import BatchId
from comfyrail.jobs.batches import BatchJob, Grid, NewBatch
from comfyrail.store.interface import JobFilter
from comfyrail.store.sqlite.database import DATABASE_NAME, connect
from tests.batches.parts import ALICE, CHUNK, Parts, open_parts
from tests.mounts import fill, small_disk
from tests.processes import wait_until

LARGE = Grid({"1.color": list(range(3 * CHUNK))})
SMALL = Grid({"1.color": [1, 2]})


@pytest.fixture
def other(parts: Parts, tmp_path: Path) -> Iterator[sqlite3.Connection]:
    """Another process's connection, for locks."""
    parts.store._writer.lock_seconds = 0.2
    with closing(connect(tmp_path)) as connection:
        yield connection


def stored(folder: Path) -> int:
    """Jobs on disk, seen or not."""
    with closing(sqlite3.connect(folder / DATABASE_NAME)) as connection:
        (count,) = connection.execute("SELECT count(*) FROM jobs").fetchone()
        return int(count)


async def until_stored(folder: Path, count: int) -> None:
    await asyncio.to_thread(wait_until, lambda: stored(folder) == count)


async def refuse_half_way(parts: Parts, other: sqlite3.Connection) -> None:
    """A large batch whose first jobs are stored when someone locks the database."""
    store = parts.store
    fill_some = store._fill

    async def fill_and_lock(batch: NewBatch, jobs: Sequence[BatchJob]) -> None:
        await fill_some(batch, jobs)
        if not other.in_transaction:
            other.execute("BEGIN IMMEDIATE")

    store._fill = fill_and_lock  # type: ignore[method-assign] # the moment to lock at
    with pytest.raises(StoreUnavailable, match="held by another process"):
        await parts.submit(LARGE)
    store._fill = fill_some  # type: ignore[method-assign] # as it was


async def test_batch_refused_half_way_is_unseen_and_removed_as_soon_as_that_is_possible(
    parts: Parts, other: sqlite3.Connection, tmp_path: Path
) -> None:
    await refuse_half_way(parts, other)
    assert stored(tmp_path) == CHUNK
    store = parts.store
    assert (await store.list_jobs(ALICE.tenant, JobFilter(), None, 10)).jobs == []
    assert (await store.list_batches(ALICE.tenant, None, 10)).batches == []
    assert (await store.queue_totals()).scheduled == 0
    assert set((await store.count_jobs()).values()) == {0}
    assert await store.queue_lanes(10, 10) == []
    other.execute("ROLLBACK")
    await until_stored(tmp_path, 0)


async def test_next_batch_is_taken_only_when_the_remains_of_the_last_are_gone(
    parts: Parts, other: sqlite3.Connection, tmp_path: Path
) -> None:
    await refuse_half_way(parts, other)
    with pytest.raises(StoreUnavailable):
        await parts.submit(SMALL)
    assert stored(tmp_path) == CHUNK
    other.execute("ROLLBACK")
    await parts.submit(SMALL)
    assert stored(tmp_path) == 2


async def test_store_that_is_closed_leaves_the_rest_to_its_next_start(tmp_path: Path) -> None:
    async with open_parts(tmp_path) as parts:
        parts.store._writer.lock_seconds = 0.2
        with closing(connect(tmp_path)) as other:
            await refuse_half_way(parts, other)
            await parts.store._writer.chores.stop()
            other.execute("ROLLBACK")
    assert stored(tmp_path) == CHUNK
    async with open_parts(tmp_path):
        assert stored(tmp_path) == 0


async def test_batch_that_is_open_is_accepted_though_its_jobs_cannot_be_let_in_yet(
    parts: Parts, other: sqlite3.Connection
) -> None:
    store = parts.store
    release = store.release_batch

    async def lock_and_release(batch_id: BatchId) -> None:
        other.execute("BEGIN IMMEDIATE")
        await release(batch_id)

    store.release_batch = lock_and_release  # type: ignore[method-assign] # the moment to lock at
    accepted = await parts.submit(LARGE)
    store.release_batch = release  # type: ignore[method-assign] # as it was
    assert len((await parts.members(accepted.batch_id)).members) == 3 * CHUNK
    assert await store.queue_place(accepted.job_ids[0]) is None
    other.execute("ROLLBACK")
    await parts.searches.look()
    assert await store.queue_place(accepted.job_ids[0]) is not None


async def test_batch_that_a_full_disk_refuses_gives_its_room_back(tmp_path: Path) -> None:
    with small_disk(tmp_path / "disk", 12) as disk:
        async with open_parts(disk) as parts:
            filler = fill(disk, leaving=1 << 20)
            with pytest.raises(StorageFull):
                await parts.submit(Grid({"1.color": list(range(2000))}))
            assert stored(disk) > 0
            assert (await parts.store.list_jobs(ALICE.tenant, JobFilter(), None, 10)).jobs == []
            filler.unlink()
            await until_stored(disk, 0)
