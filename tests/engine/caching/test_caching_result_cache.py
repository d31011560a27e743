import sys
import threading
from pathlib import Path

import numpy as np
import pytest
import redis
from structlog.testing import capture_logs

from comfyrail.engine.caching import CachedResult, ResultCache
from comfyrail.engine.caching.codec import Data
from comfyrail.engine.caching.disk import DiskLevel
from comfyrail.engine.caching.level import CacheLevel
from comfyrail.engine.caching.memory import MemoryLevel
from comfyrail.engine.caching.redis_level import PREFIX
from tests.engine.caching.cache_parts import (
    ShiftedClock,
    entry,
    forge,
    header_of,
    image_result,
    key_of,
    same,
)
from tests.engine.caching.conftest import Builder
from tests.services.seaweed import SeaweedS3
from tests.services.valkey import Valkey

KEY = key_of("cache")


def file_of(folder: Path, key: str = KEY) -> Path:
    return folder / key[:2] / key


def test_a_restart_keeps_what_is_on_disk(build: Builder, tmp_path: Path) -> None:
    first = build(disk_path=tmp_path)
    first.put(KEY, image_result())
    first.close()
    second = build(disk_path=tmp_path)
    assert second.locate([KEY, key_of("other")]) == {KEY}
    found = second.get(KEY)
    assert same(found, image_result())
    assert found is second.get(KEY), "it is in memory from now on"
    assert second.figures().levels["memory"].hits == 1


def test_another_worker_finds_a_result_in_redis(build: Builder, redis_server: Valkey) -> None:
    key = key_of("through redis")
    ours, theirs = (build(redis_url=redis_server.url) for _ in range(2))
    ours.put(key, image_result())
    assert ours.flush(10)
    assert theirs.locate([key]) == {key}
    assert same(theirs.get(key), image_result())


def test_another_worker_finds_a_result_in_the_object_store(
    build: Builder, s3_server: SeaweedS3
) -> None:
    url = f"s3://{s3_server.bucket}/shared"
    ours, theirs = (build(object_url=url, object_options=s3_server.options) for _ in range(2))
    ours.put(KEY, image_result(size=512))
    assert ours.flush(10)
    assert theirs.locate([KEY]) == {KEY}
    assert same(theirs.get(KEY), image_result(size=512))
    ours.clear(everywhere=True)
    assert build(object_url=url, object_options=s3_server.options).get(KEY) is None


def test_a_result_goes_up_into_the_levels_above(
    build: Builder, tmp_path: Path, redis_server: Valkey
) -> None:
    key = key_of("promoted")
    objects = f"file://{tmp_path}/objects"
    far = build(object_url=objects)
    far.put(key, image_result())
    assert far.flush(10)
    near = build(redis_url=redis_server.url, disk_path=tmp_path / "disk", object_url=objects)
    assert same(near.get(key), image_result())
    assert near.flush(10)
    for settings in ({"redis_url": redis_server.url}, {"disk_path": tmp_path / "disk"}):
        assert same(build(**settings).get(key), image_result())


def test_arrays_from_a_lower_level_are_read_only(build: Builder, tmp_path: Path) -> None:
    ours, theirs = (build(disk_path=tmp_path) for _ in range(2))
    ours.put(KEY, image_result(size=512))
    assert ours.flush(10)
    found = theirs.get(KEY)
    assert found is not None
    assert not found.slots[0][0].flags.writeable


def test_time_runs_from_when_the_result_was_made_not_from_when_it_was_found(
    build: Builder, tmp_path: Path, clock: ShiftedClock
) -> None:
    objects = f"file://{tmp_path}/objects"
    first = build(object_url=objects, ttl_seconds=60)
    first.put(KEY, image_result())
    assert first.flush(10)
    clock.ahead = 50
    second = build(disk_path=tmp_path / "disk", object_url=objects, ttl_seconds=60)
    assert second.get(KEY) is not None
    assert second.flush(10)
    clock.ahead = 70
    assert second.locate([KEY]) == set()
    assert second.get(KEY) is None
    assert first.get(KEY) is None


def test_a_level_can_be_switched_off(build: Builder, tmp_path: Path) -> None:
    build(disk_path=tmp_path / "disk", disk=False).put(KEY, image_result())
    assert not (tmp_path / "disk").exists()
    cache = build(disk_path=tmp_path / "disk", memory=False)
    cache.put(KEY, image_result())
    assert same(cache.get(KEY), image_result()), "also before it is written"
    assert cache.flush(10)
    assert same(cache.get(KEY), image_result())
    figures = cache.figures().levels
    assert figures["memory"].entries == 0
    assert figures["disk"].hits == 1


POISON = [
    b"",
    b"cos\nsystem\n(S'true'\ntR.",
    entry(image_result(), key_of("another")),
    entry(image_result(), KEY)[:-1],
    entry(image_result(), KEY)[:40],
    forge(header_of(["blob", 0], ["numpy", "<f4", [1 << 58], 0, 1 << 60], key=KEY)),
]


@pytest.mark.parametrize("poison", POISON)
def test_a_bad_entry_is_removed_said_and_the_next_level_is_asked(
    build: Builder, tmp_path: Path, poison: bytes
) -> None:
    good = build(object_url=f"file://{tmp_path}/objects")
    good.put(KEY, image_result(0.125))
    assert good.flush(10)
    file_of(tmp_path / "disk").parent.mkdir(parents=True)
    file_of(tmp_path / "disk").write_bytes(poison)
    cache = build(disk_path=tmp_path / "disk", object_url=f"file://{tmp_path}/objects")
    with capture_logs() as logs:
        assert same(cache.get(KEY), image_result(0.125))
    assert [line["event"] for line in logs] == ["cache_entry_corrupt"]
    assert cache.figures().levels["disk"].corrupt == 1
    assert cache.flush(10)
    assert same(build(disk_path=tmp_path / "disk").get(KEY), image_result(0.125)), "mended"


def test_a_bad_entry_in_redis_is_a_miss(build: Builder, redis_server: Valkey) -> None:
    key = key_of("bad in redis")
    with redis.Redis.from_url(redis_server.url) as client:
        client.set(PREFIX + key, b"nonsense")
    cache = build(redis_url=redis_server.url)
    assert cache.get(key) is None
    assert cache.locate([key]) == set()


def test_an_entry_that_others_can_read_stays_and_does_not_hinder_computing(
    build: Builder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "torch", None)
    tensor = ["torch", "float32", [1], 0, 4]
    file_of(tmp_path).parent.mkdir(parents=True)
    file_of(tmp_path).write_bytes(forge(header_of(["blob", 0], tensor, key=KEY), bytes(4)))
    cache = build(disk_path=tmp_path)
    with capture_logs() as logs:
        assert cache.get(KEY) is None
        assert cache.get(KEY) is None
    assert [line["event"] for line in logs] == ["cache_entry_unreadable"]
    assert file_of(tmp_path).exists()
    assert cache.locate([KEY]) == set()
    with cache.reserve(KEY) or pytest.fail("it is free"):
        cache.put(KEY, image_result())
    assert cache.flush(10)
    assert same(build(disk_path=tmp_path).get(KEY), image_result())


def test_what_cannot_be_stored_stays_in_memory(build: Builder, tmp_path: Path) -> None:
    cache = build(disk_path=tmp_path)
    model = CachedResult(((object(),),))
    cache.put(KEY, model)
    assert cache.flush(10)
    assert cache.get(KEY) is model
    assert cache.figures().not_storable == 1
    assert build(disk_path=tmp_path).get(KEY) is None


def test_a_result_over_the_limit_stays_in_memory(build: Builder, tmp_path: Path) -> None:
    cache = build(disk_path=tmp_path, max_entry_mb=1)
    cache.put(KEY, image_result(size=512))
    assert cache.flush(10)
    assert cache.get(KEY) is not None
    assert cache.figures().levels["disk"].dropped == 1
    assert not file_of(tmp_path).exists()


class HeldUp(DiskLevel):
    """A disk that takes its time: until the test says so."""

    def __init__(self, folder: Path, clock: ShiftedClock) -> None:
        super().__init__(folder, clock)
        self.began = threading.Event()
        self.go_on = threading.Event()

    def write(self, key: str, parts: object, created: object) -> bool:
        self.began.set()
        assert self.go_on.wait(30)
        return super().write(key, parts, created)  # type: ignore[arg-type]


def test_writes_are_dropped_when_too_much_waits_and_put_does_not_wait(
    tmp_path: Path, clock: ShiftedClock
) -> None:
    level = HeldUp(tmp_path, clock)
    cache = ResultCache(MemoryLevel(clock), [level], clock=clock, queue_bytes=30_000)
    for number in range(10):
        cache.put(key_of(str(number)), image_result(size=32))  # 12 KiB each
        assert level.began.wait(10)
    assert cache.figures().levels["disk"].dropped == 8
    level.go_on.set()
    assert cache.flush(10)
    assert level.locate([key_of(str(number)) for number in range(10)]) == {key_of("0"), key_of("1")}
    assert cache.locate([key_of("9")]) == {key_of("9")}, "memory has all"
    cache.close()


class SlowStore(HeldUp):
    name = "slow"
    is_slow = True


def test_a_slow_level_does_not_hold_up_the_quick_ones(tmp_path: Path, clock: ShiftedClock) -> None:
    slow, quick = SlowStore(tmp_path / "slow", clock), DiskLevel(tmp_path / "quick", clock)
    levels: list[CacheLevel] = [quick, slow]
    cache = ResultCache(MemoryLevel(clock), levels, clock=clock)
    cache.put(KEY, image_result())
    assert slow.began.wait(10)
    cache.put(key_of("next"), image_result())
    assert cache._writer.flush(10)
    assert quick.locate([KEY, key_of("next")]) == {KEY, key_of("next")}
    assert not cache.flush(0)
    slow.go_on.set()
    assert cache.flush(10)
    assert slow.locate([KEY]) == {KEY}
    cache.close()


def test_redis_killed_in_the_middle_is_no_trouble_for_the_nodes(
    build: Builder, own_redis_server: Valkey, clock: ShiftedClock
) -> None:
    cache = build(redis_url=own_redis_server.url)
    cache.put(KEY, image_result())
    reservation = cache.reserve(key_of("under way"))
    assert reservation is not None
    own_redis_server.kill()
    cache.put(key_of("under way"), image_result())
    reservation.release()
    assert cache.get(KEY) is not None
    assert cache.get(key_of("another")) is None
    with_right = cache.reserve(key_of("another"))
    assert with_right is not None
    cache.put(key_of("another"), image_result())
    with_right.release()
    assert cache.flush(10)
    assert cache.locate([key_of("another"), key_of("none")]) == {key_of("another")}
    own_redis_server.start()
    clock.ahead += 4
    cache.put(key_of("later"), image_result())
    assert cache.flush(10)
    assert same(build(redis_url=own_redis_server.url).get(key_of("later")), image_result())


def test_clearing_empties_memory_or_all(build: Builder, tmp_path: Path) -> None:
    cache = build(disk_path=tmp_path)
    cache.put(KEY, image_result())
    cache.get(key_of("miss"))
    assert cache.flush(10)
    cache.clear()
    figures = cache.figures().levels
    assert (figures["memory"].entries, figures["memory"].misses) == (0, 0)
    assert (figures["disk"].entries, figures["disk"].misses) == (1, 0)
    assert cache.get(KEY) is not None
    cache.clear(everywhere=True)
    assert cache.get(KEY) is None
    assert not file_of(tmp_path).exists()


def test_a_closed_cache_still_answers_from_memory(build: Builder, tmp_path: Path) -> None:
    cache = build(disk_path=tmp_path)
    cache.put(KEY, image_result())
    cache.close()
    cache.close()
    cache.put(key_of("late"), image_result())
    assert cache.get(key_of("late")) is not None
    with cache.reserve(key_of("new")) or pytest.fail("it is free"):
        pass


def test_bytes_that_a_level_gives_live_as_long_as_the_result(tmp_path: Path) -> None:
    clock = ShiftedClock()
    level = DiskLevel(tmp_path, clock)
    cache = ResultCache(MemoryLevel(clock, max_bytes=0), [level], clock=clock)
    image = np.random.default_rng(3).random((1, 512, 512, 3), np.float32)
    cache.put(KEY, CachedResult(((image,),)))
    assert cache.flush(10)
    data: Data | None = level.read(KEY)
    found = cache.get(KEY)
    del data
    cache.clear(everywhere=True)
    cache.close()
    assert found is not None
    assert np.array_equal(found.slots[0][0], image)
