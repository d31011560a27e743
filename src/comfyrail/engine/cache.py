"""Results of nodes kept in memory across prompts: the least recently used go first."""

import sys
from collections import OrderedDict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

DEFAULT_CACHE_BYTES = 1 << 30
DEFAULT_CACHE_ENTRIES = 100_000

Slot = tuple[Any, ...]
"""The values of one output: one, or several where a node gives a list."""


@dataclass(frozen=True, slots=True)
class CachedResult:
    slots: tuple[Slot, ...]
    ui: Mapping[str, Sequence[Any]] | None = None


class MemoryCache:
    """Bounded by bytes and by count. Not locked: it belongs to the thread that executes."""

    def __init__(
        self, max_bytes: int = DEFAULT_CACHE_BYTES, max_entries: int = DEFAULT_CACHE_ENTRIES
    ) -> None:
        self._max_bytes = max_bytes
        self._max_entries = max_entries
        self._entries: OrderedDict[str, tuple[CachedResult, int]] = OrderedDict()
        self.used_bytes = 0

    def __len__(self) -> int:
        return len(self._entries)

    def get(self, key: str) -> CachedResult | None:
        entry = self._entries.get(key)
        if entry is None:
            return None
        self._entries.move_to_end(key)
        return entry[0]

    def put(self, key: str, result: CachedResult) -> None:
        """Keep a result; one that alone is larger than the cache is not kept."""
        self.discard(key)
        size = sum(map(measure_bytes, result.slots)) + 512
        if size > self._max_bytes:
            return
        self._entries[key] = (result, size)
        self.used_bytes += size
        while self.used_bytes > self._max_bytes or len(self._entries) > self._max_entries:
            _, (_, freed) = self._entries.popitem(last=False)
            self.used_bytes -= freed

    def discard(self, key: str) -> None:
        entry = self._entries.pop(key, None)
        if entry is not None:
            self.used_bytes -= entry[1]

    def clear(self) -> None:
        self._entries.clear()
        self.used_bytes = 0


def measure_bytes(value: Any) -> int:
    """About how much memory a value holds; arrays inside lists and mappings are counted."""
    return sum(
        part.nbytes if isinstance(part, np.ndarray) else sys.getsizeof(part)
        for part in _parts(value)
    )


def freeze_arrays(value: Any) -> None:
    """Make every array in a value read-only, so that no later node can change what is kept."""
    for part in _parts(value):
        if isinstance(part, np.ndarray):
            part.setflags(write=False)


def _parts(value: Any) -> Iterator[Any]:
    waiting = [value]
    while waiting:
        part = waiting.pop()
        yield part
        if isinstance(part, list | tuple):
            waiting.extend(part)
        elif isinstance(part, dict):
            waiting.extend(part.values())
