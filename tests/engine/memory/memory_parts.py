"""What the tests of memory share."""

from collections import OrderedDict
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from comfyrail.clock import Instant
from comfyrail.engine.memory.budget import Holding, MemoryBudget
from comfyrail.engine.memory.spill_area import FOLDER_PREFIX
from comfyrail.engine.memory.spill_codec import Slots

KIBIBYTE = 1 << 10
MEBIBYTE = 1 << 20


class StillClock:
    """Time that passes only when a test says so."""

    def __init__(self) -> None:
        self.seconds = 0.0

    def now(self) -> Instant:
        return Instant(0)

    def monotonic(self) -> float:
        return self.seconds


def array_of(size: int, fill: int = 1) -> NDArray[np.uint8]:
    return np.full(size, fill, np.uint8)


def slots_of(*values: Any) -> Slots:
    """One output for each value."""
    return tuple((value,) for value in values)


def spill_files(root: Path) -> list[Path]:
    return [path for path in root.glob(f"{FOLDER_PREFIX}*/*") if path.name != "lock"]


class LeastRecentlyUsed:
    """A cache as the budget expects one."""

    def __init__(self, budget: MemoryBudget) -> None:
        self._budget = budget
        self.entries: OrderedDict[str, tuple[Any, Holding, int]] = OrderedDict()
        budget.register_cache(self.free)

    def put(self, key: str, value: Any) -> None:
        holding = self._budget.hold(value)
        self.entries[key] = (value, holding, holding.footprint.size)
        self._budget.relieve()

    def free(self, wanted: int) -> None:
        while self.entries and wanted > 0:
            _, (_, holding, size) = self.entries.popitem(last=False)
            self._budget.let_go(holding)
            wanted -= size
