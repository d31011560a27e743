"""Places for which many wait: whoever wants many of them waits behind those who want few."""

import asyncio
from collections import OrderedDict, deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager


class RoomIsFull(Exception):
    """As many of one owner wait as may."""


class FairRoom:
    """The owners that wait take turns, each with its own in the order in which they came."""

    def __init__(self, places: int, most_waiting: int) -> None:
        """`most_waiting`: of one owner."""
        self.places = places
        self._free = places
        self._most_waiting = most_waiting
        self._lines: OrderedDict[str, deque[asyncio.Future[None]]] = OrderedDict()

    @asynccontextmanager
    async def place(self, owner: str) -> AsyncIterator[None]:
        """A place for as long as the context is open. Raises RoomIsFull."""
        await self._enter(owner)
        try:
            yield
        finally:
            self._pass_on()

    async def _enter(self, owner: str) -> None:
        if self._free:
            self._free -= 1
            return
        line = self._lines.setdefault(owner, deque())
        if len(line) >= self._most_waiting:
            raise RoomIsFull
        turn = asyncio.get_running_loop().create_future()
        line.append(turn)
        try:
            await turn
        except BaseException:
            if turn.done() and not turn.cancelled():
                self._pass_on()  # it came too late
            else:
                self._forget(owner, turn)
            raise

    def _pass_on(self) -> None:
        while self._lines:
            owner, line = self._lines.popitem(last=False)
            turn = line.popleft()
            if line:
                self._lines[owner] = line
            if not turn.done():
                turn.set_result(None)
                return
        self._free += 1

    def _forget(self, owner: str, turn: "asyncio.Future[None]") -> None:
        line = self._lines.get(owner)
        if line is not None and turn in line:
            line.remove(turn)
            if not line:
                del self._lines[owner]
