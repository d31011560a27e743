"""The server's disk stands still, is full, or refuses every write."""

import asyncio
import random
import resource
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import ClassVar

from comfyrail.faultlab.disks import LoopDisk, loop_disk_obstacle
from comfyrail.faultlab.faults.fault import Fault, NothingToHit, engage
from comfyrail.faultlab.site import Layout, Site


class _OnOwnDisk(Fault):
    layout: ClassVar[Layout] = Layout(remote_workers=2, own_disk=True)

    def obstacle(self) -> str | None:
        return loop_disk_obstacle()


class DiskSlow(_OnOwnDisk):
    """No write comes back for a while, and then all of them do."""

    name: ClassVar[str] = "disk-slow"

    async def strike(self, site: Site, chance: random.Random) -> str:
        seconds = chance.uniform(0.2, 3.0)
        async with engage(_own_disk(site)) as disk:
            await disk.freeze(seconds)
        return f"the disk stood still for {seconds:.1f} s"


class DiskFull(Fault):
    """No space is left for a while.

    Where nothing can be mounted, the server's process may not make its files longer instead.
    """

    name: ClassVar[str] = "disk-full"
    layout: ClassVar[Layout] = Layout(remote_workers=2, own_disk=True)
    explains: ClassVar[frozenset[str]] = frozenset({"WORKER_DISK_FULL"})
    """Of local workers: they write to the same disk."""

    async def strike(self, site: Site, chance: random.Random) -> str:
        seconds = chance.uniform(1.0, 4.0)
        async with engage(site.disk) as disk:
            if isinstance(disk, LoopDisk):
                try:
                    await disk.fill()
                    await asyncio.sleep(seconds)
                finally:
                    await disk.make_room()
            else:
                async with engage(site.server) as server:
                    with files_limited(server.pid):
                        await asyncio.sleep(seconds)
        return f"the disk was full for {seconds:.1f} s"


class DiskReadOnly(_OnOwnDisk):
    """The kernel makes the disk read-only; the server is killed, the disk repaired, all goes on."""

    name: ClassVar[str] = "disk-read-only"

    async def strike(self, site: Site, chance: random.Random) -> str:
        seconds = chance.uniform(1.0, 4.0)
        async with engage(_own_disk(site)) as disk, engage(site.server) as server:
            await disk.turn_read_only()
            try:
                await asyncio.sleep(seconds)
            finally:
                await server.kill()
                await disk.repair()
            await site.bring_up(server)
        return f"the disk was read-only for {seconds:.1f} s and repaired"


def _own_disk(site: Site) -> LoopDisk:
    if not isinstance(site.disk, LoopDisk):
        raise NothingToHit
    return site.disk


@contextmanager
def files_limited(pid: int) -> Iterator[None]:
    """A quota of nothing: no file of the process grows."""
    unlimited = resource.prlimit(pid, resource.RLIMIT_FSIZE)
    resource.prlimit(pid, resource.RLIMIT_FSIZE, (0, unlimited[1]))
    try:
        yield
    finally:
        with suppress(ProcessLookupError):
            resource.prlimit(pid, resource.RLIMIT_FSIZE, unlimited)
