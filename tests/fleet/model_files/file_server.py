"""A server of one file, as well or as badly behaved as a test tells it to be."""

import asyncio
import hashlib
import re
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from typing import Any

from aiohttp import web


@dataclass
class FileServer:
    content: bytes
    etag: str = '"one"'
    cuts: list[int] = field(default_factory=list)
    """After so many bytes of the body the line breaks, one number a reply."""
    replies: list[tuple[int, dict[str, str]]] = field(default_factory=list)
    """Given before the file is: a status with headers each."""
    knows_ranges: bool = True
    wrong_range: bool = False
    says_length: bool = True
    more: int = 0
    """Bytes that are sent beyond the end."""
    endless: bool = False
    drips: bool = False
    encoding: str | None = None
    redirects_to: str | None = None
    gate: asyncio.Event | None = None
    """Nothing is sent before it is set."""
    requests: list[Mapping[str, str]] = field(default_factory=list)
    sent: int = 0
    url: str = ""
    most_at_once: int = 0
    _now: int = 0

    async def answer(self, request: web.Request) -> web.StreamResponse:
        self.requests.append(request.headers.copy())
        self._now += 1
        self.most_at_once = max(self.most_at_once, self._now)
        try:
            return await self._answer(request)
        finally:
            self._now -= 1

    async def _answer(self, request: web.Request) -> web.StreamResponse:
        if self.gate is not None:
            await self.gate.wait()
        if self.replies:
            status, headers = self.replies.pop(0)
            return web.Response(status=status, headers=headers)
        if self.redirects_to is not None:
            return web.Response(status=302, headers={"Location": self.redirects_to})
        start = self._start_of(request)
        response = web.StreamResponse(status=206 if start else 200)
        response.headers["ETag"] = self.etag
        if self.encoding is not None:
            response.headers["Content-Encoding"] = self.encoding
        if start:
            shown = 0 if self.wrong_range else start
            size = len(self.content)
            response.headers["Content-Range"] = f"bytes {shown}-{size - 1}/{size}"
        if self.says_length and not self.more and not self.endless:
            response.content_length = len(self.content) - start
        await response.prepare(request)
        with suppress(ConnectionError):
            await self._send(request, response, start)
        return response

    def _start_of(self, request: web.Request) -> int:
        asked = re.fullmatch(r"bytes=(\d+)-", request.headers.get("Range", ""))
        condition = request.headers.get("If-Range", self.etag)
        if asked is None or not self.knows_ranges or condition != self.etag:
            return 0
        return int(asked[1])

    async def _send(self, request: web.Request, response: web.StreamResponse, start: int) -> None:
        body = self.content[start:] + b"+" * self.more
        if self.drips:
            while True:
                await self._write(response, b"d")
                await asyncio.sleep(0.005)
        if self.cuts:
            await self._write(response, body[: self.cuts.pop(0)])
            # What was written must be on its way before the line breaks.
            await asyncio.sleep(0.02)
            if request.transport is not None:
                request.transport.abort()
            return
        await self._write(response, body)
        while self.endless:
            await self._write(response, b"+" * 65536)

    async def _write(self, response: web.StreamResponse, content: bytes) -> None:
        await response.write(content)
        self.sent += len(content)

    def model(self, name: str = "a.safetensors", **changes: Any) -> dict[str, Any]:
        """The line of a manifest."""
        return {
            "name": name,
            "folder": "checkpoints",
            "url": self.url,
            "sha256": hashlib.sha256(self.content).hexdigest(),
            "size": len(self.content),
            **changes,
        }


@asynccontextmanager
async def serving(server: FileServer) -> AsyncIterator[FileServer]:
    app = web.Application()
    app.router.add_get("/{path:.*}", server.answer)
    runner = web.AppRunner(app, shutdown_timeout=0.05)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    server.url = f"http://127.0.0.1:{runner.addresses[0][1]}/file"
    try:
        yield server
    finally:
        await runner.cleanup()
