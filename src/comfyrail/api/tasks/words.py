"""The one table between our words and those of the task API."""

from comfyrail.jobs.states import JobState
from comfyrail.jobs.workers import WorkerStatus

SURFACE = "tasks"

STATUS_OF: dict[JobState, str] = {
    JobState.QUEUED: "pending",
    JobState.PROCESSING: "running",
    JobState.COMPLETED: "completed",
    JobState.FAILED: "failed",
    JobState.CANCELLED: "cancelled",
}

STATE_OF: dict[str, JobState] = {word: state for state, word in STATUS_OF.items()}

WORKER_STATUS_OF: dict[WorkerStatus, str] = {
    WorkerStatus.STARTING: "starting",
    WorkerStatus.IDLE: "idle",
    WorkerStatus.BUSY: "running",
    WorkerStatus.DRAINING: "draining",
    WorkerStatus.UNHEALTHY: "failed",
    WorkerStatus.FAILED: "failed",
    WorkerStatus.STOPPED: "stopped",
}
