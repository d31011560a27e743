"""How much of the machine this process uses, where no pool hands the machine out."""

import os
import shutil
import threading
import time
from pathlib import Path

from comfyrail.engine.resources.detect import usable_cores, usable_memory_bytes
from comfyrail.engine.resources.needs import Kind

SHORTEST_SPAN_SECONDS = 1.0
"""Over less time the share of the processor would say nothing."""
_MEMORY = Path("/proc/self/statm")
_PAGE_BYTES = os.sysconf("SC_PAGE_SIZE") if hasattr(os, "sysconf") else 4096


class ProcessUsage:
    """In percent of what this process may use; asked by any thread."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._cores = usable_cores()
        self._memory_bytes = usable_memory_bytes()
        self._lock = threading.Lock()
        self._seen = (time.monotonic(), time.process_time())
        self._cpu_percent = 0.0

    def percent(self) -> dict[Kind, float]:
        """By kind, as far as it can be found out; `disk_space_mb` is all that is taken of the
        disk, by whomever.
        """
        found: dict[Kind, float] = {"cpu_cores": self._cpu()}
        used = resident_bytes()
        if used is not None:
            found["memory_mb"] = 100 * used / self._memory_bytes
        try:
            disk = shutil.disk_usage(self._folder)
        except OSError:
            return found
        return {**found, "disk_space_mb": 100 * disk.used / disk.total if disk.total else 0.0}

    def _cpu(self) -> float:
        """Of the time since it was last asked, or since the start."""
        now = (time.monotonic(), time.process_time())
        with self._lock:
            span = now[0] - self._seen[0]
            if span >= SHORTEST_SPAN_SECONDS:
                self._cpu_percent = 100 * (now[1] - self._seen[1]) / span / self._cores
                self._seen = now
            return self._cpu_percent


def resident_bytes() -> int | None:
    """The memory that this process has now; None where the system does not say."""
    try:
        pages = int(_MEMORY.read_bytes().split()[1])
    except (OSError, ValueError, IndexError):
        return None
    return pages * _PAGE_BYTES
