"""The store when its files are taken away or damaged under it: it keeps nothing that would be lost,
and says what to do.
"""

import asyncio
import os
import sqlite3
from collections.abc import AsyncIterator
from contextlib import closing
from pathlib import Path

import pytest

from comfyrail.clock import SystemClock
from comfyrail.errors import StoreUnavailable
from comfyrail.ids import WorkerId
from comfyrail.store.disk_trouble import StorageTrouble
from comfyrail.store.interface import WorkerRecord
from comfyrail.store.sqlite.database import DATABASE_NAME, WAL_NAME
from comfyrail.store.sqlite.store import SqliteStore, open_sqlite_store
from comfyrail.store.storage_watch import STORAGE, StorageWatch

FILES = [DATABASE_NAME, WAL_NAME]


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[SqliteStore]:
    opened = await open_sqlite_store(tmp_path, SystemClock())
    await opened.check()
    yield opened
    await opened.close()


@pytest.mark.parametrize("name", FILES)
async def test_nothing_is_kept_while_a_file_is_gone_and_it_goes_on_when_that_is_back(
    store: SqliteStore, tmp_path: Path, name: str
) -> None:
    (tmp_path / name).rename(tmp_path / "elsewhere")
    with store.signals.subscribe(STORAGE) as doubts:
        with pytest.raises(StoreUnavailable, match="was deleted or replaced") as refused:
            await store.check()
        assert await doubts.wait(5)
    assert refused.value.details == {"file": str(tmp_path / name)}
    assert "back-up.md" in refused.value.message
    (tmp_path / "elsewhere").rename(tmp_path / name)
    await store.check()


async def test_database_that_was_replaced_is_not_taken_for_the_one_that_is_open(
    store: SqliteStore, tmp_path: Path
) -> None:
    database = tmp_path / DATABASE_NAME
    copy = tmp_path / "copy"
    copy.write_bytes(database.read_bytes())
    copy.replace(database)
    for is_spoilt in (False, True):
        store._writer._is_spoilt = is_spoilt
        with pytest.raises(StoreUnavailable, match="was deleted or replaced"):
            await store.check()


async def test_watch_holds_new_work_while_a_file_is_gone(
    store: SqliteStore, tmp_path: Path
) -> None:
    watch = StorageWatch([tmp_path], 0, store.signals, store._writer.find_loss)
    said: list[StorageTrouble | None] = []
    watch.changed = said.append
    await watch.look()
    watch.refuse_new_work()
    (tmp_path / DATABASE_NAME).rename(tmp_path / "elsewhere")
    await watch.look()
    with pytest.raises(StoreUnavailable, match="was deleted or replaced"):
        watch.refuse_new_work()
    (tmp_path / "elsewhere").rename(tmp_path / DATABASE_NAME)
    await watch.look()
    watch.refuse_new_work()
    assert [each and each.kind for each in said] == ["lost", None]


# Damage


def damage(folder: Path, *tables: str) -> None:
    """Noise where some tables begin, as a bad disk leaves it."""
    with closing(sqlite3.connect(folder / DATABASE_NAME)) as connection:
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        (size,) = connection.execute("PRAGMA page_size").fetchone()
        pages = dict(connection.execute("SELECT name, rootpage FROM sqlite_schema"))
    with (folder / DATABASE_NAME).open("r+b") as file:
        for table in tables:
            file.seek((pages[table] - 1) * size)
            file.write(os.urandom(size))


async def test_damaged_database_is_told_to_readers_and_writers_with_what_to_do(
    store: SqliteStore, tmp_path: Path
) -> None:
    record = WorkerRecord(WorkerId("w"), "static", None, SystemClock().now())
    await store.save_worker(record)
    damage(tmp_path, "workers")
    store._writer._is_spoilt = True  # else it would know the page by heart
    with pytest.raises(StoreUnavailable, match=r"is damaged.*restore a backup"):
        await store.save_worker(record)
    with pytest.raises(StoreUnavailable, match=r"is damaged.*restore a backup"):
        await store.list_workers()
    # Those that come together with it are not harmed.
    results = await asyncio.gather(
        store.check(), store.save_worker(record), store.check(), return_exceptions=True
    )
    assert [type(each) for each in results] == [type(None), StoreUnavailable, type(None)]


async def test_fault_of_the_caller_is_not_taken_for_one_of_the_database(store: SqliteStore) -> None:
    with pytest.raises(sqlite3.ProgrammingError):
        await store._writer.write(lambda tx: tx.run("cordon_worker"))
    with pytest.raises(sqlite3.IntegrityError):
        await store._writer.write(
            lambda tx: tx.run(
                "insert_event", tenant="t", job_id="none", number=1, type="x", at=1, data=b"{}"
            )
        )


@pytest.mark.usefixtures("store")
async def test_database_that_is_damaged_at_its_beginning_cannot_be_opened(tmp_path: Path) -> None:
    copied = tmp_path / "copied"
    copied.mkdir()
    with closing(sqlite3.connect(tmp_path / DATABASE_NAME)) as connection:
        connection.execute("VACUUM INTO ?", (str(copied / DATABASE_NAME),))
    with (copied / DATABASE_NAME).open("r+b") as file:
        file.seek(100)  # behind the header: the schema
        file.write(os.urandom(3000))
    with pytest.raises(StoreUnavailable, match=r"is damaged.*restore a backup"):
        await open_sqlite_store(copied, SystemClock())
