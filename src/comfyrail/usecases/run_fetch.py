"""Bringing the outputs of a run to the folder that it was asked for. Once, whatever happens."""

import asyncio
import contextlib
import os
import shutil
import stat
from collections.abc import Sequence
from pathlib import Path

from comfyrail.disk import sync_folder
from comfyrail.errors import RequestError
from comfyrail.ids import TenantId
from comfyrail.jobs.job import Output
from comfyrail.results.blob_store import BlobReads
from comfyrail.usecases.run_folders import RunFolders
from comfyrail.usecases.run_record import FetchedFile

MOST_NAMES = 10_000
CHUNK = 1 << 20


class OutputFetcher:
    """Names are decided first and written down by the caller. A file that is brought keeps a second
    name, hidden and known by its output, until the caller has written down that it is there: so
    after a break it is known as the run's own, whatever bytes other runs have brought. What others
    have there stays.
    """

    def __init__(self, folders: RunFolders, blobs: BlobReads) -> None:
        self._folders = folders
        self._blobs = blobs

    async def plan(
        self, tenant: TenantId, folder: Path, outputs: Sequence[Output]
    ) -> list[FetchedFile]:
        """A name for each output that nothing in the folder has."""
        return await asyncio.to_thread(self._plan, tenant, folder, outputs)

    async def bring(self, tenant: TenantId, folder: Path, output: Output, name: str) -> bool:
        """Write one file; when this returns it is on disk. False: somebody else has the name."""
        async with self._blobs.local(output.file.blob_key) as source:
            return await asyncio.to_thread(self._bring, tenant, folder, output, name, source)

    async def settle(self, tenant: TenantId, folder: Path, outputs: Sequence[Output]) -> None:
        """Take the hidden names away of those that are written down as brought."""
        await asyncio.to_thread(self._settle, tenant, folder, outputs)

    def _plan(self, tenant: TenantId, folder: Path, outputs: Sequence[Output]) -> list[FetchedFile]:
        self._open(tenant, folder)
        taken = {path.name for path in folder.iterdir()}
        planned = []
        for output in outputs:
            name = free_name(output.file.filename, taken)
            taken.add(name)
            planned.append(FetchedFile(output_id=output.file.id, filename=name))
        return planned

    def _bring(
        self, tenant: TenantId, folder: Path, output: Output, name: str, source: Path
    ) -> bool:
        self._open(tenant, folder)
        target, part = folder / name, _hidden(folder, output)
        if os.path.lexists(target):
            return _is_same_file(target, part)
        part.unlink(missing_ok=True)
        try:
            _write(part, source)
        except BaseException:
            part.unlink(missing_ok=True)
            raise
        try:
            os.link(part, target)  # unlike a rename it replaces nothing
        except FileExistsError:
            part.unlink(missing_ok=True)
            return False
        sync_folder(folder)
        return True

    def _settle(self, tenant: TenantId, folder: Path, outputs: Sequence[Output]) -> None:
        if self._folders.contains(tenant, folder):
            for output in outputs:
                with contextlib.suppress(FileNotFoundError, NotADirectoryError):
                    _hidden(folder, output).unlink()

    def _open(self, tenant: TenantId, folder: Path) -> None:
        """Make the folder. Links may have come since it was allowed: it is looked at again."""
        if not self._folders.contains(tenant, folder):
            raise RequestError(
                f"{folder} is not in a folder that this server allows for runs.",
                code="PATH_REFUSED",
            )
        folder.mkdir(parents=True, exist_ok=True)


def free_name(filename: str, taken: set[str]) -> str:
    """The name, or one with a number behind it that is not taken."""
    if filename not in taken:
        return filename
    stem, dot, suffix = filename.rpartition(".")
    stem, suffix = (stem, dot + suffix) if stem else (filename, "")
    for number in range(1, MOST_NAMES):
        name = f"{stem} ({number}){suffix}"
        if name not in taken:
            return name
    raise RequestError(
        f"The output folder has too many files named like {filename!r}. Empty it, or take another.",
        code="OUTPUT_FOLDER_FULL",
    )


def _write(part: Path, source: Path) -> None:
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW
    with source.open("rb") as given, os.fdopen(os.open(part, flags, 0o644), "wb") as file:
        shutil.copyfileobj(given, file, CHUNK)
        file.flush()
        os.fsync(file.fileno())


def _hidden(folder: Path, output: Output) -> Path:
    return folder / f".{output.file.id}.part"


def _is_same_file(one: Path, other: Path) -> bool:
    """Two names of one file; a link is none."""
    try:
        first, second = one.lstat(), other.lstat()
    except OSError:
        return False
    return stat.S_ISREG(first.st_mode) and os.path.samestat(first, second)
