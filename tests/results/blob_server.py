"""A process with a blob store and a way to download from it, whose memory a test can look at."""

import asyncio
import hashlib
import socket
import sys
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from pathlib import Path

import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from comfyrail.api.files import file_response
from comfyrail.bootstrap.blobs import open_blobs
from comfyrail.bootstrap.settings import load_settings

CHUNK = 256 << 10


async def content(size: int) -> AsyncIterator[bytes]:
    """Every piece is another one, and quickly made."""
    rest = bytes(range(256)) * (CHUNK // 256)
    for number in range(size // CHUNK):
        yield number.to_bytes(8, "big") + rest[8:]


async def main(data: Path) -> None:
    async with AsyncExitStack() as stack:
        blobs = await open_blobs(load_settings(data=data), stack, lambda: None)

        async def save(request: Request) -> Response:
            blob = await blobs.save(content(int(request.query_params["size"])))
            return JSONResponse({"key": blob.key, "size": blob.size})

        async def send(request: Request) -> Response:
            key = request.path_params["key"]
            return file_response(
                request,
                await blobs.open(key),
                filename="large.bin",
                content_type="video/mp4",
                sha256=hashlib.sha256(key.encode()).hexdigest(),
            )

        app = Starlette(
            routes=[Route("/save", save, methods=["POST"]), Route("/blob/{key:path}", send)]
        )
        with socket.create_server(("127.0.0.1", 0)) as listener:
            print(listener.getsockname()[1], flush=True)
            await uvicorn.Server(uvicorn.Config(app, log_level="error")).serve([listener])


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1])))
