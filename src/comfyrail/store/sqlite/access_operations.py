"""The store's view of users, API keys, usage, the audit log and blocked addresses."""

import sqlite3
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from comfyrail.clock import Clock, Instant
from comfyrail.errors import Conflict
from comfyrail.ids import TenantId
from comfyrail.jobs.quotas import DailyUsage, MonthlyUsage, Quotas
from comfyrail.store.access import (
    BLOCKS,
    AddressBlock,
    ApiKey,
    AuditEntry,
    AuditFilter,
    User,
)
from comfyrail.store.sqlite.readers import Readers, Snapshot
from comfyrail.store.sqlite.rows import encode
from comfyrail.store.sqlite.writer import Transaction, Writer

_decode_names = msgspec.json.Decoder(frozenset[str]).decode
_decode_quotas = msgspec.json.Decoder(Quotas).decode
_decode_details = msgspec.json.Decoder(dict[str, Any]).decode
_PAST_ALL = (1 << 63) - 1


class AccessOperations:
    """Part of SqliteStore. See comfyrail.store.access.AccessStore."""

    _writer: Writer
    _readers: Readers
    _clock: Clock

    async def add_user(self, user: User, *, is_own_tenant: bool = False) -> None:
        def add(tx: Transaction) -> None:
            if tx.one("get_user", user_id=user.id) is not None:
                raise Conflict(
                    f"There is a user {user.id} already. Choose another id, or change that one.",
                    code="USER_EXISTS",
                    details={"user_id": user.id},
                )
            if is_own_tenant and tx.one("find_user_of_tenant", tenant=user.tenant) is not None:
                raise Conflict(
                    f"Other users have a tenant {user.tenant}. Give the tenant if this user is to "
                    "see its jobs and files, or choose another id.",
                    code="TENANT_EXISTS",
                    details={"tenant": user.tenant},
                )
            tx.run("insert_user", created_at=user.created_at, **_user_values(user))

        await self._writer.write(add)

    async def get_user(self, user_id: str) -> User | None:
        row = await self._readers.read(lambda snapshot: snapshot.one("get_user", user_id=user_id))
        return None if row is None else _user(row)

    async def list_users(self, after: str, limit: int) -> Sequence[User]:
        rows = await self._readers.read(
            lambda snapshot: snapshot.all("list_users", after=after, limit=limit)
        )
        return [_user(row) for row in rows]

    async def change_user(self, user: User) -> bool:
        return await self._writer.write(
            lambda tx: tx.one("change_user", **_user_values(user)) is not None
        )

    async def remove_user(self, user_id: str) -> bool:
        def remove(tx: Transaction) -> bool:
            if tx.one("delete_user", user_id=user_id) is None:
                return False
            tx.run("revoke_keys_of_user", user_id=user_id, now=tx.now)
            return True

        return await self._writer.write(remove)

    async def is_tenant_of_users(self, tenant: TenantId) -> bool:
        row = await self._readers.read(
            lambda snapshot: snapshot.one("find_user_of_tenant", tenant=tenant)
        )
        return row is not None

    async def add_key(self, key: ApiKey) -> None:
        await self._writer.write(
            lambda tx: tx.run(
                "insert_api_key",
                id=key.id,
                user_id=key.user_id,
                name=key.name,
                permissions=encode(sorted(key.permissions)),
                digest=key.digest,
                created_at=key.created_at,
                created_by=key.created_by,
                expires_at=key.expires_at,
            )
        )

    async def get_key(self, key_id: str) -> tuple[ApiKey, User | None] | None:
        def read(snapshot: Snapshot) -> tuple[ApiKey, User | None] | None:
            row = snapshot.one("get_api_key", key_id=key_id)
            if row is None:
                return None
            user = snapshot.one("get_user", user_id=row["user_id"])
            return _key(row), None if user is None else _user(user)

        return await self._readers.read(read)

    async def list_keys(self, user_id: str | None, after: str, limit: int) -> Sequence[ApiKey]:
        query, values = "list_api_keys", {"after": after, "limit": limit}
        if user_id is not None:
            query, values = "list_api_keys_of_user", {**values, "user_id": user_id}
        rows = await self._readers.read(lambda snapshot: snapshot.all(query, **values))
        return [_key(row) for row in rows]

    async def revoke_key(self, key_id: str) -> ApiKey | None:
        row = await self._writer.write(
            lambda tx: tx.one("revoke_api_key", key_id=key_id, now=tx.now)
        )
        return None if row is None else _key(row)

    def note_key_use(self, key_id: str) -> None:
        used_at = self._clock.now()

        def note(tx: Transaction) -> bool:
            tx.run("touch_api_key", key_id=key_id, used_at=used_at)
            return False

        self._writer.chores.add(f"note use of key {key_id}", note)

    async def usage_of(self, tenant: TenantId, months: int) -> Sequence[MonthlyUsage]:
        rows = await self._readers.read(
            lambda snapshot: snapshot.all("list_usage", tenant=tenant, limit=months)
        )
        return [MonthlyUsage(row["month"], row["jobs"], row["gpu_seconds"]) for row in rows]

    async def usage_of_days(self, tenant: TenantId, first: int) -> Mapping[int, DailyUsage]:
        rows = await self._readers.read(
            lambda snapshot: snapshot.all("list_usage_of_days", tenant=tenant, first=first)
        )
        return {
            row["day"]: DailyUsage(
                row["submitted"],
                row["completed"],
                row["failed"],
                row["cancelled"],
                row["gpu_seconds"],
                row["cost"],
            )
            for row in rows
        }

    async def stored_bytes(self, tenant: TenantId) -> int:
        row = await self._readers.read(lambda snapshot: snapshot.one("stored_bytes", tenant=tenant))
        return int(row["bytes"]) if row is not None else 0

    async def write_audit(self, entry: AuditEntry) -> None:
        await self._writer.write(
            lambda tx: tx.run(
                "insert_audit",
                at=entry.at,
                actor=entry.actor,
                key_id=entry.key_id,
                act=entry.act,
                target=entry.target,
                details=encode(entry.details),
                address=entry.address,
                request_id=entry.request_id,
            )
        )

    async def list_audit(
        self, where: AuditFilter, before: int | None, limit: int
    ) -> Sequence[AuditEntry]:
        rows = await self._readers.read(
            lambda snapshot: snapshot.all(
                "list_audit",
                actor=where.actor,
                act=where.act,
                before=_PAST_ALL if before is None else before,
                limit=limit,
            )
        )
        return [_audit_entry(row) for row in rows]

    async def add_block(self, block: AddressBlock) -> AddressBlock:
        def add(tx: Transaction) -> AddressBlock:
            tx.run("prune_blocks", now=tx.now)
            row = tx.one(
                "put_block",
                id=block.id,
                network=block.network,
                reason=block.reason,
                created_by=block.created_by,
                created_at=block.created_at,
                expires_at=block.expires_at,
            )
            tx.notify(BLOCKS)
            return block if row is None else _block(row)

        return await self._writer.write(add)

    async def list_blocks(self) -> Sequence[AddressBlock]:
        now = self._clock.now()
        rows = await self._readers.read(lambda snapshot: snapshot.all("list_blocks", now=now))
        return [_block(row) for row in rows]

    async def remove_block(self, block_id: str) -> AddressBlock | None:
        def remove(tx: Transaction) -> AddressBlock | None:
            row = tx.one("delete_block", block_id=block_id)
            tx.notify(BLOCKS)
            return None if row is None else _block(row)

        return await self._writer.write(remove)


def _user_values(user: User) -> dict[str, Any]:
    return {
        "id": user.id,
        "tenant": user.tenant,
        "tier": user.tier,
        "permissions": encode(sorted(user.permissions)),
        "quotas": encode(user.quotas),
        "is_disabled": user.is_disabled,
    }


def _user(row: sqlite3.Row) -> User:
    return User(
        row["id"],
        TenantId(row["tenant"]),
        row["tier"],
        _decode_names(row["permissions"]),
        _decode_quotas(row["quotas"]),
        Instant(row["created_at"]),
        bool(row["is_disabled"]),
    )


def _key(row: sqlite3.Row) -> ApiKey:
    return ApiKey(
        row["id"],
        row["user_id"],
        row["name"],
        _decode_names(row["permissions"]),
        row["digest"],
        Instant(row["created_at"]),
        row["created_by"],
        row["expires_at"],
        row["last_used_at"],
        row["revoked_at"],
    )


def _audit_entry(row: sqlite3.Row) -> AuditEntry:
    return AuditEntry(
        Instant(row["at"]),
        row["actor"],
        row["act"],
        row["target"],
        _decode_details(row["details"]),
        row["key_id"],
        row["address"],
        row["request_id"],
        row["sequence"],
    )


def _block(row: sqlite3.Row) -> AddressBlock:
    return AddressBlock(
        row["id"],
        row["network"],
        row["reason"],
        row["created_by"],
        Instant(row["created_at"]),
        row["expires_at"],
    )
