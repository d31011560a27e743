"""Our words and those of the Comfy API v2, in one place."""

from collections.abc import Mapping
from typing import Literal

from comfyrail.jobs.job import Job, NewOutput
from comfyrail.jobs.states import JobState

Status = Literal["queued", "running", "succeeded", "canceling", "canceled", "failed", "expired"]
OutputType = Literal["image", "video", "audio", "text", "file", "latent"]

SURFACE = "comfy_v2"

STATUSES: Mapping[JobState, Status] = {
    JobState.QUEUED: "queued",
    JobState.PROCESSING: "running",
    JobState.COMPLETED: "succeeded",
    JobState.FAILED: "failed",
    JobState.CANCELLED: "canceled",
}
ENDS: frozenset[Status | None] = frozenset({"succeeded", "failed", "canceled", "expired"})

EXPIRED = "QUEUE_TIMEOUT"
"""A job that failed because no worker took it in time is expired there."""

OUTPUT_TYPES: Mapping[str, OutputType] = {"latents": "latent", "text": "text", "value": "text"}
"""By what the node calls it, before its content type is looked at."""
CONTENT_TYPES: Mapping[str, OutputType] = {
    "image": "image",
    "video": "video",
    "audio": "audio",
    "text": "text",
}
"""By the first half of a content type."""

JOB_ERRORS: Mapping[str, str] = {"NODE_FAILED": "node_execution_error"}
"""Why a job failed; other codes are ours in small letters."""

ERRORS: Mapping[str, tuple[str, int]] = {
    "ASSET_IN_USE": ("asset_in_use", 409),
    "BLOB_NOT_FOUND": ("blob_not_found", 404),
    "CONTENT_TYPE_MISMATCH": ("invalid_content", 422),
    "CONTENT_TYPE_REFUSED": ("invalid_content", 422),
    "HASH_MISMATCH": ("hash_mismatch", 409),
    "INVALID_CURSOR": ("invalid_cursor", 422),
    "INVALID_METADATA": ("metadata_invalid", 422),
    "INVALID_METADATA_FILTER": ("invalid_metadata_filter", 422),
    "IDEMPOTENCY_KEY_IN_USE": ("idempotency_key_reuse", 422),
    "IDEMPOTENCY_KEY_REUSED": ("idempotency_key_reuse", 422),
    "MISSING_ASSET": ("missing_asset", 422),
    "QUOTA_EXCEEDED": ("insufficient_credits", 402),
    "TOO_MANY_STREAMS": ("too_many_streams", 429),
    "WORKFLOW_FORMAT_UI": ("workflow_format_ui", 422),
}
"""Our code → the code and the status there."""

STATUS_ERRORS: Mapping[int, tuple[str, int]] = {
    400: ("invalid_request", 422),
    401: ("unauthorized", 401),
    403: ("forbidden", 403),
    404: ("not_found", 404),
    405: ("method_not_allowed", 405),
    409: ("conflict", 409),
    413: ("payload_too_large", 413),
    415: ("unsupported_media_type", 415),
    416: ("range_not_satisfiable", 416),
    422: ("invalid_request", 422),
    429: ("rate_limited", 429),
}
"""For all other codes, by our status; what is not here is `upstream_error`."""

INVALID_WORKFLOW = "invalid_workflow"
UPSTREAM_ERROR = "upstream_error"
QUEUE_FULL = "queue_full"
"""The SDKs submit again after a while where they are told this."""


def status_of(job: Job) -> Status:
    if job.state is JobState.PROCESSING and job.cancel_requested:
        return "canceling"
    if job.fault is not None and job.state is JobState.FAILED and job.fault.code == EXPIRED:
        return "expired"
    return STATUSES[job.state]


def output_type_of(file: NewOutput) -> OutputType:
    by_kind = OUTPUT_TYPES.get(file.kind)
    return by_kind or CONTENT_TYPES.get(file.content_type.partition("/")[0], "file")


def job_error_code(code: str) -> str:
    return JOB_ERRORS.get(code, code.lower())
