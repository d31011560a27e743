"""Stores a batch and stands still half-way, until it is killed: `dying_process FOLDER STAGE`."""

import asyncio
import sys
import threading
from pathlib import Path
from typing import Any

from comfyrail.jobs.batches import Grid
from comfyrail.store.sqlite import batch_operations
from tests.batches.parts import CHUNK, open_parts


def stand_still(*_: Any) -> None:
    """In the thread that writes: what came before is on disk, nothing comes after."""
    print("here", flush=True)
    threading.Event().wait()


async def main(folder: Path, stage: str, count: int) -> None:
    batch_operations.STORED_AT_ONCE = CHUNK
    if stage == "filling":
        batch_operations._open = stand_still  # type: ignore[assignment] # the moment to die at
    else:
        batch_operations._finish_opening = stand_still  # type: ignore[assignment] # as above
    async with open_parts(folder) as parts:
        await parts.submit(Grid({"1.color": list(range(count))}), name="half")


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1]), sys.argv[2], int(sys.argv[3])))
