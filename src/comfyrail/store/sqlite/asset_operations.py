"""The store's view of files that users have given."""

import dataclasses
import json
import sqlite3
from collections.abc import Iterator, Sequence
from pathlib import PurePosixPath
from typing import Any

from comfyrail.clock import Clock, Instant
from comfyrail.errors import AssetNotFound, Conflict, NotFound
from comfyrail.ids import AssetId, JobId, TenantId
from comfyrail.jobs.job import Output
from comfyrail.store.assets import AddedAsset, Asset, AssetPage, KnownContent, SameName
from comfyrail.store.sqlite.media_rows import want_look
from comfyrail.store.sqlite.readers import Readers, Snapshot
from comfyrail.store.sqlite.rows import read_output
from comfyrail.store.sqlite.usage_counts import check_bytes
from comfyrail.store.sqlite.writer import Transaction, Writer

MOST_NUMBERS = 1000
"""So many files may have the same name with a number."""


class AssetOperations:
    """Part of SqliteStore. See comfyrail.store.assets.AssetStore."""

    _writer: Writer
    _readers: Readers
    _clock: Clock

    async def add_asset(
        self,
        asset: Asset,
        same_name: SameName = "keep_both",
        *,
        is_known_content: bool = False,
        most_bytes: int | None = None,
    ) -> AddedAsset:
        def add(tx: Transaction) -> AddedAsset:
            there = _find(tx, asset.tenant, asset.id, tx.now)
            if there is not None:
                return AddedAsset(_asset(there), is_new=False)
            if is_known_content and _content(tx, asset.tenant, asset.blake3, tx.now) is None:
                raise blob_not_found(asset.blake3)
            match same_name:
                case "rename":
                    return _add_renamed(tx, asset, most_bytes)
                case "replace":
                    older = tx.all("list_assets_by_name", tenant=asset.tenant, name=asset.name)
                    freed = sum(row["size"] for row in older)
                    check_bytes(tx, asset.tenant, most_bytes, asset.size - freed)
                    for row in older:
                        tx.run("delete_asset", asset_id=row["id"])
                    _insert(tx, asset)
                    return AddedAsset(asset, freed=[row["blob_key"] for row in older])
                case _:
                    check_bytes(tx, asset.tenant, most_bytes, asset.size)
                    _insert(tx, asset)
                    return AddedAsset(asset)

        return await self._writer.write(add)

    async def get_asset(self, tenant: TenantId, asset_id: AssetId) -> Asset:
        now = self._clock.now()
        row = await self._readers.read(lambda snapshot: _find(snapshot, tenant, asset_id, now))
        if row is None:
            raise _not_found(asset_id)
        return _asset(row)

    async def list_assets(
        self, tenant: TenantId, after: AssetId | None, limit: int, name: str | None = None
    ) -> AssetPage:
        query = "list_assets" if name is None else "list_assets_of_name"
        values: dict[str, Any] = {"tenant": tenant, "after": after, "limit": limit + 1}
        if name is not None:
            values["name"] = name
        now = self._clock.now()
        rows = await self._readers.read(lambda snapshot: snapshot.all(query, now=now, **values))
        assets = [_asset(row) for row in rows[:limit]]
        return AssetPage(assets, assets[-1].id if len(rows) > limit else None)

    async def find_asset_by_name(self, tenant: TenantId, name: str) -> Asset | None:
        now = self._clock.now()
        row = await self._readers.read(
            lambda snapshot: snapshot.one("find_asset_by_name", tenant=tenant, name=name, now=now)
        )
        return None if row is None else _asset(row)

    async def list_asset_names(self, tenant: TenantId, limit: int) -> Sequence[str]:
        now = self._clock.now()
        rows = await self._readers.read(
            lambda snapshot: snapshot.all("list_asset_names", tenant=tenant, limit=limit, now=now)
        )
        return [row["name"] for row in rows]

    async def find_assets_by_content(self, tenant: TenantId, start: str) -> Sequence[Asset]:
        now = self._clock.now()
        rows = await self._readers.read(
            lambda snapshot: snapshot.all(
                "list_assets_by_content", tenant=tenant, start=start, now=now
            )
        )
        return [_asset(row) for row in rows]

    async def find_content(self, tenant: TenantId, blake3: str) -> KnownContent | None:
        now = self._clock.now()
        row = await self._readers.read(lambda snapshot: _content(snapshot, tenant, blake3, now))
        if row is None:
            return None
        return KnownContent(
            row["content_type"], row["size"], row["sha256"], row["blake3"], row["blob_key"]
        )

    async def find_output_by_content(
        self, tenant: TenantId, start: str, filename: str
    ) -> Output | None:
        row = await self._readers.read(
            lambda snapshot: snapshot.one(
                "find_output_by_content", tenant=tenant, start=start, filename=filename
            )
        )
        return None if row is None else read_output(row)

    async def find_named_output(
        self,
        tenant: TenantId,
        job_id: JobId,
        filename: str,
        subfolder: str | None = None,
        *,
        is_temporary: bool = False,
    ) -> Output | None:
        row = await self._readers.read(
            lambda snapshot: snapshot.one(
                "find_named_output",
                tenant=tenant,
                job_id=job_id,
                filename=filename,
                subfolder=subfolder,
                is_temporary=is_temporary,
            )
        )
        return None if row is None else read_output(row)

    async def delete_asset(self, tenant: TenantId, asset_id: AssetId) -> str:
        def delete(tx: Transaction) -> str:
            row = _find(tx, tenant, asset_id, tx.now)
            if row is None:
                raise _not_found(asset_id)
            user = tx.one("is_asset_in_use", asset_id=asset_id)
            if user is not None:
                raise Conflict(
                    f"A job that has not ended uses '{row['name']}'. Cancel the job, or wait for "
                    "its end.",
                    code="ASSET_IN_USE",
                    details={"asset_id": asset_id, "execution_id": user["job_id"]},
                )
            tx.run("delete_asset", asset_id=asset_id)
            return str(row["blob_key"])

        return await self._writer.write(delete)

    async def remove_expired_assets(self, limit: int) -> Sequence[str]:
        rows = await self._writer.write(
            lambda tx: tx.all("delete_expired_assets", now=tx.now, limit=limit)
        )
        return [row["blob_key"] for row in rows]

    async def needed_inputs(self, names: Sequence[str]) -> frozenset[str]:
        wanted = json.dumps(list(names))
        rows = await self._readers.read(
            lambda snapshot: snapshot.all("needed_inputs", names=wanted)
        )
        return frozenset(row["name"] for row in rows)

    async def kept_contents(self, starts: Sequence[str]) -> frozenset[str]:
        wanted = json.dumps(list(starts))
        rows = await self._readers.read(
            lambda snapshot: snapshot.all("kept_contents", starts=wanted)
        )
        return frozenset(row["start"] for row in rows)


def blob_not_found(blake3: str) -> NotFound:
    return NotFound(
        "You have no file with this content. Upload its bytes.",
        code="BLOB_NOT_FOUND",
        details={"blake3": blake3},
    )


def _not_found(asset_id: AssetId) -> AssetNotFound:
    return AssetNotFound(f"There is no asset {asset_id}.", details={"asset_id": asset_id})


def _find(
    source: Transaction | Snapshot, tenant: TenantId, asset_id: AssetId, now: Instant
) -> sqlite3.Row | None:
    return source.one("get_asset", tenant=tenant, asset_id=asset_id, now=now)


def _content(
    source: Transaction | Snapshot, tenant: TenantId, blake3: str, now: Instant
) -> sqlite3.Row | None:
    found = source.one("find_asset_by_blake3", tenant=tenant, blake3=blake3, now=now)
    return found or source.one("find_output_by_blake3", tenant=tenant, blake3=blake3)


def _add_renamed(tx: Transaction, asset: Asset, most_bytes: int | None) -> AddedAsset:
    """ComfyUI's rule: a name is looked for that is free, or that has the same bytes."""
    for name in _numbered(asset.name):
        there = tx.all("list_assets_by_name", tenant=asset.tenant, name=name)
        same = next((row for row in there if row["sha256"] == asset.sha256), None)
        if same is not None and not _is_expired(same, tx.now):
            return AddedAsset(_asset(same), is_new=False)
        if not there:
            check_bytes(tx, asset.tenant, most_bytes, asset.size)
            renamed = dataclasses.replace(asset, name=name)
            _insert(tx, renamed)
            return AddedAsset(renamed)
    raise Conflict(
        f"There are {MOST_NUMBERS} files called '{asset.name}' already. Choose another name.",
        code="FILE_NAME_TAKEN",
        details={"name": asset.name},
    )


def _numbered(name: str) -> Iterator[str]:
    """`photo.png`, `photo (1).png`, …"""
    yield name
    path = PurePosixPath(name)
    for number in range(1, MOST_NUMBERS):
        yield str(path.with_name(f"{path.stem} ({number}){path.suffix}"))


def _is_expired(row: sqlite3.Row, now: Instant) -> bool:
    return row["expires_at"] is not None and row["expires_at"] <= now


def _insert(tx: Transaction, asset: Asset) -> None:
    tx.run("insert_asset", **dataclasses.asdict(asset))
    want_look(tx, asset.blob_key, asset.content_type)


def _asset(row: sqlite3.Row) -> Asset:
    return Asset(
        id=AssetId(row["id"]),
        tenant=TenantId(row["tenant"]),
        name=row["name"],
        content_type=row["content_type"],
        size=row["size"],
        sha256=row["sha256"],
        blake3=row["blake3"],
        blob_key=row["blob_key"],
        created_at=Instant(row["created_at"]),
        expires_at=None if row["expires_at"] is None else Instant(row["expires_at"]),
    )
