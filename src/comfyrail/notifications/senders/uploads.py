"""Sends outputs to URLs of the caller's own storage [8.3]."""

from collections.abc import AsyncIterator
from typing import Protocol

from comfyrail.clock import Clock
from comfyrail.errors import ComfyrailError, NotFound, OutgoingError
from comfyrail.network.outgoing import OutgoingHttp
from comfyrail.notifications.senders.web import (
    GLANCE_SECONDS,
    REPLY_BYTES,
    limits_within,
    unanswered,
)
from comfyrail.notifications.verdicts import Answer, Verdict, judge
from comfyrail.store.notifications import UploadOrder

UPLOAD_SECONDS = 3600.0


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
        response = await self._http.request(
            order.method,
            order.url,
            headers=headers,
            body=file.chunks(),
            limits=limits_within(UPLOAD_SECONDS),
            read_at_most=REPLY_BYTES,
            glance_seconds=GLANCE_SECONDS,
        )
        answer = judge(response.status, response.headers, response.body, self._clock.now())
        if answer.verdict is Verdict.GONE:  # there is nobody to be told nothing more
            return Answer(Verdict.REFUSED, answer.status, answer.error, answer.reply)
        return answer
