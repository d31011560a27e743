"""Where the server's data lies: a plain folder, or a file system of its own that can fail."""

import asyncio
import atexit
import contextlib
import errno
import os
import shutil
import subprocess
import tempfile
from asyncio.subprocess import PIPE, STDOUT
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import cache
from pathlib import Path

from comfyrail.errors import ConfigurationError
from comfyrail.faultlab.waiting import until

MEBIBYTE = 1 << 20
TOOLS = ("mkfs.ext4", "mount", "umount", "fsfreeze", "e2fsck")
UMOUNT_LIMIT_SECONDS = 20.0
_FREEZE = 'fsfreeze -f "$1" && sleep "$2"; fsfreeze -u "$1"'


class Disk:
    """A place for the server's data. `busy` is held while something is done to it."""

    def __init__(self, folder: Path) -> None:
        self.data = folder / "data"
        self.busy = asyncio.Lock()


class LoopDisk(Disk):
    """An ext4 in a file, mounted on a folder of its own."""

    def __init__(self, image: Path, folder: Path) -> None:
        super().__init__(folder)
        self._image = image
        self._folder = folder
        self._ballast = folder / "ballast"

    async def freeze(self, seconds: float) -> None:
        """Let no write through for so long. One command does both: it thaws even without us."""
        await _run("sh", "-c", _FREEZE, "freeze", str(self._folder), f"{seconds:.3f}")

    async def fill(self) -> None:
        """Leave no byte free."""
        await asyncio.to_thread(_fill, self._ballast)

    async def make_room(self) -> None:
        await asyncio.to_thread(self._ballast.unlink, missing_ok=True)

    async def turn_read_only(self) -> None:
        """As the kernel does when the disk fails under it: what was not synced is lost."""
        await _run("mount", "-o", "remount,abort", str(self._folder))

    async def repair(self) -> None:
        """Take the file system down, replay its journal and bring it back; nobody may use it."""
        if not await until(self._unmounted, UMOUNT_LIMIT_SECONDS):
            raise ConfigurationError(f"{self._folder} cannot be unmounted: something uses it.")
        await _run("e2fsck", "-p", str(self._image), fine=(0, 1))
        await self.mount()

    async def mount(self) -> None:
        await _run("mount", "-o", "loop", str(self._image), str(self._folder))

    def release(self) -> None:
        """Thaw and unmount, whatever state it is in; in one go, so that nothing cuts it short."""
        if self._folder.is_mount():
            _try("fsfreeze", "-u", str(self._folder))
            if not _try("umount", str(self._folder)):
                _try("umount", "-l", str(self._folder))

    async def _unmounted(self) -> bool:
        with contextlib.suppress(ConfigurationError):
            await _run("umount", str(self._folder))
            return True
        return False


@asynccontextmanager
async def loop_disk(folder: Path, mebibytes: int) -> AsyncIterator[LoopDisk]:
    """A mounted file system of that size under the folder; unmounted when it is over."""
    image, mounted = folder / "disk.img", folder / "disk"
    mounted.mkdir()
    with image.open("wb") as file:
        file.truncate(mebibytes * MEBIBYTE)
    await _run("mkfs.ext4", "-q", "-F", "-m", "0", str(image))
    disk = LoopDisk(image, mounted)
    atexit.register(disk.release)
    try:
        await disk.mount()
        yield disk
    finally:
        disk.release()
        atexit.unregister(disk.release)


@cache
def loop_disk_obstacle() -> str | None:
    """Why there can be no file system of our own on this machine; None where there can."""
    missing = [tool for tool in TOOLS if shutil.which(tool) is None]
    if missing:
        return f"{', '.join(missing)} cannot be found"
    if os.geteuid() != 0:
        return "only root can mount a file system"
    with tempfile.TemporaryDirectory(prefix="comfyrail-probe-") as folder:
        image, mounted = Path(folder) / "disk.img", Path(folder) / "disk"
        mounted.mkdir()
        image.touch()
        os.truncate(image, 8 * MEBIBYTE)
        possible = _try("mkfs.ext4", "-q", "-F", str(image)) and _try(
            "mount", "-o", "loop", str(image), str(mounted)
        )
        if possible:
            _try("umount", str(mounted))
    return None if possible else "a file cannot be mounted as a file system here"


def _fill(path: Path) -> None:
    free = os.statvfs(path.parent)
    with path.open("wb", buffering=0) as file:
        with contextlib.suppress(OSError):
            os.posix_fallocate(file.fileno(), 0, free.f_bavail * free.f_bsize)
        file.seek(0, os.SEEK_END)
        for size in (1 << 16, 1 << 12, 1 << 9):
            try:
                while file.write(bytes(size)):
                    continue
            except OSError as error:
                if error.errno != errno.ENOSPC:
                    raise


async def _run(*command: str, fine: tuple[int, ...] = (0,)) -> None:
    process = await asyncio.create_subprocess_exec(*command, stdout=PIPE, stderr=STDOUT)
    said, _ = await process.communicate()
    if process.returncode not in fine:
        raise ConfigurationError(
            f"{' '.join(command)} ended with {process.returncode}: "
            f"{said.decode(errors='replace').strip()}"
        )


def _try(*command: str) -> bool:
    done = subprocess.run(command, capture_output=True, check=False)  # noqa: S603 - fixed commands
    return done.returncode == 0
