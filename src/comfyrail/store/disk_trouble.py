"""What is wrong with a disk, for people and for programs: it is full, read-only, or it fails; or
a file that is in use was taken away.

For all that keep files: the database, the blobs, the library.
"""

import contextlib
import errno
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, assert_never

from comfyrail.errors import StorageFull, StorageReadOnly, StoreUnavailable

FULL_ERRORS = frozenset((errno.ENOSPC, errno.EDQUOT))
AS_GOOD_AS_FULL = 1 << 20
"""Bytes. A fault of a disk with less than this is not looked for elsewhere."""
RETRY_SECONDS = 10.0
PROBE_NAME = ".write-probe"
PROBE_BYTES = 64 << 10
BACKUP_PAGE = "docs/how-to/back-up.md"


@dataclass(frozen=True, slots=True)
class StorageTrouble:
    """Why nothing can be kept in a folder. `reserve`: the bytes that must be free; 0 where the disk
    itself has refused a write. `file`: the one that was lost.
    """

    kind: Literal["full", "read_only", "lost"]
    folder: Path
    free: int | None = None
    reserve: int = 0
    file: Path | None = None

    @property
    def message(self) -> str:
        return self._said(self._shortage())

    @property
    def lasting_message(self) -> str:
        """Without figures that are others a moment later."""
        return self._said("")

    def message_of_a_start(self) -> str:
        """For a server that has ended because of it."""
        return f"{self._fact(self._shortage())} {self._remedy()}, then start the server again."

    def _said(self, shortage: str) -> str:
        if self.kind == "lost":
            return (
                f"{self._fact(shortage)} {self._remedy()}. Until then nothing is taken on, and "
                "what was not written yet cannot be kept."
            )
        return f"{self._fact(shortage)} {self._remedy()}: the server goes on by itself."

    def _fact(self, shortage: str) -> str:
        match self.kind:
            case "full":
                return f"The disk with {self.folder} is full{shortage and f': {shortage}'}."
            case "read_only":
                return f"The disk with {self.folder} is read-only."
            case "lost":
                return f"{self.file} was deleted or replaced while the server uses it."
            case _:
                assert_never(self.kind)

    def _remedy(self) -> str:
        match self.kind:
            case "full":
                return "Free some space there"
            case "read_only":
                return "Make it writable again"
            case "lost":
                return (
                    "Put the same file back where it was; or stop the server, restore a backup "
                    f"({BACKUP_PAGE}) and start it again"
                )
            case _:
                assert_never(self.kind)

    def _shortage(self) -> str:
        if self.free is None:
            return "it has refused a write"
        if self.reserve and self.free >= self.reserve:
            return (
                f"{_readable(self.free)} free, hardly more than the {_readable(self.reserve)} that "
                "are kept in reserve"
            )
        if self.reserve:
            return f"{_readable(self.free)} free, {_readable(self.reserve)} are kept in reserve"
        if self.free > AS_GOOD_AS_FULL:
            # Or no further file: disks run out of these too.
            return f"it has refused a write with {_readable(self.free)} free, by a quota maybe"
        return f"{_readable(self.free)} free"

    def error(self) -> StoreUnavailable:
        """Anew each time: an error that is raised carries where that was."""
        if self.kind == "lost":
            return StoreUnavailable(
                self.message, details={"file": str(self.file)}, retry_after=RETRY_SECONDS
            )
        details = {"folder": str(self.folder), "free_bytes": self.free}
        if self.kind == "read_only":
            return StorageReadOnly(self.message, details=details, retry_after=RETRY_SECONDS)
        details["reserve_bytes"] = self.reserve
        return StorageFull(self.message, details=details, retry_after=RETRY_SECONDS)


def trouble_in(folder: Path, reserve: int = AS_GOOD_AS_FULL) -> StorageTrouble | None:
    """What can be seen from outside, without a write. Blocks: call it in a thread."""
    try:
        figures = os.statvfs(folder)
    except OSError:
        return None  # who writes there hears what is wrong
    free = figures.f_bavail * figures.f_frsize
    if figures.f_flag & os.ST_RDONLY:
        return StorageTrouble("read_only", folder, free)
    # Some file systems of networks do not know their size.
    if figures.f_blocks and free < reserve:
        return StorageTrouble("full", folder, free, reserve)
    return None


def try_to_write(folder: Path) -> StorageTrouble | None:
    """What a write says; a disk may look well from outside and refuse every one. Blocks."""
    path = folder / PROBE_NAME
    try:
        with path.open("wb") as file:
            file.write(bytes(PROBE_BYTES))
            file.flush()
            os.fsync(file.fileno())
    except OSError as error:
        return trouble_of(error, folder)
    finally:
        with contextlib.suppress(OSError):
            path.unlink(missing_ok=True)
    return None


def trouble_of(error: OSError, folder: Path) -> StorageTrouble | None:
    """What a refused write in a folder says; None: something else is wrong."""
    if error.errno in FULL_ERRORS:
        return StorageTrouble("full", folder, free_in(folder))
    if error.errno == errno.EROFS:
        return StorageTrouble("read_only", folder, free_in(folder))
    return None


def message_of_a_start(error: StoreUnavailable) -> str:
    """What an error says when it keeps the server from starting: that one will not go on."""
    folder = Path(error.details.get("folder", ""))
    free, reserve = error.details.get("free_bytes"), error.details.get("reserve_bytes", 0)
    match error:
        case StorageFull():
            return StorageTrouble("full", folder, free, reserve).message_of_a_start()
        case StorageReadOnly():
            return StorageTrouble("read_only", folder, free).message_of_a_start()
        case _:
            return error.message


def disk_error(what: str, folder: Path, error: OSError) -> StoreUnavailable:
    """What the disk refuses, as an error that says what to do. `what`: 'The blob store'."""
    trouble = trouble_of(error, folder)
    if trouble is not None:
        return trouble.error()
    return StoreUnavailable(
        f"{what} cannot be read or written: {error.strerror}. Check the disk.", retry_after=5.0
    )


def _readable(size: int) -> str:
    for unit, bytes_of in (("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)):
        if size >= bytes_of:
            return f"{size / bytes_of:.1f} {unit}"
    return f"{size} bytes"


def free_in(folder: Path) -> int | None:
    """Bytes that can be written; None: nobody knows."""
    try:
        figures = os.statvfs(folder)
    except OSError:
        return None
    return figures.f_bavail * figures.f_frsize
