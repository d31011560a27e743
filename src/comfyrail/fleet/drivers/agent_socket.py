"""aiohttp's WebSockets, of a client or of a server, as an agent's line wants them."""

import asyncio
import contextlib

import aiohttp
from aiohttp import web

from comfyrail.fleet.drivers.agent_frames import LineDropped, Misuse

CLOSE_SECONDS = 2.0
_ENDS = {aiohttp.WSMsgType.CLOSE, aiohttp.WSMsgType.CLOSING, aiohttp.WSMsgType.CLOSED}


class AiohttpSocket:
    def __init__(self, socket: web.WebSocketResponse | aiohttp.ClientWebSocketResponse) -> None:
        self._socket = socket

    async def receive_bytes(self) -> bytes:
        try:
            message = await self._socket.receive()
        except (aiohttp.ClientError, OSError, RuntimeError) as error:
            raise LineDropped(f"the line broke: {error}") from error
        if message.type is aiohttp.WSMsgType.BINARY:
            return bytes(message.data)
        if message.type in _ENDS:
            said = f": {message.extra}" if message.extra else ""
            raise LineDropped(f"the other end closed the line{said}")
        if message.type is aiohttp.WSMsgType.ERROR:
            raise LineDropped(f"the line broke: {message.data}")
        raise Misuse("the other end sent text, not frames")

    async def send_bytes(self, data: bytes) -> None:
        try:
            await self._socket.send_bytes(data)
        except (aiohttp.ClientError, OSError, RuntimeError) as error:
            raise LineDropped(f"the line broke: {error}") from error

    async def close(self, code: int = 1000, reason: str = "") -> None:
        with contextlib.suppress(aiohttp.ClientError, OSError, RuntimeError, TimeoutError):
            async with asyncio.timeout(CLOSE_SECONDS):
                await self._socket.close(code=code, message=reason.encode()[:120])
