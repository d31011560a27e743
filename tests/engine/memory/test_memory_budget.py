"""Memory [12.5]: the pressure figure, and who is asked to free something."""

import threading
import weakref
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from comfyrail.engine.memory.budget import Holding, MemoryBudget
from comfyrail.engine.memory.victims import choose_victims
from tests.engine.memory.memory_parts import KIBIBYTE, MEBIBYTE, LeastRecentlyUsed, array_of


def used(budget: MemoryBudget) -> int:
    """Whole kibibytes: what holds the arrays together is a little more."""
    return budget.figures().used_bytes // KIBIBYTE * KIBIBYTE


@pytest.mark.parametrize(("limit", "threshold"), [(0, 0.8), (-1, 0.8), (1, 0), (1, 1.1)])
def test_a_limit_makes_sense(limit: int, threshold: float) -> None:
    with pytest.raises(ValueError, match="limit"):
        MemoryBudget(limit, threshold)


def test_a_buffer_counts_once_until_the_last_holder_lets_go() -> None:
    budget = MemoryBudget(4 * MEBIBYTE)
    array = array_of(MEBIBYTE)
    holdings = [budget.hold(value) for value in (array, [array], array[:10])]
    assert used(budget) == MEBIBYTE
    assert budget.pressure == pytest.approx(0.25, abs=0.01)
    for holding in holdings[:2]:
        budget.let_go(holding)
        budget.let_go(holding)
    assert used(budget) == MEBIBYTE
    budget.let_go(holdings[2])
    assert budget.figures().used_bytes == 0
    assert budget.figures().peak_bytes // KIBIBYTE == 1024
    assert budget.pressure == 0


def test_what_is_let_go_is_free() -> None:
    budget = MemoryBudget(MEBIBYTE)
    array = array_of(KIBIBYTE)
    seen = weakref.ref(array)
    holding = budget.hold(array)
    del array
    assert seen() is not None
    budget.let_go(holding)
    assert seen() is None


@given(
    st.lists(st.tuples(st.integers(0, 3), st.integers(0, 9)), max_size=6),
    st.lists(st.integers(0, 5), max_size=10),
)
def test_the_count_is_that_of_all_that_is_held(
    held: list[tuple[int, int]], let_go: list[int]
) -> None:
    budget = MemoryBudget(MEBIBYTE)
    arrays = [array_of(1000 * (number + 1)) for number in range(4)]
    holdings: dict[int, tuple[Holding, int]] = {}
    for number, (which, start) in enumerate(held):
        holdings[number] = (budget.hold(arrays[which][start:]), which)
    for number in let_go:
        if number in holdings:
            budget.let_go(holdings.pop(number)[0])
        kept = {which for _, which in holdings.values()}
        assert budget.figures().used_bytes == sum(arrays[which].nbytes for which in kept)


def test_caches_are_asked_first_and_nobody_below_the_threshold() -> None:
    budget = MemoryBudget(10 * MEBIBYTE)
    asked: list[tuple[str, int]] = []
    cached = budget.hold(array_of(2 * MEBIBYTE))
    stored = budget.hold(array_of(6 * MEBIBYTE))

    def free_cache(wanted: int) -> None:
        asked.append(("cache", wanted))
        budget.let_go(cached)

    def free_store(wanted: int) -> None:
        asked.append(("store", wanted))
        budget.let_go(stored)

    budget.register_store(free_store)
    budget.register_cache(free_cache)
    budget.relieve()
    assert asked == []
    more = budget.hold(array_of(MEBIBYTE))
    budget.relieve()
    assert [who for who, _ in asked] == ["cache"]
    assert asked[0][1] == MEBIBYTE == budget.figures().peak_bytes - 8 * MEBIBYTE
    even_more = budget.hold(array_of(2 * MEBIBYTE))
    budget.relieve()
    assert [who for who, _ in asked] == ["cache", "cache", "store"]
    budget.unregister(free_store)
    again = budget.hold(array_of(9 * MEBIBYTE))
    budget.relieve()
    assert "store" not in [who for who, _ in asked[3:]]
    assert budget.pressure > 1
    for holding in (more, even_more, again):
        budget.let_go(holding)


def test_asking_ends_when_nobody_can_free_more() -> None:
    budget = MemoryBudget(MEBIBYTE)
    asked: list[int] = []
    budget.register_cache(asked.append)
    budget.hold(array_of(2 * MEBIBYTE))
    budget.relieve()
    assert len(asked) == 1


def test_a_holder_that_asks_for_relief_while_it_gives_some_is_not_asked_again() -> None:
    budget = MemoryBudget(MEBIBYTE)
    asked: list[int] = []

    def free(wanted: int) -> None:
        asked.append(wanted)
        budget.relieve()

    budget.register_store(free)
    budget.hold(array_of(2 * MEBIBYTE))
    budget.relieve()
    assert len(asked) == 1


def test_a_cache_gives_way_for_what_others_keep_too() -> None:
    budget = MemoryBudget(10 * MEBIBYTE)
    cache = LeastRecentlyUsed(budget)
    arrays = [array_of(MEBIBYTE) for _ in range(8)]
    stored = {number: budget.hold(array) for number, array in enumerate(arrays)}

    def free(wanted: int) -> None:
        """As a store: only what nobody else keeps is worth moving."""
        candidates = [(number, holding.footprint) for number, holding in stored.items()]
        users = budget.users_of(list(stored.values()))
        for number in choose_victims(candidates, users, wanted):
            budget.let_go(stored.pop(number))

    budget.register_store(free)
    for number, array in enumerate(arrays[:7]):
        cache.put(str(number), array)
    assert len(cache.entries) == 7
    cache.put("new", array_of(3 * MEBIBYTE))
    assert budget.excess_bytes == 0
    assert 0 < len(cache.entries) < 8


def test_threads_that_need_room_wait_for_the_one_that_makes_it() -> None:
    budget = MemoryBudget(MEBIBYTE)
    at_once: list[int] = []
    most = 0
    kept: list[Holding] = []
    lock = threading.Lock()

    def free(_: int) -> None:
        nonlocal most
        at_once.append(1)
        most = max(most, len(at_once))
        with lock:
            while kept:
                budget.let_go(kept.pop())
        at_once.pop()

    budget.register_store(free)

    def work() -> None:
        for _ in range(100):
            array = array_of(200 * KIBIBYTE)
            holding = budget.hold(array)
            with lock:
                kept.append(holding)
            budget.relieve()

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(20)
    assert most == 1
    assert budget.excess_bytes == 0
    assert budget.figures().used_bytes <= 0.8 * MEBIBYTE


def footprints(*values: Any) -> tuple[list[tuple[int, Any]], dict[int, int]]:
    budget = MemoryBudget(1)
    holdings = [budget.hold(value) for value in values]
    return list(enumerate(holding.footprint for holding in holdings)), dict(
        budget.users_of(holdings)
    )


def test_as_many_are_moved_as_are_needed_in_their_order() -> None:
    candidates, users = footprints(*(array_of(100 * KIBIBYTE) for _ in range(5)))
    assert choose_victims(candidates, users, 1) == [0]
    assert choose_victims(candidates, users, 250 * KIBIBYTE) == [0, 1, 2]
    assert choose_victims(candidates, users, MEBIBYTE) == [0, 1, 2, 3, 4]


def test_values_with_one_buffer_are_moved_together_or_not_at_all() -> None:
    shared = array_of(MEBIBYTE)
    candidates, users = footprints(shared, array_of(100 * KIBIBYTE), shared[:10], np.zeros(1))
    assert choose_victims(candidates, users, 50 * KIBIBYTE) == [1]
    assert choose_victims(candidates, users, MEBIBYTE) == [0, 1, 2]
    elsewhere = {buffer: count + 1 for buffer, count in users.items()}
    assert choose_victims(candidates, elsewhere, MEBIBYTE) == []


def test_small_values_do_not_stand_in_the_way_of_large_ones() -> None:
    small = [array_of(20 * KIBIBYTE) for _ in range(20)]
    candidates, users = footprints(*small, array_of(MEBIBYTE), array_of(MEBIBYTE))
    assert choose_victims(candidates, users, 100 * KIBIBYTE) == [20]


def test_what_frees_little_is_not_moved() -> None:
    shared = array_of(MEBIBYTE)
    candidates, users = footprints([shared, array_of(10 * KIBIBYTE)], array_of(63 * KIBIBYTE))
    kept_elsewhere = {
        buffer: count + (buffer == shared.__array_interface__["data"][0])
        for buffer, count in users.items()
    }
    assert choose_victims(candidates, kept_elsewhere, MEBIBYTE) == []
