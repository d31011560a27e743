"""Connections that ask for nothing: how many there may be, and how long they may take.

A client that opens many connections and says nothing on them, or a letter now and then, must not
keep others out. Whoever has begun a request has some seconds for its head; where there are as many
connections as may be, the one that has been idle longest makes room for a new one.
"""

import asyncio
import resource
from collections import OrderedDict
from typing import Any

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

HEAD_SECONDS = 15.0
UNREAD_BODY_SECONDS = 15.0
"""A client that was answered before all of its body had come may go on sending it for so long."""
LARGEST_HEAD = 64 << 10
FILES_FOR_OTHERS = 256
"""Descriptors that are kept for the database, workers and outputs."""

_FULL = (
    b"HTTP/1.1 503 Service Unavailable\r\nretry-after: 5\r\ncontent-length: 0\r\n"
    b"connection: close\r\n\r\n"
)
_HEAD_TOO_LARGE = (
    b"HTTP/1.1 431 Request Header Fields Too Large\r\ncontent-length: 0\r\n"
    b"connection: close\r\n\r\n"
)


def raise_file_limit() -> int:
    """As many open files as the system lets this process have; says how many these are."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    return hard


def connections_within(wanted: int, files: int) -> int:
    """Those that can be had with so many open files."""
    if files == resource.RLIM_INFINITY:
        return wanted
    return max(1, min(wanted, files - FILES_FOR_OTHERS))


class _HeadTooLarge(Exception):
    pass


class PatientHttp(HttpToolsProtocol):
    """Uvicorn's protocol with limits on what a client may leave undone."""

    most_connections = 10_000
    head_seconds = HEAD_SECONDS
    unread_body_seconds = UNREAD_BODY_SECONDS
    idle: "OrderedDict[PatientHttp, None]"

    def __init__(self, *arguments: Any, **named: Any) -> None:
        super().__init__(*arguments, **named)
        self._deadline: asyncio.TimerHandle | None = None
        self._head_bytes = 0
        self._header_bytes = 0
        self._is_reading_head = True
        self._is_head_too_large = False

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        if len(self.connections) > self.most_connections and not self._make_room():
            transport.write(_FULL)
            transport.close()
            return
        self._begin_to_wait()
        self._set_deadline(self.head_seconds)

    def connection_lost(self, exc: Exception | None) -> None:
        self._clear_deadline()
        self.idle.pop(self, None)
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        if self._is_reading_head:
            self._head_bytes += len(data)
            if self._deadline is None:
                self._set_deadline(self.head_seconds)
        super().data_received(data)
        if self._is_reading_head and self._head_bytes > LARGEST_HEAD:
            self._refuse_head()

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self._header_bytes = 0

    def on_header(self, name: bytes, value: bytes) -> None:
        super().on_header(name, value)
        self._header_bytes += len(name) + len(value)
        if self._header_bytes > LARGEST_HEAD:
            self._is_head_too_large = True
            raise _HeadTooLarge

    def on_headers_complete(self) -> None:
        self._is_reading_head = False
        self._head_bytes = 0
        self._clear_deadline()
        self.idle.pop(self, None)
        super().on_headers_complete()

    def on_message_complete(self) -> None:
        super().on_message_complete()
        self._is_reading_head = True
        self._clear_deadline()

    def on_response_complete(self) -> None:
        super().on_response_complete()
        if self.transport.is_closing() or not self.cycle.response_complete:
            return
        self._begin_to_wait()
        if not self._is_reading_head:
            self._set_deadline(self.unread_body_seconds)

    def send_400_response(self, msg: str) -> None:
        if self._is_head_too_large:
            self._refuse_head()
        else:
            super().send_400_response(msg)

    def _make_room(self) -> bool:
        """Whether a connection that asked for nothing could be closed instead of this one."""
        while self.idle:
            oldest, _ = self.idle.popitem(last=False)
            if not oldest.transport.is_closing():
                oldest.transport.abort()
                return True
        return False

    def _begin_to_wait(self) -> None:
        self.idle[self] = None
        self.idle.move_to_end(self)

    def _refuse_head(self) -> None:
        self.transport.write(_HEAD_TOO_LARGE)
        self.transport.close()

    def _set_deadline(self, seconds: float) -> None:
        self._clear_deadline()
        self._deadline = self.loop.call_later(seconds, self._give_up)

    def _clear_deadline(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None

    def _give_up(self) -> None:
        self._deadline = None
        if not self.transport.is_closing():
            self.transport.abort()


def protocol_for(most: int) -> type[PatientHttp]:
    """The protocol of one server with at most so many connections."""

    class Protocol(PatientHttp):
        most_connections = most
        idle: OrderedDict[PatientHttp, None] = OrderedDict()  # noqa: RUF012 - one for all of them

    return Protocol
