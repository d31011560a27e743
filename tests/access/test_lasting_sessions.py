"""What a browser has open ends with its session: by logging out, as somebody else, or in time."""

import asyncio
import contextlib
import json
import time
from collections.abc import AsyncIterator
from urllib.parse import urlencode, urlsplit

import aiohttp
import pytest

from comfyrail.access.sessions import COOKIE, Sessions
from comfyrail.api import lasting
from comfyrail.clock import Instant, SystemClock
from tests.access.gate_parts import HandClock, ask, new_user, token
from tests.processes import Comfyrail

FORM = "application/x-www-form-urlencoded"
JSON = "application/json"
AT_ONCE = 5.0
"""Far less than the minute after which every credential is looked at again."""
EVENTS = "/v1/events/ws"


def begin(gate: Comfyrail, user: str, seconds: float = 600.0) -> str:
    """The cookie of a new session."""
    body = json.dumps({"token": token(user_id=user, exp=time.time() + seconds)}).encode()
    reply, said = ask(gate, "POST", "/v1/session", body, Content_Type=JSON)
    assert reply.status == 201, said
    return reply.headers["Set-Cookie"].split(";")[0]


def headers_of(gate: Comfyrail, cookie: str) -> dict[str, str]:
    return {"Cookie": cookie, "Origin": f"http://{urlsplit(gate.url).netloc}"}


def log_out(gate: Comfyrail, cookie: str, method: str = "POST", path: str = "/logout") -> None:
    reply, said = ask(gate, method, path, **headers_of(gate, cookie))
    assert reply.status in {204, 303}, said


@contextlib.asynccontextmanager
async def socket_of(
    gate: Comfyrail, cookie: str, path: str = EVENTS
) -> AsyncIterator[aiohttp.ClientWebSocketResponse]:
    async with (
        aiohttp.ClientSession(headers=headers_of(gate, cookie)) as http,
        http.ws_connect(gate.url + path) as socket,
    ):
        await socket.receive_json(timeout=AT_ONCE)  # it is open
        yield socket


async def end_of(socket: aiohttp.ClientWebSocketResponse) -> int | None:
    """The code with which the server closes it."""
    async with asyncio.timeout(AT_ONCE):
        while (await socket.receive()).type is aiohttp.WSMsgType.TEXT:
            continue
    return socket.close_code


@pytest.mark.parametrize("path", [EVENTS, "/ws"])
@pytest.mark.parametrize(
    ("method", "where"), [("POST", "/logout"), ("DELETE", "/v1/session")], ids=["form", "api"]
)
async def test_logging_out_closes_the_sockets_of_the_session_and_no_others(
    gate: Comfyrail, path: str, method: str, where: str
) -> None:
    user = new_user()
    said_before = len(gate.log)
    ended, other = [await asyncio.to_thread(begin, gate, user) for _ in range(2)]
    async with (
        socket_of(gate, ended, path) as one,
        socket_of(gate, ended, path) as two,
        socket_of(gate, other, path) as others,
    ):
        await asyncio.to_thread(log_out, gate, ended, method, where)
        assert [await end_of(one), await end_of(two)] == [lasting.ACCESS_LOST] * 2
        await others.ping()
        assert not others.closed
        with pytest.raises(TimeoutError):
            await others.receive(timeout=0.2)
    assert "Traceback" not in gate.log[said_before:]


async def test_logging_out_ends_streams_and_long_polls(gate: Comfyrail) -> None:
    cookie = await asyncio.to_thread(begin, gate, new_user())
    async with aiohttp.ClientSession(headers=headers_of(gate, cookie)) as http:
        async with http.get(f"{gate.url}/v1/events") as reply:
            after = (await reply.json())["next_after"]
        poll = asyncio.create_task(
            http.get(f"{gate.url}/v1/events", params={"after": after, "wait": 60})
        )
        async with http.get(f"{gate.url}/v1/events/stream") as stream:
            await stream.content.readuntil(b"event: open")
            await asyncio.to_thread(log_out, gate, cookie)
            async with asyncio.timeout(AT_ONCE):
                await stream.content.read()
                polled = await poll
        assert polled.status == 401


@pytest.mark.parametrize("path", ["/login", "/v1/session"])
async def test_logging_in_as_somebody_else_ends_the_session_of_before(
    gate: Comfyrail, path: str
) -> None:
    cookie = await asyncio.to_thread(begin, gate, new_user("ann"))
    given = token(user_id=new_user("bob"))
    form, body = urlencode({"credential": given}), json.dumps({"token": given})
    kind, content = (FORM, form) if path == "/login" else (JSON, body)
    async with socket_of(gate, cookie) as socket:
        headers = {"Content_Type": kind, **headers_of(gate, cookie)}
        reply, _ = await asyncio.to_thread(
            lambda: ask(gate, "POST", path, content.encode(), **headers)
        )
        assert reply.status in {201, 303}
        assert COOKIE in reply.headers["Set-Cookie"]
        assert await end_of(socket) == lasting.ACCESS_LOST
    shown, _ = await asyncio.to_thread(ask, gate, "GET", "/v1/session", Cookie=cookie)
    assert shown.status == 401


async def test_failed_login_leaves_the_session_as_it_is(gate: Comfyrail) -> None:
    cookie = await asyncio.to_thread(begin, gate, new_user())
    headers = {"Content_Type": JSON, **headers_of(gate, cookie)}
    reply, _ = await asyncio.to_thread(
        lambda: ask(gate, "POST", "/v1/session", b'{"token": "a.b.c"}', **headers)
    )
    assert reply.status == 401
    shown, _ = await asyncio.to_thread(ask, gate, "GET", "/v1/session", Cookie=cookie)
    assert shown.status == 200


async def test_socket_ends_when_the_time_of_its_session_is_up(gate: Comfyrail) -> None:
    cookie = await asyncio.to_thread(begin, gate, new_user(), 2.0)
    async with socket_of(gate, cookie) as socket:
        assert await end_of(socket) == lasting.ACCESS_LOST


class NoStore:
    def __init__(self) -> None:
        self.ended: dict[str, Instant] = {}

    async def list_ended_sessions(self) -> dict[str, Instant]:
        return self.ended

    async def end_session(self, nonce: str, until: Instant) -> None:
        self.ended[nonce] = until


async def test_those_who_wait_for_the_end_of_a_session_are_told_and_forgotten() -> None:
    sessions = Sessions(b"s" * 32, NoStore(), HandClock())
    note, _ = sessions.begin("key", "abc")
    other, _ = sessions.begin("key", "abc")
    waiting = [asyncio.create_task(sessions.over(each)) for each in (note, note, other)]
    await asyncio.sleep(0)
    assert len(sessions._waiting) == 2
    await sessions.end(note)
    async with asyncio.timeout(AT_ONCE):
        await asyncio.gather(*waiting[:2])
        await sessions.over(note)  # one that has ended already
    assert not waiting[2].done()
    waiting[2].cancel()
    await asyncio.gather(*waiting, return_exceptions=True)
    assert not sessions._waiting


async def test_session_is_over_when_its_time_is_up() -> None:
    clock = SystemClock()
    sessions = Sessions(b"s" * 32, NoStore(), clock)
    note, _ = sessions.begin("user", "ann", latest=Instant(clock.now() + 50))
    async with asyncio.timeout(AT_ONCE):
        await sessions.over(note)
    assert clock.now() >= note.expires_at
