"""Locks on files that hold between tasks and between processes, and end with their holder."""

import asyncio
import fcntl
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

PAUSE_SECONDS = 0.05


class FileLock:
    """A lock that is held. Given back by `release`, and by the end of the process."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor: int | None = descriptor

    def release(self) -> None:
        descriptor, self._descriptor = self._descriptor, None
        if descriptor is not None:
            os.close(descriptor)


def try_lock(path: Path, *, shared: bool = False) -> FileLock | None:
    """Take a lock, or None where another has it. A system call on a small file: it is not worth a
    thread, and none could be cancelled in the middle.
    """
    flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
    descriptor = os.open(path, flags, 0o644)
    try:
        fcntl.flock(descriptor, (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(descriptor)
        return None
    except BaseException:
        os.close(descriptor)
        raise
    return FileLock(descriptor)


async def wait_for_lock(path: Path, *, shared: bool = False) -> FileLock:
    """Wait as long as it takes, without keeping a thread."""
    while (lock := try_lock(path, shared=shared)) is None:  # noqa: ASYNC110 - other processes
        await asyncio.sleep(PAUSE_SECONDS)
    return lock


@asynccontextmanager
async def locked(path: Path) -> AsyncIterator[None]:
    lock = await wait_for_lock(path)
    try:
        yield
    finally:
        lock.release()
