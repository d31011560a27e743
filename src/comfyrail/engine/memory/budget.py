"""How much memory values may take, all holders together, and who is asked to free some."""

import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from comfyrail.engine.memory.buffers import Footprint, measure_footprint

THRESHOLD = 0.8

Free = Callable[[int], object]
"""Asks a holder to free about so many bytes."""


@dataclass(frozen=True, slots=True)
class MemoryFigures:
    used_bytes: int
    limit_bytes: int
    peak_bytes: int

    @property
    def pressure(self) -> float:
        return self.used_bytes / self.limit_bytes


class Holding:
    """A value that is kept and counted until its holder lets go of it.

    It keeps the value itself, so that the memory cannot go to others while it is counted.
    """

    __slots__ = ("footprint", "is_counted", "value")

    def __init__(self, value: Any) -> None:
        self.value = value
        self.footprint: Footprint = measure_footprint(value)
        self.is_counted = True


class MemoryBudget:
    """Counts what its holders keep, each buffer once however many keep it; used by any thread.

    When more than `threshold` of the limit is in use, `relieve` asks holders to free some: first
    caches, which lose only time, then stores, which have to write.
    """

    def __init__(self, limit_bytes: int, threshold: float = THRESHOLD) -> None:
        if limit_bytes <= 0 or not 0 < threshold <= 1:
            raise ValueError("A limit must be more than 0, and a threshold above 0 and at most 1.")
        self.limit_bytes = limit_bytes
        self.threshold = threshold
        self._lock = threading.Lock()
        self._users: dict[int, int] = {}
        self._sizes: dict[int, int] = {}
        self._used = 0
        self._peak = 0
        self._holdings = 0
        self._caches: list[Free] = []
        self._stores: list[Free] = []
        self._relief = threading.Lock()
        self._relieving_thread: int | None = None

    @property
    def pressure(self) -> float:
        """The part of the limit that is in use; above 1 where too much could not be freed."""
        return self._used / self.limit_bytes

    @property
    def excess_bytes(self) -> int:
        """How much would have to be freed to be at the threshold again."""
        return max(0, self._used - int(self.limit_bytes * self.threshold))

    def figures(self) -> MemoryFigures:
        with self._lock:
            return MemoryFigures(self._used, self.limit_bytes, self._peak)

    def hold(self, value: Any) -> Holding:
        """Keep the value and count it. Frees nothing: call `relieve` for that."""
        holding = Holding(value)
        footprint = holding.footprint
        with self._lock:
            self._holdings += 1
            self._used += footprint.loose
            for buffer, size in footprint.buffers.items():
                known = self._sizes.get(buffer, 0)
                self._users[buffer] = self._users.get(buffer, 0) + 1
                if size > known:
                    self._sizes[buffer] = size
                    self._used += size - known
            self._peak = max(self._peak, self._used)
        return holding

    def let_go(self, holding: Holding) -> None:
        """Keep and count it no longer; a second time does nothing."""
        footprint = holding.footprint
        with self._lock:
            if not holding.is_counted:
                return
            holding.is_counted = False
            self._holdings -= 1
            self._used -= footprint.loose
            for buffer in footprint.buffers:
                self._users[buffer] -= 1
                if self._users[buffer] == 0:
                    del self._users[buffer]
                    self._used -= self._sizes.pop(buffer)
        # Here, because what is in it may run code of its own when it goes.
        holding.value = None

    def users_of(self, holdings: list[Holding]) -> Mapping[int, int]:
        """How many keep each of the buffers of these."""
        with self._lock:
            return {
                buffer: self._users[buffer]
                for holding in holdings
                if holding.is_counted
                for buffer in holding.footprint.buffers
            }

    def register_cache(self, free: Free) -> None:
        """Let a cache be asked, before all stores, to forget what it has not used for longest.

        `free` is called by whichever thread calls `relieve`, and calls `let_go` itself. It should
        forget about as much as it is asked for, even if others keep the same memory: they can
        free it only when the cache no longer has it.
        """
        with self._lock:
            self._caches.append(free)

    def register_store(self, free: Free) -> None:
        """Let a store be asked to move values to disk; as `register_cache`."""
        with self._lock:
            self._stores.append(free)

    def unregister(self, free: Free) -> None:
        with self._lock:
            self._caches = [each for each in self._caches if each != free]
            self._stores = [each for each in self._stores if each != free]

    def relieve(self) -> None:
        """Ask holders, the oldest first, until no more is in use than the threshold allows.

        One thread does so at a time; others that need room wait for it. Hold no lock that a
        holder's `free` takes.
        """
        me = threading.get_ident()
        if not self.excess_bytes or self._relieving_thread == me:
            return
        with self._relief:
            self._relieving_thread = me
            try:
                self._ask_holders()
            finally:
                self._relieving_thread = None

    def _ask_holders(self) -> None:
        """In rounds, because what a cache forgets may be what a store can only then free."""
        before = None
        while self.excess_bytes and before != (now := (self._used, self._holdings)):
            before = now
            with self._lock:
                holders = [*self._caches, *self._stores]
            for free in holders:
                excess = self.excess_bytes
                if excess:
                    free(excess)
