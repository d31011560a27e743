"""The bodies of the Comfy API v2. What is under `comfyrail` is ours and not part of it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Literal

import msgspec
from starlette.requests import Request

from comfyrail.api.check_contract import WorkflowText
from comfyrail.api.comfy_v2.labels import labels_of
from comfyrail.api.comfy_v2.words import (
    OutputType,
    Status,
    job_error_code,
    output_type_of,
    status_of,
)
from comfyrail.api.contract import dollars, moment, rounded, time_of
from comfyrail.jobs.faults import Fault
from comfyrail.jobs.job import Job, Output
from comfyrail.jobs.output_config import OutputConfig
from comfyrail.jobs.states import JobState
from comfyrail.jobs.webhooks import JobWebhook
from comfyrail.store.assets import Asset
from comfyrail.usecases.jobs import JobStatus

ASSETS = "/api/v2/assets"
ASSET = "/api/v2/assets/{asset_id}"
CONTENT = ASSET + "/content"
FROM_HASH = "/api/v2/assets/from-hash"
BY_HASH = "/api/v2/assets/by-hash/{content_hash}"
JOBS = "/api/v2/jobs"
JOB = "/api/v2/jobs/{job_id}"
CANCEL = JOB + "/cancel"
EVENTS = JOB + "/events"
WORKFLOW = JOB + "/workflow"

NEVER = datetime(9999, 12, 31, 23, 59, 59, tzinfo=UTC)
"""Where the contract wants a time and there is none: nothing is removed by itself."""

HASH_PREFIX = "blake3:"


class ComfyExtraData(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    api_key_comfy_org: str | None = None
    """For partner nodes. It goes to the worker with the graph and is kept nowhere."""


class ComfyWishes(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """What a job can be given besides, as in POST /v1/workflows/execute."""

    priority: int = 5
    queue_class: Literal["batch"] | None = None
    timeout: float = 1800.0
    queue_timeout: float | None = None
    max_retries: int | None = None
    not_before: datetime | None = None
    labels: dict[str, str] = {}
    execution_config: dict[str, Any] = {}
    output_config: OutputConfig | None = None
    webhook_config: JobWebhook | None = None


class ComfyJobRequest(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    workflow: WorkflowText
    """The graph in API format."""
    extra_data: ComfyExtraData = msgspec.field(default_factory=ComfyExtraData)
    metadata: dict[str, str] = {}
    """Labels that the job is found by."""
    comfyrail: ComfyWishes = msgspec.field(default_factory=ComfyWishes)
    webhook_url: Any = msgspec.UNSET
    """Reserved: refused."""
    inputs: Any = msgspec.UNSET
    """Reserved: refused."""


class ComfyProgress(msgspec.Struct, kw_only=True):
    value: float
    nodes_done: int
    nodes_total: int
    current_node: str | None = None
    current_node_class: str | None = None
    step: int | None = None
    steps: int | None = None
    message: str | None = None


class ComfyOutput(msgspec.Struct, kw_only=True):
    node_id: str
    name: str
    type: OutputType
    content_type: str
    size_bytes: int
    id: str
    hash: str | None
    url: str
    url_expires_at: datetime
    job_id: str


class ComfyJobError(msgspec.Struct, kw_only=True):
    code: str
    message: str
    node_id: str | None
    class_type: str | None
    traceback: str | None


class ComfyJobUrls(msgspec.Struct, kw_only=True):
    self: str
    events: str
    cancel: str


class ComfyJobAdditions(msgspec.Struct, kw_only=True):
    priority: int
    queue_class: str
    worker_id: str | None
    attempts: int
    retries: int
    predicted_wait: float | None
    waiting_for: str | None
    estimated_remaining: float | None
    estimated_cost: float | None
    cost: float | None
    last_event: int


class ComfyJob(msgspec.Struct, kw_only=True):
    id: str
    status: Status
    created_at: datetime
    started_at: datetime | None
    completed_at: datetime | None
    expires_at: datetime
    queue_position: int | None
    progress: ComfyProgress | None
    outputs: list[ComfyOutput]
    error: ComfyJobError | None
    metrics: dict[str, int | None]
    urls: ComfyJobUrls
    metadata: dict[str, str]
    comfyrail: ComfyJobAdditions


class ComfyJobSummary(msgspec.Struct, kw_only=True):
    id: str
    status: Status
    create_time: datetime
    update_time: datetime
    metadata: dict[str, str]


class ComfyJobList(msgspec.Struct, kw_only=True):
    jobs: list[ComfyJobSummary]
    next_cursor: str | None


class ComfyJobWorkflow(msgspec.Struct, kw_only=True):
    workflow: WorkflowText
    format: Literal["api"] = "api"


class ComfyFromHash(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    hash: str
    file_path: str | None = None
    tags: list[str] = []
    """Taken and not heeded: files have no categories here."""
    expires_in: int | None = None


class ComfyAsset(msgspec.Struct, kw_only=True):
    id: str
    hash: str | None
    size_bytes: int
    content_type: str
    file_path: str | None
    created_at: datetime
    url: str
    url_expires_at: datetime
    expires_at: datetime | None
    job_id: str | None
    created_new: bool | msgspec.UnsetType = msgspec.UNSET
    """Of a new one: whether its bytes were not known before."""


class ComfyStatusEvent(msgspec.Struct, kw_only=True):
    status: Status
    queue_position: int | None = None
    outputs: list[ComfyOutput] | msgspec.UnsetType = msgspec.UNSET
    """All of them, at the end."""


class ComfyPreviewEvent(msgspec.Struct, kw_only=True):
    node_id: str
    content_type: str
    data_base64: str


class ComfyLogEvent(msgspec.Struct, kw_only=True):
    level: str
    message: str


@dataclass(frozen=True, slots=True)
class Links:
    """Addresses as this caller reaches the server. `prefix`: where a proxy has mounted it."""

    origin: str
    prefix: str

    @classmethod
    def of(cls, request: Request) -> "Links":
        url = request.base_url
        prefix: str = request.scope.get("root_path", "").rstrip("/")
        return cls(f"{url.scheme}://{url.netloc}", prefix)

    def content(self, asset_id: str) -> str:
        return f"{self.origin}{self.prefix}{CONTENT.format(asset_id=asset_id)}"

    def to_job(self, path: str, job_id: str) -> str:
        return self.prefix + path.format(job_id=job_id)


def job_body(status: JobStatus, progress: ComfyProgress | None, links: Links) -> ComfyJob:
    job = status.job
    return ComfyJob(
        id=job.id,
        status=status_of(job),
        created_at=moment(job.submitted_at),
        started_at=time_of(job.started_at),
        completed_at=time_of(job.completed_at),
        expires_at=NEVER,
        queue_position=status.queue_position,
        progress=progress,
        outputs=output_bodies(status.outputs, links),
        error=_error_body(job.fault) if job.fault else None,
        metrics=_metrics(job),
        urls=ComfyJobUrls(
            self=links.to_job(JOB, job.id),
            events=links.to_job(EVENTS, job.id),
            cancel=links.to_job(CANCEL, job.id),
        ),
        metadata=labels_of(job),
        comfyrail=ComfyJobAdditions(
            priority=job.priority,
            queue_class=job.queue_class,
            worker_id=job.worker_id,
            attempts=job.attempts,
            retries=job.retries,
            predicted_wait=rounded(status.predicted_wait),
            waiting_for=status.waiting_for,
            estimated_remaining=rounded(status.remaining_seconds),
            estimated_cost=dollars(job.estimated_cost),
            cost=dollars(job.cost),
            last_event=job.last_event,
        ),
    )


def summary_body(job: Job) -> ComfyJobSummary:
    return ComfyJobSummary(
        id=job.id,
        status=status_of(job),
        create_time=moment(job.submitted_at),
        update_time=moment(job.completed_at or job.started_at or job.submitted_at),
        metadata=labels_of(job),
    )


def output_bodies(outputs: Sequence[Output], links: Links) -> list[ComfyOutput]:
    return [output_body(output, links) for output in outputs]


def output_body(output: Output, links: Links) -> ComfyOutput:
    file = output.file
    return ComfyOutput(
        node_id=file.node_id,
        name=file.filename,
        type=output_type_of(file),
        content_type=file.content_type,
        size_bytes=file.size,
        id=file.id,
        hash=hash_of(file.blake3),
        url=links.content(file.id),
        url_expires_at=NEVER,
        job_id=output.job_id,
    )


def asset_body(asset: Asset, links: Links) -> ComfyAsset:
    return ComfyAsset(
        id=asset.id,
        hash=hash_of(asset.blake3),
        size_bytes=asset.size,
        content_type=asset.content_type,
        file_path=asset.name,
        created_at=moment(asset.created_at),
        url=links.content(asset.id),
        url_expires_at=time_of(asset.expires_at) or NEVER,
        expires_at=time_of(asset.expires_at),
        job_id=None,
    )


def asset_of_output(output: Output, links: Links) -> ComfyAsset:
    file = output.file
    return ComfyAsset(
        id=file.id,
        hash=hash_of(file.blake3),
        size_bytes=file.size,
        content_type=file.content_type,
        file_path=file.filename,
        created_at=moment(output.created_at),
        url=links.content(file.id),
        url_expires_at=NEVER,
        expires_at=None,
        job_id=output.job_id,
    )


def hash_of(blake3: str | None) -> str | None:
    return None if blake3 is None else HASH_PREFIX + blake3


def progress_body(job: Job) -> ComfyProgress | None:
    """As the job itself tells it: without the steps of its node."""
    if job.state is JobState.QUEUED:
        return None
    progress = job.progress
    return ComfyProgress(
        value=round(progress.fraction, 4),
        nodes_done=progress.completed_nodes,
        nodes_total=progress.total_nodes,
        current_node=progress.current_node,
    )


def progress_of_event(data: Mapping[str, Any]) -> ComfyProgress:
    """From an `execution.progress` event."""
    node = data.get("current_node")
    class_type = data.get("current_node_type")
    value, maximum = data.get("node_steps", {}).get(node, (None, None))
    has_steps = value is not None and float(value).is_integer() and float(maximum).is_integer()
    step, steps = (int(value), int(maximum)) if has_steps else (None, None)
    message = f"{class_type} {step}/{steps}" if has_steps else class_type
    return ComfyProgress(
        value=data["progress"],
        nodes_done=data["completed_nodes"],
        nodes_total=data["total_nodes"],
        current_node=node,
        current_node_class=class_type,
        step=step,
        steps=steps,
        message=message,
    )


def _error_body(fault: Fault) -> ComfyJobError:
    details = fault.details
    return ComfyJobError(
        code=job_error_code(fault.code),
        message=fault.message,
        node_id=_text(details.get("node_id")),
        class_type=_text(details.get("node_type")),
        traceback=None,
    )


def _metrics(job: Job) -> dict[str, int | None]:
    started, ended = job.started_at, job.completed_at
    return {
        "queue_ms": None if started is None else max(0, started - job.submitted_at),
        "execution_ms": None if started is None or ended is None else max(0, ended - started),
    }


def _text(value: object) -> str | None:
    return value if isinstance(value, str) else None
