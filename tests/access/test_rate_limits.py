"""Never more than the limit in any window, however it is asked [11.2]."""

import asyncio
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from structlog.testing import capture_logs

from comfyrail.access.rate_limits import WINDOW_SECONDS, ProcessRateLimiter, Verdict
from comfyrail.access.redis_rate_limits import PREFIX, RedisRateLimiter
from comfyrail.access.tiers import TIERS, limits_of
from comfyrail.clock import SystemClock
from tests.access.gate_parts import HandClock, new_user
from tests.services.valkey import Valkey, valkey


def test_tiers_have_the_figures_of_the_specification() -> None:
    figures = {name: (each.submissions, each.concurrent) for name, each in TIERS.items()}
    assert figures == {
        "free": (10, 2),
        "basic": (60, 5),
        "pro": (120, 10),
        "premium": (300, 20),
        "enterprise": (1000, 100),
    }
    assert limits_of("a tier that is gone") == TIERS["free"]


@given(
    st.lists(st.floats(0, 45, allow_nan=False), min_size=1, max_size=80),
    st.integers(1, 8),
)
async def test_no_window_has_more_than_the_limit_and_none_is_wasted(
    pauses: list[float], limit: int
) -> None:
    clock = HandClock()
    limiter = ProcessRateLimiter(clock)
    taken: list[float] = []
    for pause in pauses:
        clock.seconds += pause
        verdict = await limiter.take("ann", limit)
        inside = [time for time in taken if clock.seconds - time < WINDOW_SECONDS]
        assert verdict.is_allowed == (len(inside) < limit)
        if verdict.is_allowed:
            taken.append(clock.seconds)
            assert verdict.remaining == limit - len(inside) - 1
        else:
            assert verdict.remaining == 0


async def test_refused_request_says_when_to_come_back_and_is_not_counted() -> None:
    clock = HandClock()
    limiter = ProcessRateLimiter(clock)
    for _ in range(2):
        clock.seconds += 10
        assert (await limiter.take("ann", 2)).is_allowed
    for _ in range(100):
        refused = await limiter.take("ann", 2)
        assert not refused.is_allowed
    assert refused.reset == pytest.approx(WINDOW_SECONDS - 10)
    clock.seconds += refused.reset
    assert (await limiter.take("ann", 2)).is_allowed
    assert not (await limiter.take("ann", 2)).is_allowed


async def test_each_has_a_count_of_its_own_and_a_smaller_limit_counts_at_once() -> None:
    clock = HandClock()
    limiter = ProcessRateLimiter(clock)
    for _ in range(5):
        clock.seconds += 1
        await limiter.take("ann", 5)
    assert (await limiter.take("bob", 5)).remaining == 4
    refused = await limiter.take("ann", 2)
    assert not refused.is_allowed
    assert refused.reset == pytest.approx(WINDOW_SECONDS - 1)


async def test_those_who_have_gone_leave_nothing_behind() -> None:
    clock = HandClock()
    limiter = ProcessRateLimiter(clock)
    for number in range(1000):
        await limiter.take(f"user-{number}", 1)
    clock.seconds += WINDOW_SECONDS
    await limiter.take("ann", 1)
    assert limiter.size == 1


# Shared by replicas


@pytest.fixture(scope="module")
def redis_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Valkey]:
    with valkey(tmp_path_factory.mktemp("valkey")) as running:
        yield running


async def test_replicas_share_one_exact_count(redis_server: Valkey) -> None:
    user, clock = new_user(), SystemClock()
    async with (
        RedisRateLimiter(redis_server.url, clock, 2.0) as first,
        RedisRateLimiter(redis_server.url, clock, 2.0) as second,
    ):
        begun = clock.monotonic()
        verdicts = await asyncio.gather(
            *(each.take(user, 10) for each in (first, second) for _ in range(200))
        )
        assert count(verdicts) == 10
        refused = [await each.take(user, 10) for each in (first, second)]
        assert not any(verdict.is_allowed for verdict in refused)
        assert all(0 < verdict.reset <= 2 for verdict in refused)
        await asyncio.sleep(max(verdict.reset for verdict in refused))
        assert (await second.take(user, 10)).is_allowed
        assert clock.monotonic() - begun >= 2.0


async def test_count_in_redis_goes_away_by_itself(redis_server: Valkey) -> None:
    import redis.asyncio

    user = new_user()
    async with (
        RedisRateLimiter(redis_server.url, SystemClock()) as limiter,
        redis.asyncio.Redis.from_url(redis_server.url) as client,
    ):
        taken = await limiter.take(user, 5)
        assert (taken.is_allowed, taken.remaining) == (True, 4)
        assert 0 < await client.pttl(PREFIX + user) <= (WINDOW_SECONDS + 1) * 1000


async def test_process_counts_alone_while_redis_is_away_and_says_so_once(tmp_path: Path) -> None:
    server = Valkey(tmp_path)
    server.start()
    user = new_user()
    async with RedisRateLimiter(server.url, SystemClock()) as limiter:
        assert (await limiter.take(user, 5)).is_allowed
        server.kill()
        with capture_logs() as logs:
            async with asyncio.timeout(5):
                verdicts = [await limiter.take(user, 5) for _ in range(50)]
        assert count(verdicts) == 4
        assert [entry["event"] for entry in logs] == ["rate_limits_not_shared"]
        server.start()
        try:
            # What was let through meanwhile counts on, though that server has never heard of it.
            assert not (await limiter.take(user, 5)).is_allowed
        finally:
            server.kill()


async def test_replica_asks_redis_again_when_it_is_back(tmp_path: Path) -> None:
    server = Valkey(tmp_path)
    clock = HandClock()
    async with RedisRateLimiter(server.url, clock) as limiter:
        for _ in range(4):
            assert (await limiter.take(new_user(), 1)).is_allowed
        server.start()
        try:
            clock.seconds += 30
            user = new_user()
            assert (await limiter.take(user, 1)).is_allowed
            async with RedisRateLimiter(server.url, clock) as other:
                assert not (await other.take(user, 1)).is_allowed
        finally:
            server.kill()


async def test_redis_that_does_not_answer_costs_half_a_second_at_most() -> None:
    async def say_nothing(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await silence.wait()
        writer.close()

    silence = asyncio.Event()
    listener = await asyncio.start_server(say_nothing, "127.0.0.1", 0)
    port = listener.sockets[0].getsockname()[1]
    clock = SystemClock()
    try:
        async with RedisRateLimiter(f"redis://127.0.0.1:{port}/0", clock) as limiter:
            begun = clock.monotonic()
            verdicts = await asyncio.gather(*(limiter.take("ann", 5) for _ in range(10)))
            assert count(verdicts) == 5
            assert clock.monotonic() - begun < 2.0
    finally:
        silence.set()
        listener.close()
        await listener.wait_closed()


def count(verdicts: Iterable[Verdict]) -> int:
    return sum(verdict.is_allowed for verdict in verdicts)
