"""What is particular to SQLite: migrations, constraints, durability settings."""

import asyncio
import sqlite3
from pathlib import Path

import pytest

from comfyrail.clock import SystemClock
from comfyrail.errors import ConfigurationError, StoreUnavailable
from comfyrail.jobs.states import TRANSITIONS, JobState
from comfyrail.store.sqlite.database import connect, migrate
from comfyrail.store.sqlite.migrations import all_migrations
from comfyrail.store.sqlite.store import open_sqlite_store
from comfyrail.store.sqlite.writer import Transaction


@pytest.fixture
def connection(tmp_path: Path) -> sqlite3.Connection:
    made = connect(tmp_path)
    migrate(made)
    return made


def add_job(connection: sqlite3.Connection, job_id: str) -> None:
    connection.execute(
        "INSERT INTO jobs (id, tenant, state, priority, rank, timeout_seconds,"
        " expected_seconds, submitted_at) VALUES (?, 't', 'queued', 5, 0, 1, 1, 0)",
        (job_id,),
    )


def test_commits_are_synced_in_full(connection: sqlite3.Connection) -> None:
    assert connection.execute("PRAGMA synchronous").fetchone()[0] == 2
    assert connection.execute("PRAGMA journal_mode").fetchone()[0] == "wal"
    connection.close()


def test_sql_allows_just_the_moves_of_the_transition_table(connection: sqlite3.Connection) -> None:
    for start in JobState:
        for to in JobState:
            if start is to:
                continue
            connection.execute("DELETE FROM jobs")
            add_job(connection, "j")
            force_state(connection, start)
            try:
                set_state(connection, to)
                moved = True
            except sqlite3.IntegrityError as error:
                assert "illegal transition" in str(error)  # noqa: PT017 - one of two outcomes
                moved = False
            assert moved == (to in TRANSITIONS[start]), (start, to)
    connection.close()


def force_state(connection: sqlite3.Connection, state: JobState) -> None:
    """Bring the job there by legal moves."""
    if state is JobState.QUEUED:
        return
    if state is JobState.COMPLETED:
        set_state(connection, JobState.PROCESSING)
    set_state(connection, state)


def set_state(connection: sqlite3.Connection, state: JobState) -> None:
    connection.execute(
        "UPDATE jobs SET state = :state, worker_id = 'w',"
        " completed_at = CASE WHEN :ended THEN 1 END, fault = CASE WHEN :failed THEN x'00' END",
        {"state": state, "ended": state.is_final, "failed": state is JobState.FAILED},
    )


def test_migrations_are_numbered_without_gaps_and_run_once(connection: sqlite3.Connection) -> None:
    numbers = [migration.number for migration in all_migrations()]
    assert numbers == list(range(1, len(numbers) + 1))
    migrate(connection)
    assert connection.execute("PRAGMA user_version").fetchone()[0] == numbers[-1]
    connection.close()


async def test_database_of_a_newer_version_is_refused(tmp_path: Path) -> None:
    made = connect(tmp_path)
    made.execute("PRAGMA user_version = 9999")
    made.close()
    with pytest.raises(ConfigurationError, match="newer Comfyrail"):
        await open_sqlite_store(tmp_path, SystemClock())


async def test_operation_that_the_database_refuses_costs_the_others_nothing(tmp_path: Path) -> None:
    store = await open_sqlite_store(tmp_path, SystemClock())

    def broken(tx: Transaction) -> None:
        tx.run("touch_probe", now=1)
        tx._connection.execute("SELECT * FROM no_such_table")

    writes = [store._writer.write(broken), *(store.check() for _ in range(20))]
    results = await asyncio.gather(*writes, return_exceptions=True)
    assert isinstance(results[0], StoreUnavailable)
    assert results[1:] == [None] * 20
    await store.check()
    await store.close()


async def test_locked_database_is_told_and_forgotten(tmp_path: Path) -> None:
    store = await open_sqlite_store(tmp_path, SystemClock())
    store._writer.lock_seconds = 0.05
    other = connect(tmp_path)
    other.execute("BEGIN IMMEDIATE")
    with pytest.raises(StoreUnavailable, match="locked"):
        await store.check()
    other.execute("ROLLBACK")
    other.close()
    await store.check()
    await store.close()


def test_queries_that_run_for_every_job_use_an_index(connection: sqlite3.Connection) -> None:
    from comfyrail.store.sqlite.queries import QUERIES

    values = {
        "rank": 0,
        "start": 0,
        "queue_class": "high",
        "tenant": "t",
        "queue_group": "g",
        "job_id": "",
        "limit": 1,
        "now": 0,
        "worker_id": "w",
        "token": "t",
        "owner": "o",
    }
    names = (
        "count_ahead",
        "next_groups",
        "next_lane",
        "lane_head",
        "next_due",
        "next_expiry",
        "find_due",
    )
    for name in (*names, "find_overdue", "find_expired", "find_orphans_of_worker"):
        plan = connection.execute(f"EXPLAIN QUERY PLAN {QUERIES[name]}", values).fetchall()
        steps = " ".join(row["detail"] for row in plan)
        assert "USING" in steps, (name, steps)
        assert "TEMP B-TREE" not in steps, (name, steps)
    connection.close()
