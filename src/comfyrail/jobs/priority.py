"""Priority and the rank that orders the queue."""

from comfyrail.clock import Instant

LOWEST_PRIORITY = 1
HIGHEST_PRIORITY = 10
DEFAULT_PRIORITY = 5

# (lowest and highest priority of the class, wait target in seconds, target of the class above)
_CLASSES = ((8, 10, 30.0, 0.0), (4, 7, 120.0, 30.0), (1, 3, 600.0, 120.0))


def wait_target_seconds(priority: int) -> float:
    """How long a job of this priority may wait: spread inside its class, 10 the shortest."""
    for lowest, highest, target, above in _CLASSES:
        if lowest <= priority <= highest:
            return above + (target - above) * (highest - priority + 1) / (highest - lowest + 1)
    raise ValueError(f"priority {priority} is not in 1 to 10")


def queue_rank(submitted_at: Instant, priority: int) -> int:
    """The deadline by which the job should start, in milliseconds: the smallest goes first.

    Waiting is ageing: a job's rank never changes, while newer jobs get later ones.
    """
    return submitted_at + round(wait_target_seconds(priority) * 1000)
