"""Workers are killed, stopped, or stand still."""

import asyncio
import contextlib
import os
import random
import signal
from typing import ClassVar

from comfyrail.faultlab.faults.fault import (
    Fault,
    NothingToHit,
    engage,
    one_of,
    silence_seconds,
)
from comfyrail.faultlab.programs import Program, children_of
from comfyrail.faultlab.site import Layout, Site

LOST = frozenset({"WORKER_LOST"})


class WorkerKill(Fault):
    """kill -9, and started again: it knows nothing of what it had."""

    name: ClassVar[str] = "worker-kill"
    explains: ClassVar[frozenset[str]] = LOST

    async def strike(self, site: Site, chance: random.Random) -> str:
        async with engage(_any_worker(site, chance)) as worker:
            await worker.kill()
            await site.bring_up(worker)
        return f"{worker.name} was killed"


class WorkerRestart(Fault):
    """SIGTERM, and started anew: it knows nothing of what it had."""

    name: ClassVar[str] = "worker-restart"
    explains: ClassVar[frozenset[str]] = LOST

    async def strike(self, site: Site, chance: random.Random) -> str:
        async with engage(_any_worker(site, chance)) as worker:
            if not await worker.stop():
                site.note(f"{worker.name} did not end on SIGTERM and was killed")
            await site.bring_up(worker)
        return f"{worker.name} was started anew"


class WorkerPause(Fault):
    """SIGSTOP and SIGCONT: it comes back with its jobs, perhaps after others have got them."""

    name: ClassVar[str] = "worker-pause"
    explains: ClassVar[frozenset[str]] = LOST

    async def strike(self, site: Site, chance: random.Random) -> str:
        seconds = silence_seconds(site, chance)
        async with engage(_any_worker(site, chance)) as worker:
            worker.signal(signal.SIGSTOP)
            try:
                await asyncio.sleep(seconds)
            finally:
                worker.signal(signal.SIGCONT)
        return f"{worker.name} stood still for {seconds:.1f} s"


class LocalWorkerKill(Fault):
    """kill -9 of a process that the server started; the server starts another."""

    name: ClassVar[str] = "local-worker-kill"
    layout: ClassVar[Layout] = Layout(remote_workers=0, local_workers=2)
    explains: ClassVar[frozenset[str]] = LOST

    async def strike(self, site: Site, chance: random.Random) -> str:
        async with engage(site.server) as server:
            children = children_of(server.pid)
            if not children:
                raise NothingToHit
            with contextlib.suppress(ProcessLookupError):
                os.kill(chance.choice(children), signal.SIGKILL)
        return "a local worker was killed"


def _any_worker(site: Site, chance: random.Random) -> Program:
    return one_of([place.program for place in site.places], chance)
