"""Needs in whole thousandths, so that they add up again however often they come and go."""

import functools
from dataclasses import dataclass
from typing import Self

from comfyrail.engine.resources.needs import ResourceNeeds

PLAIN_KINDS = ("cpu_cores", "memory_mb", "disk_space_mb", "network_bandwidth_mbps")
"""The kinds that are one number each, in the order of `Demand.plain`."""


def to_units(amount: float) -> int:
    """Thousandths; what is above 0 is at least one."""
    whole = int(amount)
    units = whole * 1000 + round((amount - whole) * 1000)
    return max(units, 1) if amount > 0 else 0


@dataclass(frozen=True, slots=True)
class Demand:
    """Needs in units. GPUs as in `ResourceNeeds`: whole devices, or else a share of one."""

    plain: tuple[int, ...]
    whole_gpus: int
    gpu_memory: int

    @classmethod
    @functools.lru_cache(maxsize=256)
    def of(cls, needs: ResourceNeeds) -> Self:
        plain = tuple(to_units(getattr(needs, kind)) for kind in PLAIN_KINDS)
        return cls(plain, int(needs.gpu_count), to_units(needs.gpu_memory_mb))

    @property
    def uses_gpu(self) -> bool:
        return self.whole_gpus > 0 or self.gpu_memory > 0
