"""Leases as locked files, for processes that share a folder."""

import contextlib
import fcntl
import os
import threading
from pathlib import Path

from comfyrail.engine.caching.leases import LeasesUnavailable
from comfyrail.engine.caching.level import is_key

_OPEN = os.O_RDWR | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_TRIES = 20


class FileLeases:
    """One file a lease, there while it is held. The kernel unlocks it when its process ends.

    A child made by fork alone, without exec, keeps a lock alive until it ends too.
    """

    def __init__(self, folder: Path) -> None:
        """Raises OSError where the folder cannot be made."""
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        self._folder = str(folder)
        self._lock = threading.Lock()
        self._held: set[_FileLease] = set()
        self._remove_leftovers(folder)

    def acquire(self, key: str) -> "_FileLease | None":
        if not is_key(key):
            raise LeasesUnavailable(key)
        path = f"{self._folder}/{key}"
        try:
            descriptor = self._lock_file(path)
        except OSError as error:
            raise LeasesUnavailable(str(error)) from error
        if descriptor is None:
            return None
        lease = _FileLease(self, path, descriptor)
        with self._lock:
            self._held.add(lease)
        return lease

    def is_held(self, key: str) -> bool:
        try:
            descriptor = os.open(f"{self._folder}/{key}", _OPEN)
        except OSError:
            return False
        try:
            fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
        except OSError:
            return False
        finally:
            os.close(descriptor)
        return False

    def close(self) -> None:
        with self._lock:
            held = list(self._held)
        for lease in held:
            lease.release()

    def let_go(self, lease: "_FileLease") -> bool:
        """Whether the lease was still held."""
        with self._lock:
            if lease not in self._held:
                return False
            self._held.remove(lease)
            return True

    def _lock_file(self, path: str) -> int | None:
        try:
            return _lock_file(path)
        except FileNotFoundError:  # somebody has removed the folder
            Path(self._folder).mkdir(parents=True, exist_ok=True, mode=0o700)
            return _lock_file(path)

    def _remove_leftovers(self, folder: Path) -> None:
        """Files of processes that were killed; they hold nothing up, but they are in the way."""
        for path in folder.iterdir():
            if is_key(path.name):
                with contextlib.suppress(OSError):
                    descriptor = _lock_file(str(path))
                    if descriptor is not None:
                        _unlock_file(str(path), descriptor)


class _FileLease:
    def __init__(self, keeper: FileLeases, path: str, descriptor: int) -> None:
        self._keeper = keeper
        self._path = path
        self._descriptor = descriptor

    def release(self) -> None:
        if self._keeper.let_go(self):
            _unlock_file(self._path, self._descriptor)


def _lock_file(path: str) -> int | None:
    """A descriptor of the locked file, or None when another has locked it."""
    for _ in range(_TRIES):
        descriptor = os.open(path, _OPEN | os.O_CREAT, 0o600)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if _is_still_at(path, descriptor):
                return descriptor
        except BlockingIOError:
            os.close(descriptor)
            return None
        except BaseException:
            os.close(descriptor)
            raise
        os.close(descriptor)
    return None


def _unlock_file(path: str, descriptor: int) -> None:
    # Removed while it is still locked: who opened it before and locks it after finds out that
    # the path is another file by then, and tries again.
    with contextlib.suppress(OSError):
        Path(path).unlink()
    with contextlib.suppress(OSError):
        fcntl.flock(descriptor, fcntl.LOCK_UN)
    os.close(descriptor)


def _is_still_at(path: str, descriptor: int) -> bool:
    try:
        return os.path.samestat(os.lstat(path), os.fstat(descriptor))
    except FileNotFoundError:
        return False
