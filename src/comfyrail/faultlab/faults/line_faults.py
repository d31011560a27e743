"""The connections between server and workers break, fall silent or are slow."""

import asyncio
import random
from typing import ClassVar

from comfyrail.faultlab.faults.fault import Fault, engage, one_of, silence_seconds
from comfyrail.faultlab.faults.worker_faults import LOST
from comfyrail.faultlab.proxy import LineProxy
from comfyrail.faultlab.site import Site


class SocketDrop(Fault):
    """Every connection to a worker ends abruptly; new ones are taken."""

    name: ClassVar[str] = "socket-drop"

    async def strike(self, site: Site, chance: random.Random) -> str:
        async with engage(_any_line(site, chance)) as line:
            line.drop()
        return f"the line at port {line.port} broke"


class SocketHalfOpen(Fault):
    """Nothing gets through although every connection stands; then all of them break."""

    name: ClassVar[str] = "socket-half-open"
    explains: ClassVar[frozenset[str]] = LOST

    async def strike(self, site: Site, chance: random.Random) -> str:
        seconds = silence_seconds(site, chance)
        async with engage(_any_line(site, chance)) as line:
            line.fall_silent()
            try:
                await asyncio.sleep(seconds)
            finally:
                line.drop()
                line.speak_again()
        return f"the line at port {line.port} was silent for {seconds:.1f} s"


class SocketSlow(Fault):
    """Every piece takes its time, in both directions."""

    name: ClassVar[str] = "socket-slow"

    async def strike(self, site: Site, chance: random.Random) -> str:
        delay, seconds = chance.uniform(0.05, 0.5), chance.uniform(1, 4)
        async with engage(_any_line(site, chance)) as line:
            line.slow_down(delay)
            try:
                await asyncio.sleep(seconds)
            finally:
                line.slow_down(0.0)
        return f"the line at port {line.port} was slow by {delay:.2f} s for {seconds:.1f} s"


def _any_line(site: Site, chance: random.Random) -> LineProxy:
    return one_of([place.line for place in site.places], chance)
