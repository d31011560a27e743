"""A plain client of a worker, as tests see it: HTTP, sockets, and small graphs."""

import asyncio
import io
import json
from collections.abc import Callable
from typing import Any

import aiohttp

from comfyrail.engine.server.worker import Worker

LIMIT_SECONDS = 10.0

Graph = dict[str, Any]


def empty_image(color: int = 0, side: int = 8) -> Graph:
    inputs = {"width": side, "height": side, "batch_size": 1, "color": color}
    return {"class_type": "EmptyImage", "inputs": inputs}


def invert(source: str) -> Graph:
    return {"class_type": "ImageInvert", "inputs": {"image": [source, 0]}}


def preview(source: str) -> Graph:
    return {"class_type": "PreviewImage", "inputs": {"images": [source, 0]}}


def save(source: str, prefix: str = "saved") -> Graph:
    inputs = {"images": [source, 0], "filename_prefix": prefix}
    return {"class_type": "SaveImage", "inputs": inputs}


def delay(source: str, seconds: float) -> Graph:
    return {"class_type": "Delay", "inputs": {"value": [source, 0], "seconds": seconds}}


def simple_graph(color: int = 0) -> Graph:
    return {"1": empty_image(color), "2": preview("1")}


def slow_graph(seconds: float = 60.0, color: int = 0) -> Graph:
    return {"1": empty_image(color), "2": delay("1", seconds), "3": preview("2")}


class Socket:
    """A socket whose messages are read with a limit."""

    def __init__(self, socket: aiohttp.ClientWebSocketResponse) -> None:
        self.socket = socket

    async def receive(self) -> Any:
        """The next message: decoded JSON, or bytes."""
        message = await asyncio.wait_for(self.socket.receive(), LIMIT_SECONDS)
        if message.type is aiohttp.WSMsgType.TEXT:
            return json.loads(message.data)
        if message.type is aiohttp.WSMsgType.BINARY:
            return message.data
        raise ConnectionError(f"the socket has ended: {message.type}")

    async def until(self, wanted: Callable[[Any], bool]) -> list[Any]:
        """All messages up to and with the one that is wanted."""
        messages = []
        while True:
            messages.append(await self.receive())
            if wanted(messages[-1]):
                return messages

    async def until_end(self, prompt_id: str) -> list[Any]:
        return await self.until(lambda message: is_end(message, prompt_id))

    async def until_type(self, kind: str) -> list[Any]:
        return await self.until(lambda message: type_of(message) == kind)

    async def close(self) -> None:
        await self.socket.close()


def type_of(message: Any) -> str:
    return "binary" if isinstance(message, bytes) else message["type"]


def is_end(message: Any, prompt_id: str) -> bool:
    return type_of(message) == "executing" and message["data"] == {
        "node": None,
        "prompt_id": prompt_id,
    }


class WorkerClient:
    def __init__(self, session: aiohttp.ClientSession, worker: Worker, url: str) -> None:
        self.session = session
        self.worker = worker
        self.url = url
        self._sockets: list[Socket] = []

    async def connect(self, client_id: str, *, flags: dict[str, Any] | None = None) -> Socket:
        """A socket that has had its greeting, and its flags answered."""
        socket = Socket(await self.session.ws_connect(f"/ws?clientId={client_id}"))
        self._sockets.append(socket)
        greeting = await socket.receive()
        assert greeting["data"]["sid"] == client_id
        if flags is not None:
            await socket.socket.send_json({"type": "feature_flags", "data": flags})
            await socket.until_type("feature_flags")
        return socket

    async def close(self) -> None:
        for socket in self._sockets:
            await socket.close()

    async def get(self, path: str, **options: Any) -> tuple[int, Any]:
        async with self.session.get(path, **options) as reply:
            return reply.status, await _content(reply)

    async def post(self, path: str, body: Any = b"", **options: Any) -> tuple[int, Any]:
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        # aiohttp warns of raw bytes that are many.
        sent = data if len(data) < 1 << 20 else io.BytesIO(data)
        async with self.session.post(path, data=sent, **options) as reply:
            return reply.status, await _content(reply)

    async def submit(self, prompt: Graph, **fields: Any) -> str:
        """Queue a prompt that is good; its id."""
        status, body = await self.post("/prompt", {"prompt": prompt, **fields})
        assert status == 200, body
        return str(body["prompt_id"])

    async def ended(self, prompt_id: str) -> dict[str, Any]:
        """The history of a prompt, once it has ended."""
        async with asyncio.timeout(LIMIT_SECONDS):
            while True:
                _, found = await self.get(f"/history/{prompt_id}")
                if found:
                    entry: dict[str, Any] = found[prompt_id]
                    return entry
                await asyncio.sleep(0.002)

    async def run(self, prompt: Graph, **fields: Any) -> dict[str, Any]:
        return await self.ended(await self.submit(prompt, **fields))

    async def running(self, prompt_id: str) -> None:
        """Wait until this prompt is the one that runs."""
        async with asyncio.timeout(LIMIT_SECONDS):
            while True:
                running = self.worker.running
                if running is not None and running.prompt_id == prompt_id:
                    return
                await asyncio.sleep(0.002)

    async def upload(
        self, content: bytes, filename: str, path: str = "/upload/image", **fields: str
    ) -> tuple[int, Any]:
        form = aiohttp.FormData(quote_fields=False)
        form.add_field("image", content, filename=filename, content_type="image/png")
        for name, value in fields.items():
            form.add_field(name, value)
        async with self.session.post(path, data=form) as reply:
            return reply.status, await _content(reply)


async def _content(reply: aiohttp.ClientResponse) -> Any:
    body = await reply.read()
    return json.loads(body) if reply.content_type == "application/json" else body
