"""What a tenant may use in a month, and what it has used [11.2]."""

from dataclasses import dataclass
from datetime import UTC, date, datetime
from typing import Literal

from comfyrail.clock import Instant
from comfyrail.errors import TooManyRequests

QuotaName = Literal["jobs", "gpu_seconds"]
DAY_MILLISECONDS = 86_400_000
_FIRST_DAY = date(1970, 1, 1).toordinal()


@dataclass(frozen=True, slots=True)
class JobQuota:
    """How many jobs and seconds of workers a tenant may use in a month; None: no limit."""

    jobs: int | None = None
    gpu_seconds: float | None = None


@dataclass(frozen=True, slots=True)
class Quotas:
    """Of a user. Storage is what is kept at the time, not what came in a month."""

    jobs: int | None = None
    gpu_seconds: float | None = None
    storage_bytes: int | None = None

    @property
    def of_jobs(self) -> JobQuota | None:
        """What is checked when a job is stored; None where there is nothing to check."""
        if self.jobs is None and self.gpu_seconds is None:
            return None
        return JobQuota(self.jobs, self.gpu_seconds)


NO_LIMITS = Quotas()


@dataclass(frozen=True, slots=True)
class MonthlyUsage:
    month: str
    """'2026-03', UTC."""
    jobs: int = 0
    gpu_seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class DailyUsage:
    """Jobs that were submitted and that have ended, and what was used, on a day or in all."""

    submitted: int = 0
    completed: int = 0
    failed: int = 0
    cancelled: int = 0
    gpu_seconds: float = 0.0
    cost: float = 0.0
    """US dollars."""

    def __add__(self, other: "DailyUsage") -> "DailyUsage":
        return DailyUsage(
            self.submitted + other.submitted,
            self.completed + other.completed,
            self.failed + other.failed,
            self.cancelled + other.cancelled,
            self.gpu_seconds + other.gpu_seconds,
            self.cost + other.cost,
        )


def day_of(now: Instant) -> int:
    """Days since 1970, UTC."""
    return now // DAY_MILLISECONDS


def date_of(day: int) -> str:
    """'2026-03-01'."""
    return date.fromordinal(_FIRST_DAY + day).isoformat()


def month_of(now: Instant) -> str:
    return _moment(now).strftime("%Y-%m")


def end_of_month(now: Instant) -> Instant:
    """When quotas begin anew."""
    moment = _moment(now)
    year, month = divmod(moment.year * 12 + moment.month, 12)
    return Instant(round(datetime(year, month + 1, 1, tzinfo=UTC).timestamp()) * 1000)


def check_quota(quota: JobQuota, used: MonthlyUsage, jobs: int, now: Instant) -> None:
    """Raise TooManyRequests unless so many jobs more are within the quota."""
    if quota.jobs is not None and used.jobs + jobs > quota.jobs:
        raise _used_up("jobs", quota.jobs, used.jobs, now)
    if quota.gpu_seconds is not None and used.gpu_seconds >= quota.gpu_seconds:
        raise _used_up("gpu_seconds", quota.gpu_seconds, round(used.gpu_seconds, 3), now)


def check_storage(limit: int, used: int, more: int = 1) -> None:
    """Raise TooManyRequests unless so many bytes more are within the quota."""
    if used + more > limit:
        raise TooManyRequests(
            f"You keep {used:,} bytes, and your quota of storage is {limit:,}. Delete outputs, "
            "assets or files of the editor, or ask for a larger quota.",
            code="QUOTA_EXCEEDED",
            details={"quota": "storage", "limit": limit, "used": used, "resets_at": None},
        )


@dataclass(frozen=True, slots=True)
class StorageRoom:
    """What a tenant may keep, and keeps at the time."""

    limit: int
    used: int

    def check(self, more: int = 1) -> None:
        check_storage(self.limit, self.used, more)


def _used_up(quota: QuotaName, limit: float, used: float, now: Instant) -> TooManyRequests:
    end = end_of_month(now)
    what = "jobs" if quota == "jobs" else "seconds of workers"
    resets_at = _moment(end).strftime("%Y-%m-%dT%H:%M:%SZ")
    return TooManyRequests(
        f"This is more than your quota of {limit:,} {what} a month: {used:,} are used. It begins "
        f"anew at {resets_at}. Wait until then, or ask for a larger quota.",
        code="QUOTA_EXCEEDED",
        details={"quota": quota, "limit": limit, "used": used, "resets_at": resets_at},
        retry_after=max(1.0, (end - now) / 1000),
    )


def _moment(instant: Instant) -> datetime:
    return datetime.fromtimestamp(instant / 1000, UTC)
