"""Reading Server-Sent Events."""

from collections.abc import AsyncIterator

import aiohttp

LONGEST_LINE = 1 << 26
POSITION = ""
"""The name of what is no event: how far the stream has come without one."""


async def read_events(content: aiohttp.StreamReader) -> AsyncIterator[tuple[str, str]]:
    """(event, data) pairs until the stream ends; comments and other fields are passed over. An id
    that comes alone is a pair of POSITION and that.

    Raises ValueError for what no event stream can hold.
    """
    name, number = "message", ""
    data: list[str] = []
    async for line in _lines(content):
        field, _, value = line.partition(":")
        value = value.removeprefix(" ")
        if not line:
            if data:
                yield name, "\n".join(data)
            elif number.isdecimal():
                yield POSITION, number
            name, number, data = "message", "", []
        elif field == "id":
            number = value
        elif field == "event":
            name = value
        elif field == "data":
            data.append(value)


async def _lines(content: aiohttp.StreamReader) -> AsyncIterator[str]:
    """Lines of nearly any length: aiohttp's own limit is one that an error's details may pass."""
    rest = bytearray()
    async for chunk in content.iter_any():
        first, *others = chunk.split(b"\n")
        rest += first
        for following in others:
            yield rest.rstrip(b"\r").decode()
            rest = bytearray(following)
        if len(rest) > LONGEST_LINE:
            raise ValueError("a line of the event stream does not end")
