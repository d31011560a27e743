"""Memory [12.5]: values that are moved to disk, pinned, and freed."""

import os
import resource
import stat
import sys
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from mmap import mmap
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from structlog.testing import capture_logs

from comfyrail.engine.held_values import HeldValues
from comfyrail.engine.memory.budget import MemoryBudget
from comfyrail.engine.memory.errors import SpilledValueLost
from comfyrail.engine.memory.spill_area import FOLDER_PREFIX, PAUSE_SECONDS, SpillArea
from comfyrail.engine.memory.spill_codec import CannotSpill, ResultCodec, Slots
from comfyrail.engine.memory.value_store import ValueStore
from tests.engine.memory.memory_parts import (
    KIBIBYTE,
    MEBIBYTE,
    LeastRecentlyUsed,
    StillClock,
    array_of,
    slots_of,
    spill_files,
)

SIZE = 100 * KIBIBYTE
LIMIT = MEBIBYTE
"""Eight values of SIZE fit below the threshold."""
FIT = 8


@pytest.fixture
def budget() -> MemoryBudget:
    return MemoryBudget(LIMIT)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "spill"


@pytest.fixture
def area(root: Path) -> SpillArea:
    return SpillArea(root)


@pytest.fixture
def store(budget: MemoryBudget, area: SpillArea) -> Iterator[ValueStore]:
    with ValueStore(budget, area) as store:
        yield store


def fill(store: ValueStore, *names: str, readers: int = 1) -> None:
    for number, name in enumerate(names):
        store.put(name, slots_of(array_of(SIZE, number)), readers)


def is_on_disk(store: ValueStore, name: str) -> bool:
    """Seen by where its array has its memory."""
    array = store.get(name)[0][0]
    while isinstance(array, np.ndarray):
        array = array.base
    return isinstance(array, mmap)


def on_disk(store: ValueStore, names: str) -> str:
    return "".join(name for name in names if is_on_disk(store, name))


def test_a_value_is_given_back_as_it_is_while_there_is_room(store: ValueStore, root: Path) -> None:
    slots = slots_of(array_of(SIZE), "text", [1, 2])
    store.put("a", slots, readers=2)
    assert store.get("a") is slots
    assert store.holds("a")
    assert not store.holds("b")
    with pytest.raises(KeyError):
        store.get("b")
    assert not root.exists()


def test_the_last_reader_frees_the_value_at_once(store: ValueStore, budget: MemoryBudget) -> None:
    array = array_of(SIZE)
    seen = weakref.ref(array)
    store.put("a", slots_of(array), readers=2)
    del array
    store.done("a")
    assert seen() is not None
    store.done("a")
    assert seen() is None
    assert not store.holds("a")
    assert budget.figures().used_bytes == 0
    store.done("a")


def test_readers_that_come_later_count_too(store: ValueStore) -> None:
    store.put("a", slots_of(1), readers=1)
    store.add_readers("a", 2)
    store.done("a")
    store.done("a")
    assert store.holds("a")
    store.done("a")
    assert not store.holds("a")
    with pytest.raises(KeyError):
        store.add_readers("a", 1)


def test_what_nobody_will_read_is_not_held(store: ValueStore, budget: MemoryBudget) -> None:
    store.put("a", slots_of(array_of(SIZE)), readers=0)
    assert not store.holds("a")
    assert budget.figures().used_bytes == 0


def test_a_value_put_again_takes_the_place_of_the_first(
    store: ValueStore, budget: MemoryBudget
) -> None:
    first, second = array_of(SIZE, 1), array_of(SIZE, 2)
    seen = weakref.ref(first)
    store.put("a", slots_of(first), readers=1)
    del first
    store.put("a", slots_of(second), readers=1)
    assert seen() is None
    assert store.get("a")[0][0] is second
    assert budget.figures().used_bytes < SIZE + KIBIBYTE


def test_under_pressure_the_least_recently_used_values_go_to_disk(
    store: ValueStore, budget: MemoryBudget, root: Path
) -> None:
    fill(store, *"abcdefgh")
    assert spill_files(root) == []
    store.get("a")
    fill(store, "i", "j")
    assert budget.pressure <= 0.8
    assert on_disk(store, "abcdefghij") == "bc"
    assert len(spill_files(root)) == 2
    assert store.spilled_bytes >= 2 * SIZE
    for number, name in enumerate("abcdefgh"):
        assert (store.get(name)[0][0] == number).all()


def test_with_positions_in_the_plan_the_values_needed_latest_go_to_disk(store: ValueStore) -> None:
    positions = dict(zip("abcdefgh", [5, 90, 3, 70, 8, 80, 2, 1], strict=True))
    for name, position in positions.items():
        store.put(name, slots_of(array_of(SIZE)), 1, next_use=position)
    store.expect("f", 4)
    store.put("i", slots_of(array_of(SIZE)), 1, next_use=0)
    store.put("j", slots_of(array_of(SIZE)), 1, next_use=100)
    store.put("k", slots_of(array_of(SIZE)), 1)
    assert on_disk(store, "abcdefghijk") == "bjk"


def test_what_comes_back_is_read_only_and_takes_no_memory(
    store: ValueStore, budget: MemoryBudget
) -> None:
    value = {"samples": np.arange(SIZE, dtype=np.float32).reshape(4, -1), "name": "x"}
    store.put("a", slots_of(value, [np.float64(1.5), None, b"bytes"]), readers=2)
    fill(store, *"bcdefghij")
    before = budget.figures().used_bytes
    (back,), (rest,) = store.get("a")
    assert budget.figures().used_bytes == before
    assert back["name"] == "x"
    assert rest == [1.5, None, b"bytes"]
    np.testing.assert_array_equal(back["samples"], value["samples"])
    with pytest.raises(ValueError, match="read-only"):
        back["samples"][0, 0] = 1
    # Passed on as it is, it is on disk already and takes nothing.
    store.put("again", slots_of(back["samples"][1:]), readers=1)
    assert budget.figures().used_bytes < before + KIBIBYTE


def test_a_value_that_came_back_outlives_its_file(store: ValueStore, root: Path) -> None:
    fill(store, *"abcdefghi")
    assert is_on_disk(store, "a")
    array = store.get("a")[0][0]
    store.done("a")
    assert spill_files(root) == []
    assert (array == 0).all()


def test_a_pinned_value_stays_in_memory_and_is_freed_when_it_is_unpinned(
    store: ValueStore,
) -> None:
    array = array_of(SIZE)
    seen = weakref.ref(array)
    store.put("a", slots_of(array), readers=1)
    del array
    store.pin("a")
    store.pin("a")
    fill(store, *"bcdefghij")
    assert on_disk(store, "abcdefghij") == "bc"
    store.done("a")
    store.unpin("a")
    assert store.holds("a")
    store.unpin("a")
    assert not store.holds("a")
    assert seen() is None
    store.unpin("a")
    with pytest.raises(KeyError):
        store.pin("a")


def test_when_all_that_is_in_memory_is_pinned_new_values_go_to_disk_at_once(
    store: ValueStore, budget: MemoryBudget
) -> None:
    for name in "abcdefghij":
        fill(store, name)
        store.pin(name)
    assert on_disk(store, "abcdefghij") == "ij"
    assert budget.pressure <= 0.8
    for name in "abcdefghij":
        store.unpin(name)
    fill(store, "k")
    assert on_disk(store, "abcdefghijk") == "aij"


def test_small_values_are_never_moved(store: ValueStore, budget: MemoryBudget) -> None:
    for number in range(40):
        store.put(str(number), slots_of(array_of(60 * KIBIBYTE)), readers=1)
    assert store.spilled_bytes == 0
    assert budget.pressure > 1


def test_what_is_far_larger_on_disk_than_in_memory_stays(
    store: ValueStore, budget: MemoryBudget
) -> None:
    wide = np.broadcast_to(array_of(SIZE), (10, SIZE))
    store.put("a", slots_of(wide), readers=1)
    assert budget.figures().used_bytes < SIZE + KIBIBYTE
    fill(store, *"bcdefghij")
    assert on_disk(store, "abcdefghij") == "bc"


def test_a_value_of_which_a_part_is_on_a_gpu_stays(
    monkeypatch: pytest.MonkeyPatch, store: ValueStore
) -> None:
    class Tensor:
        device = SimpleNamespace(type="cuda")

    monkeypatch.setitem(sys.modules, "torch", SimpleNamespace(Tensor=Tensor))
    store.put("a", slots_of(array_of(SIZE), Tensor()), readers=1)
    fill(store, *"bcdefghij")
    assert on_disk(store, "abcdefghij") == "bc"


def test_a_value_that_cannot_be_written_stays_and_others_go(store: ValueStore) -> None:
    store.put("a", slots_of([array_of(SIZE), lambda: None]), readers=1)
    fill(store, *"bcdefghij")
    assert on_disk(store, "bcdefghij") == "bc"
    assert isinstance(store.get("a")[0][0], list)


def test_a_value_that_cannot_be_written_is_tried_once(
    budget: MemoryBudget, area: SpillArea
) -> None:
    class Refusing(ResultCodec):
        tries = 0

        def encode(self, slots: Slots, max_bytes: int) -> Any:  # noqa: ARG002 - it never can
            self.tries += 1
            raise CannotSpill("never")

    codec = Refusing()
    with ValueStore(budget, area, codec) as store:
        fill(store, *"abcdefghijklm")
        assert codec.tries == 13
        assert budget.pressure > 1
        fill(store, "n")
        assert codec.tries == 14


class Meddling(ResultCodec):
    """Does something while a value is being written."""

    def __init__(self, meddle: Callable[[], None]) -> None:
        self._meddle = meddle

    def encode(self, slots: Slots, max_bytes: int) -> Any:
        self._meddle()
        return super().encode(slots, max_bytes)


def test_a_value_pinned_while_it_is_written_stays_in_memory(
    budget: MemoryBudget, area: SpillArea, root: Path
) -> None:
    held: ValueStore
    codec = Meddling(lambda: held.pin("a") if not spill_files(root) else None)
    with ValueStore(budget, area, codec) as held:
        fill(held, *"abcdefghi")
        assert on_disk(held, "abcdefghi") == "b"
        assert len(spill_files(root)) == 1


def test_a_value_freed_or_replaced_while_it_is_written_leaves_no_file(
    budget: MemoryBudget, area: SpillArea, root: Path
) -> None:
    held: ValueStore
    codec = Meddling(lambda: held.done("a"))
    with ValueStore(budget, area, codec) as held:
        fill(held, *"abcdefghi")
        assert not held.holds("a")
        assert spill_files(root) == []
    codec = Meddling(lambda: fill(held, "b"))
    with ValueStore(budget, area, codec) as held:
        fill(held, "z", *"abcdefgh")
        held.done("z")
        assert held.get("b")[0][0][0] == 0
        assert spill_files(root) == []


def test_a_value_put_again_is_as_pinned_as_the_first(store: ValueStore) -> None:
    fill(store, "a")
    store.pin("a")
    fill(store, *"abcdefghij")
    assert on_disk(store, "abcdefghij") == "bc"
    store.done("a")
    assert store.holds("a")
    store.unpin("a")
    assert not store.holds("a")


def test_views_of_one_array_count_once_and_are_moved_together(
    store: ValueStore, budget: MemoryBudget
) -> None:
    array = array_of(4 * SIZE)
    for name in "abc":
        store.put(name, slots_of(array[ord(name) :]), readers=1)
    seen = weakref.ref(array)
    del array
    assert budget.figures().used_bytes < 4 * SIZE + KIBIBYTE
    fill(store, *"defgh")
    assert seen() is None
    assert on_disk(store, "abcdefgh") == "abc"


def test_a_cache_gives_way_before_values_go_to_disk(
    store: ValueStore, budget: MemoryBudget, root: Path
) -> None:
    cache = LeastRecentlyUsed(budget)
    for name in "uvwxyz":
        cache.put(name, array_of(SIZE))
    fill(store, *"abcdef")
    assert list(cache.entries) == ["y", "z"]
    assert spill_files(root) == []
    fill(store, *"ghijk")
    assert not cache.entries
    assert len(spill_files(root)) == 3
    assert budget.pressure <= 0.8


def test_files_are_private_and_their_names_cannot_be_guessed(store: ValueStore, root: Path) -> None:
    before = os.umask(0)
    try:
        fill(store, *"abcdefghij")
    finally:
        os.umask(before)
    folders = list(root.glob(f"{FOLDER_PREFIX}*"))
    assert [stat.S_IMODE(path.stat().st_mode) for path in [root, *folders]] == [0o700, 0o700]
    files = spill_files(root)
    assert {stat.S_IMODE(path.stat().st_mode) for path in files} == {0o600}
    assert len({path.name for path in files}) == len(files) == 2
    assert all(len(path.name) == 32 for path in files)


def test_clear_and_close_leave_nothing_behind(
    store: ValueStore, budget: MemoryBudget, root: Path
) -> None:
    fill(store, *"abcdefghij")
    store.pin("a")
    assert len(spill_files(root)) == 2
    store.clear()
    assert spill_files(root) == []
    assert budget.figures().used_bytes == 0
    fill(store, *"abcdefghij")
    store.close()
    assert list(root.glob(f"{FOLDER_PREFIX}*")) == []
    assert budget.figures().used_bytes == 0
    store.put("late", slots_of(1), readers=1)
    assert not store.holds("late")
    store.close()
    assert budget._stores == []


def test_stores_that_come_and_go_leave_no_open_files(budget: MemoryBudget, area: SpillArea) -> None:
    before = len(list(Path("/proc/self/fd").iterdir()))
    for _ in range(3):
        with ValueStore(budget, area) as store:
            fill(store, *"abcdefghij")
            assert len(spill_files(area.root)) == 2
            assert is_on_disk(store, "a")
    assert len(list(Path("/proc/self/fd").iterdir())) <= before


@contextmanager
def full_disk() -> Iterator[None]:
    """No file may grow beyond half of a value: the system itself refuses to write on."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (SIZE // 2, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def test_while_the_disk_is_full_values_stay_in_memory_and_that_is_logged_once(
    budget: MemoryBudget, root: Path
) -> None:
    clock = StillClock()
    with capture_logs() as logs, ValueStore(budget, SpillArea(root, clock)) as store:
        with full_disk():
            fill(store, *"abcdefghijkl")
            clock.seconds += PAUSE_SECONDS
            fill(store, "m")
        assert spill_files(root) == []
        assert budget.pressure > 1
        # It is not tried again with every value.
        fill(store, "n")
        assert spill_files(root) == []
        clock.seconds += PAUSE_SECONDS
        fill(store, "o")
        assert budget.pressure <= 0.8
        assert on_disk(store, "abcdefghijklmno") == "abcdefg"
        for number, name in enumerate("abcdefghijkl"):
            assert (store.get(name)[0][0] == number).all()
    assert [entry["event"] for entry in logs] == ["cannot_spill"]


def test_a_folder_that_cannot_be_made_is_survived(budget: MemoryBudget) -> None:
    root = Path(os.devnull) / "values"
    with capture_logs() as logs, ValueStore(budget, SpillArea(root)) as store:
        fill(store, *"abcdefghijkl")
        assert on_disk(store, "abcdefghijkl") == ""
    assert [entry["event"] for entry in logs] == ["cannot_spill"]


def test_a_file_that_is_gone_or_damaged_is_said_to_be(store: ValueStore, root: Path) -> None:
    fill(store, *"abcdefghij")
    first, second = sorted(spill_files(root), key=lambda path: path.stat().st_mtime_ns)
    first.unlink()
    second.write_bytes(bytes(100))
    for name in "ab":
        with pytest.raises(SpilledValueLost, match=f"node '{name}'"):
            store.get(name)
    second.write_bytes(b"")
    with pytest.raises(SpilledValueLost):
        store.get("b")


def test_it_is_what_an_execution_asks_for(store: ValueStore) -> None:
    values: HeldValues = store
    values.put("a", slots_of(1), 1)
    assert values.get("a") == ((1,),)
