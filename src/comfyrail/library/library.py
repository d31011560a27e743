"""The library as use cases see it: every tenant's folder, without blocking the event loop."""

import asyncio
import contextlib
import tempfile
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping
from concurrent.futures import Executor, ThreadPoolExecutor
from pathlib import Path
from typing import Any, BinaryIO, TypeVar

from comfyrail.errors import ConfigurationError, PayloadTooLarge, StoreUnavailable
from comfyrail.ids import TenantId
from comfyrail.library.bundles import LARGEST_BUNDLE, BundleReader, write_bundle
from comfyrail.library.files import LIMITS, Files, check_files
from comfyrail.library.folder import (
    LibraryFolder,
    LibraryPage,
    StoredVersion,
    VersionSummary,
    folders_in,
)
from comfyrail.library.names import LIBRARY_FOLDER, TENANTS_FOLDER, check_name, library_path
from comfyrail.library.writer import Added, FolderWriter
from comfyrail.store.disk_trouble import disk_error

READERS = 4
EXPORTERS = 2
"""Threads. Neither many exports nor what else the process does in threads keeps reads waiting."""
MOST_WAITING = 32
"""Writes that may wait for the one thread that writes."""
CHUNK = 1 << 20

Result = TypeVar("Result")
Check = Callable[[Files], None]
"""Judges the files of a version before they are kept, in a thread. Raises what is to be said."""


class WorkflowLibrary:
    def __init__(self, data: Path, local: TenantId) -> None:
        self._data = data
        self._local = local
        self._writer = ThreadPoolExecutor(1, thread_name_prefix="library-writer")
        self._readers = ThreadPoolExecutor(READERS, thread_name_prefix="library-reader")
        self._exporters = ThreadPoolExecutor(EXPORTERS, thread_name_prefix="library-exporter")
        self._waiting = 0
        try:
            FolderWriter(self._folder(local)).make()
            for root in _roots(data):
                FolderWriter(LibraryFolder(root, data)).clear_leftovers()
        except OSError as error:
            raise ConfigurationError(
                f"The library in {data} cannot be written: {error.strerror}.",
                code="DATA_FOLDER_UNWRITABLE",
            ) from error

    def close(self) -> None:
        """Finish the writes and the reads under way."""
        for executor in (self._writer, self._readers, self._exporters):
            executor.shutdown()

    async def in_thread(self, work: Callable[..., Result], *arguments: Any) -> Result:
        """Do what blocks, in the threads of those who read."""
        return await _in_thread(self._readers, self._data, work, *arguments)

    # Reading

    async def page(self, tenant: TenantId, after: str, limit: int) -> LibraryPage:
        return await self.in_thread(self._folder(tenant).page, after, limit)

    async def versions(self, tenant: TenantId, name: str) -> list[VersionSummary]:
        return await self.in_thread(self._folder(tenant).summaries, name)

    async def read(
        self,
        tenant: TenantId,
        name: str,
        version: int | None = None,
        wanted: Iterable[str] = LIMITS,
    ) -> StoredVersion:
        return await self.in_thread(self._folder(tenant).read, name, version, wanted)

    async def export_bundle(self, tenant: TenantId, name: str, version: int | None) -> BinaryIO:
        """A file with the bundle, which is nowhere else: close it, and it is gone."""
        folder = self._folder(tenant)
        return await _in_thread(self._exporters, self._data, self._export, folder, name, version)

    # Writing

    async def save(
        self, tenant: TenantId, name: str, changes: Mapping[str, bytes | None], check: Check
    ) -> Added:
        """Make the next version: the files of the newest, with changes."""

        def work(writer: FolderWriter) -> Added:
            check_name(name)
            files = writer.merged(name, changes)
            return writer.add(name, _checked([files], check))

        return await self._write(tenant, work)

    async def replace_preview(self, tenant: TenantId, name: str, content: bytes) -> int:
        return await self._write(tenant, lambda writer: writer.replace_preview(name, content))

    async def delete(self, tenant: TenantId, name: str) -> None:
        await self._write(tenant, lambda writer: writer.delete(name))

    async def import_bundle(
        self,
        tenant: TenantId,
        chunks: AsyncIterator[bytes],
        name: str | None,
        *,
        replace: bool,
        check: Check,
    ) -> Added:
        """Keep a bundle's versions, in order, under its own name or another.

        Where the name is taken they become the newest versions if `replace` is asked for.
        """

        def work(writer: FolderWriter) -> Added:
            reader = BundleReader(file)
            wanted = name or reader.name or ""
            check_name(wanted)
            return writer.add(wanted, _checked(reader.versions(), check), only_new=not replace)

        with await self.in_thread(self._scratch_file) as file:
            await self._receive(chunks, file)
            return await self._write(tenant, work)

    def _folder(self, tenant: TenantId) -> LibraryFolder:
        return LibraryFolder(library_path(self._data, tenant, self._local), self._data)

    async def _write(self, tenant: TenantId, work: Callable[[FolderWriter], Result]) -> Result:
        """One write after the other, each to its end even when nobody waits for it any more."""
        if self._waiting >= MOST_WAITING:
            raise StoreUnavailable("Too many changes of the library wait.", retry_after=1.0)
        writer = FolderWriter(self._folder(tenant))

        def run() -> Result:
            with _disk_errors(self._data):
                writer.make()
                return work(writer)

        self._waiting += 1
        try:
            return await asyncio.get_running_loop().run_in_executor(self._writer, run)
        finally:
            self._waiting -= 1

    async def _receive(self, chunks: AsyncIterator[bytes], file: BinaryIO) -> None:
        size, buffer = 0, bytearray()
        async for chunk in chunks:
            size += len(chunk)
            if size > LARGEST_BUNDLE:
                raise PayloadTooLarge(
                    f"The bundle is larger than {LARGEST_BUNDLE >> 20} MiB.",
                    details={"limit": LARGEST_BUNDLE},
                )
            buffer += chunk
            if len(buffer) >= CHUNK:
                await self.in_thread(file.write, bytes(buffer))
                buffer.clear()
        await self.in_thread(file.write, bytes(buffer))

    def _export(self, folder: LibraryFolder, name: str, version: int | None) -> BinaryIO:
        file = self._scratch_file()
        try:
            write_bundle(folder, name, version, file)
        except BaseException:
            file.close()
            raise
        file.seek(0)
        return file

    def _scratch_file(self) -> BinaryIO:
        """A file without a name: it goes with whoever has it open."""
        writer = FolderWriter(self._folder(self._local))
        writer.make()
        return tempfile.TemporaryFile(dir=writer.incoming)


def _checked(contents: Iterable[Files], check: Check) -> Iterator[Files]:
    for files in contents:
        check_files(files)
        check(files)
        yield files


def _roots(data: Path) -> Iterator[Path]:
    """The folder of every tenant that has one."""
    yield data / LIBRARY_FOLDER
    for name in folders_in(data / TENANTS_FOLDER):
        yield data / TENANTS_FOLDER / name / LIBRARY_FOLDER


async def _in_thread(
    executor: Executor, data: Path, work: Callable[..., Result], *arguments: Any
) -> Result:
    def run() -> Result:
        with _disk_errors(data):
            return work(*arguments)

    return await asyncio.get_running_loop().run_in_executor(executor, run)


@contextlib.contextmanager
def _disk_errors(data: Path) -> Iterator[None]:
    """What the disk refuses is not the fault of whoever asks."""
    try:
        yield
    except OSError as error:
        raise disk_error("The library", data, error) from error
