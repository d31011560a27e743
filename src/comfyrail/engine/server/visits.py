"""Requests that are under way, for a worker that wants to leave without cutting them off."""

import asyncio
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

from aiohttp import web
from aiohttp.abc import AbstractStreamWriter

from comfyrail.engine.server.middleware import Handler

QUIET_SECONDS = 0.1
"""Whoever has just been answered may have a further question."""
LOOK_SECONDS = 0.005


class Visits:
    """Owned by the event loop. Sockets do not count."""

    def __init__(self) -> None:
        self._under_way = 0
        self._last_ended = 0.0
        self._awaited: str | None = None
        self._is_asked = False

    @contextmanager
    def one(self) -> Iterator[None]:
        """Around what must not be cut off."""
        self._under_way += 1
        try:
            yield
        finally:
            self._under_way -= 1
            self._last_ended = time.monotonic()

    @web.middleware
    async def watch(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        if request.headers.get("Upgrade") is not None:
            return await handler(request)
        with self.one():
            return await handler(request)

    def note_question(self, prompt_id: str) -> None:
        """Someone asks how this prompt has ended."""
        self._is_asked = self._is_asked or prompt_id == self._awaited

    async def until_told(self, prompt_id: str, limit: float) -> None:
        """Return when someone has asked how this prompt has ended, and has had the time to fetch
        what it made; after `limit` seconds at the latest.
        """
        self._awaited, self._is_asked = prompt_id, False
        with suppress(TimeoutError):
            async with asyncio.timeout(limit):
                while not self._is_asked or self._is_busy(QUIET_SECONDS):  # noqa: ASYNC110 - briefly
                    await asyncio.sleep(LOOK_SECONDS)

    async def until_none(self, limit: float) -> None:
        """Return when no request is under way; after `limit` seconds at the latest."""
        with suppress(TimeoutError):
            async with asyncio.timeout(limit):
                # At least once: what has arrived is read then.
                await asyncio.sleep(LOOK_SECONDS)
                while self._is_busy(0.0):  # noqa: ASYNC110 - briefly
                    await asyncio.sleep(LOOK_SECONDS)

    def _is_busy(self, quiet: float) -> bool:
        return self._under_way > 0 or time.monotonic() - self._last_ended < quiet


class SentFile(web.FileResponse):
    """A file whose sending counts as a visit: it goes on when its handler has returned."""

    def __init__(self, path: Path, headers: Mapping[str, str], visits: Visits) -> None:
        super().__init__(path, headers=headers)
        self._visits = visits

    async def prepare(self, request: web.BaseRequest) -> AbstractStreamWriter | None:
        with self._visits.one():
            return await super().prepare(request)
