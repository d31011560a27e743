"""The blob store on local disk: content-addressed, so equal files are kept once."""

import asyncio
import hashlib
import os
import re
import stat
import tempfile
import threading
from collections import Counter
from collections.abc import AsyncIterator, Callable, Collection, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, TypeVar

from blake3 import blake3

from comfyrail.disk import sync_folder
from comfyrail.errors import ConfigurationError, OutputNotFound
from comfyrail.store.disk_trouble import disk_error

WRITE_SIZE = 1 << 20
Result = TypeVar("Result")

_KEY = re.compile(r"[0-9a-f]{2}/[0-9a-f]{64}")
_SHELF = re.compile(r"[0-9a-f]{2}")


@dataclass(frozen=True, slots=True)
class StoredBlob:
    key: str
    size: int
    sha256: str
    blake3: str


@dataclass(frozen=True, slots=True)
class StoredFile:
    """A blob as it was when someone looked: one that is saved again is another file."""

    key: str
    inode: int
    changed_at: int


class LocalBlobStore:
    """Files under one folder, named by the SHA-256 of their content.

    What was saved is in hand until it is settled: nothing refers to it yet, and it must not go.
    """

    def __init__(self, folder: Path, refused: Callable[[], None] = lambda: None) -> None:
        """`refused` is called when the disk does not take something."""
        self._folder = folder
        self._incoming = folder / "incoming"
        self._refused = refused
        self._naming = threading.Lock()
        """Held while a file gets its name, and while one is looked at and removed: content that is
        saved again must not go because it was there before."""
        self._in_hand: Counter[str] = Counter()
        self._doubtful: set[str] = set()
        try:
            self._incoming.mkdir(parents=True, exist_ok=True)
            for leftover in self._incoming.iterdir():
                leftover.unlink()
        except OSError as error:
            raise ConfigurationError(
                f"The blob folder {folder} cannot be written: {error.strerror}.",
                code="DATA_FOLDER_UNWRITABLE",
            ) from error

    async def save(self, chunks: AsyncIterator[bytes]) -> StoredBlob:
        """Keep the bytes; when this returns they are on disk (fsync).

        Raises StoreUnavailable, or the kind of it that says what is wrong, when the disk does not
        take them.
        """
        incoming: _Incoming | None = None
        buffer = bytearray()
        try:
            async for chunk in chunks:
                buffer += chunk
                if len(buffer) >= WRITE_SIZE:
                    incoming = await self._to_its_end(
                        _Incoming.discard, self._receive, incoming, bytes(buffer)
                    )
                    buffer.clear()
        except BaseException:
            if incoming is not None:
                incoming.discard()
            raise
        # Most outputs are small: opened, written, synced and named in one go.
        return await self._to_its_end(self._give_up, self._keep, incoming, bytes(buffer))

    def path_of(self, key: str) -> Path:
        """Where the bytes are; raises OutputNotFound where there are none."""
        path = self._folder / key
        if not _KEY.fullmatch(key) or not path.is_file():
            raise OutputNotFound("The output's file is gone from the blob store.")
        return path

    def _give_up(self, blob: StoredBlob) -> None:
        self.settle([blob.key], are_kept=False)

    # What the sweeper asks

    @property
    def has_in_hand(self) -> bool:
        return bool(self._in_hand)

    def settle(self, keys: Collection[str], *, are_kept: bool) -> None:
        """Whoever saved these has written down what refers to them, or never will."""
        with self._naming:
            self._in_hand.subtract(keys)
            for key in keys:
                if self._in_hand[key] <= 0:
                    del self._in_hand[key]
            if not are_kept:
                self._doubtful.update(keys)

    def doubt(self, keys: Collection[str]) -> None:
        """Nothing may refer to these."""
        with self._naming:
            self._doubtful.update(keys)

    def take_doubtful(self) -> Sequence[StoredFile]:
        """What was saved in vain since the last call, as far as it is there and not in hand."""
        with self._naming:
            keys, self._doubtful = sorted(self._doubtful), set()
        return self._looked_at(keys)

    async def files(self) -> AsyncIterator[Sequence[StoredFile]]:
        """Everything that is there and not in hand, a part of it at a time."""
        for shelf in await asyncio.to_thread(self._shelves):
            keys = await asyncio.to_thread(_keys_on, shelf)
            files = await asyncio.to_thread(self._looked_at, keys)
            if files:
                yield files

    def _looked_at(self, keys: Sequence[str]) -> list[StoredFile]:
        """What is in hand is left out now, not later: what is not in hand any more when it is to
        be removed may have been written down since somebody asked what is.
        """
        found = []
        for key in keys:
            with self._naming:
                file = None if key in self._in_hand else _look_at(self._folder / key, key)
            if file is not None:
                found.append(file)
        return found

    async def remove(self, files: Sequence[StoredFile]) -> int:
        """Remove those that nobody has in hand or has saved again since they were looked at; how
        many that were.
        """
        return await asyncio.to_thread(lambda: sum(map(self._remove, files)))

    def _shelves(self) -> list[Path]:
        return sorted(path for path in self._folder.iterdir() if _SHELF.fullmatch(path.name))

    def _remove(self, file: StoredFile) -> bool:
        path = self._folder / file.key
        with self._naming:
            if file.key in self._in_hand or _look_at(path, file.key) != file:
                return False
            try:
                path.unlink()
            except OSError:
                return False  # the disk is read-only, or somebody else was quicker
        return True

    def _receive(self, incoming: "_Incoming | None", data: bytes) -> "_Incoming":
        incoming = incoming or _Incoming(self._incoming)
        try:
            incoming.write(data)
        except BaseException:
            incoming.discard()
            raise
        return incoming

    def _keep(self, incoming: "_Incoming | None", rest: bytes) -> StoredBlob:
        received = self._receive(incoming, rest)
        try:
            digest = received.finish()
            key = f"{digest[:2]}/{digest}"
            target = self._folder / key
            if not target.parent.exists():
                target.parent.mkdir(exist_ok=True)
                sync_folder(self._folder)
            with self._naming:
                received.path.replace(target)
                self._in_hand[key] += 1
        except BaseException:
            received.discard()
            raise
        try:
            sync_folder(target.parent)
        except BaseException:
            self.settle([key], are_kept=False)
            raise
        return StoredBlob(key, received.size, digest, received.blake3)

    async def _to_its_end(
        self, undo: Callable[[Result], None], work: Callable[..., Result], *arguments: Any
    ) -> Result:
        """Run it in a thread. When nobody waits for it any more, `undo` gets what it made."""
        doing = asyncio.ensure_future(self._on_disk(work, *arguments))

        def clean_up(done: "asyncio.Future[Result]") -> None:
            if not done.cancelled() and done.exception() is None:
                undo(done.result())

        try:
            return await asyncio.shield(doing)
        except asyncio.CancelledError:
            doing.add_done_callback(clean_up)
            raise

    async def _on_disk(self, work: Callable[..., Result], *arguments: Any) -> Result:
        """Run it in a thread; what the disk refuses is not the fault of whoever sends the bytes."""
        try:
            return await asyncio.to_thread(work, *arguments)
        except OSError as error:
            self._refused()
            raise disk_error("The blob store", self._folder, error) from error


class _Incoming:
    """A file being received; it gets its name when all of it is there."""

    def __init__(self, folder: Path) -> None:
        descriptor, name = tempfile.mkstemp(dir=folder)
        self.path = Path(name)
        self.size = 0
        self._file: IO[bytes] = os.fdopen(descriptor, "wb")
        self._hash = hashlib.sha256()
        self._blake3 = blake3()

    def write(self, data: bytes) -> None:
        self._file.write(data)
        self._hash.update(data)
        self._blake3.update(data)
        self.size += len(data)

    def finish(self) -> str:
        self._file.flush()
        os.fsync(self._file.fileno())
        self._file.close()
        return self._hash.hexdigest()

    @property
    def blake3(self) -> str:
        return self._blake3.hexdigest()

    def discard(self) -> None:
        try:
            self._file.close()  # which writes what is left of it, or tries to
        except OSError:
            pass  # it is not wanted any more
        finally:
            self.path.unlink(missing_ok=True)


def _keys_on(shelf: Path) -> list[str]:
    try:
        names = [path.name for path in shelf.iterdir()]
    except OSError:
        return []  # it is no folder, or gone
    keys = (f"{shelf.name}/{name}" for name in names)
    return [key for key in keys if _KEY.fullmatch(key)]


def _look_at(path: Path, key: str) -> StoredFile | None:
    try:
        found = path.lstat()
    except OSError:
        return None
    if not stat.S_ISREG(found.st_mode):
        return None
    return StoredFile(key, found.st_ino, found.st_mtime_ns)
