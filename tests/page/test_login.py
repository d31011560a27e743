"""The page where access is on: logging in, what one may see, and a session that ends."""

import json
import re
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.access.gate_parts import admin_key, gated_server
from tests.page.watched import WatchedPage
from tests.processes import Comfyrail

OpenPage = Callable[..., WatchedPage]


@pytest.fixture(scope="module")
def gate(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Comfyrail]:
    with gated_server(tmp_path_factory.mktemp("page-gate") / "data") as process:
        yield process


def key_for(gate: Comfyrail, user: str, permissions: list[str] | None = None) -> str:
    headers = {"Authorization": f"Bearer {admin_key(gate)}"}
    gate.call("POST", "/v1/users", {"user_id": user, "permissions": permissions}, **headers)
    made = gate.call("POST", "/v1/keys", {"name": "page", "user_id": user}, **headers)
    assert made[0] == 201, made
    return str(made[1]["key"])


def log_in(watched: WatchedPage, key: str) -> None:
    watched.page.get_by_label("API key or token").fill(key)
    watched.page.get_by_role("button", name="Log in").click()


def test_login_leads_to_the_view_that_was_asked_for(gate: Comfyrail, open_page: OpenPage) -> None:
    key = key_for(gate, "ann")
    watched = open_page(gate.url, "#/usage?days=7")
    log_in(watched, key)
    page = watched.page
    page.get_by_role("heading", name="Usage & cost").wait_for()
    assert page.url.endswith("#/usage?days=7")
    page.get_by_text("ann", exact=True).wait_for()
    page.get_by_text("Live").wait_for()


def test_wrong_key_is_refused_in_words(gate: Comfyrail, open_page: OpenPage) -> None:
    watched = open_page(gate.url)
    watched.expect("401")
    log_in(watched, "crk_nope")
    assert watched.page.get_by_role("alert").inner_text() != ""


def test_what_one_may_not_do_is_not_shown(gate: Comfyrail, open_page: OpenPage) -> None:
    watched = open_page(gate.url)
    log_in(watched, key_for(gate, "looker", ["jobs:read"]))
    page = watched.page
    page.get_by_role("heading", name="Run a workflow").wait_for()
    names = page.get_by_role("navigation").first.get_by_role("link").all_inner_texts()
    assert "Keys" not in names
    assert "Webhooks" not in names
    assert "Queue & workers" not in names
    page.get_by_role("link", name=re.compile("Palette")).click()
    page.get_by_test_id("estimate").wait_for()
    assert page.get_by_role("button", name="Run", exact=True).is_disabled()


def test_session_that_has_ended_asks_to_log_in_again(gate: Comfyrail, open_page: OpenPage) -> None:
    key = key_for(gate, "bob")
    watched = open_page(gate.url, "#/keys")
    watched.expect("401")
    log_in(watched, key)
    page = watched.page
    page.get_by_role("heading", name="API keys").wait_for()
    page.context.clear_cookies()
    page.goto(f"{gate.url}/#/usage")
    page.get_by_label("API key or token").wait_for()
    log_in(watched, key)
    page.get_by_role("heading", name="Usage & cost").wait_for()


def test_key_that_was_made_in_the_page_lasts(gate: Comfyrail, open_page: OpenPage) -> None:
    watched = open_page(gate.url, "#/keys")
    log_in(watched, key_for(gate, "carl"))
    page = watched.page
    page.get_by_role("button", name="Make a key").click()
    page.get_by_label("What it is for").fill("a program")
    page.get_by_role("button", name="Make it").click()
    key = page.get_by_test_id("made-key").inner_text()
    page.get_by_role("button", name="I have it").click()
    _, listed = gate.call("GET", "/v1/keys", Authorization=f"Bearer {key}")
    found = {each["name"]: each["expires_at"] for each in listed["keys"]}
    assert found["a program"] is None, json.dumps(listed)


def test_key_is_shown_once_and_revoked(gate: Comfyrail, open_page: OpenPage) -> None:
    watched = open_page(gate.url, "#/keys")
    log_in(watched, key_for(gate, "emma"))
    page = watched.page
    page.get_by_role("button", name="Make a key").click()
    page.get_by_label("What it is for").fill("the shop")
    page.get_by_role("button", name="Make it").click()
    key = page.get_by_test_id("made-key").inner_text()
    page.get_by_role("button", name="I have it").click()
    row = page.get_by_role("row").filter(has_text="the shop")
    row.get_by_role("button", name="Revoke").click()
    page.get_by_role("dialog").get_by_role("button", name="Revoke").click()
    row.get_by_text("revoked").wait_for()
    assert key not in page.content()
    assert gate.call("GET", "/v1/keys", Authorization=f"Bearer {key}")[0] == 401


def test_logging_out_ends_it(gate: Comfyrail, open_page: OpenPage) -> None:
    watched = open_page(gate.url)
    log_in(watched, key_for(gate, "dora"))
    page = watched.page
    page.get_by_role("button", name="Log out").click()
    page.get_by_label("API key or token").wait_for()


def test_link_to_what_one_may_not_see_says_what_is_missing(
    gate: Comfyrail, open_page: OpenPage
) -> None:
    watched = open_page(gate.url, "#/fleet")
    log_in(watched, key_for(gate, "fay", ["library:read"]))
    watched.page.get_by_text("fleet:read").wait_for()
    watched.go("#/jobs")
    watched.page.get_by_text("jobs:read").wait_for()


# Other tabs of the same browser


def new_tab(watched: WatchedPage, place: str = "#/") -> WatchedPage:
    tab = WatchedPage(watched.page.context.new_page(), watched.url)
    tab.go(place)
    return tab


def is_user(tab: WatchedPage, user: str) -> None:
    tab.page.get_by_role("contentinfo").get_by_text(user, exact=True).wait_for()


def test_logging_out_leads_other_tabs_to_the_login_and_back(
    gate: Comfyrail, open_page: OpenPage
) -> None:
    one = open_page(gate.url, "#/usage?days=7")
    log_in(one, key_for(gate, "gina"))
    one.page.get_by_text("Live").wait_for()
    other = new_tab(one)
    other.page.wait_for_load_state("networkidle")
    other.page.get_by_role("button", name="Log out").click()
    one.page.get_by_label("API key or token").wait_for()
    log_in(one, key_for(gate, "hugo"))
    is_user(one, "hugo")
    assert one.page.url.endswith("#/usage?days=7")
    other.check()


def test_tab_becomes_that_of_whoever_logs_in_elsewhere(
    gate: Comfyrail, open_page: OpenPage
) -> None:
    one = open_page(gate.url, "#/usage")
    log_in(one, key_for(gate, "kate"))
    is_user(one, "kate")
    one.page.get_by_text("Live").wait_for()
    other = new_tab(one)
    other.page.goto(f"{gate.url}/login")
    log_in(other, key_for(gate, "luis"))
    is_user(other, "luis")
    is_user(one, "luis")
    other.check()


SHOW = "document.dispatchEvent(new Event('visibilitychange'))"


@pytest.mark.parametrize("how", ["line-breaks", "tab-is-shown"])
def test_tab_that_was_not_told_finds_out_who_is_logged_in_now(
    gate: Comfyrail, open_page: OpenPage, how: str
) -> None:
    one = open_page(gate.url, "#/usage")
    log_in(one, key_for(gate, f"before-{how}"))
    is_user(one, f"before-{how}")
    lines: list[Any] = []
    one.page.route_web_socket(
        re.compile("/v1/events/ws"), lambda line: lines.append((line, line.connect_to_server()))
    )
    one.page.reload()
    live = one.page.get_by_text("Live", exact=True)
    live.wait_for()

    def look_again() -> None:
        if how == "tab-is-shown":
            one.page.evaluate(SHOW)
        else:
            lines[-1][0].close(code=1012)

    count = len(lines)
    look_again()
    if how == "line-breaks":
        one.wait(lambda: len(lines) > count)
    live.wait_for()
    is_user(one, f"before-{how}")
    elsewhere = open_page(gate.url)
    log_in(elsewhere, key_for(gate, f"after-{how}"))
    is_user(elsewhere, f"after-{how}")
    one.page.context.add_cookies(elsewhere.page.context.cookies())
    look_again()
    is_user(one, f"after-{how}")


def test_tab_without_a_stream_hears_of_another_user_from_other_tabs(
    gate: Comfyrail, open_page: OpenPage
) -> None:
    one = open_page(gate.url, "#/usage")
    log_in(one, key_for(gate, "mona", ["library:read"]))
    is_user(one, "mona")
    other = new_tab(one)
    other.page.goto(f"{gate.url}/login")
    log_in(other, key_for(gate, "nick"))
    is_user(one, "nick")
    other.check()


def test_login_leads_back_to_a_form_that_was_filled_in(
    gate: Comfyrail, open_page: OpenPage
) -> None:
    place = f"#/jobs?text={'%20cat' * 800}"
    watched = open_page(gate.url, place)
    log_in(watched, key_for(gate, "olga"))
    watched.page.get_by_role("heading", name="Jobs").wait_for()
    assert watched.page.url.endswith(place)
