"""Ends of a line that lie, shout, or speak another language."""

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator
from typing import Any

import aiohttp
import pytest
from aiohttp import web
from hypothesis import given, settings
from hypothesis import strategies as st

from comfyrail.errors import ConfigurationError
from comfyrail.fleet.drivers.agent_frames import (
    LARGEST_FRAME,
    MOST_STREAMS,
    WINDOW,
    Frame,
    Kind,
    LineDropped,
    Misuse,
    credit_frame,
    decode_frame,
    read_credit,
)
from comfyrail.fleet.drivers.agent_line import Line
from tests.fleet.drivers.agent_parts import TOKEN, House, agent, house, serving, until

HELLO = {"protocol": 1, "name": "box"}


def hello_frame(**said: Any) -> bytes:
    return Frame(Kind.HELLO, 0, json.dumps({**HELLO, **said}).encode()).encode()


@contextlib.asynccontextmanager
async def raw_line(there: House) -> AsyncIterator[aiohttp.ClientWebSocketResponse]:
    """What anyone with the token can do."""
    async with there.http.ws_connect(
        f"{there.server_url}/v1/agents/ws", headers={"Authorization": f"Bearer {TOKEN}"}
    ) as socket:
        yield socket


async def refusal_of(socket: aiohttp.ClientWebSocketResponse) -> dict[str, Any]:
    frame = decode_frame(await socket.receive_bytes())
    assert frame.kind is Kind.REFUSE
    refusal: dict[str, Any] = json.loads(frame.payload)
    return refusal


async def closed(socket: aiohttp.ClientWebSocketResponse) -> None:
    async with asyncio.timeout(10):
        while not (await socket.receive()).type.name.startswith("CLOS"):
            pass


# What an agent may do to the server


@pytest.mark.parametrize("protocol", [0, 2, 99])
async def test_another_version_is_refused_with_what_to_do(protocol: int) -> None:
    async with house() as there, raw_line(there) as socket:
        await socket.send_bytes(hello_frame(protocol=protocol))
        refusal = await refusal_of(socket)
        assert refusal["code"] == "OTHER_PROTOCOL"
        assert "Install the same comfyrail" in refusal["message"]


async def test_a_later_version_is_recognized_though_its_greeting_is_not_understood() -> None:
    async with house() as there, raw_line(there) as socket:
        greeting = json.dumps({"protocol": 7, "name": {"first": "a", "last": "b"}}).encode()
        await socket.send_bytes(Frame(Kind.HELLO, 0, greeting).encode())
        assert (await refusal_of(socket))["code"] == "OTHER_PROTOCOL"


@pytest.mark.parametrize(
    "said",
    [
        {"name": 5},
        {"labels": {"a": 1}},
        {"labels": ["a"]},
        {"path": "/../x y"},
        {"path": "http://elsewhere"},
        {"name": "n" * 500},
    ],
)
async def test_a_wrong_greeting_is_refused(said: dict[str, Any]) -> None:
    async with house() as there, raw_line(there) as socket:
        await socket.send_bytes(hello_frame(**said))
        assert (await refusal_of(socket))["code"] == "BAD_HELLO"
        assert not there.lines.names()


@pytest.mark.parametrize(
    "message",
    [
        b"",
        b"\x00",
        b"\xff" * 40,
        Frame(Kind.HELLO, 0, b"{" * 5000).encode(),
        Frame(Kind.HELLO, 0, b"[" * 60000).encode(),
        Frame(Kind.HELLO, 0, b"null").encode(),
        Frame(Kind.DATA, 1, b"hello").encode(),
        b"\x01\x00\x00\x00\x00" + b"x" * LARGEST_FRAME,
    ],
)
async def test_garbage_in_place_of_a_greeting_ends_the_line(message: bytes) -> None:
    async with house() as there, raw_line(there) as socket:
        await socket.send_bytes(message)
        await closed(socket)
        assert not there.lines.names()


async def test_text_in_place_of_frames_ends_the_line() -> None:
    async with house() as there, raw_line(there) as socket:
        await socket.send_str("hello")
        await closed(socket)


async def test_who_says_nothing_is_sent_away() -> None:
    async with house(greeting_seconds=0.05) as there, raw_line(there) as socket:
        await closed(socket)


@pytest.mark.parametrize(
    "frame",
    [
        Frame(Kind.OPEN, 1),
        Frame(Kind.DATA, 77, b"x"),
        Frame(Kind.DISMISS),
        Frame(Kind.HELLO, 0, json.dumps(HELLO).encode()),
        credit_frame(5, 1),
    ],
)
async def test_frames_that_have_no_place_end_the_line_and_only_that(frame: Frame) -> None:
    async with (
        house() as there,
        agent(there.server_url, there.comfy_url, name="other"),
        raw_line(there) as socket,
    ):
        await until(there.lines.names)
        await socket.send_bytes(hello_frame())
        assert decode_frame(await socket.receive_bytes()).kind is Kind.WELCOME
        await socket.send_bytes(frame.encode())
        await closed(socket)
        await until(lambda: there.lines.names() == ["other"])


async def test_more_data_than_there_is_room_for_ends_the_line() -> None:
    async with house() as there, raw_line(there) as socket:
        await socket.send_bytes(hello_frame())
        await socket.receive_bytes()
        url = await there.lines.wait_connected("box", 5)
        _, writer = await asyncio.open_connection(*url.removeprefix("http://").split(":"))
        opened = decode_frame(await socket.receive_bytes())
        assert opened.kind is Kind.OPEN
        line = there.lines.line("box")
        assert line is not None
        most = 0
        for _ in range(64 << 20 >> 15):
            try:
                await socket.send_bytes(Frame(Kind.DATA, opened.stream, b"x" * (32 << 10)).encode())
            except (aiohttp.ClientError, OSError):
                break
            most = max(most, line.buffered)
            if there.lines.line("box") is None:
                break
        await until(lambda: there.lines.line("box") is None)
        assert most <= WINDOW
        writer.close()


async def test_the_agent_takes_no_more_streams_than_it_has_room_for() -> None:
    """A server that means ill opens streams without end."""
    answers: list[Frame] = []
    over = asyncio.Event()

    async def mean(request: web.Request) -> web.WebSocketResponse:
        socket = web.WebSocketResponse()
        await socket.prepare(request)
        await socket.receive_bytes()
        await socket.send_bytes(Frame(Kind.WELCOME, 0, b'{"protocol": 1}').encode())
        for number in range(1, MOST_STREAMS + 11):
            await socket.send_bytes(Frame(Kind.OPEN, number).encode())
        while len(answers) < 10:
            answers.append(decode_frame(await socket.receive_bytes()))
        await socket.send_bytes(Frame(Kind.OPEN, 1).encode())
        with contextlib.suppress(TypeError):
            while True:
                await socket.receive_bytes()
        over.set()
        return socket

    app = web.Application()
    app.router.add_get("/v1/agents/ws", mean)
    async with house() as there, serving(app) as url, agent(url, there.comfy_url) as dialed:
        await asyncio.wait_for(over.wait(), 20)
        assert {frame.kind for frame in answers} == {Kind.RESET}
        assert all(frame.stream > MOST_STREAMS for frame in answers)
        await until(lambda: len(dialed.said) > 1)
        assert "number that was used before" in dialed.said[1]


async def test_the_agent_is_not_moved_by_a_server_that_is_none() -> None:
    async def nonsense(request: web.Request) -> web.WebSocketResponse:
        socket = web.WebSocketResponse()
        await socket.prepare(request)
        await socket.send_bytes(b"\x03\x00\x00\x00\x00not json")
        await socket.close()
        return socket

    app = web.Application()
    app.router.add_get("/v1/agents/ws", nonsense)
    async with house() as there, serving(app) as url, agent(url, there.comfy_url) as dialed:
        await until(lambda: dialed.said)
        assert "does not answer like a Comfyrail server" in dialed.said[0]
        assert not dialed.task.done()


async def test_the_agent_ends_when_its_version_is_refused() -> None:
    async def other(request: web.Request) -> web.WebSocketResponse:
        socket = web.WebSocketResponse()
        await socket.prepare(request)
        await socket.receive_bytes()
        refusal = {"code": "OTHER_PROTOCOL", "message": "Install\x1b[2J the same."}
        await socket.send_bytes(Frame(Kind.REFUSE, 0, json.dumps(refusal).encode()).encode())
        await socket.close()
        return socket

    app = web.Application()
    app.router.add_get("/v1/agents/ws", other)
    async with house() as there, serving(app) as url, agent(url, there.comfy_url) as dialed:
        with pytest.raises(ConfigurationError, match=r"Install\[2J the same"):
            await asyncio.wait_for(dialed.task, 10)


# Frames by themselves


@given(st.binary(max_size=200))
def test_any_bytes_are_a_frame_or_a_misuse(message: bytes) -> None:
    try:
        frame = decode_frame(message)
    except Misuse:
        return
    assert frame.encode() == message
    if frame.kind is Kind.CREDIT:
        with contextlib.suppress(Misuse):
            assert read_credit(frame) >= 0


class Scripted:
    """A socket that says what it was told to, and takes everything."""

    def __init__(self, messages: list[bytes]) -> None:
        self._messages = messages
        self.sent = 0

    async def receive_bytes(self) -> bytes:
        if not self._messages:
            raise LineDropped("the script is over")
        return self._messages.pop(0)

    async def send_bytes(self, data: bytes) -> None:
        self.sent += len(data)

    async def close(self, code: int = 1000, reason: str = "") -> None:
        pass


@settings(deadline=None, max_examples=60)
@given(
    st.lists(
        st.builds(
            Frame,
            st.sampled_from(list(Kind)),
            st.integers(0, 5),
            st.binary(max_size=64),
        ),
        max_size=30,
    )
)
def test_any_frames_end_a_line_in_good_order(frames: list[Frame]) -> None:
    async def try_it() -> None:
        async def nowhere() -> Any:
            raise ConnectionRefusedError("nobody is there")

        line = Line(Scripted([frame.encode() for frame in frames]), nowhere)
        assert await asyncio.wait_for(line.run(), 10)
        assert line.streams == 0
        left = asyncio.all_tasks() - {asyncio.current_task()}
        assert not left

    asyncio.run(try_it())


async def test_an_end_that_asks_and_never_listens_is_dropped() -> None:
    """Its answers are not heaped up for it."""

    class Deaf(Scripted):
        async def send_bytes(self, data: bytes) -> None:
            del data
            await asyncio.get_running_loop().create_future()

    async def nowhere() -> Any:
        await asyncio.get_running_loop().create_future()

    opens = [Frame(Kind.OPEN, number).encode() for number in range(1, 5000)]
    line = Line(Deaf(opens), nowhere)
    assert "asks for more than it takes" in await asyncio.wait_for(line.run(), 10)


async def test_a_flood_of_pings_is_answered_once() -> None:
    socket = Scripted([Frame(Kind.PING, 0, b"12345678").encode()] * 10_000)
    await asyncio.wait_for(Line(socket).run(), 10)
    assert socket.sent < 100
