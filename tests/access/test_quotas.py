"""Quotas of a month: exact, whoever submits at the same time [11.2]."""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest

from comfyrail.clock import Instant
from comfyrail.errors import TooManyRequests
from comfyrail.ids import BatchId, TenantId, new_asset_id, new_uuid
from comfyrail.jobs.batches import BatchJob, BatchKind, NewBatch
from comfyrail.jobs.faults import Fault
from comfyrail.jobs.job import BatchPlace, NewJob, Usage
from comfyrail.jobs.outcome import Completed, Failed
from comfyrail.jobs.quotas import JobQuota, Quotas, end_of_month, month_of
from comfyrail.store.assets import Asset
from comfyrail.store.sqlite import batch_operations
from comfyrail.usecases.account_rules import NewUser
from comfyrail.usecases.comfyui_userdata import ComfyuiUserdata
from comfyrail.usecases.usage import TenantUsage
from tests.access.account_parts import ADMIN, AccountsKit, accounts_kit, somebody
from tests.store.test_store import TENANT, an_output, new_job, start

TEN = JobQuota(jobs=10)


@pytest.fixture
async def kit(tmp_path: Path) -> AsyncIterator[AccountsKit]:
    async with accounts_kit(tmp_path) as made:
        yield made


async def used(kit: AccountsKit, tenant: TenantId = TENANT) -> tuple[int, float]:
    months = await kit.store.usage_of(tenant, 1)
    return (months[0].jobs, months[0].gpu_seconds) if months else (0, 0.0)


def a_batch(kit: AccountsKit, jobs: int, quota: JobQuota) -> tuple[NewBatch, list[BatchJob]]:
    batch_id = BatchId(new_uuid())
    made = [
        BatchJob(
            index, b"{}", None, new_job(kit.clock, batch=BatchPlace(batch_id, index), quota=quota)
        )
        for index in range(jobs)
    ]
    return NewBatch(batch_id, TENANT, BatchKind.LIST, jobs, quota=quota), made


@pytest.mark.parametrize(
    ("moment", "month", "end"),
    [
        ("2026-02-28T23:59:59.999+00:00", "2026-02", "2026-03-01T00:00:00+00:00"),
        ("2026-12-01T00:00:00+00:00", "2026-12", "2027-01-01T00:00:00+00:00"),
        ("2028-02-29T12:00:00+00:00", "2028-02", "2028-03-01T00:00:00+00:00"),
    ],
)
def test_months_are_those_of_utc(moment: str, month: str, end: str) -> None:
    now = Instant(round(datetime.fromisoformat(moment).timestamp() * 1000))
    assert month_of(now) == month
    assert datetime.fromtimestamp(end_of_month(now) / 1000, UTC).isoformat() == end


async def test_of_64_submissions_at_once_a_quota_of_10_takes_exactly_10(kit: AccountsKit) -> None:
    jobs = [new_job(kit.clock, quota=TEN) for _ in range(64)]
    ends = await asyncio.gather(*map(kit.store.add_job, jobs), return_exceptions=True)
    refused = [each for each in ends if isinstance(each, TooManyRequests)]
    assert len(refused) == 54
    assert await used(kit) == (10, 0.0)
    assert sum((await kit.store.count_jobs()).values()) == 10
    error = refused[0]
    assert error.code == "QUOTA_EXCEEDED"
    assert (error.details["quota"], error.details["limit"], error.details["used"]) == (
        ("jobs", 10, 10)
    )
    left = (end_of_month(kit.clock.now()) - kit.clock.now()) / 1000
    assert error.retry_after == left
    assert error.details["resets_at"].endswith("T00:00:00Z")


async def test_a_refused_submission_leaves_nothing_behind(kit: AccountsKit) -> None:
    none = new_job(kit.clock, quota=JobQuota(jobs=0))
    with pytest.raises(TooManyRequests):
        await kit.store.add_job(none)
    assert sum((await kit.store.count_jobs()).values()) == 0
    assert await used(kit) == (0, 0.0)


async def test_the_next_month_begins_at_nothing(kit: AccountsKit) -> None:
    one = JobQuota(jobs=1)
    await kit.store.add_job(new_job(kit.clock, quota=one))
    with pytest.raises(TooManyRequests) as caught:
        await kit.store.add_job(new_job(kit.clock, quota=one))
    kit.clock.move(caught.value.retry_after or 0)
    await kit.store.add_job(new_job(kit.clock, quota=one))
    assert [each.jobs for each in await kit.store.usage_of(TENANT, 12)] == [1, 1]


@pytest.mark.parametrize("at_once", [200, 3])
async def test_a_batch_counts_whole_or_not_at_all(
    kit: AccountsKit, at_once: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(batch_operations, "STORED_AT_ONCE", at_once)
    await kit.store.add_job(new_job(kit.clock, quota=TEN))
    with pytest.raises(TooManyRequests):
        await kit.store.add_batch(*a_batch(kit, 10, TEN))
    assert await used(kit) == (1, 0.0)
    assert sum((await kit.store.count_jobs()).values()) == 1
    await kit.store.add_batch(*a_batch(kit, 9, TEN))
    assert await used(kit) == (10, 0.0)


async def test_batches_at_the_same_time_do_not_share_room(
    kit: AccountsKit, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(batch_operations, "STORED_AT_ONCE", 2)
    ends = await asyncio.gather(
        *(kit.store.add_batch(*a_batch(kit, 6, TEN)) for _ in range(4)), return_exceptions=True
    )
    assert sum(isinstance(each, TooManyRequests) for each in ends) == 3
    await kit.store._writer.chores.do_all()
    assert await used(kit) == (6, 0.0)
    assert sum((await kit.store.count_jobs()).values()) == 6


async def finish(kit: AccountsKit, job: NewJob, seconds: float) -> None:
    attempt = await start(kit.store, job)
    await kit.store.finish_attempt(
        attempt.token, Completed((an_output(new_uuid()),)), (), Usage(0.0, seconds=seconds)
    )


async def test_seconds_of_workers_are_counted_and_limited(kit: AccountsKit) -> None:
    minute = JobQuota(gpu_seconds=60)
    job = new_job(kit.clock, quota=minute)
    await kit.store.add_job(job)
    await finish(kit, job, 59.5)
    assert await used(kit) == (1, 59.5)
    other = new_job(kit.clock, quota=minute)
    await kit.store.add_job(other)
    await finish(kit, other, 1.0)
    with pytest.raises(TooManyRequests) as caught:
        await kit.store.add_job(new_job(kit.clock, quota=minute))
    assert caught.value.details["quota"] == "gpu_seconds"
    assert caught.value.details["used"] == 60.5


async def test_tenants_use_their_own(kit: AccountsKit) -> None:
    await kit.store.add_job(new_job(kit.clock, quota=JobQuota(jobs=1)))
    other = TenantId("other")
    await kit.store.add_job(new_job(kit.clock, tenant=other, quota=JobQuota(jobs=1)))
    assert await used(kit) == await used(kit, other) == (1, 0.0)


async def test_what_is_stored_is_known_without_adding_it_up(kit: AccountsKit) -> None:
    job = new_job(kit.clock)
    await kit.store.add_job(job)
    attempt = await start(kit.store, job)
    outputs = (an_output("a.png"), an_output("b.png"))
    await kit.store.finish_attempt(attempt.token, Completed(outputs))
    assert await kit.store.stored_bytes(TENANT) == 10
    assert await kit.store.stored_bytes(TenantId("other")) == 0
    write = kit.store._writer.write
    await write(lambda tx: tx._connection.execute("DELETE FROM outputs WHERE id = 'a.png'"))
    assert await kit.store.stored_bytes(TENANT) == 5
    await write(lambda tx: tx._connection.execute("DELETE FROM jobs"))
    assert await kit.store.stored_bytes(TENANT) == 0


async def test_one_who_keeps_too_much_submits_nothing(kit: AccountsKit) -> None:
    await kit.accounts.add_user(
        ADMIN, NewUser("ada", tenant=TENANT, quotas=Quotas(jobs=7, storage_bytes=5))
    )
    usage = TenantUsage(kit.store, kit.accounts, kit.clock)
    ada = replace(somebody("ada"), tenant=TENANT)
    assert await usage.admit(ada) == JobQuota(jobs=7)
    job = new_job(kit.clock)
    await kit.store.add_job(job)
    await finish(kit, job, 1.0)
    with pytest.raises(TooManyRequests) as caught:
        await usage.admit(ada)
    assert caught.value.details["quota"] == "storage"
    assert caught.value.retry_after is None
    assert await usage.admit(replace(ada, is_limited=False)) is None


async def test_a_failed_attempt_counts_its_seconds(kit: AccountsKit) -> None:
    job = new_job(kit.clock)
    await kit.store.add_job(job)
    attempt = await start(kit.store, job)
    fault = Fault("execution", "NODE_FAILED", "It broke.")
    await kit.store.finish_attempt(attempt.token, Failed(fault), (), Usage(0.0, seconds=2.5))
    assert await used(kit) == (1, 2.5)


# Storage


def an_asset(size: int, name: str = "a.png", sha256: str = "") -> Asset:
    return Asset(
        new_asset_id(), TENANT, name, "image/png", size, sha256, "", new_uuid(), Instant(1), None
    )


async def test_parallel_uploads_keep_no_more_than_the_quota(kit: AccountsKit) -> None:
    adding = [kit.store.add_asset(an_asset(10), most_bytes=55) for _ in range(20)]
    ends = await asyncio.gather(*adding, return_exceptions=True)
    refused = [end for end in ends if isinstance(end, TooManyRequests)]
    assert len(refused) == 15
    assert {error.code for error in refused} == {"QUOTA_EXCEEDED"}
    assert await kit.store.stored_bytes(TENANT) == 50


async def test_file_that_replaces_another_needs_room_for_the_difference_only(
    kit: AccountsKit,
) -> None:
    await kit.store.add_asset(an_asset(50), most_bytes=55)
    await kit.store.add_asset(an_asset(55), "replace", most_bytes=55)
    with pytest.raises(TooManyRequests):
        await kit.store.add_asset(an_asset(56), "replace", most_bytes=55)
    with pytest.raises(TooManyRequests):
        await kit.store.add_asset(an_asset(1, sha256="other"), "rename", most_bytes=55)
    assert await kit.store.stored_bytes(TENANT) == 55


async def test_files_of_the_editor_count_as_kept(kit: AccountsKit) -> None:
    await kit.accounts.add_user(
        ADMIN, NewUser("ada", tenant=TENANT, quotas=Quotas(storage_bytes=9))
    )
    usage = TenantUsage(kit.store, kit.accounts, kit.clock)
    userdata = ComfyuiUserdata(kit.store, usage.room_of)
    ada = replace(somebody("ada"), tenant=TENANT)
    await userdata.save(ada, "a.json", b"12345", overwrite=True)
    with pytest.raises(TooManyRequests):
        await userdata.save(ada, "b.json", b"12345", overwrite=True)
    await userdata.save(ada, "a.json", b"123456789", overwrite=True)
    assert (await usage.report(ada, 1)).storage_bytes == 9
