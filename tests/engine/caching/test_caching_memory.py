import sys

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from comfyrail.clock import SystemClock
from comfyrail.engine.caching import CachedResult, freeze_arrays, measure_bytes
from comfyrail.engine.caching.memory import ENTRY_OVERHEAD, MemoryLevel
from tests.engine.caching.cache_parts import ShiftedClock

ARRAY_BYTES = 4 * 1000
ROOM = ARRAY_BYTES + ENTRY_OVERHEAD + 300


def result(fill: float = 0.0) -> CachedResult:
    return CachedResult(((np.full(1000, fill, np.float32),),))


def put(level: MemoryLevel, keys: str) -> None:
    for key in keys:
        level.put(key, result(), SystemClock().now())


def test_a_kept_result_is_given_back_itself(clock: ShiftedClock) -> None:
    level = MemoryLevel(clock)
    kept = result()
    level.put("key", kept, clock.now())
    assert level.get("key") is kept
    assert level.get("other") is None


def test_the_least_recently_used_go_first_when_bytes_run_out(clock: ShiftedClock) -> None:
    level = MemoryLevel(clock, max_bytes=3 * ROOM)
    put(level, "abc")
    level.get("a")
    level.locate("b")  # looking is no use
    put(level, "d")
    assert level.locate("abcd") == set("acd")
    figures = level.figures()
    assert (figures.entries, figures.evictions) == (3, 1)
    assert figures.bytes is not None
    assert figures.bytes <= 3 * ROOM


def test_the_number_of_results_is_bounded(clock: ShiftedClock) -> None:
    level = MemoryLevel(clock, max_entries=2)
    put(level, "abc")
    assert level.locate("abc") == set("bc")


def test_a_result_larger_than_the_level_is_not_kept(clock: ShiftedClock) -> None:
    level = MemoryLevel(clock, max_bytes=100)
    put(level, "a")
    assert level.get("a") is None
    assert level.figures().bytes == 0


def test_a_result_is_gone_when_its_time_is_over(clock: ShiftedClock) -> None:
    level = MemoryLevel(clock, ttl_seconds=60)
    level.put("key", result(), clock.now())
    clock.ahead = 59
    assert level.holds("key")
    clock.ahead = 61
    assert not level.holds("key")
    assert level.locate(["key"]) == set()
    assert level.get("key") is None
    assert level.figures().bytes == 0


@given(st.lists(st.tuples(st.sampled_from("abcdef"), st.integers(1, 2000)), max_size=40))
def test_the_byte_count_is_right_whatever_is_put_in(puts: list[tuple[str, int]]) -> None:
    clock = SystemClock()
    level = MemoryLevel(clock, max_bytes=20_000, max_entries=4)
    sizes: dict[str, int] = {}
    for key, length in puts:
        kept = CachedResult(((np.zeros(length, np.float32),),))
        sizes[key] = level.put(key, kept, clock.now())
        held = level.locate("abcdef")
        assert level.figures().bytes == sum(sizes[key] for key in held) <= 20_000
        assert len(level) <= 4
    level.clear()
    assert level.figures().bytes == 0


def test_arrays_inside_containers_are_counted_once_and_made_read_only() -> None:
    array = np.zeros(1000, np.float32)
    value = {"samples": [array, (array,)], "again": array}
    assert ARRAY_BYTES < measure_bytes(value) < 1.5 * ARRAY_BYTES
    freeze_arrays(value)
    with pytest.raises(ValueError, match="read-only"):
        array[0] = 1


def test_a_structure_that_contains_itself_can_be_measured() -> None:
    ring: list[object] = [np.zeros(1000, np.float32)]
    ring.append(ring)
    assert measure_bytes(ring) > ARRAY_BYTES
    freeze_arrays(ring)


def test_measuring_does_not_import_torch() -> None:
    was_loaded = "torch" in sys.modules
    measure_bytes([np.zeros(3), object()])
    assert ("torch" in sys.modules) == was_loaded
