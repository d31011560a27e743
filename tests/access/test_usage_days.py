"""What a tenant has used by day: written with the jobs, in the same transactions."""

import sqlite3
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from comfyrail.clock import Instant
from comfyrail.ids import BatchId, TenantId, new_uuid
from comfyrail.jobs.batches import BatchJob, BatchKind, NewBatch
from comfyrail.jobs.faults import Fault
from comfyrail.jobs.job import BatchPlace, Usage
from comfyrail.jobs.outcome import Completed, Failed, Lost
from comfyrail.jobs.quotas import DailyUsage, date_of, day_of
from comfyrail.store.sqlite import batch_operations
from comfyrail.store.sqlite.database import connect, migrate
from comfyrail.store.sqlite.migrations import all_migrations
from comfyrail.usecases.usage import TenantUsage
from tests.access.account_parts import AccountsKit, accounts_kit, somebody
from tests.store.test_store import TENANT, new_job, start

OTHER = TenantId("other")
DAY = 86_400.0


@pytest.fixture
async def kit(tmp_path: Path) -> AsyncIterator[AccountsKit]:
    async with accounts_kit(tmp_path) as made:
        yield made


async def today(kit: AccountsKit, tenant: TenantId = TENANT) -> DailyUsage:
    day = day_of(kit.clock.now())
    return (await kit.store.usage_of_days(tenant, day)).get(day, DailyUsage())


@pytest.mark.parametrize(
    ("moment", "date"),
    [
        (0, "1970-01-01"),
        (86_399_999, "1970-01-01"),
        (86_400_000, "1970-01-02"),
        (1_772_323_200_000, "2026-03-01"),
    ],
)
def test_days_are_those_of_utc(moment: int, date: str) -> None:
    assert date_of(day_of(Instant(moment))) == date


async def test_every_end_of_a_job_is_counted_once(kit: AccountsKit) -> None:
    done, failed, cancelled, stopped, expired = (
        new_job(kit.clock, max_retries=0, queue_timeout=5 if number == 4 else None)
        for number in range(5)
    )
    for job in (done, failed, cancelled, stopped, expired):
        await kit.store.add_job(job)
    attempt = await start(kit.store, done)
    await kit.store.finish_attempt(attempt.token, Completed(()), usage=Usage(0.5, None, 2.0))
    attempt = await start(kit.store, failed)
    fault = Fault("execution", "X", "no")
    await kit.store.finish_attempt(attempt.token, Failed(fault), usage=Usage(0.25, None, 1.5))
    await kit.store.request_cancel(TENANT, cancelled.id)
    await kit.store.request_cancel(TENANT, stopped.id)
    await kit.store.request_cancel(TENANT, stopped.id)
    kit.clock.move(6)
    await kit.store.expire_queued()
    assert await today(kit) == DailyUsage(5, 1, 2, 2, 3.5, 0.75)
    assert await today(kit, OTHER) == DailyUsage()
    (month,) = await kit.store.usage_of(TENANT, 1)
    assert (month.jobs, month.gpu_seconds) == (5, 3.5)


async def test_attempt_that_is_tried_again_counts_what_it_took_and_no_end(
    kit: AccountsKit,
) -> None:
    job = new_job(kit.clock)
    await kit.store.add_job(job)
    attempt = await start(kit.store, job)
    await kit.store.finish_attempt(attempt.token, Lost("gone"), usage=Usage(0.1, None, 4.0))
    assert await today(kit) == DailyUsage(1, 0, 0, 0, 4.0, 0.1)
    kit.clock.move(3600)
    await kit.store.release_due()
    attempt = await start(kit.store, job)
    await kit.store.finish_attempt(attempt.token, Completed(()), usage=Usage(0.2, None, 1.0))
    used = await today(kit)
    assert (used.submitted, used.completed, used.gpu_seconds) == (1, 1, 5.0)
    assert used.cost == pytest.approx(0.3)


async def test_job_counts_on_the_day_of_its_submission_and_on_that_of_its_end(
    kit: AccountsKit,
) -> None:
    job = new_job(kit.clock)
    await kit.store.add_job(job)
    kit.clock.move(3 * DAY)
    attempt = await start(kit.store, job)
    await kit.store.finish_attempt(attempt.token, Completed(()), usage=Usage(0.5, None, 2.0))
    usage = TenantUsage(kit.store, kit.accounts, kit.clock)
    days = await usage.days(somebody(TENANT), 5)
    last = day_of(kit.clock.now())
    assert [day for day, _ in days] == list(range(last - 4, last + 1))
    nothing = DailyUsage()
    assert [used for _, used in days] == [
        nothing,
        DailyUsage(submitted=1),
        nothing,
        nothing,
        DailyUsage(completed=1, gpu_seconds=2.0, cost=0.5),
    ]
    assert await usage.days(somebody(TENANT), 1) == [(last, days[-1][1])]
    assert [used for _, used in await usage.days(somebody(OTHER), 2)] == [nothing, nothing]


@pytest.mark.parametrize("at_once", [200, 3])
async def test_batch_counts_with_all_its_jobs(
    kit: AccountsKit, at_once: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(batch_operations, "STORED_AT_ONCE", at_once)
    batch_id = BatchId(new_uuid())
    jobs = [
        BatchJob(index, b"{}", None, new_job(kit.clock, batch=BatchPlace(batch_id, index)))
        for index in range(10)
    ]
    await kit.store.add_batch(NewBatch(batch_id, TENANT, BatchKind.LIST, 10), jobs)
    assert (await today(kit)).submitted == 10
    await kit.store.cancel_batch(TENANT, batch_id)
    await kit.store.cancel_batch_jobs(batch_id, running=True)
    assert await today(kit) == DailyUsage(submitted=10, cancelled=10)


def test_days_of_before_are_made_from_the_jobs_that_are_there(tmp_path: Path) -> None:
    connection = connect(tmp_path)
    connection.create_function("sha256_hex", 1, str)
    for migration in all_migrations():
        if migration.number < 23:
            connection.executescript(migration.sql)
    connection.execute("PRAGMA user_version = 22")
    for job_id, state, ended in (("a", "completed", 2), ("b", "failed", 2), ("c", "queued", None)):
        _insert_job(connection, job_id, state, ended)
    connection.execute(
        "INSERT INTO attempts (job_id, number, worker_id, token, prompt_id, state,"
        " lease_expires_at, started_at, ended_at)"
        " VALUES ('a', 1, 'w', 't', 't', 'completed', 0, ?, ?)",
        (2 * 86_400_000 + 500, 2 * 86_400_000 + 2000),
    )
    migrate(connection)
    rows = connection.execute("SELECT * FROM usage_days ORDER BY day").fetchall()
    assert [tuple(row) for row in rows] == [
        ("t", 1, 3, 0, 0, 0, 0.0, 0.0),
        ("t", 2, 0, 1, 1, 0, 1.5, 1.0),
    ]
    wanted = connection.execute("SELECT job_id FROM jobs_to_index ORDER BY 1").fetchall()
    assert [row[0] for row in wanted] == ["a", "b"]
    connection.close()


def _insert_job(connection: sqlite3.Connection, job_id: str, state: str, ended: int | None) -> None:
    connection.execute(
        "INSERT INTO jobs (id, tenant, state, priority, rank, timeout_seconds, expected_seconds,"
        " submitted_at, completed_at, fault, worker_id, cost)"
        " VALUES (?, 't', ?, 5, 7, 1, 1, ?, ?, ?, 'w', ?)",
        (
            job_id,
            state,
            86_400_000 + 1,
            None if ended is None else ended * 86_400_000 + 2000,
            b"{}" if state == "failed" else None,
            0.5 if ended else None,
        ),
    )
