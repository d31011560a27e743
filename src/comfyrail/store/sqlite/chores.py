"""Writes that must be made up for: what the disk or a lock has refused is tried again."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

import structlog

from comfyrail.errors import StoreUnavailable

if TYPE_CHECKING:
    from comfyrail.store.sqlite.writer import Transaction

log = structlog.get_logger(__name__)

FIRST_REST_SECONDS = 0.5
LONGEST_REST_SECONDS = 5.0

Chore = Callable[["Transaction"], bool]
"""One step of it, in a transaction of its own; whether more steps are left."""


class Chores:
    """Each is done in the background, as soon as the store can be written. What is not done when
    the store is closed is for its next start.
    """

    def __init__(self, write: Callable[[Chore], Awaitable[bool]]) -> None:
        self._write = write
        self._left: dict[str, Chore] = {}
        self._turn = asyncio.Lock()
        self._task: asyncio.Task[None] | None = None

    def add(self, name: str, chore: Chore) -> None:
        """Returns at once. The same chore may be done twice."""
        self._left[name] = chore
        if self._task is None or self._task.done():
            self._task = asyncio.create_task(self._run(), name="store-chores")

    async def do_all(self) -> None:
        """Return when nothing is left. Raises StoreUnavailable when that is not possible yet."""
        async with self._turn:
            while self._left:
                name, chore = next(iter(self._left.items()))
                if not await self._write(chore) and self._left.get(name) == chore:
                    del self._left[name]

    async def stop(self) -> None:
        self._left.clear()
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    async def _run(self) -> None:
        rest = FIRST_REST_SECONDS
        while self._left:
            try:
                await self.do_all()
            except StoreUnavailable as error:
                log.warning("chores_put_off", chores=len(self._left), error=error.message)
            except Exception:  # the others must not wait for ever
                log.exception("chore_failed")
            if self._left:
                await asyncio.sleep(rest)
                rest = min(2 * rest, LONGEST_REST_SECONDS)
