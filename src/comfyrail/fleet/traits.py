"""What a person or a pool has said of a worker."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from comfyrail.fleet.warm_up import Prompt
from comfyrail.ids import WorkerId

POOL_LABEL = "pool"
MOST_LABELS = 20
LONGEST_LABEL = 100


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
    if traits.pool is None:
        return dict(traits.labels)
    return {**traits.labels, POOL_LABEL: traits.pool}


def labels_fault(labels: Mapping[str, str]) -> str | None:
    """What is wrong with labels that someone wrote; None when nothing is."""
    if POOL_LABEL in labels:
        return f"The label '{POOL_LABEL}' is the name of a worker's pool: call it otherwise."
    if len(labels) > MOST_LABELS or any(
        not text or len(text) > LONGEST_LABEL for pair in labels.items() for text in pair
    ):
        return f"labels has {MOST_LABELS} entries of 1 to {LONGEST_LABEL} characters at most."
    return None
