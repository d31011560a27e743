"""What one node needs while it runs [12.1], and what a machine has."""

import math
from dataclasses import dataclass, fields

Kind = str
"""A field of `ResourceNeeds`: the word for a kind of resource in errors, figures and metrics."""


@dataclass(frozen=True, slots=True)
class ResourceNeeds:
    """A need of 0 is none. Amounts are counted in thousandths.

    GPUs are asked for in one of two ways:

    - `gpu_count` of 1 or more: so many whole devices, each with at least `gpu_memory_mb` of memory
      in all. Nobody else has them in the meantime.
    - `gpu_count` 0 and `gpu_memory_mb` above 0: a share of that size of one device, which others
      may share.

    Raises ValueError for an amount that is negative or not finite.
    """

    cpu_cores: float = 1
    memory_mb: float = 512
    gpu_count: int = 0
    gpu_memory_mb: float = 0
    disk_space_mb: float = 100
    network_bandwidth_mbps: float = 10

    def __post_init__(self) -> None:
        for field in fields(self):
            check_amount(field.name, getattr(self, field.name))
        if self.gpu_count != int(self.gpu_count):
            raise ValueError(f"gpu_count must be a whole number, not {self.gpu_count!r}.")


@dataclass(frozen=True, slots=True)
class Capacity:
    """All that a pool may hand out; `gpus` has the memory of each device in MB.

    Raises ValueError for an amount that is negative or not finite.
    """

    cpu_cores: float
    memory_mb: float
    disk_space_mb: float
    network_bandwidth_mbps: float
    gpus: tuple[float, ...] = ()

    def __post_init__(self) -> None:
        for name in ("cpu_cores", "memory_mb", "disk_space_mb", "network_bandwidth_mbps"):
            check_amount(name, getattr(self, name))
        for memory in self.gpus:
            check_amount("gpus", memory)


def check_amount(name: str, amount: float) -> None:
    """Raise ValueError unless the amount is finite and not negative."""
    if not math.isfinite(amount) or amount < 0:
        raise ValueError(f"{name} must be a finite number of 0 or more, not {amount!r}.")
