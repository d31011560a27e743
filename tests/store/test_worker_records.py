"""What is remembered of workers."""

from pathlib import Path

from comfyrail.clock import Instant, SystemClock
from comfyrail.ids import WorkerId
from comfyrail.store.interface import WorkerRecord
from comfyrail.store.sqlite.database import connect, migrate
from comfyrail.store.sqlite.migrations import all_migrations
from comfyrail.store.sqlite.store import open_sqlite_store


def test_workers_of_before_there_were_pools_are_of_the_servers_own(tmp_path: Path) -> None:
    connection = connect(tmp_path)
    connection.create_function("sha256_hex", 1, str)  # there are no jobs to make groups of
    for migration in all_migrations()[:6]:
        connection.executescript(migration.sql)
    connection.execute("PRAGMA user_version = 6")
    rows = [
        ("local-1", "local", None, None),
        ("local-12", "local", None, None),
        ("local-5", "local", None, b"{}"),
        ("local-6x", "local", None, None),
        ("7", "local", None, None),
        ("local-8", "static", None, None),
        ("gpu-1", "local", "gpu", None),
        ("local-0", "static", None, b"{}"),
    ]
    connection.executemany(
        "INSERT INTO workers (id, driver, pool, config, added_at) VALUES (?, ?, ?, ?, 0)", rows
    )
    migrate(connection)
    found = connection.execute("SELECT id, pool, origin, is_drained FROM workers").fetchall()
    connection.close()
    pools = {row["id"]: row["pool"] for row in found}
    assert {name for name, pool in pools.items() if pool == "local"} == {"local-1", "local-12"}
    assert pools["gpu-1"] == "gpu"
    assert "local-0" not in pools
    assert pools["former-local-0"] is None
    assert {(row["origin"], row["is_drained"]) for row in found} == {("api", 0)}


async def test_origin_and_drain_are_remembered(tmp_path: Path) -> None:
    store = await open_sqlite_store(tmp_path, SystemClock())
    try:
        await store.save_worker(
            WorkerRecord(WorkerId("w"), "static", None, Instant(0), origin="file")
        )
        await store.drain_worker(WorkerId("w"), is_drained=True)
        (record,) = await store.list_workers()
        assert (record.origin, record.is_drained, record.is_cordoned) == ("file", True, True)
        await store.drain_worker(WorkerId("w"), is_drained=False)
        (record,) = await store.list_workers()
        assert (record.is_drained, record.is_cordoned) == (False, False)
    finally:
        await store.close()
