"""The states of a job and the only moves between them. Triggers in SQL repeat this table."""

from enum import StrEnum

from comfyrail.errors import IllegalTransition


class JobState(StrEnum):
    QUEUED = "queued"
    PROCESSING = "processing"
    COMPLETED = "completed"
    FAILED = "failed"
    CANCELLED = "cancelled"

    @property
    def is_final(self) -> bool:
        return not TRANSITIONS[self]


class AttemptState(StrEnum):
    RUNNING = "running"
    COMPLETED = "completed"
    FAILED = "failed"
    CANCELLED = "cancelled"
    LOST = "lost"


TRANSITIONS: dict[JobState, frozenset[JobState]] = {
    JobState.QUEUED: frozenset({JobState.PROCESSING, JobState.CANCELLED, JobState.FAILED}),
    JobState.PROCESSING: frozenset(
        {JobState.COMPLETED, JobState.FAILED, JobState.CANCELLED, JobState.QUEUED}
    ),
    JobState.COMPLETED: frozenset(),
    JobState.FAILED: frozenset(),
    JobState.CANCELLED: frozenset(),
}


def check_transition(current: JobState, to: JobState) -> None:
    """Raise IllegalTransition unless a job may go from one state to the other."""
    if to not in TRANSITIONS[current]:
        raise IllegalTransition(f"A job that is {current} cannot become {to}.")
