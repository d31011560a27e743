"""Who writes to an upload in parts: the newest request. One that has stalled holds nobody up."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from comfyrail.errors import Conflict


@dataclass(slots=True, eq=False)
class Turn:
    """Of one request; over as soon as a newer one has come."""

    is_over: asyncio.Event = field(default_factory=asyncio.Event)
    next_start: int | None = None
    """Where the part of the newer one begins."""

    async def chunks_of(self, chunks: AsyncIterator[bytes]) -> AsyncGenerator[bytes, None]:
        """What comes while it lasts. Raises Conflict, code UPLOAD_TAKEN_OVER, when it is over."""
        over = asyncio.ensure_future(self.is_over.wait())
        try:
            while True:
                coming = asyncio.ensure_future(_next_of(chunks))
                try:
                    await asyncio.wait({coming, over}, return_when=asyncio.FIRST_COMPLETED)
                    if self.is_over.is_set():
                        raise _taken_over()
                    chunk = coming.result()
                finally:
                    coming.cancel()
                    await asyncio.gather(coming, return_exceptions=True)
                if chunk is None:
                    return
                yield chunk
        finally:
            over.cancel()


class Turns:
    """Of all requests for one upload."""

    def __init__(self) -> None:
        self._lock = asyncio.Lock()
        self._open: list[Turn] = []

    @asynccontextmanager
    async def take(self, start: int | None = None) -> AsyncIterator[Turn]:
        """Break off whoever writes or waits, and go on when that is done."""
        for older in self._open:
            older.next_start = start
            older.is_over.set()
        turn = Turn()
        self._open.append(turn)
        try:
            async with self._lock:
                yield turn
        finally:
            self._open.remove(turn)


async def _next_of(chunks: AsyncIterator[bytes]) -> bytes | None:
    return await anext(chunks, None)


def _taken_over() -> Conflict:
    return Conflict(
        "A newer request goes on with this upload. Ask it how far it is.",
        code="UPLOAD_TAKEN_OVER",
    )
