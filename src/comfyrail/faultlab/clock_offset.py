"""A file that says by how much a process's wall clock is wrong."""

import mmap
import struct
from collections.abc import Callable
from pathlib import Path

_NANOSECONDS = struct.Struct("q")


class ClockOffset:
    """Eight bytes that both sides have mapped: a look costs no call of the system."""

    def __init__(self, path: Path) -> None:
        if not path.exists():
            path.write_bytes(_NANOSECONDS.pack(0))
        with path.open("r+b") as file:
            self._bytes = mmap.mmap(file.fileno(), _NANOSECONDS.size)

    @property
    def nanoseconds(self) -> int:
        (found,) = _NANOSECONDS.unpack_from(self._bytes)
        return int(found)

    def jump(self, seconds: float) -> None:
        """The clock is so much further ahead than it was (behind, where it is negative)."""
        _NANOSECONDS.pack_into(self._bytes, 0, self.nanoseconds + round(seconds * 1e9))

    def shift(self, clock: Callable[[], int]) -> Callable[[], int]:
        """The clock (in nanoseconds) with the offset added at each look."""
        unpack, content = _NANOSECONDS.unpack_from, self._bytes
        return lambda: clock() + int(unpack(content)[0])

    def close(self) -> None:
        self._bytes.close()
