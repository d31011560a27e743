"""Our words and ComfyUI's: the one table of this surface."""

from collections.abc import Mapping
from typing import Literal

from comfyrail.jobs.priority import DEFAULT_PRIORITY, HIGHEST_PRIORITY
from comfyrail.jobs.states import JobState

JobStatus = Literal["pending", "in_progress", "completed", "failed"]

STATUS_OF: Mapping[JobState, JobStatus] = {
    JobState.QUEUED: "pending",
    JobState.PROCESSING: "in_progress",
    JobState.COMPLETED: "completed",
    JobState.FAILED: "failed",
    JobState.CANCELLED: "failed",
}

STATES_OF: Mapping[str, frozenset[JobState]] = {
    status: frozenset(state for state, word in STATUS_OF.items() if word == status)
    for status in STATUS_OF.values()
}

CANCELLED = "cancelled"
"""Of newer clients: who asks for jobs of this status is told of it. To others they have failed."""

ENDED = frozenset(state for state in JobState if state.is_final)

END_OF: Mapping[JobState, str] = {
    JobState.COMPLETED: "execution_success",
    JobState.FAILED: "execution_error",
    JobState.CANCELLED: "execution_interrupted",
}
"""The message that ends a prompt."""

FRONT_PRIORITY = HIGHEST_PRIORITY
NUMBERED_PRIORITY = 8
"""Of a prompt whose number says that it goes before those that have none."""


def priority_of(number: float | None, *, is_front: bool) -> int:
    """ComfyUI runs the smallest number first; the count from which it takes numbers is ours to
    choose, and is always larger than those that clients think of.
    """
    if is_front or (number is not None and number < 0):
        return FRONT_PRIORITY
    return DEFAULT_PRIORITY if number is None else NUMBERED_PRIORITY


SOCKET_SENDER = "websocket"
"""In the names of the node types whose pictures go to the client's socket only."""
ANIMATED = "animat"
"""In the names of the node types that make moving pictures."""
