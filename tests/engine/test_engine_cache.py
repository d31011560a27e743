from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from comfyrail.engine.bound_graph import bind_graph
from comfyrail.engine.builtin import builtin_registry
from comfyrail.engine.cache import CachedResult, MemoryCache, freeze_arrays, measure_bytes
from comfyrail.engine.folders import Folders
from comfyrail.engine.keys import compute_keys

ARRAY_BYTES = 4 * 1000


def result(fill: float = 0.0) -> CachedResult:
    return CachedResult(((np.full(1000, fill, np.float32),),))


def test_a_kept_result_is_given_back() -> None:
    cache = MemoryCache()
    kept = result()
    cache.put("key", kept)
    assert cache.get("key") is kept
    assert cache.get("other") is None


def test_the_least_recently_used_go_first_when_bytes_run_out() -> None:
    cache = MemoryCache(max_bytes=3 * (ARRAY_BYTES + 700))
    for key in "abc":
        cache.put(key, result())
    cache.get("a")
    cache.put("d", result())
    assert cache.get("b") is None
    assert cache.get("a") is not None
    assert cache.used_bytes <= 3 * (ARRAY_BYTES + 700)


def test_the_number_of_results_is_bounded() -> None:
    cache = MemoryCache(max_entries=2)
    for key in "abc":
        cache.put(key, result())
    assert len(cache) == 2
    assert cache.get("a") is None


def test_a_result_larger_than_the_cache_is_not_kept() -> None:
    cache = MemoryCache(max_bytes=100)
    cache.put("key", result())
    assert cache.get("key") is None
    assert cache.used_bytes == 0


@given(st.lists(st.tuples(st.sampled_from("abcdef"), st.integers(1, 2000)), max_size=40))
def test_the_byte_count_is_right_whatever_is_put_in(puts: list[tuple[str, int]]) -> None:
    cache = MemoryCache(max_bytes=20_000, max_entries=4)
    for key, length in puts:
        cache.put(key, CachedResult(((np.zeros(length, np.float32),),)))
        assert 0 <= cache.used_bytes <= 20_000
        assert len(cache) <= 4
    cache.clear()
    assert cache.used_bytes == 0


def test_arrays_inside_containers_are_counted_and_made_read_only() -> None:
    array = np.zeros(1000, np.float32)
    value = {"samples": [array]}
    assert measure_bytes(value) > ARRAY_BYTES
    freeze_arrays(value)
    with pytest.raises(ValueError, match="read-only"):
        array[0] = 1


def keys_of(prompt: dict[str, Any], outputs: list[str], folders: Folders) -> dict[str, str]:
    return compute_keys(bind_graph(prompt, outputs, builtin_registry()), folders)


def graph(color: int = 0, ids: str = "123") -> dict[str, Any]:
    first, second, third = list(ids)
    inputs = {"width": 8, "height": 8, "batch_size": 1, "color": color}
    return {
        first: {"class_type": "EmptyImage", "inputs": inputs},
        second: {"class_type": "ImageInvert", "inputs": {"image": [first, 0]}},
        third: {"class_type": "PreviewImage", "inputs": {"images": [second, 0]}},
    }


def test_keys_do_not_depend_on_node_ids(folders: Folders) -> None:
    ours = keys_of(graph(), ["3"], folders)
    theirs = keys_of(graph(ids="789"), ["9"], folders)
    assert list(ours.values()) == list(theirs.values())


def test_a_changed_value_changes_the_keys_of_all_that_depend_on_it(folders: Folders) -> None:
    before, after = (keys_of(graph(color), ["3"], folders) for color in (0, 1))
    assert all(before[node_id] != after[node_id] for node_id in "123")


def test_titles_do_not_count_and_unknown_inputs_do(folders: Folders) -> None:
    titled, extended = graph(), graph()
    titled["1"]["_meta"] = {"title": "First"}
    extended["1"]["inputs"]["note"] = "again"
    plain = keys_of(graph(), ["3"], folders)
    assert keys_of(titled, ["3"], folders) == plain
    assert keys_of(extended, ["3"], folders)["1"] != plain["1"]


def test_values_of_different_types_have_different_keys(folders: Folders) -> None:
    values = [1, 1.0, "1", True, None, float("nan"), [1], 10**30]
    keys = set()
    for value in values:
        prompt = graph()
        prompt["1"]["inputs"]["note"] = value
        keys.add(keys_of(prompt, ["3"], folders)["1"])
    assert len(keys) == len(values)
