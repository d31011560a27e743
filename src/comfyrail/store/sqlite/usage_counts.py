"""Jobs, seconds and bytes of a tenant, counted in the transaction that they come with."""

from comfyrail.ids import TenantId
from comfyrail.jobs.quotas import (
    JobQuota,
    MonthlyUsage,
    check_quota,
    check_storage,
    month_of,
)
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


def count_seconds(tx: Transaction, tenant: TenantId, seconds: float) -> None:
    if seconds > 0:
        tx.run("add_usage", tenant=tenant, month=month_of(tx.now), jobs=0, gpu_seconds=seconds)
