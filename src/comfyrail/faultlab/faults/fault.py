"""What a kind of fault is."""

import asyncio
import random
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import ClassVar, Protocol, TypeVar

from comfyrail.faultlab.site import Layout, Site


class NothingToHit(Exception):
    """Everything that this kind of fault could be done to is busy with another."""


class Fault(ABC):
    """A kind of fault. A new one is a class with a name, and a line in `registry`.

    `explains` are the codes with which jobs may fail because of it.
    """

    name: ClassVar[str]
    layout: ClassVar[Layout] = Layout()
    explains: ClassVar[frozenset[str]] = frozenset()

    def obstacle(self) -> str | None:
        """Why this machine does not allow it; None where it does."""
        return None

    @abstractmethod
    async def strike(self, site: Site, chance: random.Random) -> str:
        """Do it, undo it, and say in a few words what it was.

        Returns when the site is whole again as far as it lies with us. Raises NothingToHit.
        """


class _Busy(Protocol):
    @property
    def busy(self) -> asyncio.Lock: ...


Target = TypeVar("Target", bound=_Busy)


@asynccontextmanager
async def engage(target: Target) -> AsyncIterator[Target]:
    """Have it for oneself. Raises NothingToHit where another fault has it."""
    if target.busy.locked():
        raise NothingToHit
    async with target.busy:
        yield target


def one_of(targets: Sequence[Target], chance: random.Random) -> Target:
    """Any that is not busy. Raises NothingToHit."""
    free = [target for target in targets if not target.busy.locked()]
    if not free:
        raise NothingToHit
    return chance.choice(free)


def silence_seconds(site: Site, chance: random.Random) -> float:
    """How long something says nothing: mostly shorter than the lease, often longer."""
    lease = site.lease
    shortest, longest = chance.choice(
        ((0.1, 0.5), (0.5, 0.9), (0.5, 0.9), (1.0, 1.3), (1.3, 2.0), (2.0, 5.0))
    )
    return chance.uniform(shortest * lease, longest * lease)
