"""Clients that open connections and leave them, or send a letter now and then."""

import asyncio
import contextlib
import socket
import time
from collections import OrderedDict
from collections.abc import AsyncIterator, Iterator
from urllib.parse import urlsplit

import pytest
import uvicorn
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from comfyrail.api.gate import LocalGate
from comfyrail.api.guard import Guard
from comfyrail.api.timed_body import TimedBody
from comfyrail.bootstrap.http_connections import (
    FILES_FOR_OTHERS,
    LARGEST_HEAD,
    PatientHttp,
    connections_within,
)
from comfyrail.errors import RequestTimeout
from tests.access.gate_parts import ask, gated_server
from tests.processes import Comfyrail, wait_until

IDLE = 500


@pytest.fixture(scope="module")
def gate(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Comfyrail]:
    data = tmp_path_factory.mktemp("connections") / "data"
    with gated_server(data, COMFYRAIL_MAX_CONNECTIONS="100") as process:
        yield process


def dial(gate: Comfyrail) -> socket.socket:
    place = urlsplit(gate.url)
    return socket.create_connection((place.hostname, place.port), timeout=10)


def test_others_are_served_while_many_connections_say_nothing_or_half_a_request(
    gate: Comfyrail,
) -> None:
    with contextlib.ExitStack() as stack:
        for number in range(IDLE):
            idle = stack.enter_context(dial(gate))
            if number % 2:
                idle.sendall(b"GET /health HTTP/1.1\r\nHost: localhost\r\nX-Slow: ")
        begun = time.monotonic()
        for _ in range(20):
            assert ask(gate, "GET", "/health")[0].status == 200
        assert time.monotonic() - begun < 10


def test_head_that_never_ends_is_refused(gate: Comfyrail) -> None:
    with dial(gate) as connection:
        connection.sendall(b"GET /health HTTP/1.1\r\nHost: localhost\r\n")
        with contextlib.suppress(OSError):
            for _ in range(LARGEST_HEAD // 1024 + 2):
                connection.sendall(b"X-Long: " + b"a" * 1014 + b"\r\n")
        assert connection.recv(100).startswith(b"HTTP/1.1 431")


def test_large_head_in_one_piece_is_refused_too(gate: Comfyrail) -> None:
    with dial(gate) as connection:
        head = b"GET /health HTTP/1.1\r\nHost: localhost\r\n"
        with contextlib.suppress(OSError):
            connection.sendall(head + b"X-Long: " + b"a" * LARGEST_HEAD + b"\r\n\r\n")
        assert connection.recv(100).startswith(b"HTTP/1.1 431")


def test_number_of_connections_leaves_files_for_others() -> None:
    assert connections_within(10_000, 20_000) == 10_000
    assert connections_within(10_000, 1_024) == 1_024 - FILES_FOR_OTHERS
    assert connections_within(10_000, 10) == 1


# With short times


class Hasty(PatientHttp):
    most_connections = 3
    head_seconds = 0.3
    unread_body_seconds = 0.3
    idle: "OrderedDict[PatientHttp, None]" = OrderedDict()  # noqa: RUF012 - one for all


async def answer(scope: Scope, receive: Receive, send: Send) -> None:
    if scope["path"] == "/all":
        while (await receive()).get("more_body"):
            pass
    await send(
        {"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"2")]}
    )
    await send({"type": "http.response.body", "body": b"ok"})


Client = tuple[asyncio.StreamReader, asyncio.StreamWriter]


@pytest.fixture
async def hasty() -> AsyncIterator[int]:
    """The port of a server that waits for nobody."""
    async with serving(answer) as port:
        yield port


@contextlib.asynccontextmanager
async def serving(app: ASGIApp) -> AsyncIterator[int]:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        config = uvicorn.Config(
            app, http=Hasty, log_config=None, lifespan="off", timeout_keep_alive=30
        )
        running = uvicorn.Server(config)
        running.capture_signals = contextlib.nullcontext  # type: ignore[method-assign, assignment]
        task = asyncio.create_task(running.serve(sockets=[listener]))
        try:
            yield listener.getsockname()[1]
        finally:
            running.should_exit = True
            await task


@contextlib.asynccontextmanager
async def client(port: int) -> AsyncIterator[Client]:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        yield reader, writer
    finally:
        writer.close()
        with contextlib.suppress(OSError):
            await writer.wait_closed()


async def gone(reader: asyncio.StreamReader) -> bytes:
    """What still comes until the other end closes."""
    with contextlib.suppress(ConnectionError):
        async with asyncio.timeout(10):
            return await reader.read()
    return b""


async def test_connection_on_which_no_whole_head_comes_is_closed(hasty: int) -> None:
    async with client(hasty) as (silent, _), client(hasty) as (slow, writer):
        writer.write(b"GET / HTTP/1.1\r\nHo")
        assert await gone(silent) == b""
        assert await gone(slow) == b""


async def test_second_request_on_a_connection_has_its_time_for_itself(hasty: int) -> None:
    async with client(hasty) as (reader, writer):
        for _ in range(2):
            writer.write(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n")
            assert (await reader.readuntil(b"ok")).startswith(b"HTTP/1.1 200")
            await asyncio.sleep(2 * Hasty.head_seconds)  # an idle connection may be kept
        writer.write(b"GET / HTTP/1.1\r\nHo")
        assert await gone(reader) == b""


async def test_body_that_nobody_wants_any_more_does_not_hold_its_connection(hasty: int) -> None:
    async with client(hasty) as (reader, writer):
        writer.write(b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1000\r\n\r\nabc")
        assert (await reader.readuntil(b"ok")).startswith(b"HTTP/1.1 200")
        assert await gone(reader) == b""
    async with client(hasty) as (reader, writer):
        writer.write(b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 6\r\n\r\nabc")
        await reader.readuntil(b"ok")
        writer.write(b"def")
        writer.write(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n")
        assert (await reader.readuntil(b"ok")).startswith(b"HTTP/1.1 200")


async def test_oldest_idle_connection_makes_room_and_busy_ones_stay(hasty: int) -> None:
    async with contextlib.AsyncExitStack() as stack:
        busy_reader, busy = await stack.enter_async_context(client(hasty))
        busy.write(b"POST /all HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\na")
        idle = []
        for _ in range(2):
            reader, writer = await stack.enter_async_context(client(hasty))
            writer.write(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n")
            await reader.readuntil(b"ok")
            idle.append(reader)
        reader, writer = await stack.enter_async_context(client(hasty))
        writer.write(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n")
        assert (await reader.readuntil(b"ok")).startswith(b"HTTP/1.1 200")
        assert await gone(idle[0]) == b""
        busy.write(b"bc")
        assert (await busy_reader.readuntil(b"ok")).startswith(b"HTTP/1.1 200")


async def test_where_all_connections_are_busy_a_new_one_is_told_to_come_back(hasty: int) -> None:
    async with contextlib.AsyncExitStack() as stack:
        for _ in range(3):
            _, writer = await stack.enter_async_context(client(hasty))
            writer.write(b"POST /all HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\na")
            await writer.drain()
        await asyncio.to_thread(wait_until, lambda: not Hasty.idle)
        reader, _ = await stack.enter_async_context(client(hasty))
        assert (await gone(reader)).startswith(b"HTTP/1.1 503")


# Bodies


async def test_body_that_stops_coming_is_given_up() -> None:
    async def never() -> Message:
        await asyncio.Event().wait()
        raise AssertionError

    body = TimedBody(never, patience=0.05)
    with pytest.raises(RequestTimeout):
        await body.receive()
    assert body.is_too_slow


async def test_body_that_keeps_coming_may_take_longer() -> None:
    async def large() -> Message:
        await asyncio.sleep(0.03)
        return {"type": "http.request", "body": b"a" * 65536, "more_body": True}

    body = TimedBody(large, patience=0.05)
    for _ in range(5):
        await body.receive()


async def test_nothing_is_timed_when_the_body_is_there() -> None:
    messages: list[Message] = [
        {"type": "http.request", "body": b"a", "more_body": False},
        {"type": "http.disconnect"},
    ]

    async def receive() -> Message:
        if len(messages) == 1:
            await asyncio.sleep(0.1)
        return messages.pop(0)

    body = TimedBody(receive, patience=0.05)
    await body.receive()
    assert (await body.receive())["type"] == "http.disconnect"


async def test_request_whose_body_does_not_come_is_told_so_and_its_connection_closed() -> None:
    async with serving(Guard(answer, LocalGate(), patience=0.2)) as port:
        async with client(port) as (reader, writer):
            writer.write(b"POST /all HTTP/1.1\r\nHost: localhost\r\nContent-Length: 3\r\n\r\na")
            reply = await gone(reader)
        assert reply.startswith(b"HTTP/1.1 408")
        assert b"REQUEST_TIMEOUT" in reply
        assert b"connection: close" in reply
