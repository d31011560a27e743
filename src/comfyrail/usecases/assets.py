"""Files that users give: received, kept, found again, deleted [10.8]."""

import asyncio
import base64
import binascii
import re
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path, PurePosixPath
from typing import Protocol
from urllib.parse import unquote, urlsplit

from comfyrail.access.permissions import Permission
from comfyrail.access.principal import Principal
from comfyrail.clock import Clock, Instant, after
from comfyrail.errors import (
    AddressRefused,
    AssetNotFound,
    MalformedRequest,
    NotFound,
    OutgoingError,
    OutputNotFound,
    RequestError,
    ResponseTooLarge,
)
from comfyrail.ids import AssetId, JobId, OutputId, TenantId, new_asset_id
from comfyrail.jobs.job import Output
from comfyrail.jobs.quotas import StorageRoom
from comfyrail.network.outgoing import OutgoingHttp, OutgoingLimits, OutgoingStream
from comfyrail.network.urls import without_secrets
from comfyrail.results.blob_store import (
    BlobReads,
    BlobWrites,
    OpenBlob,
    StoredBlob,
    first_bytes,
)
from comfyrail.sniffing import HEAD_BYTES, Claims, detect, refine
from comfyrail.store.assets import AddedAsset, Asset, AssetPage, AssetStore, KnownContent, SameName
from comfyrail.usecases.asset_intake import Intake, UploadRules, check_picture, file_too_large
from comfyrail.usecases.asset_names import NO_NAME, check_name, is_input_name
from comfyrail.usecases.gone import check_there
from comfyrail.usecases.policies import Policies
from comfyrail.validation.urls import UrlFault, allows_host, find_url_fault

SHORTEST_LIFE = 60.0
LONGEST_LIFE = 604_800.0
MOST_NAMES = 10_000
URL_SECONDS = 600.0
NO_LIMIT = 1 << 62
READ_BYTES = 1 << 20

_BLAKE3 = re.compile(r"(?:blake3:)?([0-9a-f]{64})")
_DATA_URL = re.compile(r"data:([^;,]*)(?:;[^;,]*)*;base64,", re.IGNORECASE)


RoomOf = Callable[[Principal], Awaitable[StorageRoom | None]]


@dataclass(frozen=True, slots=True)
class Received:
    """`is_new_blob` False: the tenant had these bytes before. `is_new` False: the whole asset."""

    asset: Asset
    is_new_blob: bool
    is_new: bool = True


class AssetBlobs(BlobReads, BlobWrites, Protocol):
    """The side of the blob store that is needed here."""


class AssetRecords(AssetStore, Protocol):
    """The side of the store that is needed here."""

    async def get_output(self, tenant: TenantId, job_id: JobId, output_id: OutputId) -> Output: ...


class Assets:
    """Every method sees the principal's own files only; others do not exist for it."""

    def __init__(
        self,
        store: AssetRecords,
        blobs: AssetBlobs,
        clock: Clock,
        policies: Policies,
        outgoing: OutgoingHttp,
        rules: UploadRules | None = None,
        *,
        refuse_new_work: Callable[[], None] = lambda: None,
        room_of: RoomOf | None = None,
    ) -> None:
        """`refuse_new_work` raises while nothing new can be kept, `room_of` says how much a caller
        may keep.
        """
        self._room_of = room_of
        self._store = store
        self._blobs = blobs
        self._clock = clock
        self._policies = policies
        self._outgoing = outgoing
        self.rules = rules or UploadRules()
        self._refuse_new_work = refuse_new_work

    async def receive(
        self,
        principal: Principal,
        chunks: AsyncIterator[bytes],
        *,
        name: str,
        content_type: str | None = None,
        expires_in: float | None = None,
        expected_blake3: str | None = None,
        expected_sha256: str | None = None,
        same_name: SameName = "keep_both",
        asset_id: AssetId | None = None,
        announced: int = 1,
        folder: str = "",
    ) -> Received:
        """Keep a file; when this returns it is on disk. What the bytes are decides its type.

        With an `asset_id` that is there already: that asset, as it is. `announced`: so many bytes
        will come, as was said; one that has no room is refused before them. `folder`: one of ours
        in which it is kept, of which no message tells; with a slash at its end.
        """
        room = await self.let_in(principal, announced, same_name)
        check_name(name)
        expires_at = self.expiry(expires_in)
        within = chunks if room is None else _within(chunks, room, same_name)
        intake = Intake(within, Claims(name, content_type), self.rules)
        blob = await self._blobs.save(aiter(intake))
        try:
            _check_hash("BLAKE3", expected_blake3, blob.blake3)
            _check_hash("SHA-256", expected_sha256, blob.sha256)
            await self._check_picture(principal, blob.key, intake.content_type, name)
            known = await self._store.find_content(principal.tenant, blob.blake3)
        except BaseException:
            self._blobs.settle([blob.key], are_kept=False)
            raise
        content = _content_of(blob, intake.content_type)
        asset = self._asset(principal, folder + name, content, expires_at, asset_id)
        added = await self._add(asset, same_name, room)
        return Received(added.asset, known is None, added.is_new)

    async def from_url(
        self,
        principal: Principal,
        url: str,
        *,
        name: str | None = None,
        expires_in: float | None = None,
        same_name: SameName = "keep_both",
    ) -> Received:
        """Fetch it, from domains that the tenant's policy allows and addresses that are public."""
        await self.let_in(principal)
        policy = self._policies.of(principal.tenant)
        fault = find_url_fault(url, policy)
        shown = without_secrets(url)[:200]
        if fault is not None:
            raise RequestError(
                f"{shown} may not be fetched. {fault.text}{_advice(fault)}",
                code="UNAUTHORIZED_DOMAIN",
                details={"reason": fault.reason, "domain": fault.domain},
            )
        limits = OutgoingLimits(
            total_seconds=URL_SECONDS, response_bytes=self.rules.max_bytes or NO_LIMIT
        )
        try:
            async with self._outgoing.stream(
                url, allows=lambda host: allows_host(host, policy), limits=limits
            ) as reply:
                _check_status(reply)
                return await self.receive(
                    principal,
                    reply.chunks,
                    name=name or _name_in(reply.url) or _name_in(url) or NO_NAME,
                    content_type=reply.headers.get("content-type"),
                    expires_in=expires_in,
                    same_name=same_name,
                )
        except AddressRefused as error:
            raise RequestError(
                f"{shown} may not be fetched. {error.message}",
                code=error.code,
                details=error.details,
            ) from error
        except ResponseTooLarge as error:
            raise file_too_large(shown, self.rules.max_bytes) from error
        except OutgoingError as error:
            raise RequestError(
                f"{shown} cannot be fetched. {error.message}",
                code="URL_UNREACHABLE",
                details=error.details,
            ) from error

    async def from_base64(
        self,
        principal: Principal,
        text: str,
        *,
        name: str,
        content_type: str | None = None,
        expires_in: float | None = None,
        same_name: SameName = "keep_both",
        folder: str = "",
    ) -> Received:
        """The bytes as Base64, or as a data: URL."""
        content, declared = await asyncio.to_thread(_decode, text)
        return await self.receive(
            principal,
            _once(content),
            name=name,
            content_type=content_type or declared,
            expires_in=expires_in,
            same_name=same_name,
            folder=folder,
        )

    async def from_output(
        self,
        principal: Principal,
        job_id: JobId,
        output_id: OutputId,
        *,
        name: str | None = None,
        expires_in: float | None = None,
        same_name: SameName = "keep_both",
    ) -> Received:
        """What an earlier job made, without its bytes being kept twice."""
        principal.check_may(Permission.JOBS_READ)
        output = await self._store.get_output(principal.tenant, job_id, output_id)
        file = check_there(output).file
        blob = await self._blobs.open(file.blob_key)
        name = check_name(name or file.filename)
        room = await self.let_in(principal, file.size, same_name)
        expires_at = self.expiry(expires_in)
        head = await first_bytes(blob, HEAD_BYTES)
        found = refine(detect(head, is_whole=len(head) < HEAD_BYTES), Claims(name))
        if file.blake3 is None:  # of an earlier version: nobody knows its bytes by that hash
            content = _content_of(await self._blobs.save(blob.chunks()), found)
            asset = self._asset(principal, name, content, expires_at)
            added = await self._add(asset, same_name, room)
            return Received(added.asset, is_new_blob=False, is_new=added.is_new)
        content = KnownContent(found, file.size, file.sha256, file.blake3, file.blob_key)
        return await self._add_known(principal, content, name, expires_at, same_name, room)

    async def from_hash(
        self,
        principal: Principal,
        blake3: str,
        *,
        name: str,
        expires_in: float | None = None,
        same_name: SameName = "keep_both",
    ) -> Received:
        """A file of bytes that an asset or an output of the tenant has. Raises NotFound, code
        BLOB_NOT_FOUND, where none has them.
        """
        check_name(name)
        content = await self._store.find_content(principal.tenant, _plain_hash(blake3))
        if content is None:
            raise NotFound(
                "You have no file with this content. Upload its bytes.",
                code="BLOB_NOT_FOUND",
                details={"blake3": blake3},
            )
        room = await self.let_in(principal, content.size, same_name)
        expires_at = self.expiry(expires_in)
        return await self._add_known(principal, content, name, expires_at, same_name, room)

    async def has_hash(self, principal: Principal, blake3: str) -> bool:
        found = _BLAKE3.fullmatch(blake3)
        return (
            found is not None
            and await self._store.find_content(principal.tenant, found[1]) is not None
        )

    async def get(self, principal: Principal, asset_id: AssetId) -> Asset:
        return await self._store.get_asset(principal.tenant, asset_id)

    async def list(
        self,
        principal: Principal,
        after: AssetId | None = None,
        limit: int = 50,
        name: str | None = None,
    ) -> AssetPage:
        """Newest first; all, or those of this name."""
        return await self._store.list_assets(principal.tenant, after, limit, name)

    async def find_by_name(self, principal: Principal, name: str) -> Asset | None:
        """The newest of this name."""
        return await self._store.find_asset_by_name(principal.tenant, name)

    async def names(self, principal: Principal) -> Sequence[str]:
        """Of the files that nodes may be offered."""
        found = await self._store.list_asset_names(principal.tenant, MOST_NAMES)
        return [name for name in found if is_input_name(name)]

    async def delete(self, principal: Principal, asset_id: AssetId) -> None:
        """Raises Conflict while a job that has not ended uses it."""
        key = await self._store.delete_asset(principal.tenant, asset_id)
        self._blobs.doubt([key])

    async def open(self, asset: Asset) -> OpenBlob:
        """Its bytes. Raises AssetNotFound where they are gone."""
        try:
            return await self._blobs.open(asset.blob_key)
        except OutputNotFound as error:
            raise _bytes_gone() from error

    @asynccontextmanager
    async def local(self, asset: Asset) -> AsyncIterator[Path]:
        """A file with its bytes, for as long as the context is open. Raises as `open`."""
        try:
            async with self._blobs.local(asset.blob_key) as path:
                yield path
        except OutputNotFound as error:
            raise _bytes_gone() from error

    def expiry(self, expires_in: float | None) -> Instant | None:
        """When a file goes that is to be kept for so many seconds."""
        if expires_in is None:
            kept = self.rules.retention_seconds
            return after(self._clock.now(), kept) if kept else None
        if not SHORTEST_LIFE <= expires_in <= LONGEST_LIFE:
            raise MalformedRequest(
                f"expires_in is in seconds, {SHORTEST_LIFE:g} to {LONGEST_LIFE:g}.",
                code="INVALID_EXPIRY",
            )
        return after(self._clock.now(), expires_in)

    async def let_in(
        self, principal: Principal, size: int = 1, same_name: SameName = "keep_both"
    ) -> StorageRoom | None:
        """What the caller may keep; None: as much as she likes. Raises for one who may give no
        files, or has no room for so many bytes.
        """
        principal.check_may(Permission.ASSETS_WRITE)
        self._refuse_new_work()
        room = None if self._room_of is None else await self._room_of(principal)
        if room is not None:
            _room_for(room, same_name).check(size)
        return room

    def _asset(
        self,
        principal: Principal,
        name: str,
        content: KnownContent,
        expires_at: Instant | None,
        asset_id: AssetId | None = None,
    ) -> Asset:
        return Asset(
            id=asset_id or new_asset_id(),
            tenant=principal.tenant,
            name=name,
            content_type=content.content_type,
            size=content.size,
            sha256=content.sha256,
            blake3=content.blake3,
            blob_key=content.blob_key,
            created_at=self._clock.now(),
            expires_at=expires_at,
        )

    async def _add_known(
        self,
        principal: Principal,
        content: KnownContent,
        name: str,
        expires_at: Instant | None,
        same_name: SameName,
        room: StorageRoom | None,
    ) -> Received:
        asset = self._asset(principal, name, content, expires_at)
        added = await self._store.add_asset(
            asset, same_name, is_known_content=True, most_bytes=room.limit if room else None
        )
        self._blobs.doubt(added.freed)
        return Received(added.asset, is_new_blob=False, is_new=added.is_new)

    async def _add(self, asset: Asset, same_name: SameName, room: StorageRoom | None) -> AddedAsset:
        """Write down what was saved. That happens even if nobody waits for it any more."""
        most_bytes = room.limit if room else None
        adding = asyncio.ensure_future(
            self._store.add_asset(asset, same_name, most_bytes=most_bytes)
        )

        def settle(done: "asyncio.Future[AddedAsset]") -> None:
            is_kept = not done.cancelled() and done.exception() is None
            self._blobs.settle([asset.blob_key], are_kept=is_kept and done.result().is_new)
            if is_kept:
                self._blobs.doubt(done.result().freed)

        adding.add_done_callback(settle)
        return await asyncio.shield(adding)

    async def _check_picture(
        self, principal: Principal, key: str, content_type: str, name: str
    ) -> None:
        if content_type.startswith("image/"):
            most = self._policies.of(principal.tenant).limits.max_image_pixels
            async with self._blobs.local(key) as path:
                await asyncio.to_thread(check_picture, path, content_type, name, most)


def _room_for(room: StorageRoom, same_name: SameName) -> StorageRoom:
    """What a file replaces makes room for it: how much that is, the store knows."""
    return replace(room, used=0) if same_name == "replace" else room


async def _within(
    chunks: AsyncIterator[bytes], room: StorageRoom, same_name: SameName
) -> AsyncIterator[bytes]:
    """The chunks, as long as there is room for them."""
    room = _room_for(room, same_name)
    size = 0
    async for chunk in chunks:
        size += len(chunk)
        room.check(size)
        yield chunk


async def read_file(path: Path) -> AsyncIterator[bytes]:
    """Its bytes, a part at a time, read in threads."""
    file = await asyncio.to_thread(path.open, "rb")
    try:
        while chunk := await asyncio.to_thread(file.read, READ_BYTES):
            yield chunk
    finally:
        await asyncio.to_thread(file.close)


def _content_of(blob: StoredBlob, content_type: str) -> KnownContent:
    return KnownContent(content_type, blob.size, blob.sha256, blob.blake3, blob.key)


async def _once(content: bytes) -> AsyncIterator[bytes]:
    for start in range(0, len(content), READ_BYTES):
        yield content[start : start + READ_BYTES]


def _check_status(reply: OutgoingStream) -> None:
    if reply.status != 200:
        raise OutgoingError(f"It answers with status {reply.status}.", "status")


def _decode(text: str) -> tuple[bytes, str | None]:
    """The bytes, and the type that a data: URL says they have."""
    opening = _DATA_URL.match(text)
    declared = opening[1] or None if opening else None
    digits = text[opening.end() :] if opening else text
    try:
        content = base64.b64decode("".join(digits.split()), validate=True)
    except (binascii.Error, ValueError) as error:
        raise MalformedRequest(
            "base64 is not Base64. Send the bytes in the standard alphabet, padded, or as a data: "
            "URL with ';base64,'.",
            code="INVALID_BASE64",
        ) from error
    return content, declared


def _check_hash(kind: str, expected: str | None, found: str) -> None:
    if expected is None:
        return
    if expected.lower().rpartition(":")[2] != found:
        raise RequestError(
            f"The bytes that came have another {kind} than was announced. Send the file again.",
            code="HASH_MISMATCH",
            details={"expected": expected[:100], "received": found},
        )


def _plain_hash(blake3: str) -> str:
    found = _BLAKE3.fullmatch(blake3.strip())
    if found is None:
        raise MalformedRequest(
            "A BLAKE3 hash has 64 hexadecimal digits in small letters.", code="INVALID_HASH"
        )
    return found[1]


def _advice(fault: UrlFault) -> str:
    if fault.reason != "domain":
        return ""
    return " Whoever runs the server adds it to COMFYRAIL_ALLOWED_DOMAINS."


def _name_in(url: str) -> str | None:
    """The last part of a URL's path, where that can be the name of a file."""
    name = PurePosixPath(unquote(urlsplit(url).path)).name
    try:
        return check_name(name)
    except MalformedRequest:
        return None


def _bytes_gone() -> AssetNotFound:
    return AssetNotFound("The file is gone from the blob store.")
