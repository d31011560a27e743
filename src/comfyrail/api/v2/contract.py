"""The bodies of API v2."""

from datetime import datetime
from typing import Annotated, Any, Literal

import msgspec

from comfyrail.api.check_contract import FixBody, ParameterText, WorkflowText, fix_bodies
from comfyrail.api.contract import (
    CallbackUrl,
    CoverBody,
    ExecutionError,
    Labels,
    MaxRetries,
    Priority,
    QueueTimeout,
    Timeout,
    attempt_body,
    cover_body,
    dollars,
    execution_error,
    moment,
    rounded,
    time_of,
)
from comfyrail.api.contract import output_body as v1_output_body
from comfyrail.api.v2.words import STATUS_OF, Status
from comfyrail.ids import JobId
from comfyrail.jobs.job import AttemptRecord, Job, Output
from comfyrail.jobs.outcome import RETRYING
from comfyrail.jobs.output_config import OutputConfig
from comfyrail.jobs.webhooks import JobWebhook
from comfyrail.store.media import KnownMedia, MediaFacts, media_file
from comfyrail.usecases.jobs import Cover, JobStatus
from comfyrail.usecases.resubmit import retry_of
from comfyrail.usecases.submit import Accepted

EXECUTE = "/v2/workflows/execute"
RUNSYNC = "/v2/workflows/runsync"
EXECUTIONS = "/v2/workflows/executions"
EXECUTION = EXECUTIONS + "/{execution_id}"


class V2ExecutionConfig(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """How to run it. `engine` has the options of Comfyrail's own engine."""

    priority: Priority = 5
    timeout: Timeout = 1800.0
    queue_timeout: QueueTimeout | None = None
    max_retries: MaxRetries | None = None
    not_before: datetime | None = None
    labels: Labels = {}
    queue_class: Literal["batch"] | None = None
    auto_fix: bool = False
    optimize: bool = False
    engine: dict[str, Any] = {}


class V2ExecuteRequest(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """A workflow, or the `workflow_id` of one in the library, and how to run it."""

    workflow: WorkflowText = msgspec.field(default_factory=msgspec.Raw)
    workflow_id: str | None = None
    input_params: ParameterText = msgspec.field(default_factory=msgspec.Raw)
    execution_config: V2ExecutionConfig = msgspec.field(default_factory=V2ExecutionConfig)
    callback_url: CallbackUrl | None = None
    """It is told of the end of the job."""
    webhook_config: JobWebhook | None = None
    """The same with choices, in place of `callback_url`."""
    output_config: OutputConfig | None = None
    """What is done with its outputs."""


class V2Links(msgspec.Struct, kw_only=True):
    """Paths of what can be done with it."""

    self_: str = msgspec.field(name="self")
    events: str
    outputs: str
    nodes: str
    logs: str
    workflow: str
    cancel: str
    retry: str


class V2Timing(msgspec.Struct, kw_only=True):
    """Times, and durations in seconds. `retry_at` while it waits to be tried again."""

    submitted_at: datetime
    not_before: datetime | None
    expires_at: datetime | None
    started_at: datetime | None
    completed_at: datetime | None
    retry_at: datetime | None
    timeout: float
    estimated_duration: float
    estimated_remaining: float | None


class V2Queue(msgspec.Struct, kw_only=True):
    """`position`, `predicted_wait` and `waiting_for` only while it is queued, not in lists."""

    position: int | None
    predicted_wait: float | None
    waiting_for: str | None
    priority: int
    effective_priority: float
    queue_class: str


class V2Progress(msgspec.Struct, kw_only=True):
    """`preview`: how many previews its attempt has brought so far; null in lists."""

    fraction: float
    current_node: str | None
    completed_nodes: int
    total_nodes: int
    preview: int | None


class V2Retries(msgspec.Struct, kw_only=True):
    """`attempts`: how often it was started; `used` of `max` retries."""

    attempts: int
    used: int
    max: int


class V2Attempt(msgspec.Struct, kw_only=True):
    """One try. `cause`: why it was lost; `error`: how it failed; `recovery`: how it was tried again
    after it, `retry_delay` seconds later.
    """

    number: int
    worker_id: str
    status: str
    started_at: datetime
    ended_at: datetime | None
    cause: str | None
    error: ExecutionError | None
    recovery: str | None
    retry_delay: float | None


class V2Cost(msgspec.Struct, kw_only=True):
    """US dollars."""

    estimated: float | None
    actual: float | None


class V2Origin(msgspec.Struct, kw_only=True):
    """Through which API it came, what it runs once more, and its place in a batch."""

    surface: str
    retry_of: str | None
    batch_id: str | None
    batch_index: int | None
    workflow_id: str | None


class V2Output(msgspec.Struct, kw_only=True):
    id: str
    node_id: str
    kind: str
    filename: str
    temporary: bool
    partial: bool
    content_type: str
    size: int
    sha256: str
    created_at: datetime
    url: str
    media: MediaFacts | None
    variants: dict[str, str]
    tier: str
    gone_at: datetime | None
    gone_reason: str | None


class V2Outputs(msgspec.Struct, kw_only=True):
    outputs: list[V2Output]


class V2Execution(msgspec.Struct, kw_only=True):
    """A job. In lists `attempts` and `result` are null; only lists that are asked for it have
    `cover` and `outputs`.
    """

    id: str
    title: str | None
    """What people call it: the name of its workflow in the library."""
    status: Status
    reason: str | None
    timing: V2Timing
    queue: V2Queue
    progress: V2Progress
    retries: V2Retries
    attempts: list[V2Attempt] | None
    worker_id: str | None
    cancel_requested: bool
    cost: V2Cost
    result: V2Outputs | None
    error: ExecutionError | None
    webhook_delivered: bool | None
    origin: V2Origin
    last_event: Annotated[int, msgspec.Meta(ge=0)]
    links: V2Links
    cover: CoverBody | msgspec.UnsetType | None = msgspec.UNSET
    outputs: int | msgspec.UnsetType = msgspec.UNSET
    """How many files it has."""


class V2ExecutionList(msgspec.Struct, kw_only=True):
    executions: list[V2Execution]
    next_cursor: str | None


class V2AcceptedTiming(msgspec.Struct, kw_only=True):
    submitted_at: datetime
    estimated_duration: float


class V2AcceptedQueue(msgspec.Struct, kw_only=True):
    position: int | None
    predicted_wait: float | None


class V2Accepted(msgspec.Struct, kw_only=True):
    """`fixes`: what was mended, where `auto_fix` was asked for."""

    id: str
    status: Status
    timing: V2AcceptedTiming
    queue: V2AcceptedQueue
    fixes: list[FixBody]
    links: V2Links


def links_of(job_id: JobId) -> V2Links:
    own = EXECUTION.format(execution_id=job_id)
    return V2Links(
        self_=own,
        events=f"{own}/events",
        outputs=f"{own}/outputs",
        nodes=f"{own}/nodes",
        logs=f"{own}/logs",
        workflow=f"{own}/workflow",
        cancel=f"{own}/cancel",
        retry=f"{own}/retry",
    )


def accepted_body(accepted: Accepted) -> V2Accepted:
    return V2Accepted(
        id=accepted.job_id,
        status=STATUS_OF[accepted.state],
        timing=V2AcceptedTiming(
            submitted_at=moment(accepted.submitted_at),
            estimated_duration=round(accepted.expected_seconds, 3),
        ),
        queue=V2AcceptedQueue(
            position=accepted.queue_position, predicted_wait=rounded(accepted.predicted_wait)
        ),
        fixes=fix_bodies(accepted.fixes),
        links=links_of(accepted.job_id),
    )


def whole_body(status: JobStatus) -> V2Execution:
    return execution_body(status.job, status)


def open_body(status: JobStatus) -> V2Execution:
    """As in a list, with what is known of one that has not ended."""
    body = whole_body(status)
    body.attempts = None
    return body


def execution_body(job: Job, status: JobStatus | None = None) -> V2Execution:
    """A job as v2 shows it; the parts that take another look are null in lists."""
    outputs = shown_outputs(status) if status else []
    shows_result = status is not None and (bool(outputs) or job.state == "completed")
    return V2Execution(
        id=job.id,
        title=job.title,
        status=STATUS_OF[job.state],
        reason=job.reason,
        timing=_timing(job, status),
        queue=_queue(job, status),
        progress=V2Progress(
            fraction=round(job.progress.fraction, 4),
            current_node=job.progress.current_node,
            completed_nodes=job.progress.completed_nodes,
            total_nodes=job.progress.total_nodes,
            preview=status.previews if status else None,
        ),
        retries=V2Retries(attempts=job.attempts, used=job.retries, max=job.max_retries),
        attempts=[_attempt(each) for each in status.attempts] if status else None,
        worker_id=job.worker_id,
        cancel_requested=job.cancel_requested,
        cost=V2Cost(estimated=dollars(job.estimated_cost), actual=dollars(job.cost)),
        result=V2Outputs(outputs=outputs) if shows_result else None,
        error=execution_error(job.fault) if job.fault else None,
        webhook_delivered=job.webhook_delivered,
        origin=V2Origin(
            surface=job.surface,
            retry_of=retry_of(job),
            batch_id=job.batch_id,
            batch_index=job.batch_index,
            workflow_id=job.workflow_id,
        ),
        last_event=job.last_event,
        links=links_of(job.id),
    )


def show_cover(body: V2Execution, cover: Cover | None) -> None:
    """Add what a list was asked for."""
    body.cover, body.outputs = None, 0
    if cover is not None:
        body.outputs = cover.files
        shown = v1_output_body(cover.output, cover.media)
        body.cover = cover_body(cover, shown, output_url(cover.output))


def shown_outputs(status: JobStatus) -> list[V2Output]:
    return [output_body(output, status.media.get(media_file(output))) for output in status.outputs]


def output_body(output: Output, media: KnownMedia | None = None) -> V2Output:
    """`media`: what is known of its file."""
    file = output.file
    shown = v1_output_body(output, media)
    return V2Output(
        id=file.id,
        node_id=file.node_id,
        kind=file.kind,
        filename=file.filename,
        temporary=file.is_temporary,
        partial=output.is_partial,
        content_type=file.content_type,
        size=file.size,
        sha256=file.sha256,
        created_at=moment(output.created_at),
        url=output_url(output),
        media=shown.media,
        variants=shown.variants,
        tier=shown.tier,
        gone_at=shown.gone_at,
        gone_reason=shown.gone_reason,
    )


def output_url(output: Output) -> str:
    return f"{EXECUTION.format(execution_id=output.job_id)}/outputs/{output.file.id}"


def _timing(job: Job, status: JobStatus | None) -> V2Timing:
    return V2Timing(
        submitted_at=moment(job.submitted_at),
        not_before=time_of(job.not_before),
        expires_at=time_of(job.expires_at) if job.state == "queued" else None,
        started_at=time_of(job.started_at),
        completed_at=time_of(job.completed_at),
        retry_at=time_of(job.held_until) if job.reason == RETRYING else None,
        timeout=job.timeout_seconds,
        estimated_duration=round(job.expected_seconds, 3),
        estimated_remaining=rounded(status.remaining_seconds if status else None),
    )


def _queue(job: Job, status: JobStatus | None) -> V2Queue:
    return V2Queue(
        position=status.queue_position if status else None,
        predicted_wait=rounded(status.predicted_wait if status else None),
        waiting_for=status.waiting_for if status else None,
        priority=job.priority,
        effective_priority=round(job.effective_priority, 2),
        queue_class=job.queue_class,
    )


def _attempt(record: AttemptRecord) -> V2Attempt:
    body = attempt_body(record)
    return V2Attempt(
        number=body.attempt,
        worker_id=body.worker_id,
        status=body.status,
        started_at=body.started_at,
        ended_at=body.ended_at,
        cause=body.cause,
        error=body.error,
        recovery=body.recovery,
        retry_delay=body.retry_delay,
    )
