"""The job's event log: types and shape. Reference: docs/reference/events.md."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from comfyrail.clock import Instant
from comfyrail.ids import JobId
from comfyrail.jobs.states import JobState


class EventType(StrEnum):
    QUEUED = "execution.queued"
    STARTED = "execution.started"
    PROGRESS = "execution.progress"
    NODE_STARTED = "execution.node_started"
    NODE_COMPLETED = "execution.node_completed"
    OUTPUT_READY = "execution.output_ready"
    WARNING = "execution.warning"
    COMPLETED = "execution.completed"
    FAILED = "execution.failed"
    CANCELLED = "execution.cancelled"

    @property
    def is_final(self) -> bool:
        return self in FINAL_EVENTS


FINAL_EVENTS = frozenset({EventType.COMPLETED, EventType.FAILED, EventType.CANCELLED})

EVENT_OF_STATE: dict[JobState, EventType] = {
    JobState.QUEUED: EventType.QUEUED,
    JobState.PROCESSING: EventType.STARTED,
    JobState.COMPLETED: EventType.COMPLETED,
    JobState.FAILED: EventType.FAILED,
    JobState.CANCELLED: EventType.CANCELLED,
}
"""The event that is written in the transaction in which a job enters a state."""


@dataclass(frozen=True, slots=True)
class NewEvent:
    type: EventType
    data: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Event:
    """Events of a job are numbered 1, 2, 3 … without gaps."""

    job_id: JobId
    number: int
    type: EventType
    at: Instant
    data: Mapping[str, Any]
