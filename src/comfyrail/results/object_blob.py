"""A blob in object storage: read a part at a time, the next one while the last is used."""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path

import obstore
import structlog
from obstore.exceptions import BaseError

from comfyrail.errors import StoreUnavailable
from comfyrail.results.blob_keys import blob_gone
from comfyrail.results.object_location import ObjectLocation, told

log = structlog.get_logger(__name__)

WINDOW_BYTES = 2 << 20
"""A reader may be slow: no connection to the storage waits for it."""
RETRY_SECONDS = 10.0

TROUBLE = (BaseError, OSError)
"""What obstore raises; that there is no such object is one of these."""


def unavailable(location: ObjectLocation, error: BaseException) -> StoreUnavailable:
    log.warning("object_storage_failed", url=location.url, error=told(error))
    return StoreUnavailable(
        f"The storage {location.url} does not answer as it should. Try again in a moment; the "
        "server's log says more.",
        retry_after=RETRY_SECONDS,
    )


@dataclass(frozen=True, slots=True)
class ObjectBlob:
    location: ObjectLocation
    key: str
    size: int

    @property
    def path(self) -> Path | None:
        return None

    async def chunks(self, start: int = 0, stop: int | None = None) -> AsyncIterator[bytes]:
        stop = self.size if stop is None else min(stop, self.size)
        if start >= stop:
            return
        coming = self._fetch(start, stop)
        try:
            while start < stop:
                chunk = await coming
                start += len(chunk)
                if start < stop:
                    coming = self._fetch(start, stop)
                yield chunk
        finally:
            coming.cancel()

    def _fetch(self, start: int, stop: int) -> "asyncio.Task[bytes]":
        end = min(stop, start + WINDOW_BYTES)
        task = asyncio.create_task(self._window(start, end), name="blob-window")
        task.add_done_callback(_look_at_end)
        return task

    async def _window(self, start: int, end: int) -> bytes:
        path = self.location.path_of(self.key)
        try:
            found = await obstore.get_range_async(self.location.bucket, path, start=start, end=end)
        except FileNotFoundError as error:
            raise blob_gone() from error
        except TROUBLE as error:
            raise unavailable(self.location, error) from error
        if len(found) != end - start:
            raise unavailable(self.location, ValueError("the object became shorter"))
        return bytes(found)


def _look_at_end(task: "asyncio.Task[bytes]") -> None:
    """A reader may have gone before it: that it failed is nobody's business then."""
    if not task.cancelled():
        task.exception()
