"""What a thread and the process have used so far, as the system says it."""

import os
import resource
import sys
import threading
from typing import NamedTuple

_IO = "/proc/thread-self/io"
_STATUS = "/proc/self/status"
_MEMORY = "/proc/self/statm"
_CLEAR = "/proc/self/clear_refs"
_RESET_PEAK = b"5"
_PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")
_KIB = 1024


class IoReading(NamedTuple):
    """Bytes that a thread has read and written by system calls, files and pipes alike."""

    read: int
    written: int
    length: int
    """Bytes of the reading itself, which the next one counts as read."""

    def since(self, before: "IoReading") -> tuple[int, int]:
        """What was read and written in between."""
        return (max(0, self.read - before.read - before.length), self.written - before.written)


class Meters:
    """Used by any thread; close it in the end. What the system does not tell is None."""

    def __init__(self) -> None:
        self._threads = threading.local()
        self._status = _open(_STATUS)
        self._memory = _open(_MEMORY)
        self._clear = _open(_CLEAR, os.O_WRONLY)

    def close(self) -> None:
        for file in (self._status, self._memory, self._clear):
            file.close()
        self._threads = threading.local()

    def io(self) -> IoReading | None:
        """Of the calling thread."""
        file: _File | None = getattr(self._threads, "io", None)
        if file is None:
            # The name stands for whichever thread opens it.
            file = self._threads.io = _open(_IO)
        content = file.read()
        try:
            words = content.split()
            return IoReading(int(words[1]), int(words[3]), len(content))
        except (ValueError, IndexError):
            return None

    def begin_peak(self) -> int | None:
        """Forget the highest memory so far; the bytes that the process has now."""
        try:
            if not self._clear.write(_RESET_PEAK):
                return None
            return int(self._memory.read().split()[1]) * _PAGE_BYTES
        except (ValueError, IndexError):
            return None

    def peak(self) -> int | None:
        """The most bytes that the process has had since `begin_peak`."""
        content = self._status.read()
        _, found, rest = content.partition(b"VmHWM:")
        try:
            return int(rest.split(None, 1)[0]) * _KIB if found else None
        except (ValueError, IndexError):
            return None


def highest_memory_bytes() -> int:
    """The most that the process has ever had."""
    highest = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return highest if sys.platform == "darwin" else highest * _KIB


class _File:
    """A file of the system, kept open: to open it takes longer than to read it."""

    def __init__(self, descriptor: int | None) -> None:
        self._descriptor = descriptor

    def __del__(self) -> None:
        self.close()

    def read(self) -> bytes:
        try:
            return b"" if self._descriptor is None else os.pread(self._descriptor, 4096, 0)
        except OSError:
            return b""

    def write(self, content: bytes) -> bool:
        try:
            return self._descriptor is not None and os.write(self._descriptor, content) > 0
        except OSError:
            return False

    def close(self) -> None:
        descriptor, self._descriptor = self._descriptor, None
        if descriptor is not None:
            os.close(descriptor)


def _open(path: str, flags: int = os.O_RDONLY) -> _File:
    try:
        return _File(os.open(path, flags | os.O_CLOEXEC))
    except OSError:
        return _File(None)
