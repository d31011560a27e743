"""A graph of 60 nodes with 32 MiB each, run in a process of its own that tells how much it took.

Thirty sources are made, then thirty nodes add two of them each, in another order, and all sums are
read at the end. With `--plain` the values are held without a limit.
"""

import json
import resource
import sys
import time
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from comfyrail.engine.held_values import HeldValues, ValuesInMemory
from comfyrail.engine.memory.budget import MemoryBudget
from comfyrail.engine.memory.spill_area import SpillArea
from comfyrail.engine.memory.value_store import ValueStore

SOURCES = 30
ARRAY_BYTES = 32 << 20
LIMIT_BYTES = 256 << 20


def source(number: int) -> NDArray[np.float32]:
    return np.full(ARRAY_BYTES // 4, number, np.float32)


def run(values: HeldValues, store: ValueStore | None) -> list[float]:
    """The sums that the second half of the nodes gives."""
    for number in range(SOURCES):
        values.put(str(number), ((source(number),),), 2)
    sums = []
    for number in range(SOURCES):
        pair = [str(SOURCES - 1 - number), str((7 * number + 3) % SOURCES)]
        for name in pair:
            if store is not None:
                store.pin(name)
        added = values.get(pair[0])[0][0] + values.get(pair[1])[0][0]
        values.put(f"sum {number}", ((added,),), 1)
        del added
        for name in pair:
            values.done(name)
            if store is not None:
                store.unpin(name)
    for number in range(SOURCES):
        (total,), *_ = values.get(f"sum {number}")
        sums.append(float(total[0] + total[-1]) / 2)
        values.done(f"sum {number}")
    return sums


def memory_of(field: str) -> int:
    """Bytes, as the system counts them for this program alone."""
    status = Path("/proc/self/status").read_text(encoding="ascii")
    line = next(line for line in status.splitlines() if line.startswith(f"{field}:"))
    return int(line.split()[1]) * 1024


def main(root: str, *options: str) -> None:
    budget = MemoryBudget(LIMIT_BYTES)
    store = None if "--plain" in options else ValueStore(budget, SpillArea(Path(root)))
    values: HeldValues = store or ValuesInMemory()
    before = memory_of("VmRSS")
    began = time.perf_counter()
    sums = run(values, store)
    seconds = time.perf_counter() - began
    values.close()
    report = {
        "sums": sums,
        "seconds": round(seconds, 2),
        "taken_mb": (memory_of("VmHWM") - before) >> 20,
        "before_mb": before >> 20,
        "maxrss_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10,
        "counted_peak_mb": budget.figures().peak_bytes >> 20,
        "files_left": len(list(Path(root).glob("*/*"))),
    }
    print(json.dumps(report))


if __name__ == "__main__":
    main(*sys.argv[1:])
