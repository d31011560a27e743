"""What a person or a pool has said of a worker."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from comfyrail.fleet.warm_up import Prompt
from comfyrail.ids import WorkerId


@dataclass(frozen=True, slots=True)
class WorkerTraits:
    pool: str | None = None
    labels: Mapping[str, str] = field(default_factory=dict)
    """What jobs may ask for; its pool's name is one of them."""
    warm_up: Prompt | None = None
    """Run when it comes up, before it takes jobs."""
    likeness: WorkerId | None = None
    """The id under which is remembered what workers like it can run, while there are none."""


def labels_of(traits: WorkerTraits) -> Mapping[str, str]:
    """All that jobs may ask for."""
    return dict(traits.labels) if traits.pool is None else {**traits.labels, "pool": traits.pool}
