"""A server that takes agents, agents, a ComfyUI behind them, and a wire that can be cut."""

import asyncio
import contextlib
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any

import aiohttp
from aiohttp import web

from comfyrail.fleet.agent_dialer import AgentDialer, AgentOptions, comfy_address
from comfyrail.fleet.drivers.agent import AgentLines, agent_app

TOKEN = "a-token-that-nobody-guesses"
LIMIT = 10.0


async def until(look: Callable[[], Any], limit: float = LIMIT) -> Any:
    """The first true value that `look` gives."""
    async with asyncio.timeout(limit):
        while not (value := look()):  # noqa: ASYNC110 - the state of another part
            await asyncio.sleep(0.005)
    return value


@contextlib.asynccontextmanager
async def serving(app: web.Application, tls: ssl.SSLContext | None = None) -> AsyncIterator[str]:
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0, ssl_context=tls)
    await site.start()
    try:
        yield f"{'http' if tls is None else 'https'}://127.0.0.1:{runner.addresses[0][1]}"
    finally:
        await runner.cleanup()


@dataclass
class Comfy:
    """Answers enough of ComfyUI's protocol to be carried over a line."""

    received: int = 0
    sent: int = 0
    let_go: asyncio.Event = field(default_factory=asyncio.Event)

    def app(self) -> web.Application:
        app = web.Application(client_max_size=1 << 30)
        app.router.add_get("/system_stats", self._stats)
        app.router.add_get("/view", self._view)
        app.router.add_post("/upload/image", self._upload)
        app.router.add_get("/wait", self._wait)
        app.router.add_get("/ws", self._socket)
        return app

    async def _stats(self, _: web.Request) -> web.Response:
        return web.json_response({"system": {"os": "test"}, "devices": []})

    async def _view(self, request: web.Request) -> web.StreamResponse:
        left = int(request.query["bytes"])
        reply = web.StreamResponse(headers={"Content-Length": str(left)})
        await reply.prepare(request)
        piece = bytes(range(256)) * 256
        while left:
            await reply.write(piece[: min(left, len(piece))])
            self.sent += min(left, len(piece))
            left -= min(left, len(piece))
        return reply

    async def _upload(self, request: web.Request) -> web.Response:
        async for piece in request.content.iter_chunked(1 << 16):
            self.received += len(piece)
        return web.json_response({"bytes": self.received})

    async def _wait(self, _: web.Request) -> web.Response:
        await self.let_go.wait()
        return web.json_response({})

    async def _socket(self, request: web.Request) -> web.WebSocketResponse:
        socket = web.WebSocketResponse()
        await socket.prepare(request)
        async for message in socket:
            await socket.send_str(f"{request.query['clientId']} said {message.data}")
        return socket


class Wire:
    """A TCP relay between an agent and its server: it can be cut, and it can go silent."""

    def __init__(self, target: str) -> None:
        self._port = int(target.rsplit(":", 1)[1])
        self._relays: set[asyncio.Task[None]] = set()
        self._flowing = asyncio.Event()
        self._flowing.set()
        self.is_refusing = False
        self.connections = 0

    @contextlib.asynccontextmanager
    async def laid(self) -> AsyncIterator[str]:
        server = await asyncio.start_server(self._take, "127.0.0.1", 0)
        try:
            yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        finally:
            server.close()
            relays = list(self._relays)
            self.cut()
            await asyncio.gather(*relays, return_exceptions=True)

    def cut(self) -> None:
        """As when a router restarts: both ends see a reset."""
        for relay in self._relays:
            relay.cancel()

    def fall_silent(self) -> None:
        """As when a cable is pulled: nobody is told anything."""
        self._flowing.clear()

    def speak(self) -> None:
        """New connections work again; those from before stay silent."""
        self._flowing = asyncio.Event()
        self._flowing.set()

    def _take(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        if self.is_refusing:
            writer.transport.abort()
            return
        relay = asyncio.create_task(self._relay(reader, writer))
        self._relays.add(relay)
        relay.add_done_callback(self._relays.discard)

    async def _relay(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        far_reader, far_writer = await asyncio.open_connection("127.0.0.1", self._port)
        flowing = self._flowing
        try:
            await asyncio.gather(
                _pump(reader, far_writer, flowing), _pump(far_reader, writer, flowing)
            )
        finally:
            for each in (writer, far_writer):
                each.transport.abort()


async def _pump(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter, flowing: asyncio.Event
) -> None:
    with contextlib.suppress(OSError):
        while data := await reader.read(1 << 16):
            await flowing.wait()
            writer.write(data)
            await writer.drain()
    await flowing.wait()
    writer.close()


@contextlib.asynccontextmanager
async def agents_welcome(
    lines: AgentLines, tls: ssl.SSLContext | None = None
) -> AsyncIterator[str]:
    async with serving(agent_app(lines, TOKEN), tls) as url:
        yield url


@dataclass
class Dialed:
    said: list[str]
    task: "asyncio.Task[None]"


@contextlib.asynccontextmanager
async def agent(server: str, comfyui: str, name: str = "box", **more: Any) -> AsyncIterator[Dialed]:
    said: list[str] = []
    fields: dict[str, Any] = {
        "token": TOKEN,
        "first_pause": 0.02,
        "longest_pause": 0.1,
        **more,
    }
    options = AgentOptions(server=server, comfyui=comfy_address(comfyui), name=name, **fields)
    task = asyncio.create_task(AgentDialer(options, said.append).run())
    try:
        yield Dialed(said, task)
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


@dataclass
class House:
    lines: AgentLines
    comfy: Comfy
    comfy_url: str
    server_url: str
    http: aiohttp.ClientSession


@contextlib.asynccontextmanager
async def house(
    on_new: Callable[..., Awaitable[None]] | None = None, **limits: Any
) -> AsyncIterator[House]:
    """A server that takes agents, and a ComfyUI that it knows nothing of."""
    lines = AgentLines(on_new, **limits)
    comfy = Comfy()
    async with (
        serving(comfy.app()) as comfy_url,
        agents_welcome(lines) as server_url,
        aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=20)) as http,
    ):
        yield House(lines, comfy, comfy_url, server_url, http)


async def picture_of(http: aiohttp.ClientSession, url: str, prompt_id: str) -> bytes:
    """The picture that a prompt has made, when it has ended well."""
    async with http.get(f"{url}/history/{prompt_id}") as reply:
        entry = (await reply.json())[prompt_id]
    assert entry["status"]["status_str"] == "success", entry["status"]
    (shown,) = [each for node in entry["outputs"].values() for each in node["images"]]
    async with http.get(f"{url}/view", params=shown) as reply:
        assert reply.status == 200
        return await reply.read()
