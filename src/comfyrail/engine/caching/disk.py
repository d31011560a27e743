"""The level on disk: one file an entry, in a folder that several processes may share."""

import contextlib
import os
import secrets
import stat
import threading
from collections.abc import Iterator, Sequence
from errno import EEXIST, EISDIR, ELOOP, ENOTDIR, ENOTEMPTY
from mmap import ACCESS_READ, mmap
from pathlib import Path
from weakref import WeakSet

from comfyrail.clock import Clock, Instant
from comfyrail.engine.caching.breaker import Breaker
from comfyrail.engine.caching.codec import Data
from comfyrail.engine.caching.disk_files import (
    EntryFile,
    is_stale_temporary,
    list_files,
    room_of,
)
from comfyrail.engine.caching.level import Counters, LevelFigures, Lifetime, is_key, size_of

DEFAULT_MAX_BYTES = 4096 << 20
SMALLEST_MAPPED = 256 << 10
MOST_MAPPED = 256
"""Each mapping keeps a file descriptor; past this many, files are read."""
FULL_AFTER_SWEEP = 0.9
SWEEP_AFTER_SHARE = 1 / 32
"""Of the limit: after that many own bytes the folder is counted again, for what others wrote."""

_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_CREATE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_ODD_FILE = {EEXIST, EISDIR, ELOOP, ENOTDIR, ENOTEMPTY}


class DiskLevel:
    """Entries get their name when they are whole, so a reader sees all of one or nothing.

    Nothing is synced: after a power cut an entry may be damaged, and its checksum tells. A file's
    modification time is when the result was made, its access time when it was last used: the
    longest unused go first. A folder of several processes may be over its limit for a moment, by
    a share of what the others wrote. Links and other odd files are passed over.
    """

    name = "disk"
    is_slow = False

    def __init__(
        self,
        folder: Path,
        clock: Clock,
        *,
        max_bytes: int = DEFAULT_MAX_BYTES,
        ttl_seconds: float | None = None,
    ) -> None:
        """Raises OSError where the folder cannot be made."""
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        self._folder = str(folder.resolve())
        self._clock = clock
        self._max_bytes = max_bytes
        self._lifetime = Lifetime(ttl_seconds, clock)
        self._breaker = Breaker(self.name, clock)
        self._mapped: WeakSet[mmap] = WeakSet()
        self._room = threading.Lock()
        self._used_bytes = 0
        self._entries = 0
        self._unswept_bytes: int | None = None
        self.counters = Counters()

    def locate(self, keys: Sequence[str]) -> set[str]:
        return {key for key in keys if is_key(key) and self._has(key)}

    def read(self, key: str) -> Data | None:
        data = None
        if is_key(key):
            with contextlib.suppress(OSError, ValueError), self._shard(key) as shard:
                data = self._read_file(key, shard)
        self.counters.add(hits=data is not None, misses=data is None)
        return data

    def write(self, key: str, parts: Sequence[Data], created: Instant) -> bool:
        kept = is_key(key) and not self._breaker.is_open and self._try_write(key, parts, created)
        self.counters.add(writes=kept, dropped=not kept)
        return kept

    def discard(self, key: str) -> None:
        if is_key(key):
            with contextlib.suppress(OSError), self._shard(key) as shard:
                os.unlink(key, dir_fd=shard)

    def clear(self) -> None:
        with self._room:
            for file in list_files(self._folder):
                file.remove()
            self._unswept_bytes = None

    def close(self) -> None:
        """Mapped entries stay good for as long as somebody holds them."""

    def figures(self) -> LevelFigures:
        """Entries and bytes are those of the last count, and what this process wrote since."""
        with self._room:
            if self._unswept_bytes is None:
                self._sweep(0)
            return self.counters.figures(self._entries, self._used_bytes)

    def _has(self, key: str) -> bool:
        try:
            status = os.lstat(f"{self._folder}/{key[:2]}/{key}")
        except OSError:
            return False
        return self._is_entry(status)

    def _is_entry(self, status: os.stat_result) -> bool:
        """A plain file, no larger than any that is written here, whose time is not over."""
        return (
            stat.S_ISREG(status.st_mode)
            and status.st_size <= self._max_bytes
            and not self._lifetime.is_over(Instant(status.st_mtime_ns // 1_000_000))
        )

    @contextlib.contextmanager
    def _shard(self, key: str) -> Iterator[int]:
        descriptor = os.open(f"{self._folder}/{key[:2]}", _FOLDER)
        try:
            yield descriptor
        finally:
            os.close(descriptor)

    def _read_file(self, key: str, shard: int) -> Data | None:
        descriptor = os.open(key, _READ, dir_fd=shard)
        try:
            status = os.fstat(descriptor)
            if not self._is_entry(status):
                return None
            data = self._content(descriptor, status.st_size)
            with contextlib.suppress(OSError):  # a file of another user, a read-only disk
                os.utime(descriptor, ns=(self._clock.now() * 1_000_000, status.st_mtime_ns))
            return data
        finally:
            os.close(descriptor)

    def _content(self, descriptor: int, size: int) -> Data:
        if size < SMALLEST_MAPPED or len(self._mapped) >= MOST_MAPPED:
            with os.fdopen(descriptor, "rb", buffering=0, closefd=False) as file:
                return file.read()
        mapped = mmap(descriptor, size, access=ACCESS_READ)
        self._mapped.add(mapped)
        return mapped

    def _try_write(self, key: str, parts: Sequence[Data], created: Instant) -> bool:
        room = room_of(size_of(parts))
        if room > self._max_bytes:
            return False
        try:
            self._make_room(room)
            self._place(key, parts, created)
        except OSError as error:
            if error.errno not in _ODD_FILE:
                self._breaker.trip(error)
            return False
        self._breaker.mend()
        return True

    def _place(self, key: str, parts: Sequence[Data], created: Instant) -> None:
        Path(self._folder, key[:2]).mkdir(parents=True, exist_ok=True, mode=0o700)
        temporary = f".{key}.{secrets.token_hex(8)}"
        with self._shard(key) as shard:
            descriptor = os.open(temporary, _CREATE, 0o600, dir_fd=shard)
            try:
                with os.fdopen(descriptor, "wb") as file:
                    file.writelines(parts)
                    file.flush()
                    os.utime(descriptor, ns=(self._clock.now() * 1_000_000, created * 1_000_000))
                os.rename(temporary, key, src_dir_fd=shard, dst_dir_fd=shard)
            except BaseException:
                with contextlib.suppress(OSError):
                    os.unlink(temporary, dir_fd=shard)
                raise

    def _make_room(self, room: int) -> None:
        with self._room:
            unswept = self._unswept_bytes
            if (
                unswept is None
                or unswept > self._max_bytes * SWEEP_AFTER_SHARE
                or self._used_bytes + room > self._max_bytes
            ):
                self._sweep(room)
            self._used_bytes += room
            self._entries += 1
            self._unswept_bytes = (self._unswept_bytes or 0) + room

    def _sweep(self, room: int) -> None:
        """Count the folder; remove what is over and, if there is no room, what was not used."""
        kept: list[EntryFile] = []
        for file in list_files(self._folder):
            if file.is_temporary:
                if is_stale_temporary(file):
                    file.remove()
            elif self._lifetime.is_over(file.created):
                file.remove()
                self.counters.add(evictions=1)
            else:
                kept.append(file)
        self._used_bytes = sum(file.room for file in kept)
        self._entries = len(kept)
        self._unswept_bytes = 0
        if self._used_bytes + room > self._max_bytes:
            self._evict(kept, max(0, round(self._max_bytes * FULL_AFTER_SWEEP) - room))

    def _evict(self, files: list[EntryFile], target: int) -> None:
        files.sort(key=lambda file: file.used_ns)
        for file in files:
            if self._used_bytes <= target:
                break
            file.remove()
            self._used_bytes -= file.room
            self._entries -= 1
            self.counters.add(evictions=1)
