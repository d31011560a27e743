"""Removes blobs that nothing refers to: those of attempts that ended between the saving of their
outputs and the writing of their end.

Nothing here depends on a clock, which may be set: what this process has saved and not settled is
known, and what an earlier process has saved without writing it down nobody will refer to any more
without saving it anew.
"""

import asyncio
from collections.abc import Collection, Sequence
from typing import Protocol

import structlog

from comfyrail.errors import StoreUnavailable
from comfyrail.results.blob_store import BlobShelves, StoredFile

log = structlog.get_logger(__name__)

SWEEP_SECONDS = 3600.0
LOOK_SECONDS = 10.0
"""Between looks at what attempts have saved in vain."""
ASKED_AT_ONCE = 500


class Shelves(BlobShelves, Protocol):
    """The side of a blob store that the sweeper needs."""

    def doubt(self, keys: Collection[str]) -> None: ...


class References(Protocol):
    """The side of the store that the sweeper needs."""

    async def referenced_blobs(self, keys: Sequence[str]) -> frozenset[str]: ...

    async def has_outputs(self) -> bool: ...


class BlobSweeper:
    """`run` goes on until it is cancelled."""

    def __init__(self, blobs: Shelves, store: References) -> None:
        self._blobs = blobs
        self._store = store

    async def run(self) -> None:
        loop = asyncio.get_running_loop()
        next_sweep = loop.time()
        while True:
            try:
                await self.look()
                if loop.time() >= next_sweep:
                    next_sweep = loop.time() + SWEEP_SECONDS
                    await self.sweep()
            except (StoreUnavailable, OSError) as error:
                log.warning("blobs_not_swept", error=str(error))
            except Exception:  # the next round may do better
                log.exception("sweep_failed")
            await asyncio.sleep(LOOK_SECONDS)

    async def sweep(self) -> int:
        """Look through all blobs once; how many were removed.

        None where the database has no output at all: it may be a new one in the place of one that
        was lost, and all these outputs may be wanted when that is restored.
        """
        if not await self._store.has_outputs():
            return 0
        removed = 0
        async for files in self._blobs.files():
            removed += await self._remove_orphans(files)
        return _told(removed)

    async def look(self) -> int:
        """The same for what was saved in vain since the last time."""
        keys = self._blobs.take_doubtful()
        try:
            return _told(await self._remove_orphans(await self._blobs.look_at(keys)))
        except BaseException:
            self._blobs.doubt(keys)
            raise

    async def _remove_orphans(self, files: Sequence[StoredFile]) -> int:
        removed = 0
        for start in range(0, len(files), ASKED_AT_ONCE):
            some = files[start : start + ASKED_AT_ONCE]
            referenced = await self._store.referenced_blobs([file.key for file in some])
            orphans = [file for file in some if file.key not in referenced]
            # Whatever has been saved again since is another file: `remove` spares it.
            removed += await self._blobs.remove(orphans) if orphans else 0
        return removed


def _told(removed: int) -> int:
    if removed:
        log.info("blobs_swept", removed=removed)
    return removed
