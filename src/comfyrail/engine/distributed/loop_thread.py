"""An event loop in a thread of its own, for connections that outlive one execution."""

import asyncio
import threading
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, TypeVar

import aiohttp

Value = TypeVar("Value")

CLOSE_SECONDS = 10.0
TLS_GOODBYE_SECONDS = 0.1
"""Connections with TLS end a little later than their session says."""


class LoopThread:
    """Starts with the first work. The loop of an execution stands still while a node runs on it,
    and between executions; this one does not.
    """

    def __init__(self, name: str) -> None:
        self._name = name
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None

    async def run(self, work: Coroutine[Any, Any, Value]) -> Value:
        """What `work` gives, which runs in the thread. When this is cancelled, so is the work; but
        its end is not waited for.
        """
        return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(work, self._start()))

    def close(
        self, clean_up: Callable[[], Awaitable[None]], stop: Callable[[], None] = lambda: None
    ) -> None:
        """Call `stop`, wait until all work has ended, some seconds at most; then clean up."""
        loop, thread = self._loop, self._thread
        if loop is None or thread is None:
            return
        self._loop = self._thread = None
        asyncio.run_coroutine_threadsafe(_end_all(stop, clean_up), loop).result(2 * CLOSE_SECONDS)
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()

    def _start(self) -> asyncio.AbstractEventLoop:
        if self._loop is None:
            self._loop = asyncio.new_event_loop()
            self._thread = threading.Thread(
                target=self._loop.run_forever, name=self._name, daemon=True
            )
            self._thread.start()
        return self._loop


async def close_session(session: aiohttp.ClientSession | None) -> None:
    """Close a session's connections; the loop may end after that."""
    if session is not None:
        await session.close()
        await asyncio.sleep(TLS_GOODBYE_SECONDS)


async def _end_all(stop: Callable[[], None], clean_up: Callable[[], Awaitable[None]]) -> None:
    stop()
    others = asyncio.all_tasks() - {asyncio.current_task()}
    if others:
        _, late = await asyncio.wait(others, timeout=CLOSE_SECONDS / 2)
        for task in late:
            task.cancel()
        if late:
            await asyncio.wait(late, timeout=CLOSE_SECONDS / 2)
    await clean_up()
