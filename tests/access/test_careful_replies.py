"""Replies that say no more than they should, and that stay whole whatever somebody has stored."""

import asyncio
import json
from datetime import UTC, datetime
from http.client import HTTPConnection
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from starlette.types import Receive, Scope, Send

from comfyrail.access.keys import new_key
from comfyrail.api.contract import LATEST, instant_of, moment
from comfyrail.api.gate import LocalGate
from comfyrail.api.guard import Guard
from comfyrail.clock import Instant
from comfyrail.errors import Conflict, MalformedRequest
from comfyrail.usecases.account_rules import NewKey, NewUser
from tests.access.account_parts import ADMIN, accounts_kit
from tests.access.gate_parts import admin_key, ask, bearer, code_of, new_address, new_user, token
from tests.processes import Comfyrail

JSON = "application/json"
TOO_LATE = "9999-12-31T23:59:59-23:59"


def admin(gate: Comfyrail) -> dict[str, str]:
    return {"Authorization": f"Bearer {admin_key(gate)}"}


def post(gate: Comfyrail, path: str, body: Any, **headers: str) -> tuple[Any, bytes]:
    return ask(gate, "POST", path, json.dumps(body).encode(), Content_Type=JSON, **headers)


# Times


def test_time_behind_all_calendars_is_refused_and_breaks_no_list(gate: Comfyrail) -> None:
    for path, body in (
        ("/v1/keys", {"name": "late", "expires_at": TOO_LATE}),
        ("/v1/blocks", {"network": "198.51.100.7", "expires_at": TOO_LATE}),
        ("/v1/workflows/execute", {"workflow": {}, "not_before": TOO_LATE}),
    ):
        reply, said = post(gate, path, body, **admin(gate))
        assert (reply.status, code_of(said)) == (400, "MALFORMED_REQUEST"), path
    for path in ("/v1/keys", "/v1/blocks"):
        assert ask(gate, "GET", path, **admin(gate))[0].status == 200


def test_every_stored_time_can_be_shown() -> None:
    for instant in (-(1 << 62), 0, LATEST, LATEST + 1, 1 << 62):
        assert 1970 <= moment(Instant(instant)).year <= 9998
    last = datetime(9998, 12, 31, 23, 59, 59, tzinfo=UTC)
    assert moment(instant_of(last, "x") or Instant(0)) == last
    with pytest.raises(MalformedRequest):
        instant_of(datetime(9999, 1, 1, tzinfo=UTC), "x")


# Keys that outlive what they were made with


def test_key_made_with_a_token_or_a_session_ends_with_it(gate: Comfyrail) -> None:
    user = new_user("keys")
    assert post(gate, "/v1/users", {"user_id": user}, **admin(gate))[0].status == 201
    _, said = post(gate, "/v1/keys", {"name": "k"}, **bearer(user))
    assert json.loads(said)["expires_at"] is not None
    late = {"name": "k", "expires_at": "2099-01-01T00:00:00Z"}
    _, said = post(gate, "/v1/keys", late, **bearer(user))
    assert json.loads(said)["expires_at"] < "2099"
    reply, _ = post(gate, "/v1/session", {"token": token(user_id=user)})
    cookie = reply.headers["Set-Cookie"].partition(";")[0]
    own = f"http://{urlsplit(gate.url).netloc}"
    _, said = post(gate, "/v1/keys", late, Cookie=cookie, Origin=own)
    assert json.loads(said)["expires_at"] < "2099"
    _, said = post(gate, "/v1/keys", {"name": "k"}, **admin(gate))
    assert json.loads(said)["expires_at"] is None


@pytest.mark.parametrize("end", [None, "2098-01-01T00:00:00Z"], ids=["for-ever", "with-an-end"])
def test_key_made_in_a_session_ends_with_the_key_that_began_it(
    gate: Comfyrail, end: str | None
) -> None:
    body = {"name": "login"} if end is None else {"name": "login", "expires_at": end}
    _, said = post(gate, "/v1/keys", body, **admin(gate))
    reply, _ = post(gate, "/v1/session", {"key": json.loads(said)["key"]})
    cookie = reply.headers["Set-Cookie"].partition(";")[0]
    of_page = {"Cookie": cookie, "Origin": f"http://{urlsplit(gate.url).netloc}"}
    _, said = post(gate, "/v1/keys", {"name": "k"}, **of_page)
    assert json.loads(said)["expires_at"] == end
    sooner = {"name": "k", "expires_at": "2097-01-01T00:00:00Z"}
    _, said = post(gate, "/v1/keys", sooner, **of_page)
    assert json.loads(said)["expires_at"] == sooner["expires_at"]
    later = {"name": "k", "expires_at": "2099-01-01T00:00:00Z"}
    _, said = post(gate, "/v1/keys", later, **of_page)
    assert json.loads(said)["expires_at"] == (end or later["expires_at"])


# Tenants


async def test_new_user_does_not_join_a_tenant_that_nobody_has_named(tmp_path: Path) -> None:
    async with accounts_kit(tmp_path) as kit:
        await kit.accounts.add_user(ADMIN, NewUser("ann", tenant="team"))
        with pytest.raises(Conflict) as caught:
            await kit.accounts.add_user(ADMIN, NewUser("team"))
        assert caught.value.code == "TENANT_EXISTS"
        added = await kit.accounts.add_user(ADMIN, NewUser("team", tenant="team"))
        assert added.tenant == "team"
        await kit.accounts.make_key(ADMIN, NewKey("k", user_id="team"))


# Secrets


def test_whole_key_in_the_wrong_place_is_not_said_again(gate: Comfyrail) -> None:
    text = new_key().text
    secret = text.split("_", 2)[2]
    user = text[:60]
    for reply, said in (
        ask(gate, "DELETE", f"/v1/keys/{text}", **admin(gate)),
        ask(gate, "GET", f"/v1/users/{text}", **admin(gate)),
        ask(gate, "GET", f"/v1/users/x{text}", **admin(gate)),
        post(gate, "/v1/users", {"user_id": user}, **admin(gate)),
        post(gate, "/v1/users", {"user_id": "x", "tenant": text}, **admin(gate)),
    ):
        assert reply.status in {400, 404}
        assert secret[:20].encode() not in said, said


def test_password_in_the_url_of_a_worker_is_not_said_again(gate: Comfyrail) -> None:
    for url in ("http://ann:hunter2@127.0.0.1:1", "http://127.0.0.1:1/?key=hunter2"):
        reply, said = post(gate, "/v1/workers", {"url": url}, **admin(gate))
        assert reply.status >= 400
        assert b"hunter2" not in said


def test_reply_with_a_session_is_kept_nowhere(gate: Comfyrail) -> None:
    name = {"Idempotency-Key": new_user("session")}
    replies = [
        post(gate, "/v1/session", {"key": admin_key(gate)}, **name, **admin(gate))[0]
        for _ in range(2)
    ]
    assert {reply.headers["Cache-Control"] for reply in replies} == {"no-store"}
    assert {reply.headers["Idempotent-Replayed"] for reply in replies} == {None}
    assert all("Set-Cookie" in reply.headers for reply in replies)


# Pages of other sites


@pytest.mark.parametrize("origin", ["https://evil.example", "null"])
def test_page_of_another_site_does_not_get_its_visitors_blocked(
    gate: Comfyrail, origin: str
) -> None:
    address = new_address()
    upgrade = {
        "Connection": "Upgrade",
        "Upgrade": "websocket",
        "Sec-WebSocket-Version": "13",
        "Sec-WebSocket-Key": "dGhlIHNhbXBsZSBub25jZQ==",
    }
    for _ in range(40):
        reply, _ = ask(
            gate, "GET", "/ws?token=crk_wrong", Origin=origin, X_Forwarded_For=address, **upgrade
        )
        assert reply.status == 401
    reply, _ = ask(gate, "GET", "/health", X_Forwarded_For=address)
    assert reply.status == 200


# Addresses and connections


def test_slash_at_the_end_leads_nowhere_and_shows_no_host(gate: Comfyrail) -> None:
    reply, said = ask(gate, "GET", "/v1/keys/", Host="evil.example", **admin(gate))
    assert (reply.status, reply.headers["Location"]) == (404, None)
    assert b"evil.example" not in said
    reply, _ = ask(gate, "GET", "/docs", Host="evil.example", Accept="text/html")
    assert not (reply.headers["Location"] or "/").startswith("http")


async def test_connection_stays_usable_after_a_fault_that_was_answered() -> None:
    async def app(_scope: Scope, _receive: Receive, send: Send) -> None:
        await send({"type": "http.response.start", "status": 500, "headers": []})
        await send({"type": "http.response.body", "body": b"{}"})
        raise ZeroDivisionError

    async def broken(_scope: Scope, _receive: Receive, send: Send) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b"{", "more_body": True})
        raise ZeroDivisionError

    async def receive() -> Any:
        return {"type": "http.request", "body": b""}

    async def send(_message: Any) -> None:
        await asyncio.sleep(0)

    def scope() -> dict[str, Any]:
        headers = [(b"host", b"localhost")]
        common = {"type": "http", "method": "GET", "path": "/", "query_string": b""}
        return {**common, "headers": headers, "client": ("127.0.0.1", 1)}

    await Guard(app, LocalGate())(scope(), receive, send)
    with pytest.raises(ZeroDivisionError):
        await Guard(broken, LocalGate())(scope(), receive, send)


def test_requests_follow_each_other_on_one_connection(gate: Comfyrail) -> None:
    connection = HTTPConnection(urlsplit(gate.url).netloc, timeout=20)
    for path in ("/v1/keys/", "/health", "/v1/nothing", "/health"):
        connection.request("GET", path)
        reply = connection.getresponse()
        reply.read()
        assert not reply.will_close
    connection.close()
