"""Giving files to clients: with ranges and ETag, and so that a browser runs nothing in them."""

from collections.abc import AsyncGenerator, AsyncIterator, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from secrets import token_hex

import structlog
from starlette.datastructures import Headers
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.types import Receive, Scope, Send

from comfyrail.api.byte_ranges import Span, wanted_spans
from comfyrail.api.conditional import NOT_MODIFIED, is_known
from comfyrail.api.errors import error_response
from comfyrail.errors import ComfyrailError
from comfyrail.results.blob_store import OpenBlob
from comfyrail.results.dispositions import content_disposition, shows_inline, told_type

log = structlog.get_logger(__name__)

PARTIAL_CONTENT = 206
CRLF = "\r\n"
FOREVER = "private, max-age=31536000, immutable"
"""Of a file that never changes: its name is what it has in it."""


def file_response(
    request: Request,
    blob: OpenBlob,
    *,
    filename: str,
    content_type: str,
    sha256: str,
    caching: str = FOREVER,
    is_download: bool = False,
) -> Response:
    """The file itself. `is_download`: to be kept, though a browser could show it."""
    is_inline = shows_inline(content_type) and not is_download
    return ranged_response(
        request,
        blob,
        tag=f'"{sha256}"',
        media_type=told_type(content_type, is_inline=is_inline),
        headers={
            "Cache-Control": caching,
            "Content-Disposition": content_disposition(filename, is_inline=is_inline),
        },
    )


def ranged_response(
    request: Request, blob: OpenBlob, *, tag: str, media_type: str, headers: Mapping[str, str]
) -> Response:
    """A file, the ranges of it that are asked for, or word that the client has it."""
    headers = {**headers, "ETag": tag}
    if is_known(request.headers.get("if-none-match"), tag):
        return Response(status_code=NOT_MODIFIED, headers=headers)
    return RangedBlob(blob, media_type, headers)


@dataclass(frozen=True, slots=True)
class _Part:
    """Bytes of the blob, and what is sent before them."""

    span: Span
    opening: bytes = b""


class BreakableStream(StreamingResponse):
    """Bytes that may end too early; who takes them notices."""

    async def stream_response(self, send: Send) -> None:
        try:
            await super().stream_response(send)
        except ComfyrailError as error:
            # Without the end that was to come, the client knows.
            log.warning("download_broke_off", error=error.message)


class ReadyStream(BreakableStream):
    """Bytes as they are made, of a length that nobody knows yet."""

    def __init__(
        self, chunks: AsyncGenerator[bytes], media_type: str, headers: Mapping[str, str]
    ) -> None:
        super().__init__(chunks, headers=headers, media_type=media_type)
        self._chunks = chunks

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            async with aclosing(self._chunks):
                # What cannot be had is found out while there is still time to say so.
                first = await anext(self._chunks, b"")
                self.body_iterator = _joined(first, self._chunks)
                await super().__call__(scope, receive, send)
        except ComfyrailError as error:
            await error_response(error, scope)(scope, receive, send)


class RangedBlob(BreakableStream):
    """A blob, wherever it is, or the ranges of it that are asked for. What is wrong with them is
    said in the shape that all errors have. It is read as fast as the client takes it, and no more
    when the client has gone.
    """

    def __init__(self, blob: OpenBlob, media_type: str, headers: Mapping[str, str]) -> None:
        super().__init__((), headers=headers, media_type=media_type)
        self.headers["accept-ranges"] = "bytes"
        self._blob = blob

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            parts, ending = self._prepare(Headers(scope=scope))
            if scope["method"] == "HEAD":
                await Response(None, self.status_code, self.headers)(scope, receive, send)
                return
            async with aclosing(self._bytes_of(parts, ending)) as chunks:
                # What cannot be had is found out while there is still time to say so.
                first = await anext(chunks, b"")
                self.body_iterator = _joined(first, chunks)
                await super().__call__(scope, receive, send)
        except ComfyrailError as error:
            await error_response(error, scope)(scope, receive, send)

    def _prepare(self, asked: Headers) -> tuple[Sequence[_Part], bytes]:
        """The parts to send, and what comes behind them; the head is made for them."""
        size = self._blob.size
        spans = self._wanted(asked, size)
        if not spans:
            self.headers["content-length"] = str(size)
            return [_Part((0, size))], b""
        self.status_code = PARTIAL_CONTENT
        if len(spans) == 1:
            self.headers["content-range"] = _content_range(spans[0], size)
            self.headers["content-length"] = str(spans[0][1] - spans[0][0])
            return [_Part(spans[0])], b""
        boundary, kind = token_hex(16), self.headers["content-type"]
        parts = [
            _Part(span, _opening(boundary, kind, span, size, is_first=number == 0))
            for number, span in enumerate(spans)
        ]
        ending = f"\r\n--{boundary}--\r\n".encode()
        length = sum(len(part.opening) + part.span[1] - part.span[0] for part in parts)
        self.headers["content-type"] = f"multipart/byteranges; boundary={boundary}"
        self.headers["content-length"] = str(length + len(ending))
        return parts, ending

    def _wanted(self, asked: Headers, size: int) -> Sequence[Span]:
        """Those that can be given; none: the whole file."""
        given = asked.get("range")
        other = asked.get("if-range")
        if given is None or (other is not None and other != self.headers["etag"]):
            return ()
        return wanted_spans(given, size)

    async def _bytes_of(self, parts: Sequence[_Part], ending: bytes) -> AsyncGenerator[bytes]:
        for part in parts:
            if part.opening:
                yield part.opening
            async for chunk in self._blob.chunks(*part.span):
                yield chunk
        if ending:
            yield ending


async def _joined(first: bytes, others: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    if first:
        yield first
    async for chunk in others:
        yield chunk


def _content_range(span: Span, size: int) -> str:
    return f"bytes {span[0]}-{span[1] - 1}/{size}"


def _opening(boundary: str, content_type: str, span: Span, size: int, *, is_first: bool) -> bytes:
    return (
        f"{'' if is_first else CRLF}--{boundary}{CRLF}Content-Type: {content_type}{CRLF}"
        f"Content-Range: {_content_range(span, size)}{CRLF}{CRLF}"
    ).encode("latin-1")
