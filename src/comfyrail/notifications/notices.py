"""Events of no job: what workers and the server itself have to say [9.1]."""

import asyncio
from collections import deque
from collections.abc import Mapping
from typing import Any

import structlog

from comfyrail.errors import StoreUnavailable
from comfyrail.jobs.events import EventType
from comfyrail.store.feed import OPERATOR, FeedStore

log = structlog.get_logger(__name__)

MOST_WAITING = 1000
RETRY_SECONDS = 5.0


class Notices:
    """Takes notices from wherever they come up, and writes them one after another: while the disk
    is full they wait, the oldest give way to newer ones. `run` goes on until it is cancelled.
    """

    def __init__(self, store: FeedStore, retry_seconds: float = RETRY_SECONDS) -> None:
        self._store = store
        self._retry_seconds = retry_seconds
        self._waiting: deque[tuple[EventType, Mapping[str, Any]]] = deque(maxlen=MOST_WAITING)
        self._has_some = asyncio.Event()

    def tell(self, event_type: EventType, **data: Any) -> None:
        """For those who run the server."""
        self._waiting.append((event_type, data))
        self._has_some.set()

    async def run(self) -> None:
        while True:
            await self._has_some.wait()
            self._has_some.clear()
            while self._waiting:
                await self._write(self._waiting.popleft())

    async def _write(self, notice: tuple[EventType, Mapping[str, Any]]) -> None:
        """It is tried again until it is written, or newer ones need its place."""
        while len(self._waiting) < MOST_WAITING:
            try:
                await self._store.add_notice(OPERATOR, *notice)
            except StoreUnavailable as error:
                log.warning("notice_not_written", notice=notice[0], error=error.message)
                await asyncio.sleep(self._retry_seconds)
            except Exception:  # one that cannot be written must not end the others
                log.exception("notice_lost", notice=notice[0])
                return
            else:
                return
        log.warning("notice_dropped", notice=notice[0])
