"""Bringing the outputs of a run to the folder that it was asked for. Once, whatever happens."""

import asyncio
import hashlib
import os
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path

from comfyrail.disk import sync_folder
from comfyrail.errors import RequestError
from comfyrail.ids import TenantId
from comfyrail.jobs.job import Output
from comfyrail.usecases.run_folders import RunFolders
from comfyrail.usecases.run_record import FetchedFile

MOST_NAMES = 10_000
CHUNK = 1 << 20


class OutputFetcher:
    """Names are decided first and written down by the caller; a file that is there already under
    its name, with the same bytes, is not written again. What others have there stays.
    """

    def __init__(self, folders: RunFolders, path_of: Callable[[str], Path]) -> None:
        """`path_of`: where the bytes of a blob are."""
        self._folders = folders
        self._path_of = path_of

    async def plan(
        self, tenant: TenantId, folder: Path, outputs: Sequence[Output]
    ) -> list[FetchedFile]:
        """A name for each output that nothing in the folder has."""
        return await asyncio.to_thread(self._plan, tenant, folder, outputs)

    async def bring(self, tenant: TenantId, folder: Path, output: Output, name: str) -> bool:
        """Write one file; when this returns it is on disk. False: somebody else has the name."""
        return await asyncio.to_thread(self._bring, tenant, folder, output, name)

    def _plan(self, tenant: TenantId, folder: Path, outputs: Sequence[Output]) -> list[FetchedFile]:
        self._open(tenant, folder)
        taken = {path.name for path in folder.iterdir()}
        planned = []
        for output in outputs:
            name = free_name(output.file.filename, taken)
            taken.add(name)
            planned.append(FetchedFile(output_id=output.file.id, filename=name))
        return planned

    def _bring(self, tenant: TenantId, folder: Path, output: Output, name: str) -> bool:
        self._open(tenant, folder)
        target = folder / name
        if target.is_symlink() or target.exists():
            return _has_bytes(target, output)
        part = folder / f".{output.file.id}.part"
        part.unlink(missing_ok=True)
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW
        try:
            with (
                self._path_of(output.file.blob_key).open("rb") as source,
                os.fdopen(os.open(part, flags, 0o644), "wb") as file,
            ):
                shutil.copyfileobj(source, file, CHUNK)
                file.flush()
                os.fsync(file.fileno())
            try:
                os.link(part, target)  # unlike a rename it replaces nothing
            except FileExistsError:
                return _has_bytes(target, output)
            sync_folder(folder)
            return True
        finally:
            part.unlink(missing_ok=True)

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


def _has_bytes(path: Path, output: Output) -> bool:
    if path.is_symlink() or not path.is_file() or path.stat().st_size != output.file.size:
        return False
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while chunk := file.read(CHUNK):
            digest.update(chunk)
    return digest.hexdigest() == output.file.sha256
