"""Keeps an eye on the disk: when it is nearly full or read-only nothing new is taken on, so that
what was accepted can still be finished; nor when a file that is in use was taken away.
"""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import structlog

from comfyrail.store.disk_trouble import StorageTrouble, trouble_in, try_to_write
from comfyrail.store.signals import QUEUE, Signals

log = structlog.get_logger(__name__)

STORAGE = "storage"
"""The topic of writes that the disk has refused: look at once."""
ENDING = "ending"
"""The topic of a server that ends: nobody waits long for the disk any more."""
LOOK_SECONDS = 1.0
MORE_TO_RECOVER = 1.1
"""The trouble is over when so many times the reserve is free: not on and off at every job."""


class StorageWatch:
    """`reserve`: bytes that must be free in each of the folders; 0 is off: then only what the disk
    has refused counts. `find_loss` says whether a file that is in use was taken away; it may block.
    `changed` is called with the trouble when it comes, and with None when it
    has gone. `run` goes on until it is cancelled.
    """

    def __init__(
        self,
        folders: Sequence[Path],
        reserve: int,
        signals: Signals,
        find_loss: Callable[[], StorageTrouble | None] = lambda: None,
    ) -> None:
        self._folders = tuple(folders)
        self._reserve = reserve
        self._signals = signals
        self._find_loss = find_loss
        self.changed: Callable[[StorageTrouble | None], None] = _nobody
        self.trouble: StorageTrouble | None = None

    def refuse_new_work(self) -> None:
        """Raises StoreUnavailable, or one of its kinds, while there is trouble."""
        if self.trouble is not None:
            raise self.trouble.error()

    def doubt(self) -> None:
        """A write was refused: look whether others would be."""
        self._signals.notify(STORAGE)

    async def run(self) -> None:
        with self._signals.subscribe(STORAGE) as doubts:
            is_doubted = False
            while True:
                try:
                    await self.look(is_doubted=is_doubted)
                except Exception:  # the next look may see more
                    log.exception("storage_not_looked_at")
                is_doubted = await doubts.wait(LOOK_SECONDS)

    async def look(self, *, is_doubted: bool = False) -> None:
        """`is_doubted`: what can be seen from outside is not enough, try to write."""
        self._become(await asyncio.to_thread(self._find, is_doubted or self.trouble is not None))

    def _find(self, is_doubted: bool) -> StorageTrouble | None:
        lost = self._find_loss()
        if lost is not None:
            return lost
        enough = self._reserve * (MORE_TO_RECOVER if self.trouble is not None else 1)
        for folder in self._folders:
            trouble = trouble_in(folder, round(enough)) or (
                try_to_write(folder) if is_doubted else None
            )
            if trouble is not None:
                # What must be free to recover is no business of those who read this.
                return replace(trouble, reserve=min(trouble.reserve, self._reserve))
        return None

    def _become(self, trouble: StorageTrouble | None) -> None:
        before, self.trouble = self.trouble, trouble
        if _kind_of(before) == _kind_of(trouble):
            return
        if trouble is None:
            log.info("storage_recovered", folders=[str(folder) for folder in self._folders])
        else:
            log.error("storage_trouble", kind=trouble.kind, message=trouble.message)
        self.changed(trouble)
        self._signals.notify(QUEUE)


def _kind_of(trouble: StorageTrouble | None) -> tuple[str, Path] | None:
    return None if trouble is None else (trouble.kind, trouble.folder)


def _nobody(_trouble: StorageTrouble | None) -> None:
    return
