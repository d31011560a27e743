"""The blob store in object storage: S3, Google Cloud Storage, Azure, through obstore [8.1].

What is saved lies in a file of this machine first: its name is known only when all of it has come,
and the storage may be away for a while.
"""

import asyncio
import hashlib
import random
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import obstore
import structlog
from obstore.exceptions import BaseError, PermissionDeniedError, UnauthenticatedError

from comfyrail.errors import ConfigurationError, StoreUnavailable
from comfyrail.ids import new_uuid
from comfyrail.results.blob_cache import BlobCache
from comfyrail.results.blob_keys import blob_gone, check_key, is_key, key_of, sha256_of
from comfyrail.results.blob_store import StoredBlob, StoredFile, first_bytes
from comfyrail.results.dispositions import content_disposition, shows_inline, told_type
from comfyrail.results.in_hand import InHand
from comfyrail.results.incoming import IncomingFile, Receiver
from comfyrail.results.key_locks import KeyLocks
from comfyrail.results.links import LONGEST_LINK_SECONDS
from comfyrail.results.object_blob import TROUBLE, ObjectBlob, unavailable
from comfyrail.results.object_location import ObjectLocation, told
from comfyrail.results.recent_saves import RecentSaves
from comfyrail.results.s3_links import with_names

if TYPE_CHECKING:
    from obstore import ObjectMeta

log = structlog.get_logger(__name__)

PART_BYTES = 5 << 20
MOST_PARTS = 9000
PARTS_AT_ONCE = 3
UPLOADS_AT_ONCE = 4
PATIENCE_SECONDS = 60.0
"""So long a save waits for storage that does not answer."""
FIRST_DELAY = 0.25
LONGEST_DELAY = 8.0
ENDING_SECONDS = 5.0
LISTED_AT_ONCE = 1000
ASKED_AT_ONCE = 16

Given = TypeVar("Given")
Result = TypeVar("Result")


@dataclass(slots=True)
class _Upload:
    """A file on its way; with `is_wanted` False one that nobody waits for any more."""

    key: str
    file: IncomingFile
    deadline: float
    """Until then it is tried again, by the time of the loop."""
    is_wanted: bool = True


class _WrongObject(Exception):
    """What lies there after an upload is not what was sent."""


class ObjectBlobStore:
    """Objects under one folder of a bucket, named by the SHA-256 of their content.

    Two servers may use one bucket, with one sweeper at a time among them. What is not safe then:
    content that one server saves again, and finds there, in the moment between the sweeper's
    question who refers to it and its removal. Within one server that cannot happen.
    """

    def __init__(
        self,
        location: ObjectLocation,
        cache_folder: Path,
        cache_bytes: int,
        refused: Callable[[], None] = lambda: None,
        *,
        least_free: int = 0,
        patience: float = PATIENCE_SECONDS,
    ) -> None:
        """`refused` is called when the disk of this machine does not take something."""
        self._location = location
        self._bucket = location.bucket
        self._patience = patience
        self._receiver = Receiver(cache_folder / "incoming", refused)
        self._cache = BlobCache(cache_folder, self._receiver, cache_bytes, least_free)
        self._in_hand = InHand()
        self._saves = RecentSaves()
        self._locks = KeyLocks()
        self._lanes = asyncio.Semaphore(UPLOADS_AT_ONCE)
        self._uploads: dict[asyncio.Task[None], _Upload] = {}
        self._tells_md5 = True

    # Saving

    async def save(self, chunks: AsyncIterator[bytes]) -> StoredBlob:
        file = await self._receiver.receive(chunks, _closed, IncomingFile.discard)
        key = key_of(file.sha256)
        self._in_hand.take(key)
        upload = _Upload(key, file, asyncio.get_running_loop().time() + self._patience)
        task = asyncio.create_task(self._send(upload), name="blob-upload")
        self._uploads[task] = upload
        task.add_done_callback(self._forget)
        try:
            # An upload that is cut off leaves its parts in the storage: it goes on to its end.
            await asyncio.shield(task)
        except asyncio.CancelledError:
            upload.is_wanted = False
            task.add_done_callback(lambda _: self.settle([key], are_kept=False))
            raise
        except BaseException:
            self.settle([key], are_kept=False)
            raise
        return StoredBlob(key, file.size, file.sha256, file.blake3)

    def _forget(self, task: "asyncio.Task[None]") -> None:
        del self._uploads[task]
        if not task.cancelled():
            task.exception()  # it may be that nobody waits for it any more

    async def _send(self, upload: _Upload) -> None:
        try:
            async with self._locks.of(upload.key), self._lanes:
                await self._send_patiently(upload)
                self._saves.note(upload.key)
        except BaseException:
            await asyncio.to_thread(upload.file.discard)
            raise
        await self._cache.adopt(upload.key, upload.file.path)

    async def _send_patiently(self, upload: _Upload) -> None:
        loop, delay = asyncio.get_running_loop(), FIRST_DELAY
        while True:
            try:
                if not upload.is_wanted:
                    raise StoreUnavailable("The upload was given up: nobody waits for it.")
                await self._send_once(upload)
            except (PermissionDeniedError, UnauthenticatedError) as error:
                raise unavailable(self._location, error) from error
            except (*TROUBLE, _WrongObject) as error:
                if not upload.is_wanted or loop.time() + delay > upload.deadline:
                    await self._clear_away(upload, error)
                    raise unavailable(self._location, error) from error
                log.warning("blob_upload_failed", key=upload.key, error=told(error))
                await asyncio.sleep(delay * random.uniform(0.75, 1.25))  # noqa: S311 - no secret
                delay = min(delay * 2, LONGEST_DELAY)
            else:
                return

    async def _send_once(self, upload: _Upload) -> None:
        size, path = upload.file.size, self._location.path_of(upload.key)
        found = await self._head(upload.key)
        if found is not None and found["size"] == size:
            return
        await obstore.put_async(
            self._bucket,
            path,
            upload.file.path,
            chunk_size=max(PART_BYTES, -(-size // MOST_PARTS)),
            max_concurrency=PARTS_AT_ONCE,
        )
        found = await self._head(upload.key)
        if found is None or found["size"] != size:
            raise _WrongObject(f"{0 if found is None else found['size']} of {size} bytes are there")
        if size <= PART_BYTES:
            await self._check(upload, found)

    async def _check(self, upload: _Upload, found: "ObjectMeta") -> None:
        """Objects that were sent in one part have the MD5 of their content as their tag, unless the
        storage encrypts them with keys of its own. It has checked a signed part by itself.
        """
        tag = (found["e_tag"] or "").strip('"')
        if not self._tells_md5 or tag == await asyncio.to_thread(_md5_of, upload.file.path):
            return
        content = await first_bytes(
            ObjectBlob(self._location, upload.key, found["size"]), found["size"]
        )
        if hashlib.sha256(content).hexdigest() != sha256_of(upload.key):
            raise _WrongObject("other bytes are there")
        self._tells_md5 = False

    async def _clear_away(self, upload: _Upload, error: BaseException) -> None:
        """Leave nothing under a key that is not what it says."""
        if isinstance(error, _WrongObject):
            try:
                await obstore.delete_async(self._bucket, self._location.path_of(upload.key))
            except TROUBLE as trouble:
                log.warning("wrong_blob_not_removed", key=upload.key, error=told(trouble))

    async def _head(self, key: str) -> "ObjectMeta | None":
        try:
            return await obstore.head_async(self._bucket, self._location.path_of(key))
        except FileNotFoundError:
            return None

    # Reading

    async def open(self, key: str) -> ObjectBlob:
        try:
            found = await self._head(check_key(key))
        except TROUBLE as error:
            raise unavailable(self._location, error) from error
        if found is None:
            raise blob_gone()
        return ObjectBlob(self._location, key, found["size"])

    def local(self, key: str) -> AbstractAsyncContextManager[Path]:
        return self._cache.borrow(key, self.open)

    async def signed_url(
        self, key: str, seconds: float, *, filename: str, content_type: str, is_inline: bool
    ) -> str | None:
        if not self._location.is_s3:  # others cannot be told to have a browser save it
            return None
        expires_in = timedelta(seconds=max(1.0, min(seconds, LONGEST_LINK_SECONDS)))
        path = self._location.path_of(check_key(key))
        try:
            url = await obstore.sign_async(self._bucket, "GET", path, expires_in)
        except (BaseError, NotImplementedError, ValueError) as error:
            log.warning("blob_not_signed", error=told(error))
            return None
        is_shown = is_inline and shows_inline(content_type)
        return with_names(
            url,
            content_type=told_type(content_type, is_inline=is_shown),
            disposition=content_disposition(filename, is_inline=is_shown),
        )

    # What the sweeper asks

    @property
    def has_in_hand(self) -> bool:
        return bool(self._in_hand)

    def settle(self, keys: Collection[str], *, are_kept: bool) -> None:
        self._in_hand.settle(keys, are_kept=are_kept)

    def doubt(self, keys: Collection[str]) -> None:
        self._in_hand.doubt(keys)

    def take_doubtful(self) -> Sequence[str]:
        return self._in_hand.take_doubtful()

    async def look_at(self, keys: Sequence[str]) -> Sequence[StoredFile]:
        free = [key for key in keys if is_key(key) and not self._in_hand.is_saved(key)]
        moment = self._saves.moment
        try:
            found = await _each(self._head, free)
        except TROUBLE as error:
            raise unavailable(self._location, error) from error
        return [_file(key, meta, moment) for key, meta in zip(free, found, strict=True) if meta]

    async def files(self) -> AsyncIterator[Sequence[StoredFile]]:
        moment = self._saves.moment
        listing = obstore.list(
            self._bucket, self._location.folder or None, chunk_size=LISTED_AT_ONCE
        )
        try:
            async for objects in listing:
                named = [(self._location.name_of(str(meta["path"])), meta) for meta in objects]
                yield [
                    _file(key, meta, moment)
                    for key, meta in named
                    if is_key(key) and not self._in_hand.is_saved(key)
                ]
        except TROUBLE as error:
            raise unavailable(self._location, error) from error

    async def remove(self, files: Sequence[StoredFile]) -> int:
        try:
            return sum(await _each(self._remove, files))
        except TROUBLE as error:
            raise unavailable(self._location, error) from error

    async def _remove(self, file: StoredFile) -> bool:
        if self._in_hand.is_held(file.key):
            return False
        async with self._locks.of(file.key):
            moment, _, version = file.version.partition("/")
            if self._in_hand.is_held(file.key) or self._saves.may_be_since(file.key, int(moment)):
                return False
            found = await self._head(file.key)
            if found is None or _version(found) != version:
                return False
            await obstore.delete_async(self._bucket, self._location.path_of(file.key))
        await self._cache.drop(file.key)
        return True

    async def move(self, key: str, tier: str) -> None:
        """All tiers are here."""

    async def close(self) -> None:
        """Uploads have a moment to end; those of storage that is away are given up."""
        for upload in self._uploads.values():
            upload.is_wanted = False
        if self._uploads:
            await asyncio.wait(self._uploads, timeout=ENDING_SECONDS)
        tasks = list(self._uploads)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await self._cache.close()


async def probe(location: ObjectLocation, what: str) -> None:
    """See that objects can be written, read and removed. Raises ConfigurationError; `what` is the
    setting that names the place.
    """
    path, content = location.path_of(f".probe-{new_uuid()}"), b"comfyrail"
    try:
        await obstore.put_async(location.bucket, path, content)
        found = await obstore.get_async(location.bucket, path)
        is_same = bytes(await found.bytes_async()) == content
        await obstore.delete_async(location.bucket, path)
    except TROUBLE as error:
        raise ConfigurationError(
            f"{what}: {location.url} cannot be written and read. Check the bucket, the endpoint "
            f"and the credentials in the environment. It says: {told(error)}",
            code="BLOB_STORE_UNREACHABLE",
        ) from error
    if not is_same:
        raise ConfigurationError(
            f"{what}: {location.url} does not give back what was written.",
            code="BLOB_STORE_UNREACHABLE",
        )


async def _each(work: Callable[[Given], Awaitable[Result]], given: Sequence[Given]) -> list[Result]:
    """Do it for each, a few at a time. Raises what the first of them raises."""
    made: list[Result] = []
    for start in range(0, len(given), ASKED_AT_ONCE):
        some = given[start : start + ASKED_AT_ONCE]
        for result in await asyncio.gather(*map(work, some), return_exceptions=True):
            if isinstance(result, BaseException):
                raise result
            made.append(result)
    return made


def _closed(received: IncomingFile) -> IncomingFile:
    received.close(is_synced=False)
    return received


def _md5_of(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, _md5).hexdigest()


def _md5() -> "hashlib._Hash":
    return hashlib.md5(usedforsecurity=False)


def _file(key: str, meta: "ObjectMeta", moment: int) -> StoredFile:
    return StoredFile(key, f"{moment}/{_version(meta)}", meta["size"])


def _version(meta: "ObjectMeta") -> str:
    return f"{meta['e_tag']}/{meta['last_modified'].isoformat()}"
