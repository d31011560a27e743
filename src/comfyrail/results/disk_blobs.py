"""The blob store on a disk of this machine: what was saved has reached the disk (fsync)."""

import asyncio
import stat
from collections.abc import AsyncIterator, Callable, Collection, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

from comfyrail.disk import sync_folder
from comfyrail.results.blob_keys import blob_gone, check_key, is_key, is_shelf, key_of
from comfyrail.results.blob_store import StoredBlob, StoredFile
from comfyrail.results.file_blob import FileBlob
from comfyrail.results.in_hand import InHand
from comfyrail.results.incoming import IncomingFile, Receiver
from comfyrail.store.disk_trouble import disk_error


class DiskBlobStore:
    """Files under one folder, named by the SHA-256 of their content."""

    def __init__(self, folder: Path, refused: Callable[[], None] = lambda: None) -> None:
        """`refused` is called when the disk does not take something."""
        self._folder = folder
        self._in_hand = InHand()
        self._receiver = Receiver(folder / "incoming", refused)

    async def save(self, chunks: AsyncIterator[bytes]) -> StoredBlob:
        return await self._receiver.receive(chunks, self._keep, self._give_up)

    def _give_up(self, blob: StoredBlob) -> None:
        self.settle([blob.key], are_kept=False)

    def _keep(self, received: IncomingFile) -> StoredBlob:
        received.close(is_synced=True)
        key = key_of(received.sha256)
        target = self._folder / key
        if not target.parent.exists():
            target.parent.mkdir(exist_ok=True)
            sync_folder(self._folder)
        with self._in_hand.lock:
            received.path.replace(target)
            self._in_hand.take(key)
        try:
            sync_folder(target.parent)
        except BaseException:
            self.settle([key], are_kept=False)
            raise
        return StoredBlob(key, received.size, received.sha256, received.blake3)

    # Reading

    async def open(self, key: str) -> FileBlob:
        return await asyncio.to_thread(self._find, check_key(key))

    @asynccontextmanager
    async def local(self, key: str) -> AsyncIterator[Path]:
        with self._in_hand.reading(check_key(key)):
            yield (await self.open(key)).path

    async def signed_url(
        self, key: str, seconds: float, *, filename: str, content_type: str, is_inline: bool
    ) -> str | None:
        del key, seconds, filename, content_type, is_inline
        return None

    def _find(self, key: str) -> FileBlob:
        path = self._folder / key
        try:
            found = path.lstat()
        except (FileNotFoundError, NotADirectoryError) as error:
            raise blob_gone() from error
        except OSError as error:
            raise disk_error("The blob store", self._folder, error) from error
        if not stat.S_ISREG(found.st_mode):
            raise blob_gone()
        return FileBlob(path, found.st_size)

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
        return await asyncio.to_thread(self._looked_at, [key for key in keys if is_key(key)])

    async def files(self) -> AsyncIterator[Sequence[StoredFile]]:
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
            with self._in_hand.lock:
                is_in_hand = self._in_hand.is_saved(key)
                file = None if is_in_hand else _look_at(self._folder / key, key)
            if file is not None:
                found.append(file)
        return found

    async def remove(self, files: Sequence[StoredFile]) -> int:
        return await asyncio.to_thread(lambda: sum(map(self._remove, files)))

    def _shelves(self) -> list[Path]:
        return sorted(path for path in self._folder.iterdir() if is_shelf(path.name))

    def _remove(self, file: StoredFile) -> bool:
        path = self._folder / file.key
        with self._in_hand.lock:
            if self._in_hand.is_held(file.key) or _look_at(path, file.key) != file:
                return False
            try:
                path.unlink()
            except OSError:
                return False  # the disk is read-only, or somebody else was quicker
        return True

    async def move(self, key: str, tier: str) -> None:
        """All tiers are here."""

    async def close(self) -> None:
        """There is nothing to be closed."""


def _keys_on(shelf: Path) -> list[str]:
    try:
        names = [path.name for path in shelf.iterdir()]
    except OSError:
        return []  # it is no folder, or gone
    keys = (f"{shelf.name}/{name}" for name in names)
    return [key for key in keys if is_key(key)]


def _look_at(path: Path, key: str) -> StoredFile | None:
    try:
        found = path.lstat()
    except OSError:
        return None
    if not stat.S_ISREG(found.st_mode):
        return None
    return StoredFile(key, f"{found.st_ino}-{found.st_mtime_ns}", found.st_size)
