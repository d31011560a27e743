"""How v2 says what we say: states of jobs, and what each of a job's fields is called there."""

from collections.abc import Mapping
from typing import Literal

from comfyrail.jobs.states import JobState

Status = Literal["queued", "processing", "completed", "failed", "cancelled"]

STATUS_OF: Mapping[JobState, Status] = {
    JobState.QUEUED: "queued",
    JobState.PROCESSING: "processing",
    JobState.COMPLETED: "completed",
    JobState.FAILED: "failed",
    JobState.CANCELLED: "cancelled",
}

V2_OF_V1: Mapping[str, str] = {
    "execution_id": "id",
    "status": "status",
    "reason": "reason",
    "submitted_at": "timing.submitted_at",
    "not_before": "timing.not_before",
    "expires_at": "timing.expires_at",
    "started_at": "timing.started_at",
    "completed_at": "timing.completed_at",
    "retry_at": "timing.retry_at",
    "timeout": "timing.timeout",
    "estimated_duration": "timing.estimated_duration",
    "estimated_remaining": "timing.estimated_remaining",
    "queue_position": "queue.position",
    "predicted_wait": "queue.predicted_wait",
    "waiting_for": "queue.waiting_for",
    "priority": "queue.priority",
    "effective_priority": "queue.effective_priority",
    "queue_class": "queue.queue_class",
    "progress": "progress.fraction",
    "current_node": "progress.current_node",
    "completed_nodes": "progress.completed_nodes",
    "total_nodes": "progress.total_nodes",
    "attempts": "retries.attempts",
    "retries": "retries.used",
    "max_retries": "retries.max",
    "attempt_history": "attempts",
    "worker_id": "worker_id",
    "cancel_requested": "cancel_requested",
    "estimated_cost": "cost.estimated",
    "cost": "cost.actual",
    "result": "result",
    "error": "error",
    "last_event": "last_event",
    "batch_id": "origin.batch_id",
    "batch_index": "origin.batch_index",
    "surface": "origin.surface",
    "retry_of": "origin.retry_of",
    "workflow_id": "origin.workflow_id",
    "title": "title",
    "preview": "progress.preview",
    "cover": "cover",
    "outputs": "outputs",
    "webhook_delivered": "webhook_delivered",
}
"""Where a field of v1's execution is in v2. `webhook_delivered` comes with webhooks."""
