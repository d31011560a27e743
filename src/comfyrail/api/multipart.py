"""Forms with files, read as they come: a file is never in memory as a whole."""

from collections import deque
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import Any

from python_multipart.exceptions import FormParserError
from python_multipart.multipart import MultipartParser, parse_options_header
from starlette.requests import ClientDisconnect, Request

from comfyrail.api.messages import check_content_type
from comfyrail.errors import MalformedRequest, PayloadTooLarge

FORM = "multipart/form-data"
MOST_PARTS = 100
FIELD_BYTES = 1 << 16
HEADER_BYTES = 1 << 14


@dataclass(slots=True)
class Part:
    """A field or a file of a form. Its chunks are gone once the next part is asked for."""

    name: str
    filename: str | None
    content_type: str | None
    chunks: AsyncIterator[bytes]

    @property
    def is_file(self) -> bool:
        return self.filename is not None

    async def text(self) -> str:
        """The value of a field."""
        content = bytearray()
        async for chunk in self.chunks:
            content += chunk
            if len(content) > FIELD_BYTES:
                raise PayloadTooLarge(
                    f"The field '{self.name}' is longer than {FIELD_BYTES} bytes.",
                    details={"limit": FIELD_BYTES},
                )
        try:
            return content.decode()
        except UnicodeDecodeError as error:
            raise MalformedRequest(f"The field '{self.name}' is not UTF-8.") from error


async def read_form(request: Request) -> AsyncIterator[Part]:
    """The parts of a form in their order. Raises MalformedRequest where it is none."""
    check_content_type(request, FORM)
    _, options = parse_options_header(request.headers["content-type"])
    boundary = options.get(b"boundary", b"")
    if not boundary or len(boundary) > 200:
        raise MalformedRequest("The form's Content-Type has no usable boundary.")
    form = _Form(request, boundary)
    for _ in range(MOST_PARTS):
        part = await form.next_part()
        if part is None:
            return
        yield part
        async for _rest in part.chunks:
            continue
    raise PayloadTooLarge(
        f"The form has more than {MOST_PARTS} parts.", details={"limit": MOST_PARTS}
    )


async def read_stream(request: Request) -> AsyncIterator[bytes]:
    """A body that is a file itself."""
    try:
        async for chunk in request.stream():
            if chunk:
                yield chunk
    except ClientDisconnect as error:
        raise broken_off() from error


def broken_off() -> MalformedRequest:
    return MalformedRequest(
        "The connection broke off before the file was here.", code="UPLOAD_BROKEN_OFF"
    )


@dataclass(slots=True)
class _Header:
    name: bytearray = field(default_factory=bytearray)
    value: bytearray = field(default_factory=bytearray)


class _Form:
    """What the parser says of each chunk, kept until somebody asks for it."""

    def __init__(self, request: Request, boundary: bytes) -> None:
        self._stream = read_stream(request)
        self._events: deque[Any] = deque()
        self._headers: dict[bytes, bytes] = {}
        self._header = _Header()
        self._header_bytes = 0
        self._is_over = False
        self._parser = MultipartParser(
            boundary,
            {
                "on_part_begin": self._begin,
                "on_part_data": self._data,
                "on_part_end": lambda: self._events.append(None),
                "on_header_field": self._header_name,
                "on_header_value": self._header_value,
                "on_header_end": self._header_end,
                "on_headers_finished": lambda: self._events.append(self._headers),
                "on_end": self._end,
            },
        )

    async def next_part(self) -> Part | None:
        headers = await self._next()
        if headers is None:
            return None
        kind, options = parse_options_header(headers.get(b"content-disposition", b""))
        name = options.get(b"name")
        if kind != b"form-data" or name is None:
            raise MalformedRequest("A part of the form has no name.")
        filename = options.get(b"filename")
        content_type = headers.get(b"content-type")
        return Part(
            name=_decoded(name),
            filename=None if filename is None else _decoded(filename),
            content_type=None if content_type is None else _decoded(content_type),
            chunks=self._chunks(),
        )

    async def _chunks(self) -> AsyncIterator[bytes]:
        while True:
            event = await self._next()
            if event is None:
                return
            yield event

    async def _next(self) -> Any:
        """The next event: headers, data, or None for the end of a part or of all."""
        while not self._events:
            if self._is_over:
                return None
            chunk = await anext(self._stream, None)
            if chunk is None:
                raise MalformedRequest("The form ends in the middle of a part.")
            try:
                self._parser.write(chunk)
            except FormParserError as error:
                raise MalformedRequest("The body is no form, or its boundary is wrong.") from error
        return self._events.popleft()

    # What the parser calls

    def _begin(self) -> None:
        self._headers = {}
        self._header = _Header()
        self._header_bytes = 0

    def _data(self, data: bytes, start: int, end: int) -> None:
        if end > start:
            self._events.append(data[start:end])

    def _header_name(self, data: bytes, start: int, end: int) -> None:
        self._count(end - start)
        self._header.name += data[start:end]

    def _header_value(self, data: bytes, start: int, end: int) -> None:
        self._count(end - start)
        self._header.value += data[start:end]

    def _header_end(self) -> None:
        self._headers[bytes(self._header.name).lower()] = bytes(self._header.value)
        self._header = _Header()

    def _count(self, size: int) -> None:
        self._header_bytes += size
        if self._header_bytes > HEADER_BYTES:
            raise MalformedRequest("The headers of a part of the form are too long.")

    def _end(self) -> None:
        self._is_over = True


def _decoded(text: bytes) -> str:
    """As browsers send it: UTF-8."""
    return text.decode("utf-8", "replace")
