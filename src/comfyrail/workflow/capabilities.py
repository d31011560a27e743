"""What a worker can run, and what a workflow needs: the two sides of a check against the fleet."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from comfyrail.workflow.catalog import NodeCatalog

GIBIBYTE = 1 << 30


@dataclass(frozen=True, slots=True)
class ResourceNeeds:
    """What one run of a workflow takes at its peak, in bytes, and how long it lasts."""

    video_memory: int = 0
    memory: int = 0
    disk: int = 0
    seconds: float = 0.0


@dataclass(frozen=True)
class WorkerCapabilities:
    """A worker as it last described itself. None: it did not say, and is not held against it."""

    id: str
    catalog: NodeCatalog
    is_online: bool = True
    device: str | None = None
    """What it computes on, such as "cuda:0 NVIDIA GeForce RTX 4090" or "cpu"."""
    video_memory: int | None = None
    memory: int | None = None
    disk_free: int | None = None
    models: Mapping[str, Mapping[str, int | None]] = field(default_factory=dict)
    """Size in bytes by folder and name, where the worker tells."""
    warm_models: frozenset[str] = frozenset()
    """Names of the models that its last jobs have loaded."""
