"""The first level: live results in this process, the least recently used out first."""

import math
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterable

from comfyrail.clock import Clock, Instant
from comfyrail.engine.caching.level import LevelFigures
from comfyrail.engine.caching.result import CachedResult, measure_bytes
from comfyrail.engine.memory.budget import Holding, MemoryBudget

DEFAULT_MAX_BYTES = 1 << 30
DEFAULT_MAX_ENTRIES = 100_000
ENTRY_OVERHEAD = 512


Measure = Callable[[CachedResult], int]


def measure_result(result: CachedResult) -> int:
    return measure_bytes(result.slots)


class MemoryLevel:
    """Bounded by bytes and by count; may be used from any thread.

    It holds the values themselves, so what it gives is what was put in, not a copy.
    """

    name = "memory"

    def __init__(
        self,
        clock: Clock,
        *,
        max_bytes: int = DEFAULT_MAX_BYTES,
        max_entries: int = DEFAULT_MAX_ENTRIES,
        ttl_seconds: float | None = None,
        budget: MemoryBudget | None = None,
        measure: Measure = measure_result,
        spares_recent: bool = False,
    ) -> None:
        """`budget`: what it holds counts there, and it lets go when the budget asks for it.

        `spares_recent`: what the last two executions used stays, however large. Models are so
        large, and so slow to load, that a limit would have them loaded for every execution.
        """
        self._budget = budget
        self._measure = measure
        self._spares_recent = spares_recent
        self._turn = 0
        self._used_in: dict[str, int] = {}
        self._holdings: dict[str, Holding] = {}
        if budget is not None:
            budget.register_cache(self.evict)
        self._now = clock.now
        self._max_bytes = max_bytes
        self._max_entries = max_entries
        self._ttl = math.inf if ttl_seconds is None else ttl_seconds * 1000
        self._lock = threading.Lock()
        self._entries: OrderedDict[str, tuple[CachedResult, int, float]] = OrderedDict()
        self._used_bytes = 0
        self._hits = self._misses = self._writes = self._evictions = 0

    def __len__(self) -> int:
        return len(self._entries)

    def get(self, key: str) -> CachedResult | None:
        with self._lock:
            entry = self._entries.get(key)
            if entry is None:
                self._misses += 1
                return None
            if entry[2] <= self._now():
                self._remove(key)
                self._misses += 1
                return None
            self._entries.move_to_end(key)
            if self._spares_recent:
                self._used_in[key] = self._turn
            self._hits += 1
            return entry[0]

    def locate(self, keys: Iterable[str]) -> set[str]:
        """Does not count as use."""
        now = self._now()
        entries = self._entries
        with self._lock:
            return {key for key in keys if key in entries and entries[key][2] > now}

    def holds(self, key: str) -> bool:
        entry = self._entries.get(key)
        return entry is not None and entry[2] > self._now()

    def put(self, key: str, result: CachedResult, created: Instant) -> int:
        """Keep a result as old as `created`; one larger than the level is not kept.

        Returns about how many bytes the result holds.
        """
        size = self._measure(result) + ENTRY_OVERHEAD
        with self._lock:
            self._remove(key)
            fits = size <= self._max_bytes or (self._spares_recent and self._max_bytes > 0)
            if fits and self._max_entries > 0:
                self._entries[key] = (result, size, created + self._ttl)
                self._used_bytes += size
                self._writes += 1
                if self._spares_recent:
                    self._used_in[key] = self._turn
                if self._budget is not None:
                    self._holdings[key] = self._budget.hold(result.slots)
                self._make_room()
        if self._budget is not None:
            self._budget.relieve()
        return size

    def evict(self, wanted: int) -> None:
        """Let go of about so many bytes, the least recently used first."""
        with self._lock:
            least = self._used_bytes - wanted
            while self._entries and self._used_bytes > least:
                self._remove(next(iter(self._entries)))
                self._evictions += 1

    def discard(self, key: str) -> None:
        with self._lock:
            self._remove(key)

    def clear(self) -> None:
        with self._lock:
            for key in list(self._entries):
                self._remove(key)
            self._hits = self._misses = self._writes = self._evictions = 0

    def figures(self) -> LevelFigures:
        with self._lock:
            return LevelFigures(
                hits=self._hits,
                misses=self._misses,
                writes=self._writes,
                evictions=self._evictions,
                entries=len(self._entries),
                bytes=self._used_bytes,
            )

    def begin_turn(self) -> None:
        """An execution begins: what it uses, and what the last one used, counts as recent."""
        with self._lock:
            self._turn += 1
            self._make_room()

    def _make_room(self) -> None:
        while self._used_bytes > self._max_bytes or len(self._entries) > self._max_entries:
            oldest = next(iter(self._entries))
            if self._used_in.get(oldest, -2) >= self._turn - 1:
                return
            self._remove(oldest)
            self._evictions += 1

    def _remove(self, key: str) -> None:
        entry = self._entries.pop(key, None)
        if entry is not None:
            self._used_bytes -= entry[1]
            self._used_in.pop(key, None)
            if self._budget is not None:
                self._budget.let_go(self._holdings.pop(key))
