"""The store on disks that are full, read-only or failing, and beside others that lock it."""

import asyncio
import os
import sqlite3
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from comfyrail.clock import SystemClock
from comfyrail.errors import StorageFull, StorageReadOnly, StoreUnavailable
from comfyrail.fleet.lease_keeper import LeaseKeeper
from comfyrail.ids import WorkerId
from comfyrail.jobs.states import JobState
from comfyrail.results.disk_blobs import DiskBlobStore
from comfyrail.store.disk_trouble import PROBE_NAME, StorageTrouble
from comfyrail.store.interface import WorkerRecord
from comfyrail.store.signals import QUEUE, Signals
from comfyrail.store.sqlite.database import WAL_BYTES_KEPT, connect
from comfyrail.store.sqlite.store import SqliteStore, open_sqlite_store
from comfyrail.store.storage_watch import StorageWatch
from tests.fleet.house import open_house, playing
from tests.fleet.scripted_worker import ScriptedWorker
from tests.mounts import (
    break_disk,
    ext4_disk,
    fill,
    make_read_only,
    make_writable,
    mend_disk,
    small_disk,
)

MEGABYTE = 1 << 20
WORKER = WorkerId("w")


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    with small_disk(tmp_path / "disk", 24) as mounted:
        yield mounted


@asynccontextmanager
async def open_store(folder: Path) -> AsyncIterator[SqliteStore]:
    store = await open_sqlite_store(folder, SystemClock())
    try:
        await store.save_worker(WorkerRecord(WORKER, "static", None, SystemClock().now()))
        yield store
    finally:
        await store.close()


async def keep_much(store: SqliteStore) -> None:
    """More than a log that has grown before could take in."""
    await store.save_catalog(WORKER, "much", os.urandom(6 * MEGABYTE))


async def test_full_disk_is_told_reads_go_on_and_it_passes_by_itself(disk: Path) -> None:
    async with open_store(disk) as store:
        filler = fill(disk)
        with pytest.raises(StorageFull, match="is full") as refused:
            await keep_much(store)
        assert refused.value.details["folder"] == str(disk)
        assert refused.value.details["free_bytes"] < MEGABYTE
        assert refused.value.retry_after
        assert not store._writer._connection.in_transaction
        assert await store.list_catalogs() == {}
        assert [each.id for each in await store.list_workers()] == [WORKER]
        with pytest.raises(StorageFull):
            await keep_much(store)
        filler.unlink()
        await keep_much(store)
        await store.check()
        assert list(await store.list_catalogs()) == ["much"]


async def test_disk_that_went_read_only_under_the_open_database_is_told_and_read(
    tmp_path: Path,
) -> None:
    with ext4_disk(tmp_path / "disk", 32) as folder:
        async with open_store(folder) as store:
            break_disk(folder)
            for _ in range(3):
                with pytest.raises(StorageReadOnly, match="is read-only"):
                    await store.check()
            assert [each.id for each in await store.list_workers()] == [WORKER]
        mend_disk(folder)
        async with open_store(folder) as store:
            await store.check()


async def test_connection_that_goes_on_failing_is_replaced(tmp_path: Path) -> None:
    async with open_store(tmp_path) as store:
        await store._writer.write(lambda tx: tx._connection.execute("PRAGMA query_only = ON"))
        with pytest.raises(StoreUnavailable, match="readonly"):
            await store.check()
        await store.check()


async def test_reader_that_broke_is_replaced(tmp_path: Path) -> None:
    async with open_store(tmp_path) as store:
        for _ in range(2):  # there are two
            with pytest.raises(StoreUnavailable):
                await store._readers.read(lambda snapshot: snapshot._connection.close())
        for _ in range(4):
            assert len(await store.list_workers()) == 1


def test_log_that_a_reader_kept_growing_is_cut_back_when_that_has_gone(tmp_path: Path) -> None:
    writing, reading = connect(tmp_path), connect(tmp_path)
    log = tmp_path / "comfyrail.db-wal"
    writing.execute("CREATE TABLE filling (content BLOB)")
    reading.execute("BEGIN")
    reading.execute("SELECT COUNT(*) FROM filling").fetchone()
    for _ in range(5):
        writing.execute("INSERT INTO filling VALUES (zeroblob(?))", (10 * MEGABYTE,))
    assert log.stat().st_size > WAL_BYTES_KEPT + 10 * MEGABYTE
    reading.execute("ROLLBACK")
    for _ in range(3):
        writing.execute("INSERT INTO filling VALUES (zeroblob(10))")
    assert log.stat().st_size <= WAL_BYTES_KEPT
    writing.close()
    reading.close()


# Locked by another process


def lock(folder: Path) -> sqlite3.Connection:
    other = connect(folder)
    other.execute("BEGIN IMMEDIATE")
    return other


async def test_writes_behind_a_lock_are_all_answered_in_time_and_it_goes_on(tmp_path: Path) -> None:
    async with open_store(tmp_path) as store:
        store._writer.lock_seconds = 0.5
        other = lock(tmp_path)
        begun = time.monotonic()
        # More than fit into a few commits: they must not wait for each other's time.
        waiting = [asyncio.create_task(store.check()) for _ in range(6000)]
        assert len(await store.list_workers()) == 1
        results = await asyncio.gather(*waiting, return_exceptions=True)
        assert time.monotonic() - begun < 3
        assert {type(each) for each in results} == {StoreUnavailable}
        assert "held by another process" in str(results[0])
        other.execute("ROLLBACK")
        await store.check()
        other.close()


async def test_short_lock_costs_nobody_anything(tmp_path: Path) -> None:
    async with open_store(tmp_path) as store:
        other = lock(tmp_path)
        waiting = asyncio.create_task(store.check())
        await asyncio.sleep(0.4)
        assert not waiting.done()
        other.execute("ROLLBACK")
        async with asyncio.timeout(5):
            await waiting
        other.close()


async def test_lock_that_outlasts_leases_loses_no_running_job(tmp_path: Path) -> None:
    release = asyncio.Event()

    async def wait(worker: ScriptedWorker, prompt_id: str) -> None:
        await worker.say("execution_start", prompt_id=prompt_id)
        await release.wait()
        worker.succeed(prompt_id, "a.png")
        await worker.say("executing", node=None, prompt_id=prompt_id)

    async with open_house(tmp_path) as house, playing(wait) as worker:
        assert isinstance(house.store, SqliteStore)
        house.store._writer.lock_seconds = 0.2
        keeper = asyncio.create_task(LeaseKeeper(house.store, house.fleet, 0.3).run())
        await house.add(worker)
        job_id = await house.submit()
        await house.in_state(job_id, JobState.PROCESSING)
        other = lock(tmp_path)
        await asyncio.sleep(1.2)  # four leases long
        other.execute("ROLLBACK")
        other.close()
        await house.store.check()
        release.set()
        job = await house.ended(job_id)
        assert (job.state, job.attempts, job.retries) == (JobState.COMPLETED, 1, 0)
        keeper.cancel()
        await asyncio.gather(keeper, return_exceptions=True)


# The watch


class Changes(list[str]):
    """What the watch has said."""

    def take(self, trouble: StorageTrouble | None) -> None:
        self.append("well" if trouble is None else trouble.kind)


def watch_of(folder: Path, reserve: int) -> tuple[StorageWatch, Changes]:
    watch, changes = StorageWatch([folder], reserve, Signals()), Changes()
    watch.changed = changes.take
    return watch, changes


async def test_reserve_refuses_new_work_before_the_disk_does(disk: Path) -> None:
    watch, changes = watch_of(disk, 8 * MEGABYTE)
    await watch.look()
    watch.refuse_new_work()
    filler = fill(disk, leaving=4 * MEGABYTE)
    await watch.look()
    with pytest.raises(StorageFull, match="kept in reserve") as refused:
        watch.refuse_new_work()
    assert refused.value.details["reserve_bytes"] == 8 * MEGABYTE
    # As long as it lasts a little more must be free; the reserve is what was set all the same.
    filler.unlink()
    filler = fill(disk, leaving=8 * MEGABYTE + 64 * 1024)
    await watch.look()
    with pytest.raises(StorageFull, match=r"hardly more than the 8\.0 MiB") as refused:
        watch.refuse_new_work()
    assert refused.value.details["reserve_bytes"] == 8 * MEGABYTE
    assert changes == ["full"]
    filler.unlink()
    await watch.look()
    watch.refuse_new_work()
    assert changes == ["full", "well"]
    assert not (disk / PROBE_NAME).exists()


def test_what_is_shown_for_long_has_no_figures_that_change(tmp_path: Path) -> None:
    trouble = StorageTrouble("full", tmp_path, 5 * MEGABYTE, 8 * MEGABYTE)
    assert "5.0 MiB free" in trouble.message
    assert trouble.lasting_message == (
        f"The disk with {tmp_path} is full. Free some space there: the server goes on by itself."
    )


async def test_without_a_reserve_only_what_the_disk_has_refused_counts(disk: Path) -> None:
    watch, changes = watch_of(disk, 0)
    filler = fill(disk)
    await watch.look()
    assert watch.trouble is None
    running = asyncio.create_task(watch.run())
    with watch._signals.subscribe(QUEUE) as woken:
        await asyncio.sleep(0)
        watch.doubt()
        assert await woken.wait(5)
        assert changes == ["full"]
        filler.unlink()
        assert await woken.wait(5)
        assert changes == ["full", "well"]
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)


async def test_disk_with_no_more_files_is_full_too(tmp_path: Path) -> None:
    with small_disk(tmp_path / "disk", 24, files=20) as folder:
        made = [folder / f"file-{number}" for number in range(os.statvfs(folder).f_favail)]
        for path in made:
            path.touch()
        watch, _ = watch_of(folder, 0)
        await watch.look(is_doubted=True)
        with pytest.raises(StorageFull, match="refused a write with"):
            watch.refuse_new_work()
        made[0].unlink()
        await watch.look()
        assert watch.trouble is None


async def test_read_only_disk_is_noticed_by_a_look(disk: Path) -> None:
    watch, changes = watch_of(disk, MEGABYTE)
    make_read_only(disk)
    await watch.look()
    with pytest.raises(StorageReadOnly, match="Make it writable"):
        watch.refuse_new_work()
    make_writable(disk)
    await watch.look()
    assert changes == ["read_only", "well"]


# Blobs


async def test_blob_that_the_disk_has_no_room_for_is_told_and_leaves_nothing(disk: Path) -> None:
    doubts: list[None] = []
    blobs = DiskBlobStore(disk / "blobs", lambda: doubts.append(None))
    fill(disk, leaving=3 * MEGABYTE)

    async def much() -> AsyncIterator[bytes]:
        for _ in range(8):
            yield bytes(MEGABYTE)

    with pytest.raises(StorageFull, match="is full"):
        await blobs.save(much())
    assert doubts
    assert [path for path in (disk / "blobs").rglob("*") if path.is_file()] == []


async def test_blob_on_a_read_only_disk_is_told(disk: Path) -> None:
    blobs = DiskBlobStore(disk / "blobs")
    make_read_only(disk)

    async def little() -> AsyncIterator[bytes]:
        yield b"x"

    with pytest.raises(StorageReadOnly):
        await blobs.save(little())
    make_writable(disk)
    assert (await blobs.save(little())).size == 1
