"""Streams and sockets that stay open: only for as long as their owner may have them, and not for
one tenant alone.
"""

import asyncio
import contextlib
import json
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import aiohttp
import pytest
from starlette.requests import HTTPConnection

from comfyrail.access.permissions import Permission
from comfyrail.access.principal import LOCAL_USER, Principal
from comfyrail.api import lasting
from comfyrail.api.services import principal_of
from comfyrail.errors import StoreUnavailable, Unauthorized
from tests.access.gate_parts import ask, bearer, gated_server, new_user
from tests.graphs import picture
from tests.processes import Comfyrail

JSON = "application/json"


@pytest.fixture(scope="module")
def held(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Comfyrail]:
    """A server that starts no job."""
    with gated_server(tmp_path_factory.mktemp("lasting") / "data", workers="1") as process:
        process.wait_ready()
        headers = bearer("root", permissions=["*"])
        ask(process, "POST", "/v1/queue/pause", b"{}", Content_Type=JSON, **headers)
        yield process


def new_owner(process: Comfyrail) -> tuple[dict[str, str], dict[str, str]]:
    """A user of the table: who runs the server, and who she is."""
    admin, user = bearer("root", permissions=["*"]), new_user("owner")
    body = json.dumps({"user_id": user}).encode()
    assert ask(process, "POST", "/v1/users", body, Content_Type=JSON, **admin)[0].status == 201
    return admin, bearer(user)


def new_key(process: Comfyrail, owner: dict[str, str], *permissions: str) -> str:
    body = json.dumps({"name": "k", "permissions": list(permissions)}).encode()
    reply, content = ask(process, "POST", "/v1/keys", body, Content_Type=JSON, **owner)
    assert reply.status == 201, content
    return str(json.loads(content)["key"])


def submit(process: Comfyrail, owner: dict[str, str]) -> str:
    body = json.dumps({"workflow": picture()}).encode()
    reply, content = ask(process, "POST", "/v1/workflows/execute", body, Content_Type=JSON, **owner)
    assert reply.status == 202, content
    return str(json.loads(content)["execution_id"])


def status_of(process: Comfyrail, owner: dict[str, str], job_id: str) -> str:
    _, content = ask(process, "GET", f"/v1/workflows/execution/{job_id}", **owner)
    return str(json.loads(content)["status"])


@contextlib.asynccontextmanager
async def socket_of(process: Comfyrail, path: str, key: str) -> Any:
    async with (
        aiohttp.ClientSession(headers={"Authorization": f"Bearer {key}"}) as http,
        http.ws_connect(process.url + path) as socket,
    ):
        yield socket


PATHS = ["/v1/workflows/execution/{}/ws", "/v2/workflows/executions/{}/ws"]


@pytest.mark.parametrize("path", PATHS)
async def test_one_who_may_only_read_cancels_nothing_by_socket(held: Comfyrail, path: str) -> None:
    _, owner = await asyncio.to_thread(new_owner, held)
    job_id = await asyncio.to_thread(submit, held, owner)
    reader = await asyncio.to_thread(new_key, held, owner, "jobs:read")
    async with socket_of(held, path.format(job_id), reader) as socket:
        assert (await socket.receive_json())["type"] == "state"
        await socket.send_json({"type": "cancel"})
        said = await socket.receive_json()
        assert (said["type"], said["error"]["code"]) == ("error", "PERMISSION_MISSING")
    assert await asyncio.to_thread(status_of, held, owner, job_id) == "queued"


async def test_order_with_a_revoked_key_closes_the_socket_and_does_nothing(
    held: Comfyrail,
) -> None:
    _, owner = await asyncio.to_thread(new_owner, held)
    job_id = await asyncio.to_thread(submit, held, owner)
    key = await asyncio.to_thread(new_key, held, owner, "jobs:read", "jobs:write")
    async with socket_of(held, PATHS[0].format(job_id), key) as socket:
        await socket.receive_json()
        path = f"/v1/keys/{key.split('_')[1]}"
        await asyncio.to_thread(lambda: ask(held, "DELETE", path, **owner))
        await socket.send_json({"type": "cancel"})
        assert (await socket.receive_json())["error"]["code"] == "KEY_REVOKED"
        assert (await socket.receive()).type is aiohttp.WSMsgType.CLOSE
        assert socket.close_code == lasting.ACCESS_LOST
    assert await asyncio.to_thread(status_of, held, owner, job_id) == "queued"


async def test_order_of_a_disabled_user_closes_the_socket(held: Comfyrail) -> None:
    admin, owner = await asyncio.to_thread(new_owner, held)
    job_id = await asyncio.to_thread(submit, held, owner)
    key = await asyncio.to_thread(new_key, held, owner, "jobs:read", "jobs:write")
    async with socket_of(held, PATHS[0].format(job_id), key) as socket:
        await socket.receive_json()
        user = json.loads((await asyncio.to_thread(ask, held, "GET", "/v1/session", **owner))[1])
        path, body = f"/v1/users/{user['user_id']}", json.dumps({"disabled": True}).encode()
        await asyncio.to_thread(lambda: ask(held, "PATCH", path, body, Content_Type=JSON, **admin))
        await socket.send_json({"type": "cancel"})
        assert (await socket.receive_json())["error"]["code"] == "USER_DISABLED"
        await socket.receive()
        assert socket.close_code == lasting.ACCESS_LOST


async def test_one_tenant_does_not_take_the_places_of_others(held: Comfyrail) -> None:
    many, other = bearer(new_user("many")), bearer(new_user("other"))
    async with contextlib.AsyncExitStack() as stack:
        many_at_once = aiohttp.TCPConnector(limit=0)
        http = await stack.enter_async_context(aiohttp.ClientSession(connector=many_at_once))
        for _ in range(lasting.MOST_OF_A_TENANT):
            await stack.enter_async_context(http.ws_connect(f"{held.url}/ws", headers=many))
        with pytest.raises(aiohttp.WSServerHandshakeError) as caught:
            await http.ws_connect(f"{held.url}/ws", headers=many)
        assert caught.value.status == 429
        async with http.ws_connect(f"{held.url}/ws", headers=other) as socket:
            assert (await socket.receive_json())["type"] == "status"
    assert "Traceback" not in held.log


def connection(ask_again: Any) -> HTTPConnection:
    return HTTPConnection({"type": "http", "principal": LOCAL_USER, "ask_again": ask_again})


async def test_what_is_open_ends_within_a_minute_of_its_key(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    answers: list[Exception | Principal] = [
        LOCAL_USER,
        StoreUnavailable("The disk is gone."),
        Unauthorized("Revoked.", code="KEY_REVOKED"),
    ]

    async def ask_again() -> Principal:
        answer = answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer

    assert lasting.ASK_AGAIN_SECONDS == 60
    monkeypatch.setattr(lasting, "ASK_AGAIN_SECONDS", 0.001)
    lost = await lasting.access_lost(connection(ask_again), Permission.JOBS_READ)
    assert (lost.code, answers) == ("KEY_REVOKED", [])


async def test_rights_that_were_taken_away_count_for_what_is_open(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    fewer = replace(LOCAL_USER, permissions=frozenset({Permission.JOBS_READ}))
    answers = [LOCAL_USER, fewer]

    async def ask_again() -> Principal:
        if not answers:
            raise Unauthorized("Revoked.", code="KEY_REVOKED")
        return answers.pop(0)

    monkeypatch.setattr(lasting, "ASK_AGAIN_SECONDS", 0.001)
    opened = connection(ask_again)
    await lasting.access_lost(opened, Permission.JOBS_READ)
    assert not principal_of(opened).may(Permission.FLEET_READ)


async def test_stream_ends_when_its_caller_may_no_longer_read(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(lasting, "ASK_AGAIN_SECONDS", 0.001)
    closed = asyncio.Event()

    async def ask_again() -> Principal:
        raise Unauthorized("Revoked.", code="KEY_REVOKED")

    async def frames() -> Any:
        try:
            yield {"data": "first"}
            await asyncio.Event().wait()
        finally:
            closed.set()

    async def receive() -> Any:
        await asyncio.Event().wait()

    sent: list[Any] = []

    async def send(message: Any) -> None:
        sent.append(message)

    caller = connection(ask_again)
    stream = lasting.LastingStream(frames(), caller)
    async with asyncio.timeout(10):
        await stream({"type": "http", "method": "GET"}, receive, send)
        await closed.wait()
    assert b"first" in sent[1]["body"]
