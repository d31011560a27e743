"""Reading what a media process has made."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

from comfyrail.store.disk_trouble import disk_error

READ_SIZE = 1 << 20


async def chunks_of(path: Path) -> AsyncIterator[bytes]:
    """Its bytes, a part at a time. Raises StoreUnavailable where they cannot be read."""
    try:
        file = await asyncio.to_thread(path.open, "rb")
        try:
            while chunk := await asyncio.to_thread(file.read, READ_SIZE):
                yield chunk
        finally:
            await asyncio.to_thread(file.close)
    except OSError as error:
        raise disk_error("The media folder", path.parent, error) from error
