"""Sessions of browsers: they begin with a key or a token, and only our own pages may use them."""

import json
from base64 import urlsafe_b64encode
from dataclasses import replace
from http.cookies import SimpleCookie
from typing import Any
from urllib.parse import unquote, urlencode, urlsplit

import aiohttp
import msgspec
import pytest

from comfyrail.access.gatekeeper import Gatekeeper
from comfyrail.access.permissions import Permission
from comfyrail.access.principal import Principal
from comfyrail.access.sessions import COOKIE, SECRET_BYTES, SESSION_SECONDS, Sessions
from comfyrail.api.session.page import local_path, login_page
from comfyrail.clock import Instant, after
from comfyrail.ids import TenantId
from tests.access.gate_parts import (
    HandClock,
    admin_key,
    ask,
    bearer,
    code_of,
    new_address,
    new_user,
    token,
)
from tests.processes import Comfyrail, server

FORM = "application/x-www-form-urlencoded"
JSON = "application/json"


def begin(gate: Comfyrail, **body: str) -> str:
    """The cookie of a new session."""
    content = json.dumps(body or {"token": token(user_id=new_user())}).encode()
    reply, said = ask(gate, "POST", "/v1/session", content, Content_Type=JSON)
    assert reply.status == 201, said
    return f"{COOKIE}={cookie_of(reply.headers['Set-Cookie']).value}"


def cookie_of(header: str) -> Any:
    return SimpleCookie(header)[COOKIE]


def own_origin(gate: Comfyrail) -> str:
    return f"http://{urlsplit(gate.url).netloc}"


# Beginning and ending


def test_session_begins_with_a_token_and_shows_who_it_is(gate: Comfyrail) -> None:
    user = new_user()
    cookie = begin(gate, token=token(user_id=user, tier="basic"))
    reply, content = ask(gate, "GET", "/v1/session", Cookie=cookie)
    shown = json.loads(content)
    assert reply.status == 200
    assert (shown["user_id"], shown["tier"], shown["source"]) == (user, "basic", "session")
    assert shown["expires_at"] is not None


def test_cookie_is_out_of_reach_of_scripts_and_other_sites(gate: Comfyrail) -> None:
    content = json.dumps({"key": admin_key(gate)}).encode()
    plain = ask(gate, "POST", "/v1/session", content, Content_Type=JSON)[0].headers["Set-Cookie"]
    cookie = cookie_of(plain)
    assert (cookie["httponly"], cookie["samesite"], cookie["path"]) == (True, "strict", "/")
    assert not cookie["secure"]
    secure = ask(
        gate, "POST", "/v1/session", content, Content_Type=JSON, X_Forwarded_Proto="https"
    )[0].headers["Set-Cookie"]
    assert cookie_of(secure)["secure"] is True
    assert admin_key(gate) not in plain
    assert admin_key(gate).split("_", 2)[2] not in cookie.value


@pytest.mark.parametrize(
    ("body", "status"),
    [
        ({}, 400),
        ({"key": "crk_a", "token": "a.b.c"}, 400),
        ({"key": "crk_a"}, 401),
        ({"token": "a.b.c"}, 401),
        ({"token": ""}, 401),
        ({"key": 1}, 400),
        ({"key": "crk_a", "more": 1}, 400),
    ],
)
def test_session_does_not_begin_without_a_credential_that_counts(
    gate: Comfyrail, body: Any, status: int
) -> None:
    reply, _ = ask(gate, "POST", "/v1/session", json.dumps(body).encode(), Content_Type=JSON)
    assert reply.status == status
    assert "Set-Cookie" not in reply.headers


def test_ended_session_is_over_for_every_copy_of_its_cookie_and_after_a_restart(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    with server(tmp_path_factory.mktemp("ended") / "data", "--access", "on", workers=0) as process:
        key = admin_key(process)
        ended, other = begin(process, key=key), begin(process, key=key)
        reply, _ = ask(process, "DELETE", "/v1/session", Cookie=ended, Origin=own_origin(process))
        assert reply.status == 204
        assert cookie_of(reply.headers["Set-Cookie"])["max-age"] == "0"
        assert ask(process, "GET", "/v1/session", Cookie=ended)[0].status == 401
        process.stop()
        process.start()
        assert ask(process, "GET", "/v1/session", Cookie=ended)[0].status == 401
        assert ask(process, "GET", "/v1/session", Cookie=other)[0].status == 200
        # What signs them is for the owner of the folder alone to read.
        secret = process.data / "session.secret"
        assert secret.stat().st_mode & 0o777 == 0o600
        assert len(secret.read_bytes()) == SECRET_BYTES


def test_session_ends_at_once_with_its_key(gate: Comfyrail) -> None:
    admin = {"Authorization": f"Bearer {admin_key(gate)}"}
    body = json.dumps({"name": "browser"}).encode()
    made = json.loads(ask(gate, "POST", "/v1/keys", body, Content_Type=JSON, **admin)[1])
    cookie = begin(gate, key=made["key"])
    assert ask(gate, "GET", "/v1/workers", Cookie=cookie)[0].status == 200
    ask(gate, "DELETE", f"/v1/keys/{made['key'].split('_')[1]}", **admin)
    assert ask(gate, "GET", "/v1/workers", Cookie=cookie)[0].status == 401


def test_session_ends_at_once_when_its_user_is_disabled(gate: Comfyrail) -> None:
    admin = {"Authorization": f"Bearer {admin_key(gate)}", "Content_Type": JSON}
    user = new_user("disabled")
    made, said = ask(gate, "POST", "/v1/users", json.dumps({"user_id": user}).encode(), **admin)
    assert made.status == 201, said
    cookie = begin(gate, token=token(user_id=user))
    assert ask(gate, "GET", "/v1/workers", Cookie=cookie)[0].status == 200
    change = json.dumps({"disabled": True}).encode()
    assert ask(gate, "PATCH", f"/v1/users/{user}", change, **admin)[0].status == 200
    assert ask(gate, "GET", "/v1/workers", Cookie=cookie)[0].status == 401


def test_cookie_that_we_have_not_signed_is_nobodys(gate: Comfyrail) -> None:
    cookie = begin(gate)
    name, _, value = cookie.partition("=")
    content, _, signature = value.partition(".")
    forged = (
        "",
        "nonsense",
        f"{content}.",
        f"{content}.{'A' * len(signature)}",
        f"{content[:-2]}AA.{signature}",
        f".{signature}",
        "\xff.\xff",
        "a" * 10_000,
    )
    for text in forged:
        assert ask(gate, "GET", "/v1/workers", Cookie=f"{name}={text}")[0].status == 401
        # An old cookie must not keep anybody from the page where a new one is given.
        assert ask(gate, "GET", "/login", Cookie=f"{name}={text}")[0].status == 200


def test_session_and_header_of_two_people_are_refused(gate: Comfyrail) -> None:
    user = new_user()
    cookie = begin(gate, token=token(user_id=user))
    assert ask(gate, "GET", "/v1/session", Cookie=cookie, **bearer(user))[0].status == 200
    reply, content = ask(gate, "GET", "/v1/session", Cookie=cookie, **bearer())
    assert (reply.status, code_of(content)) == (400, "CREDENTIALS_CONFLICT")


# Other sites


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"Origin": "https://evil.example.com"}, 403),
        ({"Origin": "null"}, 403),
        ({}, 403),
        ({"Sec_Fetch_Site": "cross-site"}, 403),
        ({"Sec_Fetch_Site": "same-site"}, 403),
        ({"Origin": "https://evil.example.com", "Sec_Fetch_Site": "same-origin"}, 403),
        ({"Origin": "null", "Sec_Fetch_Site": "same-origin"}, 200),
        ({"Sec_Fetch_Site": "same-origin"}, 200),
        ({"Origin": "own"}, 200),
    ],
)
def test_page_of_another_site_cannot_act_with_a_session(
    gate: Comfyrail, headers: dict[str, str], status: int
) -> None:
    if headers.get("Origin") == "own":
        headers = {"Origin": own_origin(gate)}
    cookie = begin(gate, key=admin_key(gate))
    body = json.dumps({}).encode()
    reply, content = ask(
        gate, "POST", "/v1/queue/resume", body, Content_Type=JSON, Cookie=cookie, **headers
    )
    assert reply.status == status, content
    if status == 403:
        assert code_of(content) == "CROSS_SITE_REQUEST"


def test_program_with_a_key_needs_no_origin_and_may_have_any(gate: Comfyrail) -> None:
    headers = {"Authorization": f"Bearer {admin_key(gate)}", "Content_Type": JSON}
    for more in ({}, {"Origin": "https://elsewhere.example.com"}):
        assert ask(gate, "POST", "/v1/queue/resume", b"{}", **headers, **more)[0].status == 200


def test_page_over_http_does_not_act_on_a_server_over_https(gate: Comfyrail) -> None:
    cookie = begin(gate, key=admin_key(gate))
    host = urlsplit(gate.url).netloc
    common = {"Content_Type": JSON, "Cookie": cookie, "X_Forwarded_Proto": "https"}
    for scheme, status in (("http", 403), ("https", 200)):
        origin = f"{scheme}://{host}"
        reply, _ = ask(gate, "POST", "/v1/queue/resume", b"{}", Origin=origin, **common)
        assert reply.status == status


@pytest.mark.parametrize(
    ("origin", "status"), [("own", 404), ("https://evil.example.com", 403), ("", 403)]
)
async def test_socket_with_a_session_is_for_own_pages_only(
    gate: Comfyrail, origin: str, status: int
) -> None:
    headers = {"Cookie": begin(gate)}
    if origin:
        headers["Origin"] = own_origin(gate) if origin == "own" else origin
    url = f"{gate.url}/v1/workflows/execution/some-job/ws"
    async with aiohttp.ClientSession() as session:
        with pytest.raises(aiohttp.WSServerHandshakeError) as raised:
            await session.ws_connect(url, headers=headers)
    assert raised.value.status == status


@pytest.mark.parametrize("path", ["/login", "/v1/session"])
def test_page_of_another_site_cannot_log_somebody_in(gate: Comfyrail, path: str) -> None:
    kind = FORM if path == "/login" else JSON
    content = b"credential=crk_a" if path == "/login" else b'{"key": "crk_a"}'
    reply, said = ask(
        gate, "POST", path, content, Content_Type=kind, Origin="https://evil.example.com"
    )
    assert (reply.status, code_of(said)) == (403, "CROSS_SITE_REQUEST")


# The login page


def test_browser_without_a_session_is_sent_to_the_login_page_and_back(gate: Comfyrail) -> None:
    reply, _ = ask(gate, "GET", "/v1/workers?limit=5", Accept="text/html,*/*")
    assert reply.status == 303
    assert reply.headers["Location"] == "/login?next=%2Fv1%2Fworkers%3Flimit%3D5"
    page = ask(gate, "GET", reply.headers["Location"])[1].decode()
    assert 'value="/v1/workers?limit=5"' in page
    form = urlencode({"credential": f" {admin_key(gate)}\n", "next": "/v1/workers?limit=5"})
    reply, _ = ask(
        gate, "POST", "/login", form.encode(), Content_Type=FORM, Origin=own_origin(gate)
    )
    assert (reply.status, reply.headers["Location"]) == (303, "/v1/workers?limit=5")
    cookie = f"{COOKIE}={cookie_of(reply.headers['Set-Cookie']).value}"
    assert ask(gate, "GET", "/v1/workers?limit=5", Cookie=cookie)[0].status == 200


def test_wrong_credentials_bring_the_page_again_with_a_sentence(gate: Comfyrail) -> None:
    form = urlencode({"credential": '"><script>', "next": '/"><script>'}).encode()
    reply, content = ask(
        gate, "POST", "/login", form, Content_Type=FORM, X_Forwarded_For=new_address()
    )
    assert reply.status == 401
    assert b'role="alert"' in content
    assert b"<script" not in content
    assert "Set-Cookie" not in reply.headers


def test_login_page_runs_no_script_and_asks_no_other_server(gate: Comfyrail) -> None:
    reply, content = ask(gate, "GET", "/login")
    assert b"<script" not in content
    assert b"http" not in content.replace(b"http-equiv", b"")
    policy = reply.headers["Content-Security-Policy"]
    assert "form-action 'self'" in policy
    assert "script-src" not in policy
    assert reply.headers["Cache-Control"] == "no-store"


@pytest.mark.parametrize(
    "wanted",
    [
        "//evil.example.com",
        "///evil.example.com",
        "/\\evil.example.com",
        "\\\\evil.example.com",
        "https://evil.example.com",
        "https:evil.example.com",
        "javascript:alert(1)",
        "evil.example.com",
        "/\t/evil.example.com",
        "/\r\nSet-Cookie: a=b",
        "/\x00",
        "",
        "/" + "a" * 8000,
        "/" + "ä" * 2000,
        "/\u2028",
    ],
)
def test_login_leads_to_paths_of_this_server_only(wanted: str) -> None:
    assert local_path(wanted) == "/"
    assert 'name="next" value="/"' in login_page(local_path(wanted))


@pytest.mark.parametrize("wanted", ["/", "/editor", "/v1/workers?limit=5&a=b", "/a#b", "/ä"])
def test_paths_of_this_server_are_kept(wanted: str) -> None:
    assert local_path(wanted) == wanted


@pytest.mark.parametrize(
    "filled_in", ["%20a" * 1250, "a" * 7900, "ä" * 1300], ids=["encoded", "plain", "wide"]
)
def test_login_leads_back_to_a_long_address(gate: Comfyrail, filled_in: str) -> None:
    wanted = f"/?v={filled_in}"
    _, page = ask(gate, "GET", f"/login?{urlencode({'next': wanted})}")
    assert f'name="next" value="{wanted}"' in page.decode()
    form = urlencode({"credential": admin_key(gate), "next": wanted}).encode()
    reply, _ = ask(gate, "POST", "/login", form, Content_Type=FORM, Origin=own_origin(gate))
    assert (reply.status, unquote(reply.headers["Location"])) == (303, unquote(wanted))


# The signed note


class NoStore:
    def __init__(self) -> None:
        self.ended: dict[str, Instant] = {}

    async def list_ended_sessions(self) -> dict[str, Instant]:
        return self.ended

    async def end_session(self, nonce: str, until: Instant) -> None:
        self.ended[nonce] = until


def test_session_lasts_twelve_hours_and_no_longer_than_its_token() -> None:
    clock = HandClock()
    sessions = Sessions(b"s" * 32, NoStore(), clock)
    _, whole = sessions.begin("key", "abc")
    _, short = sessions.begin("user", "ann", latest=Instant(clock.now() + 60_000))
    clock.seconds += 61
    assert sessions.read(short) is None
    assert sessions.read(whole) is not None
    clock.seconds += SESSION_SECONDS
    assert sessions.read(whole) is None


def test_cookie_of_another_server_is_not_ours() -> None:
    clock = HandClock()
    _, cookie = Sessions(b"s" * 32, NoStore(), clock).begin("key", "abc")
    assert Sessions(b"t" * 32, NoStore(), clock).read(cookie) is None


class OneUser:
    """Accounts with one key and one user, who are the same person."""

    def __init__(self, key_ends: Instant | None) -> None:
        self.principal = Principal(TenantId("ann"), user_id="ann", expires_at=key_ends)

    async def principal_of_key(self, text: str) -> Principal:
        return replace(self.principal, key_id=text)

    async def principal_of_key_id(self, key_id: str) -> Principal:
        return replace(self.principal, key_id=key_id)

    async def principal_of_user(
        self, user_id: str, tier: str, permissions: frozenset[Permission]
    ) -> Principal:
        return replace(
            self.principal, user_id=user_id, tier=tier, permissions=permissions, expires_at=None
        )


async def recognized(keeper: Gatekeeper, cookie: str) -> Principal:
    found = await keeper.recognize_session(cookie)
    assert found is not None
    return found[0]


@pytest.mark.parametrize("days", [None, 1, 30], ids=["for-ever", "a-day", "a-month"])
async def test_session_remembers_when_its_key_ends(days: int | None) -> None:
    clock = HandClock()
    end = None if days is None else after(clock.now(), days * 86_400.0)
    keeper = Gatekeeper(OneUser(end), Sessions(b"s" * 32, NoStore(), clock))
    principal = await recognized(keeper, (await keeper.log_in("crk_abc")).cookie)
    assert principal.expires_at == after(clock.now(), SESSION_SECONDS)
    assert principal.keys_end_at == end


async def test_session_whose_key_ends_sooner_now_gives_no_longer_keys() -> None:
    clock = HandClock()
    accounts = OneUser(None)
    keeper = Gatekeeper(accounts, Sessions(b"s" * 32, NoStore(), clock))
    login = await keeper.log_in("crk_abc")
    end = after(clock.now(), 60)
    accounts.principal = replace(accounts.principal, expires_at=end)
    principal = await recognized(keeper, login.cookie)
    assert principal.expires_at == principal.keys_end_at == end


async def test_session_of_a_token_remembers_when_that_ends() -> None:
    clock = HandClock()
    sessions = Sessions(b"s" * 32, NoStore(), clock)
    keeper = Gatekeeper(OneUser(None), sessions)
    end = after(clock.now(), 5 * 86_400.0)
    _, cookie = sessions.begin("user", "ann", latest=end, began_until=end)
    principal = await recognized(keeper, cookie)
    assert principal.expires_at == after(clock.now(), SESSION_SECONDS)
    assert principal.keys_end_at == end


async def test_session_of_an_earlier_version_gives_keys_that_end_with_it() -> None:
    clock = HandClock()
    sessions = Sessions(b"s" * 32, NoStore(), clock)
    note, _ = sessions.begin("key", "abc")
    content = msgspec.json.encode(msgspec.structs.replace(note, began_until=msgspec.UNSET))
    assert b"began_until" not in content
    signature = sessions._sign(content)
    parts = (urlsafe_b64encode(part).decode().rstrip("=") for part in (content, signature))
    principal = await recognized(Gatekeeper(OneUser(None), sessions), ".".join(parts))
    assert principal.keys_end_at == principal.expires_at == note.expires_at
