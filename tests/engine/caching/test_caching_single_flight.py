import json
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from comfyrail.engine.caching import ResultCache
from comfyrail.engine.caching.file_leases import FileLeases
from comfyrail.engine.caching.memory import MemoryLevel
from tests.engine.caching.cache_parts import (
    REPOSITORY,
    ShiftedClock,
    image_result,
    key_of,
    same,
)
from tests.engine.caching.conftest import Builder
from tests.engine.caching.test_caching_result_cache import HeldUp
from tests.processes import wait_until

KEY = key_of("flight")


def never() -> bool:
    return False


@pytest.fixture(params=["memory", "disk", "redis"])
def settings(request: pytest.FixtureRequest, tmp_path: Path) -> dict[str, Any]:
    """What makes one kind of cache."""
    if request.param == "disk":
        return {"disk_path": tmp_path / "disk"}
    if request.param == "redis":
        return {"redis_url": request.getfixturevalue("redis_server").url}
    return {}


@pytest.fixture
def key(request: pytest.FixtureRequest) -> str:
    return key_of(request.node.nodeid)


def test_a_key_is_reserved_by_one_at_a_time(
    build: Builder, settings: dict[str, Any], key: str
) -> None:
    cache = build(**settings)
    reservation = cache.reserve(key)
    assert reservation is not None
    assert cache.reserve(key) is None
    another = cache.reserve(key_of(key))
    assert another is not None
    another.release()
    reservation.release()
    reservation.release()
    assert cache.wait_for(key, never, 10) is None
    again = cache.reserve(key)
    assert again is not None
    reservation.release()
    assert cache.reserve(key) is None, "an old reservation has no say over a new one"
    again.release()


def test_nobody_computes_what_was_just_finished(
    build: Builder, settings: dict[str, Any], key: str
) -> None:
    cache = build(**settings)
    reservation = cache.reserve(key)
    assert reservation is not None
    cache.put(key, image_result())
    reservation.release()
    assert cache.reserve(key) is None
    assert same(cache.wait_for(key, never, 10), image_result())


def test_those_who_wait_get_the_result(build: Builder, settings: dict[str, Any], key: str) -> None:
    cache = build(**settings)
    reservation = cache.reserve(key)
    assert reservation is not None
    with ThreadPoolExecutor(8) as pool:
        waiting = [pool.submit(cache.wait_for, key, never, 30) for _ in range(8)]
        wait_until(lambda: reservation.ended is not None)
        result = image_result()
        cache.put(key, result)
        reservation.release()
        assert all(future.result() is result for future in waiting)


def test_those_who_wait_are_told_when_nothing_comes(
    build: Builder, settings: dict[str, Any], key: str
) -> None:
    cache = build(**settings)
    with ThreadPoolExecutor(1) as pool:
        with suppress(ZeroDivisionError), cache.reserve(key) or pytest.fail("it is free") as held:
            waiting = pool.submit(cache.wait_for, key, never, 30)
            wait_until(lambda: held.ended is not None)
            raise ZeroDivisionError
        assert waiting.result() is None


def test_waiting_ends_when_it_should(build: Builder, settings: dict[str, Any], key: str) -> None:
    cache = build(**settings)
    with cache.reserve(key) or pytest.fail("it is free"):
        stop = threading.Event()
        with ThreadPoolExecutor(1) as pool:
            waiting = pool.submit(cache.wait_for, key, stop.is_set, 30)
            stop.set()
            assert waiting.result() is None
        began = time.monotonic()
        assert cache.wait_for(key, never, 0.05) is None
        assert time.monotonic() - began < 5


def test_many_threads_compute_each_key_once(build: Builder, settings: dict[str, Any]) -> None:
    cache = build(**settings)
    computed: Counter[str] = Counter()
    keys = [key_of(f"threads {settings} {number}") for number in range(40)]

    def obtain_all() -> None:
        for key in keys:
            while cache.get(key) is None:
                reservation = cache.reserve(key)
                if reservation is None:
                    cache.wait_for(key, never, 30)
                    continue
                with reservation:
                    computed[key] += 1
                    cache.put(key, image_result())

    with ThreadPoolExecutor(6) as pool:
        for future in [pool.submit(obtain_all) for _ in range(6)]:
            future.result()
    assert computed == dict.fromkeys(keys, 1)


def test_with_memory_off_those_who_wait_get_the_result_too(build: Builder, tmp_path: Path) -> None:
    cache = build(memory=False, disk_path=tmp_path)
    reservation = cache.reserve(KEY)
    assert reservation is not None
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(cache.wait_for, KEY, never, 30)
        wait_until(lambda: reservation.ended is not None)
        cache.put(KEY, image_result())
        reservation.release()
        assert same(waiting.result(), image_result())


def test_a_lease_is_let_go_only_when_the_others_can_see_the_result(
    tmp_path: Path, clock: ShiftedClock
) -> None:
    level, leases = HeldUp(tmp_path, clock), FileLeases(tmp_path / "leases")
    ours = ResultCache(MemoryLevel(clock), [level], clock=clock, leases=[leases])
    reservation = ours.reserve(KEY)
    assert reservation is not None
    ours.put(KEY, image_result())
    reservation.release()
    assert level.began.wait(10)
    others = FileLeases(tmp_path / "leases")
    assert others.is_held(KEY)
    assert others.acquire(KEY) is None
    level.go_on.set()
    wait_until(lambda: not others.is_held(KEY))
    assert level.locate([KEY]) == {KEY}
    ours.close()


def test_while_redis_is_down_the_folder_says_who_computes(build: Builder, tmp_path: Path) -> None:
    ours, theirs = (build(redis_url="redis://127.0.0.1:1/0", disk_path=tmp_path) for _ in range(2))
    with ours.reserve(KEY) or pytest.fail("it is free"):
        assert theirs.reserve(KEY) is None
        assert theirs.wait_for(KEY, never, 0.02) is None
    assert ours.flush(10)
    with theirs.reserve(KEY) or pytest.fail("it is free again"):
        pass


def test_lock_files_are_gone_when_nobody_holds_them(tmp_path: Path) -> None:
    (tmp_path / key_of("killed")).touch()
    leases = FileLeases(tmp_path)
    lease = leases.acquire(KEY)
    assert lease is not None
    assert [path.name for path in tmp_path.iterdir()] == [KEY]
    lease.release()
    lease.release()
    assert list(tmp_path.iterdir()) == []
    assert leases.acquire(KEY) is not None
    leases.close()
    assert list(tmp_path.iterdir()) == []


def test_many_threads_take_one_lease_in_turn(tmp_path: Path) -> None:
    holders = 0
    turns = 0

    def take_turns() -> None:
        nonlocal holders, turns
        leases = FileLeases(tmp_path)
        done = 0
        while done < 30:
            lease = leases.acquire(KEY)
            if lease is not None:
                holders += 1
                assert holders == 1
                turns += 1
                done += 1
                holders -= 1
                lease.release()

    with ThreadPoolExecutor(4) as pool:
        for future in [pool.submit(take_turns) for _ in range(4)]:
            future.result()
    assert turns == 120


class Racer:
    """A process of `racer`."""

    def __init__(self, process: "subprocess.Popen[str]") -> None:
        self.process = process

    def tell(self, line: str = "") -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()

    def hear(self) -> str:
        assert self.process.stdout is not None
        return self.process.stdout.readline().strip()


@contextmanager
def racer(
    settings: dict[str, Any], keys: list[str], log: Path, *, ask: bool, start: bool = False
) -> Iterator[Racer]:
    command = [sys.executable, "-m", "tests.engine.caching.racer"]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True, cwd=REPOSITORY) as process:
        try:
            one = Racer(process)
            task = {"settings": settings, "keys": keys, "log": str(log), "ask": ask, "start": start}
            one.tell(json.dumps(task, default=str))
            yield one
        finally:
            process.kill()


@pytest.fixture(params=["disk", "redis"])
def shared(request: pytest.FixtureRequest, tmp_path: Path) -> dict[str, Any]:
    if request.param == "disk":
        return {"disk_path": str(tmp_path / "disk")}
    return {"redis_url": request.getfixturevalue("redis_server").url, "lease_seconds": 2.0}


def computed(log: Path) -> list[str]:
    return [line.split()[1] for line in log.read_text().splitlines()] if log.exists() else []


def test_two_processes_that_want_one_key_compute_it_once(
    shared: dict[str, Any], tmp_path: Path, key: str
) -> None:
    log = tmp_path / "log"
    with racer(shared, [key], log, ask=True) as one, racer(shared, [key], log, ask=True) as two:
        assert [one.hear(), two.hear()] == ["ready", "ready"]
        said = {one.hear(), two.hear()}
        if said == {"waiting", "computing"}:
            one.tell()
            two.tell()
        assert [one.hear(), two.hear()] == [f"has {key}"] * 2
        assert said == {"waiting", "computing"}
        assert computed(log) == [key]


def test_processes_in_a_race_for_many_keys_compute_each_once(
    shared: dict[str, Any], tmp_path: Path, key: str
) -> None:
    log = tmp_path / "log"
    keys = [key_of(f"{key} {number}") for number in range(40)]
    with ExitStack() as stack:
        racers = [
            stack.enter_context(racer(shared, keys, log, ask=False, start=True)) for _ in range(3)
        ]
        for one in racers:
            assert one.hear() == "ready"
        for one in racers:
            one.tell()
        for one in racers:
            wait_until(lambda one=one: one.hear() == f"has {keys[-1]}", pause=0)  # type: ignore[misc]
            assert one.process.wait(20) == 0
    assert Counter(computed(log)) == dict.fromkeys(keys, 1)


def test_a_killed_holder_lets_the_others_go_on(
    shared: dict[str, Any], tmp_path: Path, key: str
) -> None:
    log = tmp_path / "log"
    with ExitStack() as stack:
        one, two = (
            stack.enter_context(racer(shared, [key], log, ask=True, start=True)) for _ in range(2)
        )
        assert [one.hear(), two.hear()] == ["ready", "ready"]
        one.tell()
        assert one.hear() == "computing"
        two.tell()
        assert two.hear() == "waiting"
        one.process.kill()
        began = time.monotonic()
        assert two.hear() == "computing"
        assert time.monotonic() - began < 12
        two.tell()
        assert two.hear() == f"has {key}"
    assert computed(log) == [key]
