"""Rates of a tier as HTTP shows them [11.2]."""

import asyncio
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from comfyrail.api.rates import Submissions
from comfyrail.api.surfaces import OPERATIONS
from tests.access.gate_parts import admin_key, ask, bearer, code_of, gated_server, new_user
from tests.processes import Comfyrail
from tests.services.valkey import Valkey, valkey

EXECUTE = "/v1/workflows/execute"
NOT_RUN = {307, 404, 405}
"""What is said to a path or a method that there is not."""


def free(user: str | None = None) -> dict[str, str]:
    return bearer(user or new_user(), tier="free")


def submit(process: Comfyrail, headers: dict[str, str], path: str = EXECUTE) -> Any:
    return ask(process, "POST", path, b"{}", Content_Type="application/json", **headers)


async def hammer(urls: list[str], headers: dict[str, str], clients: int, each: int) -> Counter[int]:
    """Statuses of what many clients send at the same time."""
    statuses: Counter[int] = Counter()

    async def client(session: aiohttp.ClientSession, url: str) -> None:
        for _ in range(each):
            async with session.post(url + EXECUTE, json={}, headers=headers) as reply:
                statuses[reply.status] += 1
                await reply.read()

    connector = aiohttp.TCPConnector(limit=0)
    async with aiohttp.ClientSession(connector=connector) as session:
        await asyncio.gather(
            *(client(session, urls[number % len(urls)]) for number in range(clients))
        )
    return statuses


async def test_64_clients_at_once_get_exactly_what_their_tier_allows(gate: Comfyrail) -> None:
    begun = time.monotonic()
    statuses = await hammer([gate.url], free(), clients=64, each=2)
    assert time.monotonic() - begun < 60
    assert statuses[429] == 128 - 10
    assert statuses.total() == 128


def test_refusal_says_how_long_to_wait(gate: Comfyrail) -> None:
    caller = free()
    for number in range(10):
        reply, _ = submit(gate, caller)
        assert reply.status != 429
        assert reply.headers["X-RateLimit-Limit"] == "10"
        assert reply.headers["X-RateLimit-Remaining"] == str(9 - number)
    reply, content = submit(gate, caller)
    assert (reply.status, code_of(content)) == (429, "RATE_LIMITED")
    assert 0 < int(reply.headers["Retry-After"]) <= 60
    assert reply.headers["X-RateLimit-Remaining"] == "0"
    assert 0 < int(reply.headers["X-RateLimit-Reset"]) - time.time() <= 61
    assert reply.headers["RateLimit-Policy"] == '"submit";q=10;w=60'
    assert reply.headers["RateLimit"].startswith('"submit";r=0;t=')


def test_other_requests_have_a_count_of_their_own(gate: Comfyrail) -> None:
    caller = free()
    for _ in range(11):
        submit(gate, caller)
    reply, _ = ask(gate, "GET", "/v1/workflows/executions", **caller)
    assert reply.status == 200
    assert reply.headers["RateLimit-Policy"] == '"request";q=300;w=60'


def test_users_of_one_tenant_share_its_rate_and_others_have_their_own(gate: Comfyrail) -> None:
    user = new_user()
    for _ in range(10):
        submit(gate, free(user))
    assert submit(gate, free(user))[0].status == 429
    assert submit(gate, free())[0].status != 429


def test_replies_to_nobody_and_to_the_local_user_have_no_rate(
    gate: Comfyrail, shared_server: Comfyrail
) -> None:
    assert "X-RateLimit-Limit" not in ask(gate, "GET", "/health")[0].headers
    assert "X-RateLimit-Limit" not in submit(shared_server, {})[0].headers


def submissions() -> list[Any]:
    return [
        pytest.param(method.upper(), path, id=f"{method} {path}")
        for (method, path), operation in OPERATIONS.items()
        if operation.is_submission
    ]


def filled(path: str) -> str:
    return path.replace(":path", "").replace("{", "").replace("}", "")


@pytest.mark.parametrize(("method", "path"), submissions())
def test_no_spelling_of_a_route_that_makes_jobs_goes_uncounted(
    gate: Comfyrail, method: str, path: str
) -> None:
    caller = free()
    for _ in range(10):
        assert submit(gate, caller)[0].status != 429
    plain = filled(path)
    assert Submissions(OPERATIONS).has(method, plain)
    reply, _ = ask(gate, method, plain, b"{}", Content_Type="application/json", **caller)
    assert reply.status == 429
    first, last = plain[1], plain[-1]
    spellings = {
        f"/%{ord(first):02x}{plain[2:]}": {429},
        f"{plain[:-1]}%{ord(last):02X}": {429},
        f"{plain}?a=b": {429},
        f"{plain}/": {429} | NOT_RUN,
        f"/{plain}": {429} | NOT_RUN,
        f"/.{plain}": {429} | NOT_RUN,
        f"/x/..{plain}": {429} | NOT_RUN,
        f"{plain};a=b": {429} | NOT_RUN,
        f"{plain}%00": {429} | NOT_RUN,
        plain.upper(): {429} | NOT_RUN,
    }
    for spelling, allowed in spellings.items():
        reply, content = ask(
            gate, method, spelling, b"{}", Content_Type="application/json", **caller
        )
        assert reply.status in allowed, (spelling, reply.status, content)
    for other in ("HEAD", "PUT", "PATCH", "OPTIONS"):
        if (other.lower(), path) not in OPERATIONS:
            reply, _ = ask(gate, other, plain, b"{}", X_HTTP_Method_Override="POST", **caller)
            assert reply.headers["RateLimit-Policy"].startswith('"request"')


def test_administrator_of_a_tier_has_its_rate(gate: Comfyrail) -> None:
    reply, _ = submit(gate, {"Authorization": f"Bearer {admin_key(gate)}"})
    assert reply.headers["X-RateLimit-Limit"] == "1000"


# Several servers


@pytest.fixture(scope="module")
def redis_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Valkey]:
    with valkey(tmp_path_factory.mktemp("valkey")) as running:
        yield running


async def test_two_servers_with_one_redis_allow_exactly_as_much_as_one(
    redis_server: Valkey, tmp_path: Path
) -> None:
    caller = free()
    with (
        gated_server(tmp_path / "a", COMFYRAIL_REDIS_URL=redis_server.url) as first,
        gated_server(tmp_path / "b", COMFYRAIL_REDIS_URL=redis_server.url) as second,
    ):
        statuses = await hammer([first.url, second.url], caller, clients=32, each=2)
        assert statuses[429] == 64 - 10
        redis_server.kill()
        try:
            # Each counts on by itself, and none forgets what it has let through.
            more = await hammer([first.url, second.url], caller, clients=8, each=2)
            assert more[429] >= 16 - 10
            assert second.log.count("rate_limits_not_shared") <= 1
            assert redis_server.url not in first.log + second.log
        finally:
            redis_server.start()
