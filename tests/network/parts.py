"""Servers on loopback addresses, and names that mean what a test says."""

import asyncio
import contextlib
import socket
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from ipaddress import ip_network
from typing import Any

from aiohttp import web
from aiohttp.abc import AbstractResolver, ResolveResult

PUBLIC = "127.0.0.2"
"""Stands for an address of the Internet: the only exception that clients of tests have."""
PRIVATE = "127.0.0.1"
AS_PUBLIC = (ip_network(PUBLIC),)

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


class ScriptedResolver(AbstractResolver):
    """Answers for a name come one after the other; the last one stays."""

    def __init__(self, **names: Sequence[Sequence[str]]) -> None:
        self.names = {name.replace("_", "."): list(answers) for name, answers in names.items()}
        self.asked: list[str] = []

    async def resolve(
        self,
        host: str,
        port: int = 0,
        family: socket.AddressFamily = socket.AF_INET,  # noqa: ARG002 - aiohttp's signature
    ) -> list[ResolveResult]:
        self.asked.append(host)
        answers = self.names.get(host)
        if answers is None:
            raise socket.gaierror(socket.EAI_NONAME, "no such name")
        addresses = answers.pop(0) if len(answers) > 1 else answers[0]
        return [
            ResolveResult(
                hostname=host,
                host=address,
                port=port,
                family=socket.AF_INET6 if ":" in address else socket.AF_INET,
                proto=0,
                flags=0,
            )
            for address in addresses
        ]

    async def close(self) -> None:
        pass


@dataclass
class Site:
    """A web server that remembers what it was asked for."""

    port: int
    requests: list[web.Request] = field(default_factory=list)

    def url(self, host: str, path: str = "/") -> str:
        return f"http://{host}:{self.port}{path}"


@contextlib.asynccontextmanager
async def site(
    handler: Handler, address: str = PUBLIC, port: int = 0, **options: Any
) -> AsyncIterator[Site]:
    listener = socket.create_server((address, port))
    made = Site(listener.getsockname()[1])

    async def answer(request: web.Request) -> web.StreamResponse:
        made.requests.append(request)
        return await handler(request)

    app = web.Application()
    app.router.add_route("*", "/{path:.*}", answer)
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
    await runner.setup()
    await web.SockSite(runner, listener, **options).start()
    try:
        yield made
    finally:
        await runner.cleanup()


@contextlib.asynccontextmanager
async def raw_site(
    talk: Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]],
) -> AsyncIterator[Site]:
    """A server that does not keep to HTTP."""

    talking: set[asyncio.Task[Any]] = set()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        talking.add(task)
        # asyncio logs the end of a server's task that is cancelled: it is ours to end it.
        with contextlib.suppress(OSError, asyncio.IncompleteReadError, asyncio.CancelledError):
            await reader.readuntil(b"\r\n\r\n")
            await talk(reader, writer)
        writer.close()
        with contextlib.suppress(OSError):
            await writer.wait_closed()

    server = await asyncio.start_server(serve, PUBLIC, 0)
    async with server:
        yield Site(server.sockets[0].getsockname()[1])
        for task in talking:
            task.cancel()
        await asyncio.gather(*talking, return_exceptions=True)


async def picture(_: web.Request) -> web.Response:
    return web.Response(body=b"PNG", content_type="image/png")
