"""How versions get into a tenant's folder, and workflows out of it.

A version is written aside, synced, and gets its name by one rename: it is there as a whole or not
at all, whatever ends the process. One writer at a time is expected; where there are two, the rename
still gives them different versions.
"""

import contextlib
import errno
import os
import shutil
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import structlog

from comfyrail.disk import sync_folder, write_synced
from comfyrail.errors import Conflict, InvalidLibraryEntry, LibraryEntryNotFound
from comfyrail.ids import new_uuid
from comfyrail.library.files import (
    LIMITS,
    PREVIEW_FILE,
    WORKFLOW_FILE,
    Files,
    is_folder,
    is_regular,
)
from comfyrail.library.folder import (
    VERSIONS_FOLDER,
    LibraryFolder,
    folders_in,
    kept_numbers,
    version_folders,
)
from comfyrail.library.names import check_name

log = structlog.get_logger(__name__)

INCOMING_FOLDER = ".incoming"
MOST_ENTRIES = 10_000
MOST_VERSIONS = 1000
TAKEN = {errno.ENOTEMPTY, errno.EEXIST, errno.ENOTDIR}
"""The last one is for a file or a link, and for other things too."""


@dataclass(frozen=True, slots=True)
class Added:
    name: str
    versions: tuple[int, ...]
    is_new: bool


class FolderWriter:
    """Everything here blocks: call it in a thread."""

    def __init__(self, folder: LibraryFolder) -> None:
        self._folder = folder
        self._root = folder.root
        self.incoming = folder.root / INCOMING_FOLDER

    def make(self) -> None:
        """Make the folder where it is not there yet."""
        missing = [each for each in (self.incoming, *self.incoming.parents) if not each.exists()]
        self.incoming.mkdir(parents=True, exist_ok=True)
        for made in reversed(missing):
            sync_folder(made.parent)

    def clear_leftovers(self) -> None:
        """Remove what an end in the middle of a write has left behind."""
        if is_folder(self.incoming):
            for leftover in self.incoming.iterdir():
                _remove(leftover)

    def merged(self, name: str, changes: Mapping[str, bytes | None]) -> Files:
        """The newest version's files with changes; None takes a file away."""
        files: dict[str, bytes] = {}
        with contextlib.suppress(LibraryEntryNotFound):
            kept = [each for each in LIMITS if each not in changes]
            files |= self._folder.read(name, wanted=kept).files
        return files | {each: content for each, content in changes.items() if content is not None}

    def add(self, name: str, contents: Iterable[Files], *, only_new: bool = False) -> Added:
        """Keep files as new versions, in order; all of them are written before any is seen.

        Raises Conflict where `only_new` is asked for and the name is taken.
        """
        check_name(name)
        entry = self._root / name
        if only_new and version_folders(entry):
            raise Conflict(
                f"There is a workflow '{name}' already. Import it under another name (name, or "
                "--name NAME), or as newest versions of that one (replace=true, or --replace).",
                code="WORKFLOW_EXISTS",
                details={"name": name},
            )
        with self._staging() as stage:
            count = _stage_versions(stage, contents)
            if not os.path.lexists(entry):
                self._check_room(name)
                _copy_files(stage / VERSIONS_FOLDER / str(count), stage)
                sync_folder(stage)
                if _rename(stage, entry):
                    sync_folder(self._root)
                    return Added(name, tuple(range(1, count + 1)), is_new=True)
            return self._append(stage / VERSIONS_FOLDER, entry, count)

    def replace_preview(self, name: str, content: bytes) -> int:
        """Set the newest version's preview; returns the number of that version."""
        newest = self._folder.numbers(name)[-1]
        entry = self._root / name
        self._adopt(entry)
        folder = entry / VERSIONS_FOLDER / str(newest)
        with self._staging() as stage:
            write_synced(stage / PREVIEW_FILE, content)
            (stage / PREVIEW_FILE).replace(folder / PREVIEW_FILE)
        sync_folder(folder)
        self._refresh_top(entry, newest)
        return newest

    def delete(self, name: str) -> None:
        """Remove a workflow with all its versions."""
        self._folder.numbers(name)
        with self._staging() as stage:
            (self._root / name).rename(stage / name)
            sync_folder(self._root)

    @contextlib.contextmanager
    def _staging(self) -> Iterator[Path]:
        """A folder to write in; what is still in it at the end goes."""
        stage = self.incoming / new_uuid()
        stage.mkdir()
        try:
            yield stage
        finally:
            _remove(stage)

    def _append(self, staged: Path, entry: Path, count: int) -> Added:
        self._adopt(entry)
        known = tuple(version_folders(entry))
        if len(known) + count > MOST_VERSIONS:
            raise Conflict(
                f"The workflow '{entry.name}' would have more than {MOST_VERSIONS} versions. "
                "Export it, delete it, and import what you need.",
                code="LIBRARY_FULL",
                details={"limit": MOST_VERSIONS},
            )
        versions = entry / VERSIONS_FOLDER
        number = known[-1] if known else 0
        placed = []
        for each in range(1, count + 1):
            number = _place(staged / str(each), versions, number + 1)
            placed.append(number)
        sync_folder(versions)
        self._refresh_top(entry, number)
        return Added(entry.name, tuple(placed), is_new=not known)

    def _adopt(self, entry: Path) -> None:
        """Make sure of the folder of versions; what was made by hand becomes version 1."""
        versions = entry / VERSIONS_FOLDER
        for path in (entry, versions):
            if os.path.lexists(path) and not is_folder(path):
                raise self._in_the_way(path)
        versions.mkdir(exist_ok=True)
        sync_folder(entry)
        if kept_numbers(entry) or not is_regular(entry / WORKFLOW_FILE):
            return
        with self._staging() as stage:
            for copied in _copy_files(entry, stage):
                with copied.open("rb") as file:
                    os.fsync(file.fileno())
            sync_folder(stage)
            if not _rename(stage, versions / "1") and not kept_numbers(entry):
                raise self._in_the_way(versions / "1")
        sync_folder(versions)

    def _in_the_way(self, path: Path) -> InvalidLibraryEntry:
        return InvalidLibraryEntry(
            f"{self._folder.place_of(path)} in the data folder must be a folder, and no link to "
            "one: take away what is there.",
            code="WORKFLOW_DAMAGED",
        )

    def _refresh_top(self, entry: Path, number: int) -> None:
        """Copy a version to the top of its folder. For people only: no fault of it matters."""
        try:
            with self._staging() as stage:
                _copy_files(entry / VERSIONS_FOLDER / str(number), stage)
                for name in LIMITS:
                    if is_regular(stage / name):
                        (stage / name).replace(entry / name)
                    else:
                        (entry / name).unlink(missing_ok=True)
        except OSError as error:
            log.warning("library_top_not_updated", folder=str(entry), error=str(error))

    def _check_room(self, name: str) -> None:
        taken = folders_in(self._root)
        if len(taken) > MOST_ENTRIES:
            raise Conflict(
                f"The library has {MOST_ENTRIES} workflows: delete one first.",
                code="LIBRARY_FULL",
                details={"limit": MOST_ENTRIES},
            )
        for each in taken:
            if each.casefold() == name:
                raise Conflict(
                    f"The name '{name}' differs from the folder '{each}' in case only.",
                    code="WORKFLOW_EXISTS",
                    details={"name": each[:200]},
                )


def _stage_versions(stage: Path, contents: Iterable[Files]) -> int:
    """Write versions from 1 on; returns how many."""
    versions = stage / VERSIONS_FOLDER
    versions.mkdir()
    count = 0
    for count, files in enumerate(contents, 1):
        folder = versions / str(count)
        folder.mkdir()
        for name, content in files.items():
            write_synced(folder / name, content)
        sync_folder(folder)
    if not count:
        raise InvalidLibraryEntry("There is no workflow to keep.")
    sync_folder(versions)
    return count


def _copy_files(source: Path, target: Path) -> list[Path]:
    """Copy a version, whole files, also those that are larger than an upload may be."""
    found = [name for name in LIMITS if is_regular(source / name)]
    return [Path(shutil.copy2(source / name, target / name)) for name in found]


def _place(staged: Path, versions: Path, number: int) -> int:
    """Give a version the first free number from `number` on."""
    while not _rename(staged, versions / str(number)):
        number += 1
    return number


def _rename(source: Path, target: Path) -> bool:
    """Rename a folder; False where the name is taken, by other than an empty folder."""
    try:
        source.rename(target)
    except OSError as error:
        if error.errno in TAKEN and os.path.lexists(target):
            return False
        raise
    return True


def _remove(path: Path) -> None:
    if is_folder(path):
        shutil.rmtree(path, ignore_errors=True)
    else:
        path.unlink(missing_ok=True)
