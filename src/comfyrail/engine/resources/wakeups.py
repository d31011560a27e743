"""Ways to wake one that waits: a thread, or a task of an event loop."""

import asyncio
import contextlib
import threading
import time
from collections.abc import Callable
from typing import Protocol

from comfyrail.engine.resources.errors import ReservationStopped

POLL_SECONDS = 0.05


class Wakeup(Protocol):
    def wake(self) -> bool:
        """Wake it, from any thread; False when nobody is there any more."""
        ...


class ThreadWakeup:
    """For one thread that blocks."""

    def __init__(self) -> None:
        self._woken = threading.Event()

    def wake(self) -> bool:
        self._woken.set()
        return True

    def wait(
        self, timeout: float | None = None, should_stop: Callable[[], object] | None = None
    ) -> bool:
        """Block until woken; False when the time is over first.

        `should_stop` is asked every twentieth of a second. ReservationStopped is raised when it
        says yes, and what it raises itself passes through.
        """
        if should_stop is None:
            return self._woken.wait(timeout)
        deadline = None if timeout is None else time.monotonic() + timeout
        while not self._woken.is_set():
            if should_stop():
                raise ReservationStopped
            left = POLL_SECONDS if deadline is None else deadline - time.monotonic()
            if left <= 0:
                return False
            self._woken.wait(min(left, POLL_SECONDS))
        return True


class TaskWakeup:
    """For one task of the running event loop."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._woken: asyncio.Future[None] = self._loop.create_future()

    def wake(self) -> bool:
        with contextlib.suppress(RuntimeError):  # the loop is closed
            self._loop.call_soon_threadsafe(self._set)
            return True
        return False

    async def wait(self) -> None:
        await self._woken

    def _set(self) -> None:
        if not self._woken.done():
            self._woken.set_result(None)
