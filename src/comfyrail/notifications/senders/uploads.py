"""Sends outputs to URLs of the caller's own storage [8.3]."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Protocol

from comfyrail.clock import Clock
from comfyrail.errors import ComfyrailError, NotFound, OutgoingError
from comfyrail.jobs.delivery_schedule import UPLOAD_SECONDS
from comfyrail.network.outgoing import OutgoingHttp
from comfyrail.notifications.senders.web import (
    GLANCE_SECONDS,
    REPLY_BYTES,
    limits_within,
    unanswered,
)
from comfyrail.notifications.verdicts import Answer, Verdict, judge
from comfyrail.store.notifications import UploadOrder

STALL_SECONDS = 60.0
"""A receiver that takes nothing more for so long is left."""
SLOWEST_BYTES_PER_SECOND = 100_000
LEAST_SECONDS = 120.0


class OpenFile(Protocol):
    @property
    def size(self) -> int: ...

    def chunks(self, start: int = 0, stop: int | None = None) -> AsyncIterator[bytes]: ...


class Files(Protocol):
    """The side of a blob store that is needed here."""

    async def open(self, key: str) -> OpenFile: ...


class UploadSender:
    def __init__(self, http: OutgoingHttp, files: Files, clock: Clock) -> None:
        self._http = http
        self._files = files
        self._clock = clock

    async def send(self, order: UploadOrder) -> Answer:
        if not order.blob_key:
            return Answer(Verdict.REFUSED, error="The job made no such output.")
        try:
            return await self._send_file(order, await self._files.open(order.blob_key))
        except TimeoutError:
            return Answer(
                Verdict.RETRY, error=f"It took nothing of the file for {STALL_SECONDS:g} s."
            )
        except OutgoingError as error:
            return unanswered(error)
        except NotFound:
            return Answer(Verdict.REFUSED, error="The output is gone.")
        except ComfyrailError as error:
            return Answer(Verdict.RETRY, error=error.message)

    async def _send_file(self, order: UploadOrder, file: OpenFile) -> Answer:
        headers = dict(order.headers)
        if not any(name.lower() == "content-type" for name in headers):
            headers["Content-Type"] = order.content_type
        headers["Content-Length"] = str(file.size)
        async with watched(file.chunks(), STALL_SECONDS) as chunks:
            response = await self._http.request(
                order.method,
                order.url,
                headers=headers,
                body=chunks,
                limits=limits_within(seconds_for(file.size)),
                read_at_most=REPLY_BYTES,
                glance_seconds=GLANCE_SECONDS,
            )
        answer = judge(response.status, response.headers, response.body, self._clock.now())
        if answer.verdict is Verdict.GONE:  # there is nobody to be told nothing more
            return Answer(Verdict.REFUSED, answer.status, answer.error, answer.reply)
        return answer


def seconds_for(size: int) -> float:
    """How long a file may be on its way, from the first byte to the answer."""
    return min(UPLOAD_SECONDS, LEAST_SECONDS + size / SLOWEST_BYTES_PER_SECOND)


@asynccontextmanager
async def watched(
    chunks: AsyncIterator[bytes], stall_seconds: float
) -> AsyncIterator[AsyncIterator[bytes]]:
    """The same chunks. Raises TimeoutError where none is asked for in that time, or no end comes
    behind the last.
    """
    loop = asyncio.get_running_loop()
    is_over = False

    async def passed() -> AsyncIterator[bytes]:
        async for chunk in chunks:
            if not is_over:
                limit.reschedule(loop.time() + stall_seconds)
            yield chunk

    async with asyncio.timeout(stall_seconds) as limit:
        try:
            yield passed()
        finally:
            is_over = True
