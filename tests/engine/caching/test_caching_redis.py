import pytest
import redis
from structlog.testing import capture_logs

from comfyrail.engine.caching.leases import LeasesUnavailable
from comfyrail.engine.caching.redis_leases import PREFIX as LEASE_PREFIX
from comfyrail.engine.caching.redis_leases import RedisLeases
from comfyrail.engine.caching.redis_level import PREFIX, RedisLevel
from comfyrail.engine.caching.redis_link import RedisLink
from tests.engine.caching.cache_parts import ShiftedClock, key_of
from tests.processes import wait_until
from tests.services.valkey import Valkey

KEY = key_of("redis")


def level_of(server: Valkey, clock: ShiftedClock, **options: float) -> RedisLevel:
    return RedisLevel(RedisLink(server.url, clock), clock, **options)  # type: ignore[arg-type]


def test_the_server_forgets_an_entry_when_its_time_is_over(
    redis_server: Valkey, clock: ShiftedClock
) -> None:
    key = key_of("forgotten")
    level = level_of(redis_server, clock, ttl_seconds=60)
    level.write(key, [b"new"], clock.now())
    made = clock.now()
    clock.ahead = 40
    level.write(KEY, [b"old"], made)
    with redis.Redis.from_url(redis_server.url) as client:
        assert 59_000 < int(str(client.pttl(PREFIX + key))) <= 60_000
        assert 19_000 < int(str(client.pttl(PREFIX + KEY))) <= 20_000
    level.close()


def test_large_values_are_not_sent(redis_server: Valkey, clock: ShiftedClock) -> None:
    level = level_of(redis_server, clock, max_entry_bytes=1000)
    assert level.write(KEY, [bytes(600), bytes(400)], clock.now())
    assert not level.write(KEY, [bytes(600), bytes(401)], clock.now())
    assert level.figures().dropped == 1
    level.close()


def test_clearing_leaves_the_keys_of_others(redis_server: Valkey, clock: ShiftedClock) -> None:
    level = level_of(redis_server, clock)
    with redis.Redis.from_url(redis_server.url) as client:
        client.set("somebody:else", b"1")
        level.write(KEY, [b"1"], clock.now())
        level.clear()
        assert client.exists("somebody:else", PREFIX + KEY) == 1
        client.delete("somebody:else")
    level.close()


def test_a_key_of_another_type_is_a_miss_and_no_trouble(
    redis_server: Valkey, clock: ShiftedClock
) -> None:
    level = level_of(redis_server, clock)
    key = key_of("poisoned")
    with redis.Redis.from_url(redis_server.url) as client:
        client.rpush(PREFIX + key, b"a list")
    assert level.read(key) is None
    assert level.write(key, [b"good"], clock.now())
    assert level.read(key) == b"good"
    level.close()


def test_a_server_without_memory_drops_writes_and_still_reads(
    own_redis_server: Valkey, clock: ShiftedClock
) -> None:
    level = level_of(own_redis_server, clock)
    assert level.write(KEY, [b"before"], clock.now())
    with redis.Redis.from_url(own_redis_server.url) as client:
        client.config_set("maxmemory", "1mb")
    with capture_logs() as logs:
        assert not level.write(key_of("more"), [bytes(3 << 20)], clock.now())
        assert not level.write(key_of("more"), [bytes(3 << 20)], clock.now())
    assert [line["event"] for line in logs] == ["cache_level_refused"]
    assert level.read(KEY) == b"before"
    level.close()


def test_a_server_that_is_down_is_a_miss_and_is_tried_again_after_a_pause(
    own_redis_server: Valkey, clock: ShiftedClock
) -> None:
    level = level_of(own_redis_server, clock)
    level.write(KEY, [b"kept"], clock.now())
    own_redis_server.kill()
    with capture_logs() as logs:
        assert level.read(KEY) is None
        assert level.locate([KEY]) == set()
        assert not level.write(KEY, [b"lost"], clock.now())
        own_redis_server.start()
        assert not level.write(KEY, [b"lost"], clock.now()), "a pause"
        clock.ahead += 4
        assert level.write(KEY, [b"new"], clock.now())
    assert level.read(KEY) == b"new"
    events = [line["event"] for line in logs]
    assert events == ["cache_level_in_trouble", "cache_level_works_again"]
    level.close()


def test_a_server_that_was_started_again_is_used_at_once(
    own_redis_server: Valkey, clock: ShiftedClock
) -> None:
    level = level_of(own_redis_server, clock)
    level.write(KEY, [b"before"], clock.now())
    own_redis_server.kill()
    own_redis_server.start()
    with capture_logs() as logs:
        assert level.write(KEY, [b"after"], clock.now())
    assert logs == []
    level.close()


def test_passwords_stay_out_of_the_log(clock: ShiftedClock) -> None:
    link = RedisLink("redis://user:hush@127.0.0.1:1/0", clock)
    with capture_logs() as logs:
        assert RedisLevel(link, clock).read(KEY) is None
    assert len(logs) == 1
    assert "hush" not in str(logs)


def test_a_lease_has_one_holder_until_it_is_let_go(
    redis_server: Valkey, clock: ShiftedClock
) -> None:
    links = [RedisLink(redis_server.url, clock) for _ in range(2)]
    ours, theirs = map(RedisLeases, links)
    lease = ours.acquire(KEY)
    assert lease is not None
    assert theirs.acquire(KEY) is None
    assert ours.acquire(KEY) is None
    assert theirs.is_held(KEY)
    lease.release()
    lease.release()
    assert not theirs.is_held(KEY)
    assert theirs.acquire(KEY) is not None
    theirs.close()
    assert not ours.is_held(KEY), "closing lets go"
    ours.close()
    for link in links:
        link.close()


def test_a_lease_is_renewed_while_it_is_held(redis_server: Valkey, clock: ShiftedClock) -> None:
    key = key_of("renewed")
    link = RedisLink(redis_server.url, clock)
    leases = RedisLeases(link, lease_seconds=0.6)
    lease = leases.acquire(key)
    assert lease is not None
    with redis.Redis.from_url(redis_server.url) as client:
        renewals = 0
        last = 600

        def look() -> bool:
            nonlocal renewals, last
            left = int(str(client.pttl(LEASE_PREFIX + key)))
            assert left > 0, "it was lost"
            renewals += left > last
            last = left
            return renewals >= 4

        wait_until(look, pause=0.01)
        lease.release()
        assert not client.exists(LEASE_PREFIX + key)
    leases.close()
    link.close()


def test_a_lease_that_another_got_is_not_taken_from_it(
    redis_server: Valkey, clock: ShiftedClock
) -> None:
    key = key_of("stolen")
    link = RedisLink(redis_server.url, clock)
    leases = RedisLeases(link)
    lease = leases.acquire(key)
    assert lease is not None
    with redis.Redis.from_url(redis_server.url) as client:
        client.set(LEASE_PREFIX + key, "another's", px=5000)
        lease.release()
        assert client.get(LEASE_PREFIX + key) == b"another's"
    leases.close()
    link.close()


def test_leases_are_unavailable_while_the_server_is_down(clock: ShiftedClock) -> None:
    leases = RedisLeases(RedisLink("redis://127.0.0.1:1/0", clock))
    with pytest.raises(LeasesUnavailable):
        leases.acquire(KEY)
    assert not leases.is_held(KEY)
    leases.close()
