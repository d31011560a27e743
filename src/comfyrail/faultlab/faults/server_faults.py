"""The server is killed, stopped, or stands still."""

import asyncio
import random
import signal
from typing import ClassVar

from comfyrail.faultlab.faults.fault import Fault, engage, silence_seconds
from comfyrail.faultlab.site import Layout, Site

WITH_LOCAL_WORKERS = Layout(remote_workers=2, local_workers=1)


class ServerKill(Fault):
    """kill -9, and started again at once on the same port and data."""

    name: ClassVar[str] = "server-kill"
    layout: ClassVar[Layout] = WITH_LOCAL_WORKERS

    async def strike(self, site: Site, chance: random.Random) -> str:
        del chance
        async with engage(site.server) as server:
            await server.kill()
            await site.bring_up(server)
        return "the server was killed"


class ServerStop(Fault):
    """SIGTERM, as for an update, and started again."""

    name: ClassVar[str] = "server-stop"
    layout: ClassVar[Layout] = WITH_LOCAL_WORKERS

    async def strike(self, site: Site, chance: random.Random) -> str:
        del chance
        async with engage(site.server) as server:
            if not await server.stop():
                site.note("the server did not end on SIGTERM and was killed")
            await site.bring_up(server)
        return "the server was stopped"


class ServerPause(Fault):
    """SIGSTOP, and SIGCONT some time later: to all others it was away, to itself it was not."""

    name: ClassVar[str] = "server-pause"

    async def strike(self, site: Site, chance: random.Random) -> str:
        seconds = silence_seconds(site, chance)
        async with engage(site.server) as server:
            server.signal(signal.SIGSTOP)
            try:
                await asyncio.sleep(seconds)
            finally:
                server.signal(signal.SIGCONT)
        return f"the server stood still for {seconds:.1f} s"
