"""Which values to move to disk."""

import math
from collections.abc import Mapping, Sequence
from typing import TypeVar

from comfyrail.engine.memory.buffers import Footprint

SMALLEST_SPILL = 64 << 10
"""Bytes. What frees less is not worth a file."""

T = TypeVar("T")


def choose_victims(
    candidates: Sequence[tuple[T, Footprint]], users: Mapping[int, int], wanted: float
) -> list[T]:
    """The first candidates that together free `wanted` bytes, or all that free enough of it.

    A buffer is free when all that keep it, `users` of them, have let go. So candidates that share
    one go together, and those that share it with someone else stay.
    """
    most = _freed_by([footprint for _, footprint in candidates], users, math.inf)
    suited = [each for each in candidates if _frees_enough(each[1], most)]
    freed = _freed_by([footprint for _, footprint in suited], users, wanted)
    return [name for name, footprint in suited if _frees_enough(footprint, freed)]


def _freed_by(footprints: Sequence[Footprint], users: Mapping[int, int], wanted: float) -> set[int]:
    """The buffers that are free when these go, one after the other, until it is enough."""
    left = dict(users)
    freed: set[int] = set()
    total = 0
    for footprint in footprints:
        if total >= wanted:
            break
        for buffer, size in footprint.buffers.items():
            left[buffer] -= 1
            if left[buffer] == 0:
                freed.add(buffer)
                total += size
    return freed


def _frees_enough(footprint: Footprint, freed: set[int]) -> bool:
    """Whether the value is large enough to be worth it, counting only what becomes free."""
    size = sum(size for buffer, size in footprint.buffers.items() if buffer in freed)
    return size >= SMALLEST_SPILL
