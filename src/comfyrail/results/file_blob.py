"""A blob that lies in a file of this machine."""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from comfyrail.results.blob_keys import blob_gone
from comfyrail.store.disk_trouble import disk_error

READ_SIZE = 256 << 10


@dataclass(frozen=True, slots=True)
class FileBlob:
    path: Path
    size: int

    async def chunks(self, start: int = 0, stop: int | None = None) -> AsyncIterator[bytes]:
        left = (self.size if stop is None else min(stop, self.size)) - start
        file = await asyncio.to_thread(self._open, start)
        try:
            while left > 0:
                chunk = await asyncio.to_thread(self._read, file, min(READ_SIZE, left))
                left -= len(chunk)
                yield chunk
        finally:
            file.close()  # nothing is left to be written: it does not wait for the disk

    def _open(self, start: int) -> IO[bytes]:
        try:
            file = self.path.open("rb", buffering=0)
            file.seek(start)
        except FileNotFoundError as error:
            raise blob_gone() from error
        except OSError as error:
            raise disk_error("The blob store", self.path.parent, error) from error
        return file

    def _read(self, file: IO[bytes], size: int) -> bytes:
        try:
            chunk = file.read(size)
        except OSError as error:
            raise disk_error("The blob store", self.path.parent, error) from error
        if not chunk:
            raise blob_gone()  # it was cut off
        return chunk
