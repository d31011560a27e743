"""What a value keeps in memory, each buffer once."""

import mmap
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from comfyrail.engine.memory.buffers import measure_footprint
from tests.engine.memory.memory_parts import MEBIBYTE, array_of

SMALL = 4096


def size_of(value: Any) -> int:
    """Without the few bytes of what holds the buffers together."""
    found = measure_footprint(value)
    assert found.loose < SMALL
    return sum(found.buffers.values())


def test_arrays_count_wherever_they_are() -> None:
    parts = [array_of(MEBIBYTE) for _ in range(4)]
    value = ((parts[0],), [{"samples": parts[1]}, ({"deep": [parts[2]]},)], parts[3])
    assert size_of(value) == 4 * MEBIBYTE


def test_what_is_there_twice_counts_once() -> None:
    array = array_of(MEBIBYTE)
    assert size_of([array, array, (array,)]) == MEBIBYTE


@pytest.mark.parametrize(
    "view",
    [
        lambda array: array[5:10],
        lambda array: array[::-3],
        lambda array: array.reshape(4, -1).T[1:, 2:].astype(np.uint8, copy=False),
        lambda array: array.view(np.float32),
        lambda array: np.frombuffer(memoryview(array)[8:], np.uint8),
        lambda array: np.lib.stride_tricks.as_strided(array, (1000, 1000), (0, 1)),
        lambda array: np.lib.stride_tricks.sliding_window_view(array, 100),
        lambda array: np.broadcast_to(array, (1000, len(array))),
    ],
)
def test_a_view_keeps_all_of_its_base_and_both_count_once(view: Any) -> None:
    array = array_of(MEBIBYTE)
    assert size_of(view(array)) == MEBIBYTE
    assert size_of([array, view(array)]) == MEBIBYTE


def test_a_broadcast_value_is_as_small_as_it_is() -> None:
    assert size_of(np.broadcast_to(np.float32(1), (4096, 4096, 4096))) < SMALL


def test_long_texts_and_bytes_count_once_also_below_arrays() -> None:
    content, text = bytes(MEBIBYTE), "x" * MEBIBYTE
    once = size_of(content)
    assert MEBIBYTE <= once < MEBIBYTE + SMALL
    assert size_of([content, np.frombuffer(content, np.uint8)]) == once
    assert MEBIBYTE <= size_of([text, text, {"again": text}]) < MEBIBYTE + SMALL


def test_many_small_things_are_counted_together() -> None:
    found = measure_footprint([float(number) for number in range(1000)])
    assert found.buffers == {}
    assert found.size > 1000 * 24


def test_what_lies_in_a_file_takes_no_memory(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(bytes(MEBIBYTE))
    with path.open("rb") as file:
        mapped = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    array: np.ndarray[Any, Any] = np.ndarray((1000,), np.uint8, memoryview(mapped)[64:])
    assert size_of([array, array[10:], np.memmap(path, np.uint8, "r")]) == 0


def test_a_ring_has_an_end() -> None:
    ring: list[Any] = [array_of(MEBIBYTE)]
    ring.append(ring)
    assert size_of(ring) == MEBIBYTE


class FakeTensor:
    """What is asked of a tensor of torch."""

    def __init__(self, address: int, size: int, device: str = "cpu") -> None:
        self.device = SimpleNamespace(type=device)
        self._storage = SimpleNamespace(data_ptr=lambda: address, nbytes=lambda: size)

    def untyped_storage(self) -> Any:
        return self._storage


class SparseTensor(FakeTensor):
    def untyped_storage(self) -> Any:
        raise NotImplementedError


def test_tensors_count_by_their_storage_if_it_is_in_memory(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "torch", SimpleNamespace(Tensor=FakeTensor))
    tensors = [FakeTensor(1000, 300), FakeTensor(1000, 300), FakeTensor(2000, 50)]
    assert size_of(tensors) == 350
    assert size_of([FakeTensor(3000, 700, "cuda")]) == 0
    assert measure_footprint([FakeTensor(3000, 700, "cuda"), tensors]).is_elsewhere
    assert not measure_footprint(tensors).is_elsewhere
    assert size_of([SparseTensor(0, 0)]) == 0
