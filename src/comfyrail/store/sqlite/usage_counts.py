"""Jobs, seconds and bytes of a tenant, counted in the transaction that they come with."""

from comfyrail.ids import TenantId
from comfyrail.jobs.job import Usage
from comfyrail.jobs.quotas import (
    JobQuota,
    MonthlyUsage,
    check_quota,
    check_storage,
    day_of,
    month_of,
)
from comfyrail.jobs.states import JobState
from comfyrail.store.sqlite.writer import Transaction


def check_room(tx: Transaction, tenant: TenantId, quota: JobQuota | None, jobs: int = 1) -> None:
    """Raise TooManyRequests unless so many jobs more are within the quota. Before any write: what
    it refuses costs no other transaction anything.
    """
    if quota is None:
        return
    month = month_of(tx.now)
    row = tx.one("get_usage", tenant=tenant, month=month)
    used = MonthlyUsage(month, row["jobs"], row["gpu_seconds"]) if row else MonthlyUsage(month)
    check_quota(quota, used, jobs, tx.now)


def check_bytes(tx: Transaction, tenant: TenantId, limit: int | None, more: int) -> None:
    """Raise TooManyRequests unless a tenant may keep so many bytes more. Before any write, too."""
    row = None if limit is None or more <= 0 else tx.one("stored_bytes", tenant=tenant)
    if limit is not None and row is not None:
        check_storage(limit, row["bytes"], more)


def count_jobs(tx: Transaction, tenant: TenantId, jobs: int = 1) -> None:
    tx.run("add_usage", tenant=tenant, month=month_of(tx.now), jobs=jobs, gpu_seconds=0.0)
    _count_in_day(tx, tenant, submitted=jobs)


def count_attempt(
    tx: Transaction, tenant: TenantId, state: JobState | None, usage: Usage | None = None
) -> None:
    """What an attempt took, and how its job has ended by it; None: it has not."""
    seconds, cost = (max(0.0, usage.seconds), usage.cost) if usage else (0.0, 0.0)
    if seconds > 0:
        tx.run("add_usage", tenant=tenant, month=month_of(tx.now), jobs=0, gpu_seconds=seconds)
    if state is not None or seconds > 0 or cost > 0:
        _count_in_day(tx, tenant, state, seconds=seconds, cost=cost)


def _count_in_day(
    tx: Transaction,
    tenant: TenantId,
    state: JobState | None = None,
    *,
    submitted: int = 0,
    seconds: float = 0.0,
    cost: float = 0.0,
) -> None:
    tx.run(
        "add_usage_of_day",
        tenant=tenant,
        day=day_of(tx.now),
        submitted=submitted,
        completed=state is JobState.COMPLETED,
        failed=state is JobState.FAILED,
        cancelled=state is JobState.CANCELLED,
        gpu_seconds=seconds,
        cost=cost,
    )
