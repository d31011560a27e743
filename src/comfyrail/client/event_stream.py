"""Reading Server-Sent Events."""

from collections.abc import AsyncIterator

import aiohttp


async def read_events(content: aiohttp.StreamReader) -> AsyncIterator[tuple[str, str]]:
    """(event, data) pairs until the stream ends; comments and other fields are passed over."""
    name = "message"
    data: list[str] = []
    async for line in _lines(content):
        field, _, value = line.partition(":")
        value = value.removeprefix(" ")
        if not line:
            if data:
                yield name, "\n".join(data)
            name, data = "message", []
        elif field == "event":
            name = value
        elif field == "data":
            data.append(value)


async def _lines(content: aiohttp.StreamReader) -> AsyncIterator[str]:
    """Lines of any length: aiohttp's own have a limit that an error's details may pass."""
    rest = b""
    async for chunk in content.iter_any():
        *lines, rest = (rest + chunk).split(b"\n")
        for line in lines:
            yield line.rstrip(b"\r").decode()
