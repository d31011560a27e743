"""A store, blobs and a keeper that looks at them."""

import os
import re
import signal
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

from comfyrail.clock import SystemClock
from comfyrail.ids import AssetId, TenantId, new_job_id
from comfyrail.results.disk_blobs import DiskBlobStore
from comfyrail.results.media.processes import MODULE, TASK_SECONDS, MediaProcesses
from comfyrail.results.media_keeper import MediaKeeper
from comfyrail.store.assets import Asset
from comfyrail.store.media import KnownMedia, MediaFile
from comfyrail.store.sqlite.store import SqliteStore, open_sqlite_store

TENANT = TenantId("t")


async def once(content: bytes) -> AsyncIterator[bytes]:
    yield content


class MediaHouse:
    def __init__(self, folder: Path, store: SqliteStore, processes: MediaProcesses) -> None:
        self.folder = folder
        self.store = store
        self.blobs = DiskBlobStore(folder / "blobs")
        self.processes = processes
        self.keeper = MediaKeeper(store, store.signals, self.blobs, processes)

    async def give(self, name: str, content: bytes, content_type: str) -> tuple[AssetId, str]:
        """A file of a user's: its id and its blob."""
        blob = await self.blobs.save(once(content))
        asset = Asset(
            AssetId(new_job_id()),
            TENANT,
            name,
            content_type,
            blob.size,
            blob.sha256,
            blob.blake3,
            blob.key,
            SystemClock().now(),
            None,
        )
        await self.store.add_asset(asset)
        self.blobs.settle([blob.key], are_kept=True)
        return asset.id, blob.key

    async def known(self, key: str, content_type: str = "image/png") -> KnownMedia | None:
        file = MediaFile(key, content_type)
        return (await self.store.media_of([file])).get(file)


@asynccontextmanager
async def media_house(
    folder: Path, task_seconds: float = TASK_SECONDS
) -> AsyncIterator[MediaHouse]:
    store = await open_sqlite_store(folder / "data", SystemClock())
    processes = MediaProcesses(folder / "media", task_seconds=task_seconds)
    try:
        yield MediaHouse(folder, store, processes)
    finally:
        await processes.close()
        await store.close()


def media_processes(parent: int | None = None) -> list[int]:
    """The ids of the media processes that a server, or this process by its parts, has."""
    wanted = os.getpid() if parent is None else parent
    return [process for process, its_parent in _all_processes() if its_parent == wanted]


def _all_processes() -> Iterator[tuple[int, int]]:
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            command = (entry / "cmdline").read_bytes()
            parent = int((entry / "stat").read_text().rpartition(")")[2].split()[1])
        except (OSError, IndexError):
            continue  # it has ended
        if re.search(rb"\0%s\0\d+\0" % re.escape(MODULE.encode()), command):
            yield int(entry.name), parent


def kill(process: int) -> None:
    os.kill(process, signal.SIGKILL)


@asynccontextmanager
async def stopped_process(processes: MediaProcesses, folder: Path) -> AsyncIterator[int]:
    """A media process that has done a task, and will be in the middle of the next one."""
    path = folder / "first.txt"
    path.write_text("a task")
    async with processes.look(path, "text/plain"):
        (process,) = media_processes()
    os.kill(process, signal.SIGSTOP)
    yield process
