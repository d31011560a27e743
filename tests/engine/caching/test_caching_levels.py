"""One suite for every level outside the process."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from comfyrail.engine.caching.disk import DiskLevel
from comfyrail.engine.caching.level import CacheLevel
from comfyrail.engine.caching.object_level import ObjectLevel, open_store
from comfyrail.engine.caching.redis_level import RedisLevel
from comfyrail.engine.caching.redis_link import RedisLink
from tests.engine.caching.cache_parts import ShiftedClock, key_of
from tests.services.seaweed import SeaweedS3
from tests.services.valkey import Valkey

KEY, OTHER = key_of("one"), key_of("other")
PARTS = (b"first ", memoryview(b"second"))

MakeLevel = Callable[[], CacheLevel]


@pytest.fixture(params=["disk", "redis", "s3", "folder"])
def make(
    request: pytest.FixtureRequest, tmp_path: Path, clock: ShiftedClock
) -> Iterator[MakeLevel]:
    """Makes levels over one place, each as another worker would."""

    def over_disk() -> CacheLevel:
        return DiskLevel(tmp_path / "disk", clock, ttl_seconds=60)

    def over_redis() -> CacheLevel:
        server: Valkey = request.getfixturevalue("redis_server")
        return RedisLevel(RedisLink(server.url, clock), clock, ttl_seconds=60)

    def over_s3() -> CacheLevel:
        server: SeaweedS3 = request.getfixturevalue("s3_server")
        store = open_store(f"s3://{server.bucket}/{tmp_path.name}", server.options)
        return ObjectLevel(store, clock, ttl_seconds=60)

    def over_folder() -> CacheLevel:
        return ObjectLevel(open_store(f"file://{tmp_path}/objects", {}), clock, ttl_seconds=60)

    kinds = {"disk": over_disk, "redis": over_redis, "s3": over_s3, "folder": over_folder}
    made: list[CacheLevel] = []

    def make_one() -> CacheLevel:
        made.append(kinds[request.param]())
        return made[-1]

    yield make_one
    for level in made:
        level.clear()
        level.close()


@pytest.fixture
def level(make: MakeLevel) -> CacheLevel:
    return make()


def content(level: CacheLevel, key: str = KEY) -> bytes | None:
    data = level.read(key)
    return None if data is None else bytes(memoryview(data))


def test_what_is_written_is_read(level: CacheLevel, clock: ShiftedClock) -> None:
    assert content(level) is None
    assert level.write(KEY, PARTS, clock.now())
    assert content(level) == b"first second"
    assert level.write(KEY, [b"later"], clock.now())
    assert content(level) == b"later"


def test_large_entries_come_back_whole(level: CacheLevel, clock: ShiftedClock) -> None:
    large = bytes(range(256)) * (12 << 12)  # 12 MiB: mapped on disk, in parts to S3
    assert level.write(KEY, [large[:100], memoryview(large)[100:]], clock.now())
    assert content(level) == large


def test_another_worker_finds_it(make: MakeLevel, clock: ShiftedClock) -> None:
    make().write(KEY, PARTS, clock.now())
    assert content(make()) == b"first second"


def test_many_keys_are_located_at_once(level: CacheLevel, clock: ShiftedClock) -> None:
    keys = [key_of(str(number)) for number in range(30)]
    assert level.locate(keys) == set()
    for key in keys[::3]:
        level.write(key, PARTS, clock.now())
    assert level.locate(keys) == set(keys[::3])
    assert level.locate(keys[::3]) == set(keys[::3])
    assert level.locate(keys[:1]) == {keys[0]}
    assert level.locate([]) == set()


def test_a_discarded_entry_is_gone(level: CacheLevel, clock: ShiftedClock) -> None:
    level.write(KEY, PARTS, clock.now())
    level.write(OTHER, PARTS, clock.now())
    level.discard(KEY)
    level.discard(KEY)
    assert level.locate([KEY, OTHER]) == {OTHER}


def test_clearing_removes_all_entries(level: CacheLevel, clock: ShiftedClock) -> None:
    level.write(KEY, PARTS, clock.now())
    level.write(OTHER, PARTS, clock.now())
    level.clear()
    assert level.locate([KEY, OTHER]) == set()


def test_an_entry_that_is_over_is_not_written_or_not_found(
    level: CacheLevel, clock: ShiftedClock
) -> None:
    made = clock.now()
    clock.ahead = 61
    level.write(KEY, PARTS, made)
    assert level.locate([KEY]) == set()
    assert content(level) is None


@pytest.mark.parametrize(
    "key", ["", "short", "../" * 21 + "x", "/etc/passwd", KEY.upper(), KEY + "\n", KEY[:-1] + "é"]
)
def test_what_is_no_key_names_nothing(level: CacheLevel, clock: ShiftedClock, key: str) -> None:
    assert not level.write(key, PARTS, clock.now())
    assert level.read(key) is None
    assert level.locate([key]) == set()
    level.discard(key)


def test_what_happens_is_counted(level: CacheLevel, clock: ShiftedClock) -> None:
    level.read(KEY)
    level.write(KEY, PARTS, clock.now())
    level.read(KEY)
    level.write("no key", PARTS, clock.now())
    figures = level.figures()
    assert (figures.hits, figures.misses, figures.writes, figures.dropped) == (1, 1, 1, 1)


def test_a_working_level_says_nothing(level: CacheLevel, clock: ShiftedClock) -> None:
    with capture_logs() as logs:
        level.write(KEY, PARTS, clock.now())
        level.read(KEY)
        level.read(OTHER)
        level.locate([KEY, OTHER])
        level.discard(KEY)
        level.discard(KEY)
    assert not logs
