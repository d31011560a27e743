"""Expected duration of a job."""

from comfyrail.workflow.graph import Workflow

SECONDS_PER_NODE = 5.0
MINIMUM_SECONDS = 30.0
MINIMUM_REMAINING_SECONDS = 5.0


def expected_seconds(workflow: Workflow) -> float:
    """The heuristic that holds until there is history to learn from [3.2]."""
    return max(MINIMUM_SECONDS, SECONDS_PER_NODE * len(workflow.nodes))


def remaining_seconds(elapsed: float, progress: float, expected: float) -> float:
    """Seconds left of a running job: by its pace once it has shown one, else by expectation."""
    by_pace = elapsed * (1 - progress) / progress if progress >= 0.05 else expected - elapsed
    return max(MINIMUM_REMAINING_SECONDS, by_pace)
