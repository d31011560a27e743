"""Memory [12.5]: whole executions with more values than there is memory for."""

import json
import random
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from comfyrail.engine.memory.budget import MemoryBudget
from comfyrail.engine.memory.spill_area import SpillArea
from comfyrail.engine.memory.value_store import ValueStore
from tests.engine.memory import spilling_program
from tests.engine.memory.memory_parts import KIBIBYTE, MEBIBYTE, LeastRecentlyUsed, spill_files

Graph = list[list[int]]
"""The sources of each node, which all come before it."""

LENGTH = 80 * KIBIBYTE // 8


def result_of(number: int, inputs: list[NDArray[np.int64]]) -> NDArray[np.int64]:
    """Exact numbers that depend on every input."""
    if len(inputs) == 1 and number % 3 == 0:
        return inputs[0][1:]
    total = np.full(LENGTH, number, np.int64)
    for position, array in enumerate(inputs):
        total[: len(array)] += (position + 2) * array % 1_000_003
    return total


def last_uses(graph: Graph) -> dict[int, list[int]]:
    found: dict[int, list[int]] = {}
    for number, sources in enumerate(graph):
        for source in sources:
            found.setdefault(source, []).append(number)
    return found


def run_plainly(graph: Graph) -> list[int]:
    values: list[NDArray[np.int64]] = []
    for number, sources in enumerate(graph):
        values.append(result_of(number, [values[source] for source in sources]))
    return [int(value.sum()) for value in values]


def run_stored(graph: Graph, store: ValueStore, *, with_hints: bool) -> list[int]:
    """As an executor does: inputs are pinned while a node runs, then it is done with them."""
    uses = last_uses(graph)
    sums = []
    for number, sources in enumerate(graph):
        for source in sources:
            store.pin(str(source))
        value = result_of(number, [store.get(str(source))[0][0] for source in sources])
        sums.append(int(value.sum()))
        following = uses.get(number, [])
        hint = float(following[0]) if with_hints and following else None
        store.put(str(number), ((value,),), len(following), next_use=hint)
        del value
        for source in sources:
            store.done(str(source))
            store.unpin(str(source))
    return sums


def wide_graph(width: int, seed: int = 0) -> Graph:
    """So many sources that all live until nodes take them two by two, in any order; then threes."""
    order = list(range(width))
    random.Random(seed).shuffle(order)
    pairs = [order[index : index + 2] for index in range(0, width, 2)]
    sums = list(range(width, width + len(pairs)))
    threes = [sums[index : index + 3] for index in range(0, len(sums), 3)]
    return [[] for _ in range(width)] + pairs + threes


@pytest.mark.parametrize("with_hints", [False, True])
def test_an_execution_of_four_times_the_limit_stays_below_it_and_is_right(
    tmp_path: Path, *, with_hints: bool
) -> None:
    limit = 2 * MEBIBYTE
    graph = wide_graph(4 * limit // (LENGTH * 8))
    assert len(graph) > 100
    budget = MemoryBudget(limit)
    with ValueStore(budget, SpillArea(tmp_path)) as store:
        sums = run_stored(graph, store, with_hints=with_hints)
        figures = budget.figures()
        assert 0.5 * limit < figures.peak_bytes <= limit
        assert figures.used_bytes == 0
        assert spill_files(tmp_path) == []
    assert sums == run_plainly(graph)


graphs = st.lists(st.lists(st.integers(0, 1000), max_size=3), max_size=25).map(
    lambda drawn: [
        sorted({source % number for source in sources}) if number else []
        for number, sources in enumerate(drawn)
    ]
)


@settings(max_examples=60, deadline=None)
@given(graph=graphs, fitting=st.integers(1, 12), with_hints=st.booleans())
def test_any_graph_gives_the_same_with_any_limit(
    tmp_path_factory: pytest.TempPathFactory, graph: Graph, fitting: int, *, with_hints: bool
) -> None:
    root = tmp_path_factory.getbasetemp() / "any-graph"
    budget = MemoryBudget(fitting * LENGTH * 8)
    with ValueStore(budget, SpillArea(root)) as store:
        assert run_stored(graph, store, with_hints=with_hints) == run_plainly(graph)
        assert budget.figures().used_bytes == 0
        assert spill_files(root) == []


def test_two_executions_and_a_cache_share_a_budget(tmp_path: Path) -> None:
    limit = 3 * MEBIBYTE
    budget, area = MemoryBudget(limit), SpillArea(tmp_path)
    cache = LeastRecentlyUsed(budget)
    for number in range(20):
        cache.put(str(number), np.zeros(LENGTH, np.int64))
    sums: dict[int, list[int]] = {}

    def execute(seed: int) -> None:
        with ValueStore(budget, area) as store:
            sums[seed] = run_stored(wide_graph(60, seed), store, with_hints=seed % 2 == 0)

    threads = [threading.Thread(target=execute, args=(seed,), daemon=True) for seed in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert sums == {seed: run_plainly(wide_graph(60, seed)) for seed in range(2)}
    assert budget.figures().peak_bytes <= limit
    assert spill_files(tmp_path) == []
    cache.free(limit)
    assert budget.figures().used_bytes == 0


def test_threads_that_use_one_store_see_whole_values(tmp_path: Path) -> None:
    """Some read, pin and end values while others move them to disk."""
    budget = MemoryBudget(MEBIBYTE)
    faults: list[str] = []
    with ValueStore(budget, SpillArea(tmp_path)) as store:

        def work(seed: int) -> None:
            chance = random.Random(seed)
            mine: list[str] = []
            for number in range(120):
                name = f"{seed}/{number}"
                store.put(name, ((np.full(LENGTH, number),),), 1, next_use=chance.random())
                mine.append(name)
                looked_at = chance.choice(mine)
                store.pin(looked_at)
                array = store.get(looked_at)[0][0]
                if not (array == int(looked_at.partition("/")[2])).all():
                    faults.append(looked_at)
                store.unpin(looked_at)
                if len(mine) > 10:
                    store.done(mine.pop(chance.randrange(len(mine))))

        threads = [threading.Thread(target=work, args=(seed,), daemon=True) for seed in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(30)
        assert not any(thread.is_alive() for thread in threads)
        assert faults == []
        assert store.spilled_bytes > 0
    assert budget.figures().used_bytes == 0
    assert list(tmp_path.glob("values-*")) == []


def test_a_process_takes_about_its_budget_and_not_the_sum_of_its_values(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", spilling_program.__name__, str(tmp_path)],
        capture_output=True,
        check=True,
        text=True,
        timeout=60,
        cwd=Path(__file__).parents[3],
    )
    report = json.loads(done.stdout)
    print({name: figure for name, figure in report.items() if name != "sums"})
    count = spilling_program.SOURCES
    assert report["sums"] == [
        float(count - 1 - number + (7 * number + 3) % count) for number in range(count)
    ]
    limit_mb = spilling_program.LIMIT_BYTES >> 20
    all_mb = 2 * count * spilling_program.ARRAY_BYTES >> 20
    assert report["counted_peak_mb"] <= limit_mb
    # Two inputs that are mapped while a node reads them come on top of the budget.
    assert report["taken_mb"] <= limit_mb + 3 * 32 + 16 < all_mb / 4
    assert report["files_left"] == 0
