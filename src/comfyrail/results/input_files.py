"""Files of jobs in the input folder: under names of their content, where workers look for them.

A file is linked to its blob, or copied where the folder is on another disk.
"""

import asyncio
import contextlib
import os
import shutil
import stat
import tempfile
import threading
from collections.abc import Iterable, Sequence
from pathlib import Path

from comfyrail.clock import Clock
from comfyrail.jobs.job import JobInput
from comfyrail.results.blob_store import BlobReads
from comfyrail.store.disk_trouble import disk_error

SPARED_SECONDS = 3600.0
"""A job is stored much sooner after its files were put there."""


class InputFiles:
    """`folder` is the workers' input folder. Names are like `uploads/<hash>/<name>`."""

    def __init__(self, folder: Path, blobs: BlobReads, clock: Clock) -> None:
        self._folder = folder
        self._blobs = blobs
        self._clock = clock
        self._lock = threading.Lock()
        """Held while a file is put there, and while one is looked at and removed."""
        self._put: dict[str, float] = {}

    async def put(self, inputs: Sequence[JobInput]) -> None:
        """See that they are there. Raises OutputNotFound where a blob is gone, StoreUnavailable
        where the disk does not take them.
        """
        for each in inputs:
            blob = await self._blobs.open(each.blob_key)
            if blob.path is None and await asyncio.to_thread(self._has, each.name, blob.size):
                continue
            async with self._blobs.local(each.blob_key) as source:
                await asyncio.to_thread(self._put_one, each.name, source)

    def _has(self, name: str, size: int) -> bool:
        """Whether a copy of what is not on this machine lies there already."""
        with self._lock:
            self._put[name] = self._clock.monotonic()
            try:
                there = (self._folder / name).lstat()
            except OSError:
                return False
        return stat.S_ISREG(there.st_mode) and there.st_size == size

    def _put_one(self, name: str, source: Path) -> None:
        target = self._folder / name
        try:
            with self._lock:
                self._put[name] = self._clock.monotonic()
                if _is_same(target, source):
                    return
                target.parent.mkdir(parents=True, exist_ok=True)
                _bring(source, target)
        except OSError as error:
            raise disk_error("The input folder", self._folder, error) from error

    # What the sweeper asks

    def names(self, area: str) -> list[str]:
        """Everything that lies in a part of the folder, as `area/<hash>/<name>`."""
        found = []
        root = self._folder / area
        with contextlib.suppress(OSError):
            for shelf in root.iterdir():
                with contextlib.suppress(OSError):
                    found += [f"{area}/{shelf.name}/{path.name}" for path in shelf.iterdir()]
        return sorted(found)

    def remove(self, names: Iterable[str]) -> int:
        """Remove those that nobody has put there lately; how many that were."""
        return sum(map(self._remove, names))

    def _remove(self, name: str) -> bool:
        path = self._folder / name
        with self._lock:
            put_at = self._put.get(name)
            if put_at is not None and self._clock.monotonic() - put_at < SPARED_SECONDS:
                return False
            self._put.pop(name, None)
            try:
                path.unlink()
            except OSError:
                return False
            with contextlib.suppress(OSError):
                path.parent.rmdir()
        return True


def _is_same(target: Path, source: Path) -> bool:
    """Whether it is there: the same file, or a copy of it."""
    try:
        there, wanted = target.lstat(), source.stat()
    except FileNotFoundError:
        return False
    if (there.st_dev, there.st_ino) == (wanted.st_dev, wanted.st_ino):
        return True
    return there.st_dev != wanted.st_dev and there.st_size == wanted.st_size


def _bring(source: Path, target: Path) -> None:
    """Under another name first: a worker sees all of it or nothing."""
    descriptor, name = tempfile.mkstemp(dir=target.parent)
    os.close(descriptor)
    half = Path(name)
    try:
        half.unlink()
        try:
            os.link(source, half)
        except OSError:
            shutil.copyfile(source, half)
        half.replace(target)
    finally:
        half.unlink(missing_ok=True)
