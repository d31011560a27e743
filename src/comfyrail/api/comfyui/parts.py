"""Long answers, of which never the whole is in memory."""

from collections.abc import AsyncIterator

from starlette.responses import Response, StreamingResponse

CHUNK = 1 << 16
JSON = "application/json"

Section = tuple[bytes, AsyncIterator[bytes] | None]
"""What opens it, and the values in it."""


async def json_in_parts(*sections: Section) -> Response:
    """One after the other. What goes wrong before the first part is there is told as always."""
    chunks = _chunks(sections)
    first = await anext(chunks)
    second = await anext(chunks, None)
    if second is None:
        return Response(first, media_type=JSON)
    return StreamingResponse(_joined(first, second, chunks), media_type=JSON)


async def _joined(
    first: bytes, second: bytes, others: AsyncIterator[bytes]
) -> AsyncIterator[bytes]:
    yield first
    yield second
    async for chunk in others:
        yield chunk


async def _chunks(sections: tuple[Section, ...]) -> AsyncIterator[bytes]:
    chunk = bytearray()
    for opening, values in sections:
        chunk += opening
        if values is None:
            continue
        comma = b""
        async for value in values:
            chunk += comma
            chunk += value
            comma = b","
            if len(chunk) >= CHUNK:
                yield bytes(chunk)
                chunk.clear()
    yield bytes(chunk)
