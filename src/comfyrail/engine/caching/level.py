"""What a cache level is, and what all levels have in common."""

import re
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from comfyrail.clock import Clock, Instant
from comfyrail.engine.caching.codec import Data

_KEY = re.compile(r"[0-9a-f]{64}")


@dataclass(frozen=True, slots=True)
class LevelFigures:
    """Counts of this process since it started or since the cache was cleared.

    `entries` and `bytes` are what the level holds, None where only its server knows.
    """

    hits: int = 0
    misses: int = 0
    writes: int = 0
    evictions: int = 0
    corrupt: int = 0
    dropped: int = 0
    entries: int | None = None
    bytes: int | None = None


class Counters:
    """Counts that several threads add to."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.reset()

    def reset(self) -> None:
        self._hits = self._misses = self._writes = 0
        self._evictions = self._corrupt = self._dropped = 0

    def add(
        self,
        *,
        hits: int = 0,
        misses: int = 0,
        writes: int = 0,
        evictions: int = 0,
        corrupt: int = 0,
        dropped: int = 0,
    ) -> None:
        with self._lock:
            self._hits += hits
            self._misses += misses
            self._writes += writes
            self._evictions += evictions
            self._corrupt += corrupt
            self._dropped += dropped

    def figures(self, entries: int | None = None, held_bytes: int | None = None) -> LevelFigures:
        counts = (self._hits, self._misses, self._writes)
        losses = (self._evictions, self._corrupt, self._dropped)
        return LevelFigures(*counts, *losses, entries, held_bytes)


class CacheLevel(Protocol):
    """Entries as bytes, outside this process.

    A level raises nothing: one that is in trouble has nothing and keeps nothing, and says so in the
    log. All methods may be called from any thread.
    """

    @property
    def name(self) -> str: ...

    @property
    def is_slow(self) -> bool:
        """Whether writing may take so long that other levels should not wait behind it."""
        ...

    @property
    def counters(self) -> Counters: ...

    def locate(self, keys: Sequence[str]) -> set[str]:
        """Those of the keys that have an entry; whether it is a good one shows on reading."""
        ...

    def read(self, key: str) -> Data | None: ...

    def write(self, key: str, parts: Sequence[Data], created: Instant) -> bool:
        """Keep an entry as old as `created`; False when it was dropped."""
        ...

    def discard(self, key: str) -> None: ...

    def clear(self) -> None:
        """Remove the entries of all processes; what is not an entry stays."""
        ...

    def close(self) -> None: ...

    def figures(self) -> LevelFigures: ...


class Lifetime:
    """How long a result may be used, counted from when it was made."""

    def __init__(self, seconds: float | None, clock: Clock) -> None:
        self._milliseconds = None if seconds is None else round(seconds * 1000)
        self._clock = clock

    def is_over(self, created: Instant) -> bool:
        return self._milliseconds is not None and self.milliseconds_left(created) == 0

    def milliseconds_left(self, created: Instant) -> int | None:
        """None for ever."""
        if self._milliseconds is None:
            return None
        return max(0, created + self._milliseconds - self._clock.now())


def is_key(text: str) -> bool:
    """A SHA-256 in hexadecimal. Nothing else becomes part of a path or a name."""
    return _KEY.fullmatch(text) is not None


def size_of(parts: Sequence[Data]) -> int:
    return sum(map(len, parts))
