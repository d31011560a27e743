"""One stream of an agent's line, and the TCP connection that it is joined to."""

import asyncio
import contextlib
from collections import deque
from collections.abc import Awaitable, Callable
from typing import Any

from comfyrail.fleet.drivers.agent_frames import (
    LARGEST_DATA,
    LONGEST_REASON,
    WINDOW,
    Frame,
    Kind,
    LineDropped,
    Misuse,
)

GRANT_AT = WINDOW // 4
"""The sender is told of so much room at once, not of every byte."""


class Stream:
    """Carries bytes both ways between a connection and the line.

    What comes from the line is held until the connection has taken it, never more than WINDOW; what
    comes from the connection is read only as far as the other end has room for it. So a reader that
    is slow stops its own sender and nobody else.
    """

    def __init__(
        self,
        number: int,
        send: Callable[[Frame], Awaitable[None]],
        grant: Callable[[int, int], None],
    ) -> None:
        """`send` waits its turn on the line; `grant` only notes what the other end may send."""
        self.number = number
        self._send = send
        self._grant = grant
        self._arrived: deque[bytes] = deque()
        self._news = asyncio.Event()
        self._room = asyncio.Event()
        self._credit = WINDOW
        self._promised = WINDOW
        self._is_complete = False
        self._broken = asyncio.Event()
        self.buffered = 0
        """Bytes that came from the line and are not written to the connection yet."""

    # What the line tells

    def take_data(self, payload: bytes) -> None:
        """Raises Misuse for more than was asked for."""
        if self._is_complete:
            raise Misuse("the other end sent data after it said that there is no more")
        if len(payload) > self._promised:
            raise Misuse("the other end sent more than there was room for")
        self._promised -= len(payload)
        self.buffered += len(payload)
        self._arrived.append(payload)
        self._news.set()

    def take_finish(self) -> None:
        self._is_complete = True
        self._news.set()

    def take_credit(self, count: int) -> None:
        """Raises Misuse for more room than there can be."""
        self._credit += count
        if self._credit > WINDOW:
            raise Misuse("the other end gave more room than a stream has")
        self._room.set()

    def take_reset(self) -> None:
        self._broken.set()

    # The connection

    async def carry(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Carry until both directions have ended, or one of them has broken. Closes `writer`."""
        tasks = {
            asyncio.create_task(self._carry_out(reader), name=f"out-{self.number}"),
            asyncio.create_task(self._carry_in(writer), name=f"in-{self.number}"),
        }
        is_whole = False
        try:
            is_whole = await self._wait_for(tasks)
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            await close_connection(writer, gently=is_whole)

    async def _wait_for(self, tasks: set[asyncio.Task[None]]) -> bool:
        """Whether both directions came to their ends."""
        broken = asyncio.create_task(self._broken.wait(), name=f"broken-{self.number}")
        try:
            left: set[asyncio.Task[Any]] = {broken, *tasks}
            while left != {broken}:
                done, left = await asyncio.wait(left, return_when=asyncio.FIRST_COMPLETED)
                if broken in done:
                    return False
                for task in done:
                    task.result()
        except LineDropped:
            return False
        except OSError as error:
            reason = str(error)[:LONGEST_REASON] or "the connection broke"
            with contextlib.suppress(LineDropped):
                await self._send(Frame(Kind.RESET, self.number, reason.encode()[:LONGEST_REASON]))
            return False
        finally:
            broken.cancel()
            await asyncio.gather(broken, return_exceptions=True)
        return True

    async def _carry_out(self, reader: asyncio.StreamReader) -> None:
        while True:
            while self._credit <= 0:
                self._room.clear()
                await self._room.wait()
            data = await reader.read(min(self._credit, LARGEST_DATA))
            if not data:
                await self._send(Frame(Kind.FINISH, self.number))
                return
            self._credit -= len(data)
            await self._send(Frame(Kind.DATA, self.number, data))

    async def _carry_in(self, writer: asyncio.StreamWriter) -> None:
        written = 0
        while True:
            while self._arrived:
                data = self._arrived.popleft()
                writer.write(data)
                await writer.drain()
                self.buffered -= len(data)
                written += len(data)
                if written >= GRANT_AT:
                    self._promised += written
                    self._grant(self.number, written)
                    written = 0
            if self._is_complete:
                if writer.can_write_eof():
                    writer.write_eof()
                return
            self._news.clear()
            await self._news.wait()


async def close_connection(writer: asyncio.StreamWriter, *, gently: bool) -> None:
    """End a connection; not gently: what is still to be sent is thrown away."""
    if not gently:
        writer.transport.abort()
    writer.close()
    with contextlib.suppress(OSError, TimeoutError):
        async with asyncio.timeout(5):
            await writer.wait_closed()
