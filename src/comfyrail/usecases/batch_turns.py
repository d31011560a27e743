"""Checking batches in turns: a few at a time, and none for long while others wait."""

import asyncio
from collections import Counter, deque
from collections.abc import Iterator
from contextlib import contextmanager

from comfyrail.errors import NotReady
from comfyrail.ids import TenantId

CHECKED_AT_ONCE = 2
TURN_SECONDS = 0.1
"""A batch is checked for so long, then the next that waits."""
SLICE_SECONDS = 0.005
"""Checks run for so long before the rest of the server has its turn."""
MOST_IN_THE_MAKING = 64
MOST_OF_A_TENANT = 32
MOST_BYTES_OF_ALL = 512 << 20
"""Of the workflows of all batches in the making: they are in memory until they are stored."""
RETRY_SECONDS = 5.0


class BatchTurns:
    """Shares the work of checking out among batches. Tenants take turns, whatever the number of
    their batches is, and so do the batches of a tenant.
    """

    def __init__(self) -> None:
        self._free = CHECKED_AT_ONCE
        self._waiting: dict[TenantId, deque[asyncio.Future[None]]] = {}
        """In the order in which the tenants come next."""
        self._in_the_making: Counter[TenantId] = Counter()
        self._bytes = 0

    @contextmanager
    def admit(self, tenant: TenantId) -> Iterator["Making"]:
        """Make a batch. Raises NotReady when too many are being made."""
        in_all = self._in_the_making.total()
        if in_all >= MOST_IN_THE_MAKING or self._in_the_making[tenant] >= MOST_OF_A_TENANT:
            raise _too_many("Too many batches are being checked at the moment.")
        self._in_the_making[tenant] += 1
        making = Making(self, tenant)
        try:
            yield making
        finally:
            making.end_turn()
            self._bytes -= making.bytes
            self._in_the_making[tenant] -= 1
            if not self._in_the_making[tenant]:
                del self._in_the_making[tenant]

    @property
    def is_awaited(self) -> bool:
        return bool(self._waiting)

    async def take(self, tenant: TenantId) -> None:
        """Wait for a turn."""
        if self._free and not self._waiting:
            self._free -= 1
        else:
            await self._wait(tenant, self._line_up(tenant))

    async def pass_on(self, tenant: TenantId) -> None:
        """Let the next one have this turn, and wait for another."""
        # In the line first: who leaves it for a moment would lose the place among the tenants.
        turn = self._line_up(tenant)
        self.give()
        await self._wait(tenant, turn)

    def give(self) -> None:
        """Let the next one have a turn."""
        self._free += 1
        while self._free and self._waiting:
            tenant = next(iter(self._waiting))
            line = self._waiting.pop(tenant)
            turn = line.popleft()
            if line:
                self._waiting[tenant] = line
            if not turn.done():
                self._free -= 1
                turn.set_result(None)

    def keep(self, size: int) -> None:
        if self._bytes + size > MOST_BYTES_OF_ALL:
            raise _too_many("The batches that are being checked at the moment are too large.")
        self._bytes += size

    def _line_up(self, tenant: TenantId) -> asyncio.Future[None]:
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(tenant, deque()).append(turn)
        return turn

    async def _wait(self, tenant: TenantId, turn: asyncio.Future[None]) -> None:
        try:
            await turn
        except asyncio.CancelledError:
            if turn.cancelled():
                self._leave(tenant, turn)
            else:  # it had been given the turn just then
                self.give()
            raise

    def _leave(self, tenant: TenantId, turn: asyncio.Future[None]) -> None:
        line = self._waiting.get(tenant)
        if line is not None and turn in line:
            line.remove(turn)
            if not line:
                del self._waiting[tenant]


class Making:
    """One batch in the making."""

    def __init__(self, turns: BatchTurns, tenant: TenantId) -> None:
        self._turns = turns
        self._tenant = tenant
        self._now = asyncio.get_running_loop().time
        self._has_turn = False
        self._turn_since = self._slice_since = 0.0
        self.bytes = 0

    async def pause(self) -> None:
        """Go on when it is this batch's turn: to be called before each check."""
        if not self._has_turn:
            await self._turns.take(self._tenant)
            self._begin_turn()
        elif self._turns.is_awaited and self._now() - self._turn_since >= TURN_SECONDS:
            self._has_turn = False
            await self._turns.pass_on(self._tenant)
            self._begin_turn()
        elif self._now() - self._slice_since >= SLICE_SECONDS:
            await asyncio.sleep(0)
            self._slice_since = self._now()

    def keep(self, size: int) -> None:
        """Account for so many bytes until the batch is made. Raises NotReady when all batches
        together have too many.
        """
        self._turns.keep(size)
        self.bytes += size

    def end_turn(self) -> None:
        """Nothing is left to check."""
        if self._has_turn:
            self._has_turn = False
            self._turns.give()

    def _begin_turn(self) -> None:
        self._has_turn = True
        self._turn_since = self._slice_since = self._now()


def _too_many(what: str) -> NotReady:
    return NotReady(
        f"{what} Try again in a few seconds.", code="TOO_MANY_BATCHES", retry_after=RETRY_SECONDS
    )
