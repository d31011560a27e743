"""The one table between our words and RunPod's."""

from typing import Any

from comfyrail.api.contract import ErrorReply
from comfyrail.errors import ComfyrailError
from comfyrail.jobs.job import Job
from comfyrail.jobs.states import JobState
from comfyrail.jobs.workers import WorkerStatus

SURFACE = "runpod"
LOW_PRIORITY = 2

TIMED_OUT = "TIMED_OUT"

STATUS_OF: dict[JobState, str] = {
    JobState.QUEUED: "IN_QUEUE",
    JobState.PROCESSING: "IN_PROGRESS",
    JobState.COMPLETED: "COMPLETED",
    JobState.FAILED: "FAILED",
    JobState.CANCELLED: "CANCELLED",
}

JOB_COUNT_OF: dict[JobState, str] = {
    JobState.QUEUED: "inQueue",
    JobState.PROCESSING: "inProgress",
    JobState.COMPLETED: "completed",
    JobState.FAILED: "failed",
}

WORKER_COUNT_OF: dict[WorkerStatus, str] = {
    WorkerStatus.STARTING: "initializing",
    WorkerStatus.IDLE: "idle",
    WorkerStatus.BUSY: "running",
    WorkerStatus.DRAINING: "throttled",
    WorkerStatus.UNHEALTHY: "unhealthy",
    WorkerStatus.FAILED: "unhealthy",
}


def status_of(job: Job) -> str:
    if job.state is JobState.FAILED and job.fault is not None and job.fault.category == "timeout":
        return TIMED_OUT
    return STATUS_OF[job.state]


def translate(body: ErrorReply, status: int, _error: ComfyrailError) -> tuple[Any, int]:
    """An error as RunPod says it, a text, with ours beside it."""
    return {"error": body.error.message, "detail": body.error}, status
