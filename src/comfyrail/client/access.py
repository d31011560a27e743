"""Calls about users, API keys, usage, the audit log and blocked addresses."""

from collections.abc import Mapping
from contextlib import AbstractAsyncContextManager
from datetime import datetime
from typing import Any, Protocol, TypeVar

import msgspec

from comfyrail.client.paths import quoted

Reply = TypeVar("Reply")


class QuotaLimits(msgspec.Struct):
    jobs: int | None = None
    gpu_seconds: float | None = None
    storage_bytes: int | None = None


class User(msgspec.Struct):
    user_id: str
    tenant: str
    tier: str
    permissions: list[str]
    quotas: QuotaLimits
    disabled: bool
    created_at: datetime


class ApiKey(msgspec.Struct, kw_only=True):
    key_id: str
    user_id: str
    name: str
    permissions: list[str]
    created_at: datetime
    created_by: str
    expires_at: datetime | None = None
    last_used_at: datetime | None = None
    revoked_at: datetime | None = None


class MadeApiKey(ApiKey, kw_only=True):
    """`key` is the key itself: the server shows it this once."""

    key: str

    def __repr__(self) -> str:
        return f"MadeApiKey({self.key_id!r})"


class MonthOfUsage(msgspec.Struct):
    month: str
    jobs: int
    gpu_seconds: float


class UsageFigures(msgspec.Struct):
    month: str
    jobs: int
    gpu_seconds: float
    storage_bytes: int
    quotas: QuotaLimits
    resets_at: datetime
    earlier: list[MonthOfUsage] = []


class TierFigures(msgspec.Struct):
    submissions_per_minute: int
    requests_per_minute: int
    concurrent_jobs: int


class Caller(msgspec.Struct):
    """Who the client is to the server."""

    user_id: str
    tenant: str
    tier: str
    permissions: list[str]
    usage: UsageFigures
    key_id: str | None = None
    limits: TierFigures | None = None


class DayTotals(msgspec.Struct):
    """Jobs that were submitted and that have ended; seconds of workers; US dollars."""

    submitted: int
    completed: int
    failed: int
    cancelled: int
    gpu_seconds: float
    cost: float


class Day(DayTotals, kw_only=True):
    date: str


class DailyFigures(msgspec.Struct):
    days: list[Day]
    total: DayTotals


class Act(msgspec.Struct):
    """An entry of the audit log."""

    number: int
    at: datetime
    actor: str
    act: str
    target: str
    details: dict[str, Any]
    key_id: str | None = None
    address: str | None = None
    request_id: str | None = None


class AddressBlock(msgspec.Struct):
    block_id: str
    network: str
    reason: str
    created_by: str
    created_at: datetime
    expires_at: datetime | None = None


class _UserPage(msgspec.Struct):
    users: list[User]
    next_cursor: str | None = None


class _KeyPage(msgspec.Struct):
    keys: list[ApiKey]
    next_cursor: str | None = None


class _ActPage(msgspec.Struct):
    entries: list[Act]


class _BlockList(msgspec.Struct):
    blocks: list[AddressBlock]


class Ask(Protocol):
    async def __call__(
        self,
        method: str,
        path: str,
        kind: type[Reply],
        body: Mapping[str, Any] | bytes | None = None,
    ) -> Reply: ...


class Call(Protocol):
    def __call__(self, method: str, path: str) -> AbstractAsyncContextManager[Any]: ...


class Access:
    """`client.access`: who may use the server. Most of it is for administrators."""

    def __init__(self, ask: Ask, call: Call) -> None:
        self._ask = ask
        self._call = call

    async def whoami(self) -> Caller:
        return await self._ask("GET", "/v1/whoami", Caller)

    async def usage(self, months: int = 12) -> UsageFigures:
        return await self._ask("GET", f"/v1/usage?months={months}", UsageFigures)

    async def usage_of_days(self, days: int = 30) -> DailyFigures:
        """The last days, UTC, the oldest first."""
        return await self._ask("GET", f"/v1/usage/days?days={days}", DailyFigures)

    async def users(self) -> list[User]:
        found: list[User] = []
        cursor: str | None = ""
        while cursor is not None:
            path = f"/v1/users?limit=1000&cursor={quoted(cursor)}"
            page = await self._ask("GET", path, _UserPage)
            found += page.users
            cursor = page.next_cursor
        return found

    async def user(self, user_id: str) -> User:
        return await self._ask("GET", _user_path(user_id), User)

    async def add_user(self, user_id: str, **fields: Any) -> User:
        """`fields`: tenant, tier, permissions, quotas."""
        return await self._ask("POST", "/v1/users", User, {"user_id": user_id, **fields})

    async def change_user(self, user_id: str, **fields: Any) -> User:
        """`fields`: those of `add_user`, and disabled."""
        return await self._ask("PATCH", _user_path(user_id), User, fields)

    async def remove_user(self, user_id: str) -> None:
        async with self._call("DELETE", _user_path(user_id)):
            return

    async def keys(self, user_id: str | None = None) -> list[ApiKey]:
        """The caller's own; those of another user, or of all (`*`), for administrators."""
        whose = f"&user_id={quoted(user_id)}" if user_id else ""
        found: list[ApiKey] = []
        cursor: str | None = ""
        while cursor is not None:
            path = f"/v1/keys?limit=1000&cursor={quoted(cursor)}{whose}"
            page = await self._ask("GET", path, _KeyPage)
            found += page.keys
            cursor = page.next_cursor
        return sorted(found, key=lambda each: each.created_at)

    async def make_key(self, name: str, **fields: Any) -> MadeApiKey:
        """`fields`: user_id, permissions, expires_at."""
        return await self._ask("POST", "/v1/keys", MadeApiKey, {"name": name, **fields})

    async def revoke_key(self, key_id: str) -> None:
        async with self._call("DELETE", f"/v1/keys/{quoted(key_id)}"):
            return

    async def audit(
        self, actor: str | None = None, act: str | None = None, limit: int = 100
    ) -> list[Act]:
        """Newest first."""
        path = f"/v1/audit?limit={limit}"
        for name, value in (("actor", actor), ("act", act)):
            if value:
                path += f"&{name}={quoted(value)}"
        return (await self._ask("GET", path, _ActPage)).entries

    async def blocks(self) -> list[AddressBlock]:
        return (await self._ask("GET", "/v1/blocks", _BlockList)).blocks

    async def add_block(self, network: str, **fields: Any) -> AddressBlock:
        """`fields`: reason, expires_at."""
        return await self._ask("POST", "/v1/blocks", AddressBlock, {"network": network, **fields})

    async def remove_block(self, block_id: str) -> None:
        async with self._call("DELETE", f"/v1/blocks/{quoted(block_id)}"):
            return


def _user_path(user_id: str) -> str:
    return f"/v1/users/{quoted(user_id)}"
