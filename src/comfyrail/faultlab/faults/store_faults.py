"""The clock jumps, and a stranger holds the database."""

import asyncio
import random
import sys
from pathlib import Path
from typing import ClassVar

from comfyrail.faultlab.data_folder import DATABASE_NAME
from comfyrail.faultlab.faults.fault import Fault, engage
from comfyrail.faultlab.site import Layout, Site

HOUR = 3600.0


class ClockJump(Fault):
    """Somebody sets the clock of the server's machine, forwards or back; it stays so."""

    name: ClassVar[str] = "clock-jump"
    layout: ClassVar[Layout] = Layout(shifted_clock=True)
    explains: ClassVar[frozenset[str]] = frozenset({"WORKER_LOST"})

    async def strike(self, site: Site, chance: random.Random) -> str:
        largest = chance.choice((5.0, 60.0, HOUR, 2 * HOUR))
        seconds = chance.choice((-1, 1)) * chance.uniform(1.0, largest)
        async with engage(site.server):
            site.clock.jump(seconds)
        return f"the clock jumped by {seconds:+.0f} s"


class DatabaseLocked(Fault):
    """Another program begins a write in the database and takes its time."""

    name: ClassVar[str] = "database-locked"

    async def strike(self, site: Site, chance: random.Random) -> str:
        longest = chance.choice((1.0, 4.0, 12.0))
        seconds = chance.uniform(0.2, min(longest, 4 * site.lease))
        async with engage(site.disk) as disk:
            await _hold_write_lock(disk.data / DATABASE_NAME, seconds)
        return f"the database was locked for {seconds:.1f} s"


async def _hold_write_lock(database: Path, seconds: float) -> None:
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "comfyrail.faultlab.write_lock", str(database), f"{seconds:.3f}")
    )
    try:
        await process.wait()
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
