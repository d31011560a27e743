"""Waiting for what another process does: there is nothing but to look again."""

import asyncio
import time
from collections.abc import Awaitable, Callable

LOOK_SECONDS = 0.1


async def until(look: Callable[[], Awaitable[bool]], limit: float) -> bool:
    """Whether it came true within so many seconds."""
    deadline = time.monotonic() + limit
    while not await look():
        if time.monotonic() > deadline:
            return False
        await asyncio.sleep(LOOK_SECONDS)
    return True
