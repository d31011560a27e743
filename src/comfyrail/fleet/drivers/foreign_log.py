"""The log that a ComfyUI itself gives over HTTP."""

import asyncio

import aiohttp
import msgspec

from comfyrail.errors import WorkerError, WorkerUnreachable
from comfyrail.fleet.comfyui.client import FOREIGN_ERRORS
from comfyrail.fleet.drivers.log_files import keep_last_lines

LIMIT_SECONDS = 10.0
LIMIT_BYTES = 8 << 20


class _Entry(msgspec.Struct):
    m: str


class _Log(msgspec.Struct):
    entries: list[_Entry]


async def ask_for_log(http: aiohttp.ClientSession, url: str, lines: int) -> str:
    """The last lines. Raises WorkerError where the server does not give its log."""
    try:
        async with (
            asyncio.timeout(LIMIT_SECONDS),
            http.get(f"{url.rstrip('/')}/internal/logs/raw", allow_redirects=False) as response,
        ):
            status = response.status
            content = await _read(response) if status == 200 else b""
    except FOREIGN_ERRORS as error:
        raise WorkerUnreachable(
            f"{url} does not answer, so its log cannot be had. See the log where it runs."
        ) from error
    if status != 200:
        raise WorkerError(
            f"{url} does not give its log (it answers {status}). See it where the worker runs.",
            code="NO_WORKER_LOG",
        )
    try:
        log = msgspec.json.decode(content, type=_Log)
    except (ValueError, RecursionError) as error:
        raise WorkerError(
            f"{url} gives a log that cannot be read. See it where the worker runs.",
            code="NO_WORKER_LOG",
        ) from error
    return keep_last_lines("".join(entry.m for entry in log.entries), lines)


async def _read(response: aiohttp.ClientResponse) -> bytes:
    """What it sends, up to a limit: a longer one is no whole JSON and is refused as such."""
    content = bytearray()
    async for chunk in response.content.iter_chunked(1 << 16):
        content += chunk
        if len(content) > LIMIT_BYTES:
            break
    return bytes(content)
