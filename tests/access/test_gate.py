"""The gate of a server with access on: who comes in, and by what [11.1]."""

import json
from typing import Any

import aiohttp
import pytest

from comfyrail.api.surfaces import OPERATIONS
from tests.access.gate_parts import (
    SECRET,
    admin_key,
    ask,
    bearer,
    code_of,
    new_address,
    new_user,
    token,
)
from tests.processes import Comfyrail, comfyrail

SOCKET = "/v1/workflows/execution/some-job/ws"
MISSING_JOB = "EXECUTION_NOT_FOUND"


def protected() -> list[Any]:
    return [
        pytest.param(method.upper(), path, id=f"{method} {path}")
        for (method, path), operation in OPERATIONS.items()
        if operation.permission is not None and operation.status != 101
    ]


@pytest.mark.parametrize(("method", "path"), protected())
def test_route_with_a_permission_is_closed_to_those_whom_nobody_knows(
    gate: Comfyrail, method: str, path: str
) -> None:
    path = path.replace("{", "").replace("}", "").replace(":path", "")
    reply, _ = ask(gate, method, path, b"{}", Content_Type="application/json")
    assert reply.status == 401
    assert reply.headers["WWW-Authenticate"].startswith("Bearer")


@pytest.mark.parametrize("path", ["/health", "/login", "/comfyrail.css", "/"])
def test_open_routes_need_no_credentials(gate: Comfyrail, path: str) -> None:
    assert ask(gate, "GET", path)[0].status == 200


@pytest.mark.parametrize(
    ("name", "form"),
    [
        ("Authorization", "Bearer {}"),
        ("Authorization", "bearer  {} "),
        ("Authorization", "{}"),
        ("X_API_Key", "{}"),
    ],
)
@pytest.mark.parametrize("kind", ["key", "token"])
def test_keys_and_tokens_come_in_every_way_that_clients_send_them(
    gate: Comfyrail, name: str, form: str, kind: str
) -> None:
    credential = admin_key(gate) if kind == "key" else token(user_id=new_user())
    reply, content = ask(gate, "GET", "/v1/session", **{name: form.format(credential)})
    assert reply.status == 200
    assert json.loads(content)["source"] == kind


def test_same_credential_twice_is_one_and_two_different_ones_are_refused(gate: Comfyrail) -> None:
    one, other = token(user_id=new_user()), token(user_id=new_user())
    same, _ = ask(gate, "GET", "/v1/session", Authorization=f"Bearer {one}", X_API_Key=one)
    assert same.status == 200
    reply, content = ask(gate, "GET", "/v1/session", Authorization=one, X_API_Key=other)
    assert (reply.status, code_of(content)) == (400, "CREDENTIALS_CONFLICT")


@pytest.mark.parametrize(
    "value",
    [
        "Bearer crk_abcdefghijkl_wrong",
        "Bearer nonsense",
        "nonsense",
        "Bearer a.b.c",
        f"Bearer {token('x' * 40)}",
        "Bearer " + "a" * 20_000,
        "Bearer \xff\xfe",
        "Bearer crk_' OR 1=1 --",
        "Bearer crk_\x00",
    ],
)
def test_bad_credentials_are_refused_even_where_none_are_needed(
    gate: Comfyrail, value: str
) -> None:
    if "\x00" in value:
        value = value.replace("\x00", "\t")
    reply, content = ask(gate, "GET", "/health", Authorization=value)
    assert reply.status == 401
    assert code_of(content) in {"KEY_UNKNOWN", "TOKEN_INVALID"}


def test_credentials_of_another_scheme_are_nobodys(gate: Comfyrail) -> None:
    assert ask(gate, "GET", "/health", Authorization="Basic YTpi")[0].status == 200
    assert ask(gate, "GET", "/v1/workers", Authorization="Basic YTpi")[0].status == 401


def test_token_gives_no_more_than_it_says(gate: Comfyrail) -> None:
    reader = bearer(permissions=["jobs:read"])
    assert ask(gate, "GET", "/v1/workflows/executions", **reader)[0].status == 200
    reply, content = ask(gate, "GET", "/v1/workers", **reader)
    assert (reply.status, code_of(content)) == (403, "PERMISSION_MISSING")


def test_expired_token_says_that_it_has_expired(gate: Comfyrail) -> None:
    reply, content = ask(gate, "GET", "/v1/workers", **bearer(exp=1_000_000_000))
    assert (reply.status, code_of(content)) == (401, "TOKEN_EXPIRED")


def test_revoked_key_counts_no_longer(gate: Comfyrail) -> None:
    admin = {"Authorization": f"Bearer {admin_key(gate)}"}
    made = json.loads(
        ask(
            gate,
            "POST",
            "/v1/keys",
            json.dumps({"name": "short-lived"}).encode(),
            Content_Type="application/json",
            **admin,
        )[1]
    )
    own = {"X-API-Key": made["key"]}
    assert ask(gate, "GET", "/v1/workers", **own)[0].status == 200
    key_id = made["key"].split("_")[1]
    assert ask(gate, "DELETE", f"/v1/keys/{key_id}", **admin)[0].status == 204
    reply, content = ask(gate, "GET", "/v1/workers", **own)
    assert (reply.status, code_of(content)) == (401, "KEY_REVOKED")


def test_forwarded_headers_that_are_nonsense_change_nothing(gate: Comfyrail) -> None:
    for value in ("", ",,,", "unknown", "a" * 5000, "1.2.3.4, \xff", ", ".join(["9.9.9.9"] * 500)):
        reply, _ = ask(gate, "GET", "/v1/session", X_Forwarded_For=value, **bearer())
        assert reply.status == 200


def test_replies_have_security_headers_wherever_they_come_from(gate: Comfyrail) -> None:
    for path in ("/health", "/v1/workers", "/no-such-route", "/login"):
        headers = ask(gate, "GET", path)[0].headers
        assert headers["X-Content-Type-Options"] == "nosniff"
        assert headers["X-Frame-Options"] == "DENY"
        assert headers["Cross-Origin-Opener-Policy"] == "same-origin"
        assert "camera=()" in headers["Permissions-Policy"]
        assert "default-src 'none'" in headers["Content-Security-Policy"]
        assert "unsafe" not in headers["Content-Security-Policy"]
        assert "Strict-Transport-Security" not in headers
    secure = ask(gate, "GET", "/health", X_Forwarded_Proto="https")[0].headers
    assert secure["Strict-Transport-Security"].startswith("max-age=")


def test_login_page_needs_no_inline_style(gate: Comfyrail) -> None:
    page = ask(gate, "GET", "/login")[1].decode()
    assert "<style" not in page
    assert "style=" not in page
    assert '<link rel="stylesheet" href="/comfyrail.css">' in page
    reply, styles = ask(gate, "GET", "/comfyrail.css")
    assert reply.headers["Content-Type"].startswith("text/css")
    assert b"font:" in styles


async def test_socket_without_credentials_is_refused(gate: Comfyrail) -> None:
    assert await socket_refusal(gate) == 401


async def test_socket_takes_a_token_from_its_query_and_nobody_writes_it_down(
    gate: Comfyrail,
) -> None:
    own = token(user_id=new_user())
    # It is known who asks: only the job is missing.
    assert await socket_refusal(gate, f"?token={own}&after=1") == 404
    assert await socket_refusal(gate, "?token=nonsense") == 401
    assert await socket_refusal(gate, Authorization=f"Bearer {own}") == 404
    assert own not in gate.log
    assert SECRET not in gate.log


def test_token_in_the_query_of_another_request_does_not_count(gate: Comfyrail) -> None:
    assert ask(gate, "GET", f"/v1/workers?token={token()}")[0].status == 401


def test_log_has_no_credentials(gate: Comfyrail) -> None:
    own = token(user_id=new_user())
    ask(gate, "GET", "/v1/workers", Authorization=f"Bearer {own}", X_API_Key="crk_other")
    ask(gate, "GET", "/v1/workers", Authorization="Bearer crk_abcdefghijkl_" + "s" * 43)
    for secret in (own, "crk_other", "s" * 43, SECRET, admin_key(gate)):
        assert secret not in gate.log


def test_address_behind_a_proxy_is_not_taken_from_what_the_client_wrote(gate: Comfyrail) -> None:
    guesser, victim = new_address(), new_address()
    for _ in range(10):
        ask(
            gate,
            "GET",
            "/health",
            Authorization="Bearer nonsense",
            X_Forwarded_For=f"{victim}, {guesser}",
        )
    assert ask(gate, "GET", "/health", X_Forwarded_For=victim)[0].status == 200
    assert ask(gate, "GET", "/health", X_Forwarded_For=guesser)[0].status == 403


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--host", "0.0.0.0"], "--access on"),
        (["--access", "maybe"], "access"),
    ],
)
def test_server_does_not_start_with_an_open_door(arguments: list[str], said: str) -> None:
    result = comfyrail("serve", "--port", "0", "--workers", "0", *arguments)
    assert result.returncode == 3
    assert said in result.stderr


@pytest.mark.parametrize("secret", ["", "too short"])
def test_server_does_not_start_with_a_secret_that_could_be_guessed(
    secret: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COMFYRAIL_JWT_SECRET", secret)
    result = comfyrail("serve", "--port", "0", "--workers", "0", "--access", "on")
    assert result.returncode == 3
    assert "openssl rand" in result.stderr


async def socket_refusal(gate: Comfyrail, query: str = "", **headers: str) -> int:
    async with aiohttp.ClientSession() as session:
        with pytest.raises(aiohttp.WSServerHandshakeError) as raised:
            await session.ws_connect(gate.url + SOCKET + query, headers=headers)
    return raised.value.status
