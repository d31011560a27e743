"""Driver `static`: addresses, and the log of a ComfyUI."""

from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from comfyrail.errors import WorkerError, WorkerRefused, WorkerUnreachable
from comfyrail.fleet.drivers.foreign_log import LIMIT_BYTES
from comfyrail.fleet.drivers.registry import driver_named
from comfyrail.fleet.drivers.static import StaticHost
from comfyrail.fleet.places import one_spelling
from comfyrail.ids import WorkerId
from tests.fleet.drivers.setting import host_context

Handler = Callable[[web.Request], Coroutine[Any, Any, web.StreamResponse]]


@asynccontextmanager
async def log_server(handler: Handler) -> AsyncIterator[str]:
    app = web.Application()
    app.router.add_get("/internal/logs/raw", handler)
    runner = web.AppRunner(app, shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    try:
        yield f"http://127.0.0.1:{runner.addresses[0][1]}"
    finally:
        await runner.cleanup()


async def log_of(tmp_path: Path, handler: Handler, lines: int) -> str:
    async with host_context(tmp_path) as context, log_server(handler) as url:
        return await StaticHost(url, context.http).logs(lines)


async def test_the_last_lines_of_a_comfyuis_log_are_given(tmp_path: Path) -> None:
    async def handler(_request: web.Request) -> web.Response:
        entries = [{"t": "2026-01-01", "m": "one\ntw"}, {"t": "2026-01-01", "m": "o\nthree\n"}]
        return web.json_response({"entries": entries, "size": {"cols": 80, "rows": 24}})

    assert await log_of(tmp_path, handler, 2) == "two\nthree"


@pytest.mark.parametrize("body", [b"[]", b'{"entries": [1]}', b"\xff", b'{"entries": [{"m": 5}]}'])
async def test_a_log_that_is_none_is_refused(tmp_path: Path, body: bytes) -> None:
    async def handler(_request: web.Request) -> web.Response:
        return web.Response(body=body)

    with pytest.raises(WorkerError, match="cannot be read"):
        await log_of(tmp_path, handler, 2)


async def test_an_endless_log_is_not_read_to_its_end(tmp_path: Path) -> None:
    sent = 0

    async def handler(request: web.Request) -> web.StreamResponse:
        nonlocal sent
        response = web.StreamResponse()
        await response.prepare(request)
        try:
            while sent < 50 * LIMIT_BYTES:
                await response.write(b" " * (1 << 20))
                sent += 1 << 20
        except ConnectionError:
            pass
        return response

    with pytest.raises(WorkerError, match="cannot be read"):
        await log_of(tmp_path, handler, 2)
    assert sent < 5 * LIMIT_BYTES


async def test_a_server_that_is_gone_has_no_log(tmp_path: Path) -> None:
    async with host_context(tmp_path) as context:
        with pytest.raises(WorkerUnreachable, match="does not answer"):
            await StaticHost("http://127.0.0.1:9", context.http).logs(5)


async def test_the_place_of_a_worker_is_its_address_in_one_spelling(tmp_path: Path) -> None:
    driver = driver_named("static")
    async with host_context(tmp_path) as context:
        config = driver.check({"url": " HTTP://LocalHost:8188/ "})
        place = driver.host(WorkerId("a"), config, context).place
    assert place == "http://localhost:8188"
    assert one_spelling(place) == one_spelling("http://127.0.0.1:8188")


@pytest.mark.parametrize("inside", ["\r\n", "\n", "\t", "\x00", "\x7f", "\u2028"])
def test_address_with_control_characters_is_refused(inside: str) -> None:
    with pytest.raises(WorkerRefused) as raised:
        driver_named("static").check({"url": f"http://127.0.0.1{inside}:8188"})
    assert raised.value.code == "INVALID_WORKER_URL"
