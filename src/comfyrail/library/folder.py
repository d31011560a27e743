"""The workflows of one tenant, as folders that a person can look at and drop in by hand.

`<name>/versions/<n>/` holds version n and never changes, but for its preview. The files at the top
of `<name>/` are a copy of the newest version for people. A folder without versions was made by
hand: its top is version 1.
"""

import contextlib
import errno
import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TypeVar

from comfyrail.clock import Instant
from comfyrail.errors import InvalidLibraryEntry, LibraryEntryNotFound
from comfyrail.library.files import (
    LIMITS,
    PREVIEW_FILE,
    WORKFLOW_FILE,
    Files,
    first_line,
    is_folder,
    is_regular,
    read_files,
)
from comfyrail.library.names import is_name, read_version
from comfyrail.workflow.nearest import did_you_mean, nearest_names, shown

VERSIONS_FOLDER = "versions"
MOST_TRIES = 5
NO_FOLDER = {errno.ENOENT, errno.ENOTDIR, errno.ELOOP}
"""Nothing there, a file, or a link."""

Result = TypeVar("Result")
Places = Mapping[int, Path]
"""The folder of each version of a workflow, in order."""
HOW = " Save one with 'comfyrail workflows save', or see 'comfyrail workflows'."


@dataclass(frozen=True, slots=True)
class VersionSummary:
    name: str
    version: int
    summary: str
    has_preview: bool
    saved_at: Instant


@dataclass(frozen=True, slots=True)
class StoredVersion:
    """Files of one version, and the numbers of all that there are."""

    name: str
    version: int
    files: Files
    has_preview: bool
    saved_at: Instant
    versions: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class LibraryPage:
    entries: list[VersionSummary]
    next_cursor: str | None


class LibraryFolder:
    """Everything here blocks: call it in threads.

    `data` is the data folder, which no message shows: paths in them begin below it.
    """

    def __init__(self, root: Path, data: Path) -> None:
        self.root = root
        self._data = data

    def page(self, after: str, limit: int) -> LibraryPage:
        """The newest version of each workflow by name, following the name `after`."""
        found: list[VersionSummary] = []
        for name in sorted(each for each in folders_in(self.root) if each > after):
            if not is_name(name):
                continue
            # It may be half made by hand, or go away meanwhile.
            with contextlib.suppress(LibraryEntryNotFound, InvalidLibraryEntry):
                summary = self.steadily(name, partial(self._newest, name))
                if len(found) == limit:
                    return LibraryPage(found, found[-1].name)
                found.append(summary)
        return LibraryPage(found, None)

    def summaries(self, name: str) -> list[VersionSummary]:
        """Every version, the newest first."""

        def work(places: Places) -> list[VersionSummary]:
            newest_first = sorted(places.items(), reverse=True)
            return [self._summary(name, number, folder) for number, folder in newest_first]

        return self.steadily(name, work)

    def numbers(self, name: str) -> tuple[int, ...]:
        """The versions of a workflow. Raises LibraryEntryNotFound where there are none."""
        return tuple(self._places(name))

    def read(
        self, name: str, version: int | None = None, wanted: Iterable[str] = LIMITS
    ) -> StoredVersion:
        """Some files of a version, of the newest where none is named."""
        return self.steadily(name, lambda places: self.read_at(name, places, version, wanted))

    def read_at(
        self,
        name: str,
        places: Places,
        version: int | None = None,
        wanted: Iterable[str] = LIMITS,
    ) -> StoredVersion:
        """As `read`, for those who read more of the same workflow."""
        numbers = tuple(places)
        number = numbers[-1] if version is None else version
        if number not in places:
            raise LibraryEntryNotFound(
                f"The workflow '{name}' has no version {number}: the newest is {numbers[-1]}.",
                code="WORKFLOW_VERSION_NOT_FOUND",
                details={"name": name, "newest": numbers[-1]},
            )
        folder = places[number]
        summary = self._summary(name, number, folder)
        files = read_files(folder, self.place_of(folder), wanted)
        return StoredVersion(name, number, files, summary.has_preview, summary.saved_at, numbers)

    def steadily(self, name: str, work: Callable[[Places], Result]) -> Result:
        """Read of one workflow, by the folders of its versions.

        Meanwhile it may be deleted and another get its name: then what was read is of neither, and
        is read again. Raises LibraryEntryNotFound where there is none.
        """
        for _ in range(MOST_TRIES):
            with _held(self._entry(name)) as is_same:
                places = self._places(name)
                try:
                    result = work(places)
                except (FileNotFoundError, NotADirectoryError):
                    continue
                except (LibraryEntryNotFound, InvalidLibraryEntry):
                    if is_same() and self._has(name, places):
                        raise
                else:
                    if is_same() and self._has(name, places):
                        return result
        raise self._not_found(name)

    def place_of(self, path: Path) -> str:
        """What a message calls a folder: its path in the data folder."""
        return path.relative_to(self._data).as_posix()

    def _entry(self, name: str) -> Path:
        if not is_name(name):
            raise self._not_found(name)
        return self.root / name

    def _places(self, name: str) -> Places:
        found = version_folders(self._entry(name))
        if not found:
            raise self._not_found(name)
        return found

    def _has(self, name: str, places: Places) -> bool:
        """Whether all versions are where they were; new ones do no harm."""
        return places.items() <= version_folders(self.root / name).items()

    def _not_found(self, name: str) -> LibraryEntryNotFound:
        near = nearest_names(name, filter(is_name, folders_in(self.root)))
        return LibraryEntryNotFound(
            f"There is no workflow {shown(name)} in the library.{did_you_mean(near) or HOW}",
            details={"name": name[:200], "nearest": near},
        )

    def _newest(self, name: str, places: Places) -> VersionSummary:
        number = max(places)
        return self._summary(name, number, places[number])

    def _summary(self, name: str, number: int, folder: Path) -> VersionSummary:
        workflow = folder / WORKFLOW_FILE
        if not is_regular(workflow):
            raise InvalidLibraryEntry(
                f"Version {number} of '{name}' has no {WORKFLOW_FILE}: put it into "
                f"{self.place_of(folder)} in the data folder.",
                code="WORKFLOW_DAMAGED",
            )
        saved_at = Instant(workflow.lstat().st_mtime_ns // 1_000_000)
        has_preview = is_regular(folder / PREVIEW_FILE)
        return VersionSummary(name, number, first_line(folder), has_preview, saved_at)


def version_folders(entry: Path) -> dict[int, Path]:
    """The folder of each version in order; none where there is no workflow.

    A folder that was made by hand has no versions: its top is version 1. Where there are versions,
    the top is none of them.
    """
    if not is_folder(entry):
        return {}
    kept = kept_numbers(entry)
    if not kept and is_regular(entry / WORKFLOW_FILE):
        return {1: entry}
    return {number: entry / VERSIONS_FOLDER / str(number) for number in kept}


def kept_numbers(entry: Path) -> tuple[int, ...]:
    """The versions that have a folder of their own, in order."""
    versions = entry / VERSIONS_FOLDER
    found = map(read_version, folders_in(versions) if is_folder(versions) else ())
    return tuple(sorted(number for number in found if number is not None))


@contextlib.contextmanager
def _held(folder: Path) -> Iterator[Callable[[], bool]]:
    """Keep a folder open, and tell whether its path still leads to it.

    As long as it is open no other folder gets its number on disk.
    """
    descriptor = None
    try:
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError as error:
        if error.errno not in NO_FOLDER:
            raise
    if descriptor is None:
        yield lambda: False
        return
    held = os.fstat(descriptor)

    def is_same() -> bool:
        try:
            return os.path.samestat(held, folder.lstat())
        except FileNotFoundError:
            return False

    try:
        yield is_same
    finally:
        os.close(descriptor)


def folders_in(folder: Path) -> list[str]:
    """Names of the folders in a folder; links are none."""
    try:
        with os.scandir(folder) as children:
            return [child.name for child in children if child.is_dir(follow_symlinks=False)]
    except FileNotFoundError:
        return []
