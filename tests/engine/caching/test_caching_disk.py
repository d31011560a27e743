import contextlib
import os
import resource
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from comfyrail.engine.caching.disk import DiskLevel
from comfyrail.engine.caching.disk_files import BLOCK
from tests.engine.caching.cache_parts import REPOSITORY, ShiftedClock, key_of

KEY = key_of("disk")


def files_in(folder: Path) -> list[Path]:
    return [path for path in folder.rglob("*") if path.is_file()]


def used_bytes(folder: Path) -> int:
    return sum(path.stat().st_size for path in files_in(folder))


def place(folder: Path, key: str) -> Path:
    path = folder / key[:2] / key
    path.parent.mkdir(parents=True, exist_ok=True)
    return path


def test_the_longest_unused_go_first_and_the_folder_keeps_its_limit(
    tmp_path: Path, clock: ShiftedClock
) -> None:
    level = DiskLevel(tmp_path, clock, max_bytes=20 * BLOCK)
    keys = [key_of(str(number)) for number in range(40)]
    for key in keys:
        level.write(key, [bytes(BLOCK)], clock.now())
        level.read(keys[0])
        clock.ahead += 1
        assert used_bytes(tmp_path) <= 20 * BLOCK
    held = level.locate(keys)
    assert held == {keys[0], *keys[41 - len(held) :]}
    assert len(held) >= 17
    figures = level.figures()
    assert (figures.entries, figures.bytes) == (len(held), len(held) * BLOCK)
    assert figures.evictions == 40 - len(held)


def test_small_files_count_for_the_room_that_they_take(tmp_path: Path, clock: ShiftedClock) -> None:
    level = DiskLevel(tmp_path, clock, max_bytes=10 * BLOCK)
    for number in range(30):
        level.write(key_of(str(number)), [b"x"], clock.now())
    assert len(files_in(tmp_path)) <= 10


def test_what_other_processes_wrote_counts(tmp_path: Path, clock: ShiftedClock) -> None:
    levels = [DiskLevel(tmp_path, clock, max_bytes=64 * BLOCK) for _ in range(2)]
    for number in range(200):
        levels[number % 2].write(key_of(str(number)), [bytes(BLOCK)], clock.now())
        clock.ahead += 1
        assert used_bytes(tmp_path) <= 70 * BLOCK


def test_an_entry_larger_than_the_folder_may_be_is_dropped(
    tmp_path: Path, clock: ShiftedClock
) -> None:
    level = DiskLevel(tmp_path, clock, max_bytes=BLOCK)
    assert not level.write(KEY, [bytes(BLOCK + 1)], clock.now())
    assert files_in(tmp_path) == []


def test_a_sweep_removes_what_is_over_and_what_a_killed_writer_left(
    tmp_path: Path, clock: ShiftedClock
) -> None:
    level = DiskLevel(tmp_path, clock, ttl_seconds=60)
    level.write(KEY, [b"old"], clock.now())
    left, fresh = (place(tmp_path, KEY).with_name(f".{KEY}.{mark * 16}") for mark in "ab")
    left.write_bytes(b"half")
    fresh.write_bytes(b"half")
    os.utime(left, (0, 0))
    clock.ahead = 61
    later = DiskLevel(tmp_path, clock, ttl_seconds=60)
    later.write(key_of("new"), [b"new"], clock.now())
    assert sorted(path.name for path in files_in(tmp_path)) == sorted([fresh.name, key_of("new")])


def test_a_mapped_entry_stays_good_when_its_file_is_removed_or_replaced(
    tmp_path: Path, clock: ShiftedClock
) -> None:
    level = DiskLevel(tmp_path, clock)
    level.write(KEY, [b"1" * (1 << 20)], clock.now())
    data = level.read(KEY)
    level.write(KEY, [b"2" * (1 << 20)], clock.now())
    level.discard(KEY)
    assert data is not None
    assert bytes(memoryview(data)) == b"1" * (1 << 20)


def test_descriptors_do_not_run_out_when_many_entries_are_held(
    tmp_path: Path, clock: ShiftedClock
) -> None:
    level = DiskLevel(tmp_path, clock)
    level.write(KEY, [bytes(1 << 20)], clock.now())
    descriptors = Path("/proc/self/fd")
    before = len(list(descriptors.iterdir())) if descriptors.exists() else 0
    held = [level.read(KEY) for _ in range(300)]
    assert all(data is not None for data in held)
    if before:
        assert len(list(descriptors.iterdir())) - before <= 256
    del held
    assert len(level._mapped) == 0


@pytest.mark.parametrize("kind", ["link", "folder", "fifo", "linked shard", "empty", "unreadable"])
def test_odd_files_are_passed_over(tmp_path: Path, clock: ShiftedClock, kind: str) -> None:
    secret = tmp_path / "secret" / KEY
    secret.parent.mkdir()
    secret.write_bytes(b"not for the cache")
    folder = tmp_path / "cache"
    level = DiskLevel(folder, clock)
    path = place(folder, KEY)
    match kind:
        case "link":
            path.symlink_to(secret)
        case "folder":
            path.mkdir()
        case "fifo":
            os.mkfifo(path)
        case "linked shard":
            path.parent.rmdir()
            path.parent.symlink_to(secret.parent)
        case "empty":
            path.touch()
        case "unreadable":
            path.write_bytes(b"")
            path.chmod(0)
    data = level.read(KEY)
    assert not data or not len(data)
    with capture_logs() as logs:
        level.write(KEY, [b"good"], clock.now())
        level.write(key_of("other"), [b"good"], clock.now())
    assert logs == []
    assert level.read(key_of("other")) == b"good"
    level.discard(KEY)
    level.clear()
    assert secret.read_bytes() == b"not for the cache"


def test_files_of_others_in_the_folder_are_left_alone(tmp_path: Path, clock: ShiftedClock) -> None:
    strangers = [tmp_path / "README", tmp_path / "ab" / "notes.txt", tmp_path / "zz" / KEY]
    for path in strangers:
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(bytes(3 * BLOCK))
    level = DiskLevel(tmp_path, clock, max_bytes=2 * BLOCK)
    for number in range(5):
        level.write(key_of(str(number)), [bytes(BLOCK)], clock.now())
    level.clear()
    assert sorted(files_in(tmp_path)) == sorted(strangers)


def test_a_folder_that_was_removed_is_made_again(tmp_path: Path, clock: ShiftedClock) -> None:
    level = DiskLevel(tmp_path / "cache", clock)
    (tmp_path / "cache").rmdir()
    assert level.read(KEY) is None
    assert level.write(KEY, [b"again"], clock.now())
    assert level.read(KEY) == b"again"


@contextlib.contextmanager
def tiny_disk(folder: Path) -> Iterator[None]:
    """A file system of 1 MiB in place of a folder, or a limit on the size of files."""
    command = ["mount", "-t", "tmpfs", "-o", "size=1m", "comfyrail-test", str(folder)]
    with contextlib.suppress(OSError):
        if subprocess.run(command, capture_output=True, check=False).returncode == 0:
            try:
                yield
            finally:
                subprocess.run(["umount", str(folder)], check=True)
            return
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 20, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def test_a_full_disk_drops_writes_says_so_once_and_recovers(
    tmp_path: Path, clock: ShiftedClock
) -> None:
    with tiny_disk(tmp_path):
        level = DiskLevel(tmp_path, clock)
        small, large = [bytes(100_000)], [bytes(1_500_000)]
        assert level.write(key_of("first"), small, clock.now())
        with capture_logs() as logs:
            assert not level.write(KEY, large, clock.now())
            assert not level.write(KEY, small, clock.now()), "a pause"
            clock.ahead += 4
            assert not level.write(KEY, large, clock.now())
            clock.ahead += 4
            assert not level.write(KEY, small, clock.now()), "a longer pause"
            clock.ahead += 4
            assert level.write(KEY, small, clock.now())
        events = [line["event"] for line in logs]
        assert events == ["cache_level_in_trouble", "cache_level_works_again"]
        assert level.read(key_of("first")) is not None
        assert len(files_in(tmp_path)) == 2, "nothing half-written stays"
        assert level.figures().dropped == 4


def test_memory_alone_does_no_input_or_output() -> None:
    code = """
import sys, threading
from comfyrail.engine.caching import CacheConfig, build_cache
from tests.engine.caching.cache_parts import image_result, key_of
cache = build_cache(CacheConfig())
key, result, seen = key_of("a"), image_result(), []
def note(event, arguments):
    if event.split(".")[0] in {"open", "os", "socket", "fcntl", "mmap", "shutil", "subprocess"}:
        seen.append(event)
sys.addaudithook(note)
cache.get(key)
cache.locate([key])
with cache.reserve(key) as reservation:
    cache.put(key, result)
assert cache.get(key) is result
assert cache.wait_for(key, bool, 1) is result
cache.flush(1)
assert seen == [], seen
assert threading.active_count() == 1
"""
    subprocess.run([sys.executable, "-c", code], check=True, cwd=REPOSITORY)
