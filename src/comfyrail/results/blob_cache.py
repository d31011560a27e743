"""Files of blobs that are elsewhere, for those who need a file: as many as there is room for."""

import asyncio
import contextlib
from collections import Counter, OrderedDict
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import structlog

from comfyrail.errors import StoreUnavailable
from comfyrail.results.blob_keys import sha256_of
from comfyrail.results.blob_store import OpenBlob
from comfyrail.results.incoming import IncomingFile, Receiver
from comfyrail.store.disk_trouble import free_in

log = structlog.get_logger(__name__)

BROUGHT_AT_ONCE = 4

Find = Callable[[str], Awaitable[OpenBlob]]


@dataclass(frozen=True, slots=True)
class _Entry:
    path: Path
    size: int
    stamp: tuple[int, int, int]

    @classmethod
    def of(cls, path: Path) -> "_Entry":
        found = path.stat()
        return cls(path, found.st_size, (found.st_ino, found.st_mtime_ns, found.st_size))

    def is_as_it_was(self) -> bool:
        """Nobody has written to it or put another in its place."""
        try:
            return _Entry.of(self.path) == self
        except OSError:
            return False


class BlobCache:
    """The least recently used go when there are more than `limit` bytes, or less than `least_free`
    are free on the disk; never one that somebody uses. A blob that is larger than all of it is
    there for as long as it is used. Each is brought once for all that want it, and checked by its
    SHA-256. Nothing is left of it after a restart: `receiver` empties the folder.
    """

    def __init__(self, folder: Path, receiver: Receiver, limit: int, least_free: int = 0) -> None:
        self._folder = folder
        self._receiver = receiver
        self._limit = limit
        self._least_free = least_free
        self._entries: OrderedDict[str, _Entry] = OrderedDict()
        self.size = 0
        self._users: Counter[str] = Counter()
        self._bringing: dict[str, asyncio.Task[None]] = {}
        self._lanes = asyncio.Semaphore(BROUGHT_AT_ONCE)
        self._expected = 0
        """Bytes that are being brought."""

    @asynccontextmanager
    async def borrow(self, key: str, find: Find) -> AsyncIterator[Path]:
        """A file with the bytes, which nobody removes meanwhile. `find` gives the blob, where it
        must be brought.
        """
        self._users[key] += 1
        try:
            entry = await self._entry(key)
            while entry is None:
                await self._have_brought(key, find)
                entry = await self._entry(key)
            yield entry.path
        finally:
            self._users[key] -= 1
            if not self._users[key]:
                del self._users[key]
            self._shrink_soon()

    async def adopt(self, key: str, path: Path) -> None:
        """Take over a file with the bytes of a blob; it is not the caller's any more."""
        entry = await asyncio.to_thread(_Entry.of, path)
        if key in self._entries and key in self._users:  # somebody uses that one by its name
            await asyncio.to_thread(_unlink, [path])
            return
        old = self._pop(key)
        self._put(key, entry)
        gone = self._take_excess()
        gone += [old] if old is not None else []
        await asyncio.to_thread(_unlink, [each.path for each in gone])

    async def drop(self, key: str) -> None:
        """Forget a blob that is gone; who uses its file keeps it."""
        if key not in self._users and (entry := self._pop(key)) is not None:
            await asyncio.to_thread(_unlink, [entry.path])

    async def close(self) -> None:
        tasks = list(self._bringing.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _put(self, key: str, entry: _Entry) -> None:
        self._entries[key] = entry
        self.size += entry.size

    def _pop(self, key: str) -> _Entry | None:
        entry = self._entries.pop(key, None)
        self.size -= entry.size if entry is not None else 0
        return entry

    async def _entry(self, key: str) -> _Entry | None:
        entry = self._entries.get(key)
        if entry is None:
            return None
        if await asyncio.to_thread(entry.is_as_it_was):
            if key in self._entries:
                self._entries.move_to_end(key)
            return entry
        log.warning("cached_blob_was_changed", key=key)
        if self._entries.get(key) is entry:
            self._pop(key)
        await asyncio.to_thread(_unlink, [entry.path])
        return None

    async def _have_brought(self, key: str, find: Find) -> None:
        task = self._bringing.get(key)
        if task is None:
            task = asyncio.create_task(self._bring(key, find), name="blob-download")
            self._bringing[key] = task
            task.add_done_callback(lambda done: self._brought(key, done))
        await asyncio.shield(task)

    def _brought(self, key: str, done: "asyncio.Task[None]") -> None:
        del self._bringing[key]
        if not done.cancelled():
            done.exception()  # it may be that nobody waits for it any more

    async def _bring(self, key: str, find: Find) -> None:
        async with self._lanes:
            blob = await find(key)
            self._expected += blob.size
            try:
                await self._make_room()
                path = await self._receiver.receive(
                    blob.chunks(), lambda received: _checked(received, key), _unlink_one
                )
            finally:
                self._expected -= blob.size
            await self.adopt(key, path)

    async def _make_room(self) -> None:
        await asyncio.to_thread(_unlink, [entry.path for entry in self._take_excess()])
        while self._least_free and self._is_disk_short() and (entry := self._take_oldest()):
            await asyncio.to_thread(_unlink, [entry.path])

    def _is_disk_short(self) -> bool:
        free = free_in(self._folder)
        return free is not None and free - self._expected < self._least_free

    def _shrink_soon(self) -> None:
        """A file in use may have been too much."""
        gone = [entry.path for entry in self._take_excess()]
        if gone:
            asyncio.get_running_loop().run_in_executor(None, _unlink, gone)

    def _take_excess(self) -> list[_Entry]:
        """Those that are too many; they are not entries any more."""
        excess = self.size + self._expected - self._limit
        gone: list[_Entry] = []
        while excess > 0 and (entry := self._take_oldest()) is not None:
            excess -= entry.size
            gone.append(entry)
        return gone

    def _take_oldest(self) -> _Entry | None:
        for key in self._entries:
            if key not in self._users:
                return self._pop(key)
        return None


def _checked(received: IncomingFile, key: str) -> Path:
    received.close(is_synced=False)
    if received.sha256 != sha256_of(key):
        log.error("blob_has_other_bytes", key=key, size=received.size)
        raise StoreUnavailable(
            "The storage gives other bytes than were saved: the file is damaged there. Restore it "
            "from a backup or an older version of the object.",
            details={"key": key},
        )
    return received.path


def _unlink(paths: list[Path]) -> None:
    for path in paths:
        _unlink_one(path)


def _unlink_one(path: Path) -> None:
    with contextlib.suppress(OSError):
        path.unlink(missing_ok=True)
