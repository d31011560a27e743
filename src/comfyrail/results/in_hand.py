"""Which blobs somebody has in hand: just saved and not written down yet, or being read by name."""

import threading
from collections import Counter
from collections.abc import Collection, Iterator
from contextlib import contextmanager


class InHand:
    """Safe to use from threads. `lock` is held while a blob gets its name, and while one is looked
    at and removed: content that is saved again must not go because it was there before.
    """

    def __init__(self) -> None:
        self.lock = threading.RLock()
        self._saved: Counter[str] = Counter()
        self._read: Counter[str] = Counter()
        self._doubtful: set[str] = set()

    def __bool__(self) -> bool:
        """Whether anything is saved and not settled."""
        return bool(self._saved)

    def take(self, key: str) -> None:
        with self.lock:
            self._saved[key] += 1

    def settle(self, keys: Collection[str], *, are_kept: bool) -> None:
        with self.lock:
            for key in keys:
                _count_down(self._saved, key)
            if not are_kept:
                self._doubtful.update(keys)

    def doubt(self, keys: Collection[str]) -> None:
        with self.lock:
            self._doubtful.update(keys)

    def take_doubtful(self) -> list[str]:
        with self.lock:
            keys, self._doubtful = sorted(self._doubtful), set()
        return keys

    def is_saved(self, key: str) -> bool:
        """Whether it is saved and not settled."""
        return key in self._saved

    def is_held(self, key: str) -> bool:
        """Whether it must not go now."""
        return key in self._saved or key in self._read

    @contextmanager
    def reading(self, key: str) -> Iterator[None]:
        """Somebody uses the file by its name."""
        with self.lock:
            self._read[key] += 1
        try:
            yield
        finally:
            with self.lock:
                _count_down(self._read, key)


def _count_down(counts: Counter[str], key: str) -> None:
    counts[key] -= 1
    if counts[key] <= 0:
        del counts[key]
