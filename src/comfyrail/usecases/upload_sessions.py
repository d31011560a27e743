"""Uploads in parts, taken up again after a break: of the line, of the client, of the server."""

import asyncio
import re
from collections.abc import AsyncIterator, Callable
from contextlib import aclosing
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from comfyrail.access.principal import Principal
from comfyrail.clock import Clock, after
from comfyrail.errors import (
    Conflict,
    MalformedRequest,
    NotFound,
    PayloadTooLarge,
    RequestError,
    StorageFull,
    TooManyRequests,
)
from comfyrail.ids import new_asset_id, new_uuid
from comfyrail.results.upload_parts import UploadParts, UploadRecord
from comfyrail.sniffing import HEAD_BYTES, Claims, judge
from comfyrail.store.assets import Asset, SameName
from comfyrail.store.disk_trouble import disk_error
from comfyrail.usecases.asset_intake import empty_file, file_too_large
from comfyrail.usecases.asset_names import check_name
from comfyrail.usecases.assets import Assets, read_file
from comfyrail.usecases.upload_turns import Turn, Turns

Result = TypeVar("Result")

CHUNK_BYTES = 8 << 20
WRITE_BYTES = 1 << 20
SESSION_SECONDS = 86_400.0
MOST_SESSIONS = 20
"""Of a tenant, that are not done."""
NONE_COUNTS = frozenset({"PAYLOAD_TOO_LARGE", "INVALID_CONTENT_RANGE"})
"""Errors of a part that is not what was announced."""

_SHA256 = re.compile(r"(?:sha256:)?[0-9a-f]{64}", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class UploadSession:
    """`asset` is there once the last byte is."""

    record: UploadRecord
    asset: Asset | None = None


@dataclass(frozen=True, slots=True)
class Span:
    """Which bytes of a file a request has. None: it does not say. With a `total` it has `length`
    bytes, no more and no less.
    """

    start: int
    length: int | None = None
    total: int | None = None


class UploadSessions:
    """Every method sees the principal's own uploads only; others do not exist for it."""

    def __init__(
        self,
        folder: Path,
        assets: Assets,
        clock: Clock,
        *,
        refuse_new_work: Callable[[], None] = lambda: None,
    ) -> None:
        self._folder = folder
        self._parts = UploadParts(folder)
        self._assets = assets
        self._clock = clock
        self._refuse_new_work = refuse_new_work
        self._known: dict[str, UploadRecord] | None = None
        self._loading = asyncio.Lock()
        self._turns: dict[str, Turns] = {}

    async def begin(
        self,
        principal: Principal,
        *,
        name: str,
        size: int,
        content_type: str | None = None,
        sha256: str | None = None,
        expires_in: float | None = None,
        same_name: SameName = "keep_both",
    ) -> UploadSession:
        self._refuse_new_work()
        check_name(name)
        _check_sha256(sha256)
        self._assets.expiry(expires_in)
        limit = self._assets.rules.max_bytes
        if size <= 0:
            raise empty_file(name)
        if limit and size > limit:
            raise file_too_large(name, limit)
        await self._assets.let_in(principal, size, same_name)
        known = await self._all()
        self._check_count(known, principal)
        await self._check_room(size)
        now = self._clock.now()
        record = UploadRecord(
            id=new_uuid(),
            tenant=principal.tenant,
            name=name,
            size=size,
            content_type=content_type,
            sha256=sha256,
            expires_in=expires_in,
            same_name=same_name,
            asset_id=new_asset_id(),
            created_at=now,
            expires_at=after(now, SESSION_SECONDS),
        )
        known[record.id] = record
        try:
            await self._on_disk(self._parts.create, record)
        except BaseException:
            known.pop(record.id, None)
            raise
        return UploadSession(record)

    async def get(self, principal: Principal, upload_id: str) -> UploadSession:
        record = await self._find(principal, upload_id)
        return UploadSession(record, await self._asset(principal, record))

    async def write(
        self, principal: Principal, upload_id: str, span: Span, chunks: AsyncIterator[bytes]
    ) -> UploadSession:
        """Take the next part; with the last one the file becomes an asset.

        Raises Conflict, code UPLOAD_OFFSET, for a part that is not the next one. What came of a
        part before the line broke is kept. A newer request takes over from one whose part still
        comes: that one raises Conflict, code UPLOAD_TAKEN_OVER.
        """
        record = await self._find(principal, upload_id)
        if not record.is_done:
            _check_announced(record, span)
            if span.start < record.offset:
                raise _not_the_next(record, span)
        async with self._turns_of(upload_id).take(span.start) as turn:
            record = await self._find(principal, upload_id)
            if record.is_done:
                return UploadSession(record, await self._asset(principal, record))
            if span.start != record.offset:
                raise _not_the_next(record, span)
            self._refuse_new_work()
            if record.offset < record.size:
                record = await self._take(record, span, chunks, turn)
            if record.offset < record.size:
                return UploadSession(record)
            return await self._finish(principal, record)

    async def cancel(self, principal: Principal, upload_id: str) -> None:
        await self._find(principal, upload_id)
        async with self._turns_of(upload_id).take():
            await self._forget(await self._find(principal, upload_id))

    async def sweep(self) -> int:
        """Forget uploads whose time has passed; how many that were."""
        now = self._clock.now()
        old = [each for each in (await self._all()).values() if each.expires_at <= now]
        for record in old:
            async with self._turns_of(record.id).take():
                await self._forget(record)
        return len(old)

    def _turns_of(self, upload_id: str) -> Turns:
        return self._turns.setdefault(upload_id, Turns())

    async def _take(
        self, record: UploadRecord, span: Span, chunks: AsyncIterator[bytes], turn: Turn
    ) -> UploadRecord:
        came = record.offset
        most = min(CHUNK_BYTES if span.length is None else span.length, record.size - record.offset)
        buffer = bytearray()
        try:
            async with aclosing(turn.chunks_of(chunks)) as coming:
                async for chunk in coming:
                    buffer += chunk
                    if came + len(buffer) - record.offset > most:
                        raise _not_as_announced(span) if span.total else _part_too_large(most)
                    if len(buffer) >= WRITE_BYTES:
                        await self._on_disk(self._parts.write, record, came, bytes(buffer))
                        came += len(buffer)
                        buffer.clear()
            if span.total and came + len(buffer) - record.offset != span.length:
                raise _not_as_announced(span)
            if buffer:
                await self._on_disk(self._parts.write, record, came, bytes(buffer))
                came += len(buffer)
        except RequestError as error:
            is_sent_again = turn.next_start == record.offset
            if error.code not in NONE_COUNTS and not is_sent_again:
                await self._keep(record, came)
            raise
        return await self._keep(record, came)

    async def _keep(self, record: UploadRecord, offset: int) -> UploadRecord:
        if offset == record.offset:
            return record
        grown = msgspec.structs.replace(record, offset=offset)
        await self._on_disk(self._parts.commit, grown)
        (await self._all())[record.id] = grown
        if record.offset < HEAD_BYTES:
            await self._judge(grown)
        return grown

    async def _judge(self, record: UploadRecord) -> None:
        """A file that cannot be kept need not come to its end."""
        if record.offset < min(HEAD_BYTES, record.size):
            return
        head = await self._on_disk(self._parts.head, record, HEAD_BYTES)
        claims = Claims(record.name, record.content_type)
        try:
            judge(
                head,
                claims,
                self._assets.rules.allowed_types,
                is_whole=record.size <= HEAD_BYTES,
            )
        except RequestError:
            await self._forget(record)
            raise

    async def _finish(self, principal: Principal, record: UploadRecord) -> UploadSession:
        try:
            received = await self._assets.receive(
                principal,
                read_file(self._parts.part_of(record)),
                name=record.name,
                content_type=record.content_type,
                expires_in=record.expires_in,
                expected_sha256=record.sha256,
                same_name=record.same_name,
                asset_id=record.asset_id,
                announced=record.size,
            )
        except RequestError:
            await self._forget(record)
            raise
        done = msgspec.structs.replace(record, is_done=True, asset_id=received.asset.id)
        await self._on_disk(self._parts.finish, done)
        (await self._all())[record.id] = done
        return UploadSession(done, received.asset)

    async def _asset(self, principal: Principal, record: UploadRecord) -> Asset | None:
        return await self._assets.get(principal, record.asset_id) if record.is_done else None

    async def _forget(self, record: UploadRecord) -> None:
        (await self._all()).pop(record.id, None)
        self._turns.pop(record.id, None)
        await asyncio.to_thread(self._parts.remove, record)

    async def _find(self, principal: Principal, upload_id: str) -> UploadRecord:
        record = (await self._all()).get(upload_id)
        if (
            record is None
            or record.tenant != principal.tenant
            or record.expires_at <= self._clock.now()
        ):
            raise NotFound(
                f"There is no upload {upload_id[:80]}. Begin a new one.",
                code="UPLOAD_NOT_FOUND",
                details={"upload_id": upload_id[:80]},
            )
        return record

    async def _all(self) -> dict[str, UploadRecord]:
        if self._known is None:
            async with self._loading:
                if self._known is None:
                    self._known = await self._on_disk(self._parts.load)
        return self._known

    def _check_count(self, known: dict[str, UploadRecord], principal: Principal) -> None:
        now = self._clock.now()
        is_open = (
            each.tenant == principal.tenant and not each.is_done and each.expires_at > now
            for each in known.values()
        )
        if sum(is_open) >= MOST_SESSIONS:
            raise TooManyRequests(
                f"You have {MOST_SESSIONS} uploads open. Finish or cancel one of them first.",
                code="TOO_MANY_UPLOADS",
                details={"limit": MOST_SESSIONS},
            )

    async def _check_room(self, size: int) -> None:
        free = await self._on_disk(self._parts.free_bytes)
        # Once as it comes, and once more while it becomes an asset.
        if free < 2 * size:
            raise StorageFull(
                f"The server's disk has no room for {size:,} bytes. Make the file smaller, or ask "
                "whoever runs the server.",
                details={"size": size},
            )

    async def _on_disk(self, work: Callable[..., Result], *arguments: Any) -> Result:
        try:
            return await asyncio.to_thread(work, *arguments)
        except OSError as error:
            raise disk_error("The folder of uploads", self._folder, error) from error


def _check_announced(record: UploadRecord, span: Span) -> None:
    if span.total is not None and span.total != record.size:
        raise MalformedRequest(
            f"The upload was announced with {record.size} bytes, not {span.total}.",
            code="INVALID_CONTENT_RANGE",
            details={"size": record.size},
        )
    if span.length is not None and span.length > CHUNK_BYTES:
        raise _part_too_large(CHUNK_BYTES)


def _check_sha256(sha256: str | None) -> None:
    if sha256 is not None and _SHA256.fullmatch(sha256) is None:
        raise RequestError(
            "sha256 has 64 hexadecimal digits, or is left out.", code="INVALID_SHA256"
        )


def _not_the_next(record: UploadRecord, span: Span) -> Conflict:
    return Conflict(
        f"The next part begins at byte {record.offset}, not at {span.start}. Go on there.",
        code="UPLOAD_OFFSET",
        details={"offset": record.offset, "size": record.size},
    )


def _not_as_announced(span: Span) -> MalformedRequest:
    return MalformedRequest(
        f"Content-Range announces {span.length:,} bytes, and the body has another number of them. "
        "Send the part again.",
        code="INVALID_CONTENT_RANGE",
    )


def _part_too_large(limit: int) -> PayloadTooLarge:
    return PayloadTooLarge(
        f"The part has more than the {limit:,} bytes that it may have here.",
        details={"limit": limit},
    )
