"""A folder of models that several workers, also of several servers, may share."""

import asyncio
import errno
import hashlib
import shutil
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import TypeVar

import aiohttp
import msgspec
import structlog

from comfyrail.clock import Clock
from comfyrail.errors import DriverRefused, WorkerUnreachable
from comfyrail.fleet.model_files.download import Downloader, DownloadLimits
from comfyrail.fleet.model_files.index import Index, KnownFile
from comfyrail.fleet.model_files.locks import FileLock, locked, try_lock, wait_for_lock
from comfyrail.fleet.model_files.manifest import ModelFile, find_fault
from comfyrail.fleet.model_files.part import READ_BYTES, Part, remove_part
from comfyrail.fleet.model_files.places import Places
from comfyrail.fleet.model_files.room import leaving_order, space_taken
from comfyrail.fleet.model_files.threads import in_thread

log = structlog.get_logger(__name__)

FETCHED_AT_ONCE = 3

Known = dict[str, KnownFile]
Answer = TypeVar("Answer")


@dataclass(frozen=True, slots=True)
class ModelProgress:
    """How far a file is that is being fetched."""

    path: str
    received: int
    size: int


class HeldModels:
    """Files that are there and stay until `release`."""

    def __init__(self, folder: "ModelFiles", locks: Mapping[str, FileLock]) -> None:
        self._folder = folder
        self._locks = dict(locks)

    @property
    def paths(self) -> Sequence[str]:
        """Below the models folder."""
        return tuple(self._locks)

    async def release(self) -> None:
        locks, self._locks = self._locks, {}
        if not locks:
            return
        try:
            # What was in use until now is not what was used long ago.
            await self._folder.note_use(locks)
        finally:
            for lock in locks.values():
                lock.release()


class ModelFiles:
    """Fetches what is missing, and removes what was not needed for longest when the files that
    were fetched here would take more than `limit_bytes` together.
    """

    def __init__(
        self,
        folder: Path,
        http: aiohttp.ClientSession,
        clock: Clock,
        *,
        limit_bytes: int | None = None,
        secrets: Mapping[str, str] = MappingProxyType({}),
        limits: DownloadLimits | None = None,
    ) -> None:
        self._places = Places(folder)
        self._index = Index(self._places.index)
        self._clock = clock
        self._limit = limit_bytes
        self._downloader = Downloader(http, clock, secrets, limits or DownloadLimits())
        self._parts: dict[str, tuple[ModelFile, Part]] = {}

    @property
    def folder(self) -> Path:
        return self._places.folder

    def progress(self) -> Sequence[ModelProgress]:
        """Of the files that this object is fetching now."""
        return [
            ModelProgress(path, part.length, file.size)
            for path, (file, part) in self._parts.items()
        ]

    async def ensure(self, manifest: Sequence[ModelFile]) -> HeldModels:
        """Return when all files are there with the right content; they stay while they are held.

        Raises DriverRefused for what a person must mend, WorkerUnreachable for what may pass; what
        had arrived until then is kept, and the next call goes on from there.
        """
        fault = find_fault(manifest)
        if fault is not None:
            raise DriverRefused(f"The list of models is wrong at '{fault[0]}': {fault[1]}")
        files = {file.path: file for file in manifest}
        locks: dict[str, FileLock] = {}
        try:
            await in_thread(self._places.make)
            for path in files:
                lock_path = self._places.use_lock(path)
                locks[path] = await wait_for_lock(lock_path, shared=True)
            await self._fetch_all(files)
            await self.note_use(files)
        except BaseException as error:
            for lock in locks.values():
                lock.release()
            if isinstance(error, OSError):
                raise self._disk_trouble(error) from error
            raise
        return HeldModels(self, locks)

    async def note_use(self, paths: Collection[str]) -> None:
        now = self._clock.now() / 1000

        def note(known: Known) -> None:
            for path in paths:
                if path in known:
                    known[path] = msgspec.structs.replace(known[path], used_at=now)

        await self._change(note)

    async def _fetch_all(self, files: Mapping[str, ModelFile]) -> None:
        turns = asyncio.Semaphore(FETCHED_AT_ONCE)

        async def bring(file: ModelFile) -> None:
            async with turns, locked(self._places.download_lock(file.path)):
                if not await self._is_there(file):
                    await self._fetch(file, files)

        try:
            async with asyncio.TaskGroup() as group:
                for file in files.values():
                    group.create_task(bring(file), name=f"model-{file.path}")
        except BaseExceptionGroup as several:
            # The first one tells enough, and callers know what to do with it.
            raise several.exceptions[0] from several

    async def _is_there(self, file: ModelFile) -> bool:
        """Whether the file is there with this content; one of another content that is not ours
        to replace is an error.
        """
        target = self._places.target(file.path)
        found = await in_thread(_state_of, target)
        if found is None:
            return False
        size, modified = found
        known = (await self._change(lambda known: known.get(file.path))) or None
        wanted = file.sha256.lower()
        is_unchanged = (
            known is not None and not known.arriving and (known.size, known.modified_ns) == found
        )
        digest = known.sha256 if known and is_unchanged else None
        if digest is None and size == file.size:
            digest = await _digest_of(target)
        if digest == wanted:
            seen = KnownFile(
                sha256=wanted,
                size=size,
                used_at=self._clock.now() / 1000,
                fetched=known is not None and known.fetched,
                modified_ns=modified,
            )
            await self._change(lambda known: known.update({file.path: seen}))
            return True
        if known is not None and known.fetched and is_unchanged:
            return False
        raise DriverRefused(
            f"{target} is there and is not the model that the manifest names: its content differs, "
            "and Comfyrail did not put it there. Rename or remove it, or correct the manifest.",
            code="MODEL_FILE_DIFFERS",
            details={"model": file.path},
        )

    async def _fetch(self, file: ModelFile, manifest: Mapping[str, ModelFile]) -> None:
        path = file.path
        await in_thread(self._places.make_parent, path)
        await self._change(lambda known: self._make_room(known, file, manifest))
        part = Part(self._places.part(path), self._places.note(path), file)
        self._parts[path] = (file, part)
        started = self._clock.monotonic()
        try:
            await part.open(file.size)
            await in_thread(self._check_disk, file, part.length)
            await self._downloader.complete(file, part)
            target = self._places.target(path)
            await part.move_to(target)
        except DriverRefused:
            if not part.length:
                await part.remove()
            if part.is_removed:
                await self._change(lambda known: known.pop(path, None))
            raise
        finally:
            del self._parts[path]
            await part.close()
        await self._remember(file)
        seconds = self._clock.monotonic() - started
        log.info("model_fetched", path=path, bytes=file.size, seconds=round(seconds, 3))

    async def _remember(self, file: ModelFile) -> None:
        found = await in_thread(_state_of, self._places.target(file.path))
        arrived = KnownFile(
            sha256=file.sha256.lower(),
            size=file.size,
            used_at=self._clock.now() / 1000,
            modified_ns=found[1] if found else 0,
        )
        await self._change(lambda known: known.update({file.path: arrived}))

    def _make_room(self, known: Known, file: ModelFile, manifest: Mapping[str, ModelFile]) -> None:
        """Count the file as there, and remove others until all fit. Blocks."""
        # One of another content under this name was fetched for a manifest that has changed.
        self._places.target(file.path).unlink(missing_ok=True)
        known[file.path] = KnownFile(
            sha256=file.sha256.lower(),
            size=file.size,
            used_at=self._clock.now() / 1000,
            arriving=True,
        )
        if self._limit is None:
            return
        for path in leaving_order(known, manifest):
            if space_taken(known) <= self._limit:
                return
            if self._remove_unused(path):
                log.info("model_removed", path=path, bytes=known[path].size)
                del known[path]
        if space_taken(known) > self._limit:
            del known[file.path]
            raise self._no_room(file, manifest)

    def _remove_unused(self, path: str) -> bool:
        """Remove a file and its part, unless a worker uses it or somebody fetches it."""
        use = try_lock(self._places.use_lock(path))
        download = try_lock(self._places.download_lock(path))
        try:
            if use is None or download is None or not self._places.is_inside(path):
                return False
            self._places.target(path).unlink(missing_ok=True)
            remove_part(self._places.part(path), self._places.note(path))
            return True
        finally:
            for lock in (use, download):
                if lock is not None:
                    lock.release()

    def _no_room(
        self, file: ModelFile, manifest: Mapping[str, ModelFile]
    ) -> DriverRefused | WorkerUnreachable:
        needed = sum(each.size for each in manifest.values())
        limit = self._limit or 0
        if needed > limit:
            return DriverRefused(
                f"The models of this worker need {needed:,} bytes and 'model_limit' allows "
                f"{limit:,}. Raise the limit or shorten the list.",
                code="MODELS_DO_NOT_FIT",
            )
        return WorkerUnreachable(
            f"There is no room for the model {file.path} within {limit:,} bytes: the other models "
            f"in {self.folder} are in use. Raise 'model_limit', or wait until a worker ends.",
            code="MODELS_DO_NOT_FIT",
        )

    def _check_disk(self, file: ModelFile, received: int) -> None:
        free = shutil.disk_usage(self.folder).free
        if free < file.size - received:
            raise OSError(errno.ENOSPC, f"{free:,} bytes are free", str(self.folder))

    def _disk_trouble(self, error: OSError) -> WorkerUnreachable:
        return WorkerUnreachable(
            f"The models folder {self.folder} cannot be used: {error.strerror or error}. "
            "Make room on its disk or mend its permissions; the worker is tried again.",
            code="MODELS_FOLDER_UNUSABLE",
        )

    async def _change(self, change: Callable[[Known], Answer]) -> Answer:
        """Let `change` look at the index and alter it, alone among all processes."""

        def work() -> Answer:
            known = self._index.read()
            before = dict(known)
            answer = change(known)
            if known != before:
                self._index.write(known)
            return answer

        async with locked(self._places.index_lock):
            return await in_thread(work)


def _state_of(path: Path) -> tuple[int, int] | None:
    """Size and time of change of a file, or None where there is none."""
    try:
        state = path.stat()
    except FileNotFoundError:
        return None
    if not path.is_file():
        raise DriverRefused(
            f"{path} is no file, and a model is to be there. Rename or remove it.",
            code="MODEL_FILE_DIFFERS",
        )
    return state.st_size, state.st_mtime_ns


async def _digest_of(path: Path) -> str:
    digest = hashlib.sha256()
    file = await in_thread(path.open, "rb")
    try:
        while content := await in_thread(file.read, READ_BYTES):
            await in_thread(digest.update, content)
    finally:
        await in_thread(file.close)
    return digest.hexdigest()
