"""Files in which values wait until they are needed: private, and gone with their process."""

import contextlib
import fcntl
import os
import secrets
import shutil
from collections.abc import Iterator, Sequence
from mmap import ACCESS_COPY, mmap
from pathlib import Path

import structlog

from comfyrail.clock import Clock, SystemClock

FOLDER_PREFIX = "values-"
LOCK_NAME = "lock"
PAUSE_SECONDS = 10.0

log = structlog.get_logger(__name__)


class SpillFile:
    """One value on disk."""

    __slots__ = ("path", "size")

    def __init__(self, path: Path, size: int) -> None:
        self.path = path
        self.size = size

    def map(self) -> mmap:
        """The content as memory of the file. What is written to it stays in this process.

        Not read-only, so that foreign code that writes where it may not harms only itself.
        """
        with self.path.open("rb") as file:
            return mmap(file.fileno(), 0, access=ACCESS_COPY)

    def remove(self) -> None:
        """What was mapped stays readable."""
        with contextlib.suppress(OSError):
            self.path.unlink()


class SpillFolder:
    """The files of one store. Its lock is held until it is closed, or its process has ended."""

    def __init__(self, path: Path, lock: int) -> None:
        self.path = path
        self._lock = lock

    def write(self, parts: Sequence[bytes | memoryview]) -> SpillFile:
        """Raises OSError, and leaves nothing behind then."""
        path = self.path / secrets.token_hex(16)
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        try:
            try:
                size = sum(_write_all(descriptor, part) for part in parts)
            finally:
                os.close(descriptor)
        except BaseException:
            path.unlink(missing_ok=True)
            raise
        return SpillFile(path, size)

    def close(self) -> None:
        shutil.rmtree(self.path, ignore_errors=True)
        os.close(self._lock)


class SpillArea:
    """A folder on a disk for the stores of this and other processes; not one kept in memory.

    What processes left behind that have ended, however they ended, is removed at the start.
    """

    def __init__(self, root: Path, clock: Clock | None = None) -> None:
        self.root = root
        self._clock = clock or SystemClock()
        self._paused_until = 0.0
        self._has_failed = False
        self._sweep()

    @property
    def is_paused(self) -> bool:
        """Whether writing failed a short while ago."""
        return self._clock.monotonic() < self._paused_until

    def new_folder(self) -> SpillFolder:
        """A folder that only this user can look into. Raises OSError."""
        self.root.mkdir(mode=0o700, parents=True, exist_ok=True)
        with self._locked():
            path = self.root / f"{FOLDER_PREFIX}{secrets.token_hex(16)}"
            path.mkdir(mode=0o700)
            try:
                lock = os.open(path / LOCK_NAME, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600)
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                shutil.rmtree(path, ignore_errors=True)
                raise
        return SpillFolder(path, lock)

    def note_failure(self, error: OSError) -> None:
        """Try no more for a while; only the first failure is logged."""
        self._paused_until = self._clock.monotonic() + PAUSE_SECONDS
        if not self._has_failed:
            self._has_failed = True
            log.warning("cannot_spill", folder=str(self.root), error=str(error))

    def _sweep(self) -> None:
        if not self.root.is_dir():
            return
        try:
            with self._locked():
                for path in self.root.glob(f"{FOLDER_PREFIX}*"):
                    if path.is_dir() and not _is_in_use(path):
                        shutil.rmtree(path, ignore_errors=True)
        except OSError as error:
            log.warning("cannot_sweep_spill_folders", folder=str(self.root), error=str(error))

    @contextlib.contextmanager
    def _locked(self) -> Iterator[None]:
        """Nobody else makes a folder or sweeps meanwhile: a new folder has its lock at once."""
        descriptor = os.open(self.root / LOCK_NAME, os.O_RDWR | os.O_CREAT, 0o600)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            yield
        finally:
            os.close(descriptor)


def _is_in_use(folder: Path) -> bool:
    try:
        lock = os.open(folder / LOCK_NAME, os.O_RDWR)
    except FileNotFoundError:
        return False
    except OSError:  # of another user
        return True
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(lock)
    return False


def _write_all(descriptor: int, part: bytes | memoryview) -> int:
    left = memoryview(part).cast("B")
    size = len(left)
    while left:
        left = left[os.write(descriptor, left) :]
    return size
