"""How much of a pool is in use."""

from collections.abc import Mapping
from dataclasses import dataclass

from comfyrail.engine.resources.needs import Kind


@dataclass(frozen=True, slots=True)
class ResourceFigures:
    """By kind, in the units of `ResourceNeeds`.

    Of `gpu_count`, `used` counts the devices that are held whole; these count with all their
    memory in `gpu_memory_mb`, where shares count as well.
    """

    used: Mapping[Kind, float]
    total: Mapping[Kind, float]
    waiting: int

    def percent(self) -> dict[Kind, float]:
        """For the metric `resource_usage_percent`; 0 for a kind that is not there."""
        return {
            kind: 100 * self.used[kind] / total if total else 0.0
            for kind, total in self.total.items()
        }
