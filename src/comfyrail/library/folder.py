"""The workflows of one tenant, as folders that a person can look at and drop in by hand.

`<name>/versions/<n>/` holds version n and never changes, but for its preview. The files at the top
of `<name>/` are a copy of the newest version for people. A folder without versions was made by
hand: its top is version 1.
"""

import contextlib
import os
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

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
    """Everything here blocks: call it in threads."""

    def __init__(self, root: Path) -> None:
        self.root = root

    def page(self, after: str, limit: int) -> LibraryPage:
        """The newest version of each workflow by name, following the name `after`."""
        found: list[VersionSummary] = []
        for name in sorted(each for each in folders_in(self.root) if each > after):
            if not is_name(name):
                continue
            # It may be half made by hand, or go away meanwhile.
            with contextlib.suppress(LibraryEntryNotFound, InvalidLibraryEntry, FileNotFoundError):
                summary = self._summary(name, self.numbers(name)[-1])
                if len(found) == limit:
                    return LibraryPage(found, found[-1].name)
                found.append(summary)
        return LibraryPage(found, None)

    def summaries(self, name: str) -> list[VersionSummary]:
        """Every version, the newest first."""
        return [self._summary(name, number) for number in reversed(self.numbers(name))]

    def numbers(self, name: str) -> tuple[int, ...]:
        """The versions of a workflow. Raises LibraryEntryNotFound where there are none."""
        found = version_numbers(self.root / name) if is_name(name) else ()
        if not found:
            near = nearest_names(name, filter(is_name, folders_in(self.root)))
            raise LibraryEntryNotFound(
                f"There is no workflow {shown(name)} in the library.{did_you_mean(near)}",
                details={"name": name[:200], "nearest": near},
            )
        return found

    def read(
        self, name: str, version: int | None = None, wanted: Iterable[str] = LIMITS
    ) -> StoredVersion:
        """Some files of a version, of the newest where none is named."""
        numbers = self.numbers(name)
        number = numbers[-1] if version is None else version
        if number not in numbers:
            raise LibraryEntryNotFound(
                f"The workflow '{name}' has no version {number}: the newest is {numbers[-1]}.",
                code="WORKFLOW_VERSION_NOT_FOUND",
                details={"name": name, "newest": numbers[-1]},
            )
        summary = self._summary(name, number)
        files = read_files(version_folder(self.root / name, number), wanted)
        return StoredVersion(name, number, files, summary.has_preview, summary.saved_at, numbers)

    def _summary(self, name: str, number: int) -> VersionSummary:
        folder = version_folder(self.root / name, number)
        workflow = folder / WORKFLOW_FILE
        if not is_regular(workflow):
            raise InvalidLibraryEntry(
                f"Version {number} of '{name}' has no {WORKFLOW_FILE}: put it in {folder}.",
                code="WORKFLOW_DAMAGED",
            )
        saved_at = Instant(workflow.lstat().st_mtime_ns // 1_000_000)
        has_preview = is_regular(folder / PREVIEW_FILE)
        return VersionSummary(name, number, first_line(folder), has_preview, saved_at)


def version_numbers(entry: Path) -> tuple[int, ...]:
    """The versions of a workflow in order; none where the folder holds no workflow."""
    if not is_folder(entry):
        return ()
    found = kept_numbers(entry)
    return found or ((1,) if is_regular(entry / WORKFLOW_FILE) else ())


def kept_numbers(entry: Path) -> tuple[int, ...]:
    """The versions that have a folder of their own, in order."""
    versions = entry / VERSIONS_FOLDER
    found = map(read_version, folders_in(versions) if is_folder(versions) else ())
    return tuple(sorted(number for number in found if number is not None))


def version_folder(entry: Path, number: int) -> Path:
    """Where the files of a version are: the top of the folder where it was made by hand."""
    folder = entry / VERSIONS_FOLDER / str(number)
    return folder if is_folder(folder.parent) and is_folder(folder) else entry


def folders_in(folder: Path) -> list[str]:
    """Names of the folders in a folder; links are none."""
    try:
        with os.scandir(folder) as children:
            return [child.name for child in children if child.is_dir(follow_symlinks=False)]
    except FileNotFoundError:
        return []
