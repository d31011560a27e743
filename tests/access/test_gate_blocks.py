"""Blocked addresses, by hand and after many bad credentials [11.3]."""

import json
import re
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from comfyrail.access.addresses import TrustedProxies, read_ip, subscriber_of
from comfyrail.access.blocked_addresses import (
    FAILURE_SECONDS,
    FIRST_BLOCK_SECONDS,
    LONGEST_BLOCK_SECONDS,
    MOST_SUSPECTS,
    BadCredentials,
    BlockList,
)
from comfyrail.store.sqlite.store import SqliteStore, open_sqlite_store
from tests.access.gate_parts import (
    HandClock,
    admin_key,
    ask,
    bearer,
    code_of,
    gated_server,
    new_address,
)
from tests.processes import Comfyrail, wait_until


def guess(gate: Comfyrail, address: str, times: int = 10) -> None:
    for _ in range(times):
        reply, _ = ask(
            gate, "GET", "/v1/workers", Authorization="Bearer nonsense", X_Forwarded_For=address
        )
        assert reply.status == 401


def status(gate: Comfyrail, address: str, **headers: str) -> tuple[int, str]:
    reply, content = ask(gate, "GET", "/v1/workers", X_Forwarded_For=address, **headers)
    return reply.status, "" if reply.status == 200 else code_of(content)


def blocks(gate: Comfyrail) -> dict[str, str]:
    """Ids by network."""
    headers = {"Authorization": f"Bearer {admin_key(gate)}"}
    listed = json.loads(ask(gate, "GET", "/v1/blocks", **headers)[1])["blocks"]
    return {block["network"]: block["block_id"] for block in listed}


def test_ten_bad_credentials_block_an_address_until_an_administrator_lifts_it(
    gate: Comfyrail,
) -> None:
    address, neighbour = new_address(), new_address()
    good = bearer()
    guess(gate, address, 9)
    assert status(gate, address, **good)[0] == 200
    guess(gate, address, 1)
    assert status(gate, address, **good) == (403, "ADDRESS_BLOCKED")
    assert status(gate, neighbour, **good)[0] == 200
    admin = {"Authorization": f"Bearer {admin_key(gate)}"}
    block = blocks(gate)[f"{address}/32"]
    assert ask(gate, "DELETE", f"/v1/blocks/{block}", **admin)[0].status == 204
    wait_until(lambda: status(gate, address, **good)[0] == 200)


def test_block_survives_a_restart(tmp_path_factory: pytest.TempPathFactory) -> None:
    address = new_address()
    with gated_server(tmp_path_factory.mktemp("kept") / "data") as process:
        guess(process, address)
        assert status(process, address)[0] == 403
        process.kill()
        process.start()
        assert status(process, address)[0] == 403


def test_address_that_was_blocked_by_hand_gets_no_answer(gate: Comfyrail) -> None:
    address = new_address()
    admin = {"Authorization": f"Bearer {admin_key(gate)}", "Content_Type": "application/json"}
    assert status(gate, address, **bearer())[0] == 200
    body = json.dumps({"network": address, "reason": "test"}).encode()
    assert ask(gate, "POST", "/v1/blocks", body, **admin)[0].status == 201
    wait_until(lambda: status(gate, address, **bearer()) == (403, "ADDRESS_BLOCKED"))
    # Nothing is open to it, not even what needs no credentials.
    assert ask(gate, "GET", "/health", X_Forwarded_For=address)[0].status == 403


def test_who_is_blocked_is_told_until_when(gate: Comfyrail) -> None:
    address, for_good = new_address(), new_address()
    guess(gate, address)
    reply, content = ask(gate, "GET", "/health", X_Forwarded_For=address)
    assert reply.status == 403
    assert re.search(r"blocked until 20\d\d-\d\d-\d\d \d\d:\d\d:\d\d UTC", content.decode())
    assert 800 < int(reply.headers["Retry-After"]) <= 900
    admin = {"Authorization": f"Bearer {admin_key(gate)}", "Content_Type": "application/json"}
    ask(gate, "POST", "/v1/blocks", json.dumps({"network": for_good}).encode(), **admin)
    wait_until(lambda: status(gate, for_good)[0] == 403)
    reply, content = ask(gate, "GET", "/health", X_Forwarded_For=for_good)
    assert "until" not in content.decode()
    assert reply.headers["Retry-After"] is None


def test_what_the_gate_blocks_is_in_the_audit_log(gate: Comfyrail) -> None:
    address = new_address()
    guess(gate, address)
    headers = {"Authorization": f"Bearer {admin_key(gate)}"}
    content = ask(gate, "GET", "/v1/audit?actor=gate", **headers)[1]
    entry = json.loads(content)["entries"][0]
    assert (entry["act"], entry["target"]) == ("block.add", f"{address}/32")
    assert entry["details"]["block_id"] == blocks(gate)[f"{address}/32"]
    assert entry["details"]["seconds"] == FIRST_BLOCK_SECONDS


@pytest.mark.parametrize(
    "network", ["127.0.0.1", "127.3.0.0/16", "::1", "::ffff:127.0.0.1", "198.51.100.9"]
)
def test_what_is_never_blocked_cannot_be_put_on_the_list(gate: Comfyrail, network: str) -> None:
    admin = {"Authorization": f"Bearer {admin_key(gate)}", "Content_Type": "application/json"}
    reply, content = ask(
        gate, "POST", "/v1/blocks", json.dumps({"network": network}).encode(), **admin
    )
    assert (reply.status, code_of(content)) == (422, "NEVER_BLOCKED")
    assert "never blocked" in content.decode()


def test_a_larger_network_is_blocked_but_for_the_proxies_in_it(gate: Comfyrail) -> None:
    admin = {"Authorization": f"Bearer {admin_key(gate)}", "Content_Type": "application/json"}
    body = json.dumps({"network": "198.51.100.0/24"}).encode()
    assert ask(gate, "POST", "/v1/blocks", body, **admin)[0].status == 201
    wait_until(lambda: status(gate, "198.51.100.7")[0] == 403)
    assert status(gate, "198.51.100.9", **bearer())[0] == 200


def test_bad_logins_count_and_expired_tokens_do_not(gate: Comfyrail) -> None:
    guesser, sleeper = new_address(), new_address()
    for number in range(10):
        path, kind, body = (
            ("/login", "application/x-www-form-urlencoded", b"credential=nonsense")
            if number % 2
            else ("/v1/session", "application/json", b'{"key": "crk_nonsense"}')
        )
        ask(gate, "POST", path, body, Content_Type=kind, X_Forwarded_For=guesser)
    assert status(gate, guesser)[0] == 403
    for _ in range(12):
        ask(gate, "GET", "/v1/workers", X_Forwarded_For=sleeper, **bearer(exp=1_000_000_000))
    assert status(gate, sleeper, **bearer())[0] == 200


def test_this_machine_and_its_proxies_are_never_blocked(gate: Comfyrail) -> None:
    for _ in range(12):
        assert ask(gate, "GET", "/health", Authorization="Bearer nonsense")[0].status == 401
    guess(gate, "127.0.0.1", 12)
    guess(gate, "::1", 12)
    assert ask(gate, "GET", "/health")[0].status == 200


def test_one_who_has_a_whole_network_of_ipv6_is_blocked_as_a_whole(gate: Comfyrail) -> None:
    for number in range(10):
        guess(gate, f"2001:db8:1:2::{number:x}", 1)
    assert status(gate, "2001:db8:1:2:ffff::9")[0] == 403
    assert status(gate, "2001:db8:1:3::9")[0] == 401


# The counting itself


@pytest.fixture
def clock() -> HandClock:
    return HandClock()


@pytest.fixture
async def store(tmp_path: Path, clock: HandClock) -> AsyncIterator[SqliteStore]:
    opened = await open_sqlite_store(tmp_path, clock)
    yield opened
    await opened.close()


async def test_block_lasts_longer_each_time_up_to_a_day(
    store: SqliteStore, clock: HandClock
) -> None:
    listed = BlockList(store, clock)
    counted = BadCredentials(listed, TrustedProxies(), 3, clock)
    address = read_ip("203.0.113.7")
    assert address is not None
    expected = FIRST_BLOCK_SECONDS
    for _ in range(10):
        for _ in range(3):
            await counted.note(address)
        assert listed.is_blocked(address)
        clock.seconds += expected - 1
        assert listed.is_blocked(address)
        clock.seconds += 2
        assert not listed.is_blocked(address)
        expected = min(2 * expected, LONGEST_BLOCK_SECONDS)
    assert expected == LONGEST_BLOCK_SECONDS


async def test_failures_of_more_than_five_minutes_ago_are_forgotten(
    store: SqliteStore, clock: HandClock
) -> None:
    listed = BlockList(store, clock)
    counted = BadCredentials(listed, TrustedProxies(), 3, clock)
    address = read_ip("203.0.113.7")
    assert address is not None
    for _ in range(20):
        await counted.note(address)
        clock.seconds += FAILURE_SECONDS / 2 + 1
    assert not listed.is_blocked(address)


async def test_many_suspects_take_up_a_bounded_room(store: SqliteStore, clock: HandClock) -> None:
    counted = BadCredentials(BlockList(store, clock), TrustedProxies(), 3, clock)
    for number in range(MOST_SUSPECTS + 500):
        await counted.note(read_ip(f"10.{number >> 16}.{number >> 8 & 255}.{number & 255}"))
    assert len(counted._suspects) == MOST_SUSPECTS


# Addresses


PROXIES = TrustedProxies(["10.0.0.0/8", "2001:db8:ffff::/48"])


@pytest.mark.parametrize(
    ("peer", "forwarded", "found"),
    [
        ("203.0.113.9", ["1.2.3.4"], "203.0.113.9"),
        ("10.0.0.1", [], "10.0.0.1"),
        ("10.0.0.1", ["1.2.3.4"], "1.2.3.4"),
        ("10.0.0.1", ["6.6.6.6, 1.2.3.4"], "1.2.3.4"),
        ("10.0.0.1", ["6.6.6.6", "1.2.3.4, 10.0.0.2"], "1.2.3.4"),
        ("10.0.0.1", ["1.2.3.4:5678"], "1.2.3.4"),
        ("10.0.0.1", ["[2001:db8::1]:443"], "2001:db8::1"),
        ("10.0.0.1", ["::ffff:1.2.3.4"], "1.2.3.4"),
        ("::ffff:10.0.0.1", ["1.2.3.4"], "1.2.3.4"),
        ("10.0.0.1", ["1.2.3.4, unknown, 10.0.0.2"], "10.0.0.2"),
        ("10.0.0.1", ["10.0.0.3, 10.0.0.2"], "10.0.0.3"),
        ("2001:db8:ffff::1", ["1.2.3.4"], "1.2.3.4"),
        (None, ["1.2.3.4"], None),
    ],
)
def test_client_is_the_last_one_that_no_trusted_proxy_is(
    peer: str | None, forwarded: list[str], found: str | None
) -> None:
    assert PROXIES.client_of(peer, "http", forwarded, "").text == found


@pytest.mark.parametrize(
    ("peer", "scheme", "said", "is_https"),
    [
        ("10.0.0.1", "http", "https", True),
        ("10.0.0.1", "http", "http, https", True),
        ("10.0.0.1", "https", "http", False),
        ("10.0.0.1", "wss", "", True),
        ("203.0.113.9", "http", "https", False),
        ("203.0.113.9", "https", "http", True),
    ],
)
def test_only_a_trusted_proxy_says_whether_it_is_https(
    peer: str, scheme: str, said: str, is_https: bool
) -> None:
    assert PROXIES.client_of(peer, scheme, [], said).is_https is is_https


def test_subscriber_is_an_address_of_ipv4_or_a_network_of_ipv6() -> None:
    first, second = read_ip("1.2.3.4"), read_ip("2001:db8::1")
    assert first is not None
    assert second is not None
    assert str(subscriber_of(first)) == "1.2.3.4/32"
    assert str(subscriber_of(second)) == "2001:db8::/64"
