"""The job's event log: types and shape. Reference: docs/reference/events.md."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from comfyrail.clock import Instant
from comfyrail.ids import BatchId, JobId
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
    MODEL_LOADING = "execution.model_loading"
    WORKER_ADDED = "worker.added"
    WORKER_ONLINE = "worker.online"
    WORKER_OFFLINE = "worker.offline"
    WORKER_REMOVED = "worker.removed"
    QUEUE_PAUSED = "system.queue_paused"
    QUEUE_RESUMED = "system.queue_resumed"
    STORAGE_TROUBLE = "system.storage_trouble"
    STORAGE_RECOVERED = "system.storage_recovered"
    SERVER_STARTED = "system.server_started"
    WEBHOOK_DISABLED = "system.webhook_disabled"

    @property
    def is_of_a_job(self) -> bool:
        return self.startswith("execution.")

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
class FeedEntry:
    """An event among all of a tenant's, in the order in which they were written. `job_id` and
    `number` are None for those of workers and of the server.
    """

    sequence: int
    job_id: JobId | None
    number: int | None
    type: EventType
    at: Instant
    data: Mapping[str, Any]
    workflow_id: str | None = None
    batch_id: BatchId | None = None
    surface: str | None = None


@dataclass(frozen=True, slots=True)
class Event:
    """Events of a job are numbered 1, 2, 3 … without gaps."""

    job_id: JobId
    number: int
    type: EventType
    at: Instant
    data: Mapping[str, Any]
