"""The login page says who one is, and lets one go."""

import json
from http.cookies import SimpleCookie
from urllib.parse import urlsplit

from comfyrail.access.principal import Principal
from comfyrail.access.sessions import COOKIE
from comfyrail.api.session.page import unbuilt_page
from comfyrail.ids import TenantId
from tests.access.gate_parts import ask, code_of, new_user, token
from tests.page.facts import facts_in
from tests.processes import Comfyrail


def session_of(gate: Comfyrail, user: str) -> str:
    content = json.dumps({"token": token(user_id=user, tier="basic")}).encode()
    reply, _ = ask(gate, "POST", "/v1/session", content, Content_Type="application/json")
    return f"{COOKIE}={SimpleCookie(reply.headers['Set-Cookie'])[COOKIE].value}"


def test_login_page_says_who_is_logged_in(gate: Comfyrail) -> None:
    user = new_user("ann")
    cookie = session_of(gate, user)
    reply, content = ask(gate, "GET", "/login?next=/editor", Cookie=cookie)
    assert reply.headers["Cache-Control"] == "no-store"
    page = content.decode()
    assert f"You are <strong>{user}</strong>" in page
    assert '<form method="post" action="/logout">' in page
    assert 'href="/editor">Go on' in page


def test_log_out_ends_the_session(gate: Comfyrail) -> None:
    cookie = session_of(gate, new_user())
    own = f"http://{urlsplit(gate.url).netloc}"
    reply, _ = ask(gate, "POST", "/logout", b"", Cookie=cookie, Origin=own)
    assert (reply.status, reply.headers["Location"]) == (303, "/")
    assert f'{COOKIE}=""' in reply.headers["Set-Cookie"]
    assert ask(gate, "GET", "/v1/session", Cookie=cookie)[0].status == 401


def test_page_of_another_site_cannot_log_anybody_out(gate: Comfyrail) -> None:
    cookie = session_of(gate, new_user())
    for origin in ("https://evil.example.com", "null"):
        reply, said = ask(gate, "POST", "/logout", b"", Cookie=cookie, Origin=origin)
        assert (reply.status, code_of(said)) == (403, "CROSS_SITE_REQUEST")
    assert ask(gate, "GET", "/v1/session", Cookie=cookie)[0].status == 200


def test_names_of_users_are_texts() -> None:
    page = unbuilt_page(Principal(TenantId("<i>"), user_id='"><script>'), has_access=True)
    assert "<script>" not in page
    assert "<i>" not in page


def test_server_whose_page_was_not_built_says_how_to_build_it() -> None:
    page = unbuilt_page(None, has_access=True)
    assert "make page" in page
    assert 'href="/login"' in page
    assert "/logout" not in page
    assert 'href="/docs"' in unbuilt_page(None, has_access=False)


def test_nobody_is_told_anything_before_logging_in(gate: Comfyrail) -> None:
    facts = facts_in(ask(gate, "GET", "/")[1].decode())
    assert facts["access"] is True
    assert facts["user"] is None
    assert facts["events"] is None


def test_page_says_who_is_logged_in(gate: Comfyrail) -> None:
    user = new_user("ann")
    credential = token(user_id=user, tier="basic")
    page = ask(gate, "GET", "/", Authorization=f"Bearer {credential}")[1].decode()
    assert facts_in(page)["user"]["user_id"] == user
