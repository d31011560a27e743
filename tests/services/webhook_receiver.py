"""Receivers of webhooks that behave well, or in the ways in which real ones do not."""

import asyncio
import contextlib
import json
import socket
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any

from aiohttp import web

LARGEST_UPLOAD = 1 << 30


@dataclass(frozen=True, slots=True)
class Call:
    """A request as it came."""

    method: str
    path: str
    query: dict[str, str]
    headers: dict[str, str]
    """By names in lower case."""
    body: bytes

    @property
    def id(self) -> str:
        return self.headers["x-webhook-id"]

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def number(self) -> int:
        return int(self.json["number"])

    @property
    def job(self) -> str:
        return str(self.json["execution_id"])


Behaviour = Callable[["Receiver", web.Request, Call], Awaitable[web.StreamResponse]]


@dataclass
class Receiver:
    """Remembers every call, and those that it has answered with 2xx."""

    port: int
    behave: Behaviour
    scheme: str = "http"
    calls: list[Call] = field(default_factory=list)
    taken: list[Call] = field(default_factory=list)
    most_at_once: int = 0
    _open: int = 0

    @property
    def url(self) -> str:
        return f"{self.scheme}://127.0.0.1:{self.port}/hook"

    async def answer(self, request: web.Request) -> web.StreamResponse:
        self._open += 1
        self.most_at_once = max(self.most_at_once, self._open)
        try:
            headers = {name.lower(): value for name, value in request.headers.items()}
            body = await request.read()
            call = Call(request.method, request.path, dict(request.query), headers, body)
            self.calls.append(call)
            response = await self.behave(self, request, call)
            if response.status < 300:
                self.taken.append(call)
            return response
        finally:
            self._open -= 1


async def healthy(_receiver: Receiver, _request: web.Request, _call: Call) -> web.StreamResponse:
    return web.Response(text="thank you")


def answering(status: int, **headers: str) -> Behaviour:
    async def behave(*_: Any) -> web.StreamResponse:
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        return web.Response(status=status, text=f"answer {status}", headers=named)

    return behave


def flaky(failures: int, status: int = 503) -> Behaviour:
    """Every message fails so often before it is taken."""

    async def behave(receiver: Receiver, _request: web.Request, call: Call) -> web.StreamResponse:
        tries = sum(1 for each in receiver.calls if each.id == call.id)
        return web.Response(status=200 if tries > failures else status)

    return behave


def stumbling(every: int = 3, status: int = 503) -> Behaviour:
    """One message of so many fails when it comes first."""
    seen: set[str] = set()

    async def behave(_receiver: Receiver, _request: web.Request, call: Call) -> web.StreamResponse:
        is_new = call.id not in seen
        seen.add(call.id)
        return web.Response(status=status if is_new and len(seen) % every == 0 else 200)

    return behave


def taking(seconds: float) -> Behaviour:
    async def behave(*_: Any) -> web.StreamResponse:
        await asyncio.sleep(seconds)
        return web.Response()

    return behave


async def hanging(_receiver: Receiver, _request: web.Request, _call: Call) -> web.StreamResponse:
    await asyncio.sleep(600)
    return web.Response()


async def resetting(_receiver: Receiver, request: web.Request, _call: Call) -> web.StreamResponse:
    """The connection ends without an answer."""
    assert request.transport is not None
    request.transport.abort()
    return web.Response(status=500)


async def endless(_receiver: Receiver, request: web.Request, _call: Call) -> web.StreamResponse:
    """200, and a body of a gigabyte, as fast as it is read."""
    response = web.StreamResponse(headers={"Content-Length": str(1 << 30)})
    await response.prepare(request)
    with contextlib.suppress(ConnectionError):
        for _ in range(1 << 14):
            await response.write(b"x" * (1 << 16))
    return response


async def trickling(_receiver: Receiver, request: web.Request, _call: Call) -> web.StreamResponse:
    """200, and a body of which a byte comes now and then."""
    response = web.StreamResponse()
    await response.prepare(request)
    with contextlib.suppress(ConnectionError):
        for _ in range(6000):
            await response.write(b"x")
            await asyncio.sleep(0.1)
    return response


@contextlib.asynccontextmanager
async def receiver(
    behave: Behaviour = healthy, port: int = 0, scheme: str = "http", **options: Any
) -> AsyncIterator[Receiver]:
    listener = socket.create_server(("127.0.0.1", port), backlog=512)
    made = Receiver(listener.getsockname()[1], behave, scheme)
    app = web.Application(client_max_size=LARGEST_UPLOAD)
    app.router.add_route("*", "/{path:.*}", made.answer)
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
    await runner.setup()
    await web.SockSite(runner, listener, **options).start()
    try:
        yield made
    finally:
        await runner.cleanup()


@contextlib.asynccontextmanager
async def silent_headers() -> AsyncIterator[str]:
    """The URL of one that sends a byte of its status line now and then."""
    talking: set[asyncio.Task[Any]] = set()

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        talking.add(task)
        with contextlib.suppress(OSError, asyncio.IncompleteReadError, asyncio.CancelledError):
            await reader.readuntil(b"\r\n\r\n")
            for byte in b"HTTP/1.1 200 OK\r\nX-Long: " + b"x" * 6000:
                writer.write(bytes([byte]))
                await writer.drain()
                await asyncio.sleep(0.1)
        writer.close()
        with contextlib.suppress(OSError):
            await writer.wait_closed()

    server = await asyncio.start_server(talk, "127.0.0.1", 0)
    async with server:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/hook"
        for task in talking:
            task.cancel()
        await asyncio.gather(*talking, return_exceptions=True)
