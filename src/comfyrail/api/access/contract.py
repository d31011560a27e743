"""The bodies about users, API keys, usage, the audit log and blocked addresses."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

import msgspec
from msgspec import UNSET, UnsetType

from comfyrail.access.principal import Principal
from comfyrail.access.tiers import limits_of
from comfyrail.api.contract import instant_of, moment, time_of
from comfyrail.jobs.priority import DEFAULT_TIER
from comfyrail.jobs.quotas import DailyUsage, MonthlyUsage, Quotas, date_of
from comfyrail.store.access import AddressBlock, ApiKey, AuditEntry, User
from comfyrail.usecases.account_rules import MadeKey, NewKey, NewUser, UserChange
from comfyrail.usecases.usage import UsageReport


class QuotaRequest(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """What may be used in a month; null: as much as one likes. `storage_bytes` is what may be kept
    at any time.
    """

    jobs: int | UnsetType | None = UNSET
    gpu_seconds: float | UnsetType | None = UNSET
    storage_bytes: int | UnsetType | None = UNSET


class CreateUserRequest(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """`tenant`: whose jobs and files she sees; one of her own where it is not given.
    `permissions`: what users have where they are not given; `*` is all.
    """

    user_id: str
    tenant: str | None = None
    tier: str = DEFAULT_TIER
    permissions: list[str] | None = None
    quotas: QuotaRequest = msgspec.field(default_factory=QuotaRequest)


class ChangeUserRequest(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """What is given changes, the rest stays."""

    tenant: str | None = None
    tier: str | None = None
    permissions: list[str] | None = None
    quotas: QuotaRequest = msgspec.field(default_factory=QuotaRequest)
    disabled: bool | None = None


class CreateKeyRequest(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """`user_id`: whose key it is, the caller's own where it is not given. `permissions`: all that
    the caller and the user both have where they are not given.
    """

    name: str
    user_id: str | None = None
    permissions: list[str] | None = None
    expires_at: datetime | None = None


class BlockRequest(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """`network`: an address, or a network such as 203.0.113.0/24."""

    network: str
    reason: str = ""
    expires_at: datetime | None = None


class QuotaBody(msgspec.Struct, kw_only=True):
    jobs: int | None
    gpu_seconds: float | None
    storage_bytes: int | None


class UserBody(msgspec.Struct, kw_only=True):
    user_id: str
    tenant: str
    tier: str
    permissions: list[str]
    quotas: QuotaBody
    disabled: bool
    created_at: datetime


class UserList(msgspec.Struct, kw_only=True):
    users: list[UserBody]
    next_cursor: str | None


class KeyBody(msgspec.Struct, kw_only=True):
    """An API key without its secret, which nobody has but its owner."""

    key_id: str
    user_id: str
    name: str
    permissions: list[str]
    created_at: datetime
    created_by: str
    expires_at: datetime | None
    last_used_at: datetime | None
    revoked_at: datetime | None


class MadeKeyBody(KeyBody, kw_only=True):
    """`key` is the key itself: it is shown this once."""

    key: str


class KeyList(msgspec.Struct, kw_only=True):
    keys: list[KeyBody]
    next_cursor: str | None


class MonthBody(msgspec.Struct, kw_only=True):
    month: str
    jobs: int
    gpu_seconds: float


class DayBody(msgspec.Struct, kw_only=True):
    """Jobs that were submitted and that have ended; seconds of workers; US dollars."""

    date: str
    submitted: int
    completed: int
    failed: int
    cancelled: int
    gpu_seconds: float
    cost: float


class DaysTotal(msgspec.Struct, kw_only=True):
    """The same on all days together."""

    submitted: int
    completed: int
    failed: int
    cancelled: int
    gpu_seconds: float
    cost: float


class DaysBody(msgspec.Struct, kw_only=True):
    days: list[DayBody]
    total: DaysTotal


class UsageBody(msgspec.Struct, kw_only=True):
    """What the caller's tenant has used this month and in those before. `storage_bytes`: what it
    keeps now. `quotas` are the caller's.
    """

    month: str
    jobs: int
    gpu_seconds: float
    storage_bytes: int
    quotas: QuotaBody
    resets_at: datetime
    earlier: list[MonthBody]


class LimitBody(msgspec.Struct, kw_only=True):
    """In any minute, and jobs that run at once."""

    submissions_per_minute: int
    requests_per_minute: int
    concurrent_jobs: int


class WhoAmI(msgspec.Struct, kw_only=True):
    """`limits` is null for one who has none: the local user."""

    user_id: str
    tenant: str
    tier: str
    permissions: list[str]
    key_id: str | None
    limits: LimitBody | None
    usage: UsageBody


class AuditBody(msgspec.Struct, kw_only=True):
    """`key_id`: the API key that was used. `details` depend on the act."""

    number: int
    at: datetime
    actor: str
    key_id: str | None
    act: str
    target: str
    details: Mapping[str, Any]
    address: str | None
    request_id: str | None


class AuditList(msgspec.Struct, kw_only=True):
    entries: list[AuditBody]
    next_cursor: int | None


class BlockBody(msgspec.Struct, kw_only=True):
    """`created_by` is `gate` for one that bad credentials have earned."""

    block_id: str
    network: str
    reason: str
    created_by: str
    created_at: datetime
    expires_at: datetime | None


class BlockList(msgspec.Struct, kw_only=True):
    blocks: list[BlockBody]


def new_user(body: CreateUserRequest) -> NewUser:
    quotas = Quotas(**quota_changes(body.quotas))
    return NewUser(body.user_id, body.tenant, body.tier, body.permissions, quotas)


def user_change(body: ChangeUserRequest) -> UserChange:
    return UserChange(
        body.tenant, body.tier, body.permissions, quota_changes(body.quotas), body.disabled
    )


def quota_changes(body: QuotaRequest) -> dict[str, Any]:
    given: dict[str, Any] = {
        "jobs": body.jobs,
        "gpu_seconds": body.gpu_seconds,
        "storage_bytes": body.storage_bytes,
    }
    return {name: limit for name, limit in given.items() if limit is not UNSET}


def wanted_key(body: CreateKeyRequest) -> NewKey:
    expires_at = instant_of(body.expires_at, "expires_at")
    return NewKey(body.name, body.user_id, body.permissions, expires_at)


def user_body(user: User) -> UserBody:
    return UserBody(
        user_id=user.id,
        tenant=user.tenant,
        tier=user.tier,
        permissions=sorted(user.permissions),
        quotas=_quota_body(user.quotas),
        disabled=user.is_disabled,
        created_at=moment(user.created_at),
    )


def user_list(users: Sequence[User], following: str | None) -> UserList:
    return UserList(users=[user_body(user) for user in users], next_cursor=following)


def key_body(key: ApiKey) -> KeyBody:
    return KeyBody(**_key_fields(key))


def made_key_body(made: MadeKey) -> MadeKeyBody:
    return MadeKeyBody(key=made.text, **_key_fields(made.key))


def key_list(keys: Sequence[ApiKey], following: str | None) -> KeyList:
    return KeyList(keys=[key_body(key) for key in keys], next_cursor=following)


def usage_body(report: UsageReport) -> UsageBody:
    return UsageBody(
        month=report.current.month,
        jobs=report.current.jobs,
        gpu_seconds=round(report.current.gpu_seconds, 3),
        storage_bytes=report.storage_bytes,
        quotas=_quota_body(report.quotas),
        resets_at=moment(report.resets_at),
        earlier=[_month_body(each) for each in report.earlier],
    )


def days_body(days: Sequence[tuple[int, DailyUsage]]) -> DaysBody:
    return DaysBody(
        days=[DayBody(date=date_of(day), **_day_fields(used)) for day, used in days],
        total=DaysTotal(**_day_fields(sum((used for _, used in days), DailyUsage()))),
    )


def who_am_i(principal: Principal, report: UsageReport) -> WhoAmI:
    return WhoAmI(
        user_id=principal.user_id,
        tenant=principal.tenant,
        tier=principal.tier,
        permissions=sorted(principal.permissions),
        key_id=principal.key_id,
        limits=_limit_body(principal.tier) if principal.is_limited else None,
        usage=usage_body(report),
    )


def audit_list(entries: Sequence[AuditEntry], following: int | None) -> AuditList:
    return AuditList(entries=[_audit_body(each) for each in entries], next_cursor=following)


def block_body(block: AddressBlock) -> BlockBody:
    return BlockBody(
        block_id=block.id,
        network=block.network,
        reason=block.reason,
        created_by=block.created_by,
        created_at=moment(block.created_at),
        expires_at=time_of(block.expires_at),
    )


def block_list(blocks: Sequence[AddressBlock]) -> BlockList:
    return BlockList(blocks=[block_body(block) for block in blocks])


def _quota_body(quotas: Quotas) -> QuotaBody:
    return QuotaBody(
        jobs=quotas.jobs, gpu_seconds=quotas.gpu_seconds, storage_bytes=quotas.storage_bytes
    )


def _key_fields(key: ApiKey) -> dict[str, Any]:
    return {
        "key_id": key.id,
        "user_id": key.user_id,
        "name": key.name,
        "permissions": sorted(key.permissions),
        "created_at": moment(key.created_at),
        "created_by": key.created_by,
        "expires_at": time_of(key.expires_at),
        "last_used_at": time_of(key.last_used_at),
        "revoked_at": time_of(key.revoked_at),
    }


def _day_fields(used: DailyUsage) -> dict[str, Any]:
    return {
        "submitted": used.submitted,
        "completed": used.completed,
        "failed": used.failed,
        "cancelled": used.cancelled,
        "gpu_seconds": round(used.gpu_seconds, 3),
        "cost": round(used.cost, 6),
    }


def _month_body(usage: MonthlyUsage) -> MonthBody:
    return MonthBody(month=usage.month, jobs=usage.jobs, gpu_seconds=round(usage.gpu_seconds, 3))


def _limit_body(tier: str) -> LimitBody:
    limits = limits_of(tier)
    return LimitBody(
        submissions_per_minute=limits.submissions,
        requests_per_minute=limits.requests,
        concurrent_jobs=limits.concurrent,
    )


def _audit_body(entry: AuditEntry) -> AuditBody:
    return AuditBody(
        number=entry.sequence,
        at=moment(entry.at),
        actor=entry.actor,
        key_id=entry.key_id,
        act=entry.act,
        target=entry.target,
        details=entry.details,
        address=entry.address,
        request_id=entry.request_id,
    )
