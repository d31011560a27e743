"""What this machine has for nodes."""

import os
import shutil
import sys
from pathlib import Path

from comfyrail.engine.resources.cgroups import (
    SYSTEM_ROOT,
    cpu_limit_cores,
    memory_limit_bytes,
)
from comfyrail.engine.resources.needs import Capacity

MEGABYTE = 1 << 20
FALLBACK_MEMORY_BYTES = 16 << 30
NETWORK_MBPS = 1000.0
"""Nobody can ask a machine for this one: a common network card's."""


def detect_capacity(folder: Path, root: Path = SYSTEM_ROOT) -> Capacity:
    """What this process may use; disk space is what is free where `folder` is, or will be.

    There is always one core, however small a container's share of it is. GPUs are those that torch
    sees, if it was imported: it is never imported for this.
    """
    return Capacity(
        cpu_cores=usable_cores(root),
        memory_mb=usable_memory_bytes(root) / MEGABYTE,
        disk_space_mb=_free_disk_bytes(folder) / MEGABYTE,
        network_bandwidth_mbps=NETWORK_MBPS,
        gpus=_gpus_of_torch(),
    )


def usable_cores(root: Path = SYSTEM_ROOT) -> float:
    """The cores that this process may run on, or its share of them if it is limited to less."""
    cores = len(os.sched_getaffinity(0)) if sys.platform == "linux" else os.cpu_count() or 1
    return max(1.0, min(cores, cpu_limit_cores(root) or cores))


def usable_memory_bytes(root: Path = SYSTEM_ROOT) -> int:
    """The machine's memory, or what its control groups leave to this process if that is less."""
    try:
        physical = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, ValueError, OSError):
        physical = FALLBACK_MEMORY_BYTES
    limit = memory_limit_bytes(root)
    return physical if limit is None else min(physical, limit)


def _free_disk_bytes(folder: Path) -> int:
    existing = next(path for path in (folder, *folder.absolute().parents) if path.exists())
    return shutil.disk_usage(existing).free


def _gpus_of_torch() -> tuple[float, ...]:
    torch = sys.modules.get("torch")
    try:
        if torch is None or not torch.cuda.is_available():
            return ()
        return tuple(
            torch.cuda.get_device_properties(device).total_memory / MEGABYTE
            for device in range(torch.cuda.device_count())
        )
    except (AttributeError, RuntimeError):
        # Half imported by another thread, or a driver that does not work: as if there were none.
        return ()
