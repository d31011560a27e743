"""The bodies of API v1: what is read and what is written."""

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Annotated, Any, Literal

import msgspec

from comfyrail.api.check_contract import FixBody, ParameterText, WorkflowText
from comfyrail.clock import Instant
from comfyrail.errors import Category, MalformedRequest
from comfyrail.jobs.events import Event
from comfyrail.jobs.faults import Fault
from comfyrail.jobs.job import AttemptRecord, Job, Output
from comfyrail.jobs.node_results import NodeResult
from comfyrail.jobs.outcome import RETRYING
from comfyrail.jobs.output_config import OutputConfig
from comfyrail.jobs.webhooks import LONGEST_URL, JobWebhook
from comfyrail.store.media import KnownMedia, MediaFacts, media_file
from comfyrail.usecases.jobs import Cover, JobStatus
from comfyrail.usecases.resubmit import retry_of

Priority = Annotated[int, msgspec.Meta(extra_json_schema={"minimum": 1, "maximum": 10})]
"""The limits of these are checked where jobs are made; here they are only said."""
Timeout = Annotated[
    float, msgspec.Meta(extra_json_schema={"exclusiveMinimum": 0, "maximum": 86400})
]
QueueTimeout = Annotated[
    float, msgspec.Meta(extra_json_schema={"exclusiveMinimum": 0, "maximum": 30 * 86400})
]
MaxRetries = Annotated[int, msgspec.Meta(extra_json_schema={"minimum": 0, "maximum": 10})]
CallbackUrl = Annotated[
    str, msgspec.Meta(extra_json_schema={"minLength": 1, "maxLength": LONGEST_URL})
]
Labels = Annotated[dict[str, str], msgspec.Meta(extra_json_schema={"maxProperties": 20})]
COVER_VARIANT = "thumb_256"
LATEST = Instant(253_370_764_799_999)
"""The end of the year 9998: it is a date in every time zone."""


class ExecuteRequest(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """A workflow, or the `workflow_id` of one in the library, and how to run it.

    `auto_fix` mends common faults first, `optimize` removes dead and merges equal nodes.
    """

    workflow: WorkflowText = msgspec.field(default_factory=msgspec.Raw)
    workflow_id: str | None = None
    input_params: ParameterText = msgspec.field(default_factory=msgspec.Raw)
    auto_fix: bool = False
    optimize: bool = False
    priority: Priority = 5
    queue_class: Literal["batch"] | None = None
    """`batch`: it may wait for quiet times, whatever its priority."""
    timeout: Timeout = 1800.0
    queue_timeout: QueueTimeout | None = None
    """Seconds that it may wait; as the server is set up where it is not given."""
    max_retries: MaxRetries | None = None
    """How often it is tried again after a failure; as the server is set up where not given."""
    not_before: datetime | None = None
    """It does not start before then; with a time zone."""
    labels: Labels = {}
    """It runs only on workers with these labels."""
    execution_config: dict[str, Any] = {}
    callback_url: CallbackUrl | None = None
    """It is told of the end of the job."""
    webhook_config: JobWebhook | None = None
    """The same with choices, in place of `callback_url`."""
    output_config: OutputConfig | None = None
    """What is done with its outputs."""


class RetryRequest(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """What is to be other than it was."""

    priority: Priority | None = None
    timeout: Timeout | None = None
    max_retries: MaxRetries | None = None


class ExecuteReply(msgspec.Struct, kw_only=True):
    execution_id: str
    status: str
    submitted_at: datetime
    estimated_duration: float
    queue_position: int | None
    predicted_wait: float | None
    fixes: list[FixBody] | msgspec.UnsetType = msgspec.UNSET
    """What was mended, where `auto_fix` was asked for."""


class ChangeRequest(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """What can be changed of a queued job."""

    priority: Priority


class ErrorDetail(msgspec.Struct, kw_only=True):
    category: Category
    code: str
    message: str
    details: Mapping[str, Any]
    retry_after: float | None
    timestamp: datetime
    request_id: str | None


class ErrorReply(msgspec.Struct, kw_only=True):
    error: ErrorDetail


class ExecutionError(msgspec.Struct, kw_only=True):
    category: Category
    code: str
    message: str
    details: Mapping[str, Any]
    retry_after: float | None


class OutputBody(msgspec.Struct, kw_only=True):
    output_id: str
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
    """What is known of the file; null while nobody has looked at it."""
    variants: dict[str, str]
    """Where smaller versions are, by name."""
    tier: str
    """Where it is in its life: immediate, standard, archive or glacier."""
    gone_at: datetime | None
    gone_reason: str | None
    """Why its file is not there any more: expired, quota or deleted."""
    data: str | msgspec.UnsetType | None = msgspec.UNSET
    """Its bytes as base64, where they were asked for; null where there was no room."""


class OutputList(msgspec.Struct, kw_only=True):
    execution_id: str
    outputs: list[OutputBody]


class ExecutionResult(msgspec.Struct, kw_only=True):
    outputs: list[OutputBody]


class AttemptBody(msgspec.Struct, kw_only=True):
    """One try. `cause`: why it was lost; `error`: how it failed; `recovery`: how the job was tried
    again after it, `retry_delay` seconds later.
    """

    attempt: int
    worker_id: str
    status: str
    started_at: datetime
    ended_at: datetime | None
    cause: str | None
    error: ExecutionError | None
    recovery: str | None
    retry_delay: float | None


class CoverBody(msgspec.Struct, kw_only=True):
    """The file that shows best what a job has made. `thumbnail`: where a small version of it is;
    null where there is none.
    """

    output_id: str
    content_type: str
    kind: str
    url: str
    thumbnail: str | None


class Execution(msgspec.Struct, kw_only=True):
    """A job. `queue_position` and `predicted_wait` while queued, `result` at the end; `retry_at`
    while it waits to be tried again. Lists have no `attempt_history`; only lists that are asked
    for it have `cover` and `outputs`.
    """

    execution_id: str
    title: str | None
    """What people call it: the name of its workflow in the library."""
    status: str
    reason: str | None
    priority: int
    effective_priority: float
    queue_class: str
    submitted_at: datetime
    not_before: datetime | None
    expires_at: datetime | None
    started_at: datetime | None
    completed_at: datetime | None
    queue_position: int | None
    predicted_wait: float | None
    waiting_for: str | None
    progress: float
    current_node: str | None
    completed_nodes: int
    total_nodes: int
    preview: int | None
    """How many previews its attempt has brought so far; null in lists."""
    estimated_duration: float
    estimated_remaining: float | None
    estimated_cost: float | None
    cost: float | None
    timeout: float
    attempts: int
    retries: int
    max_retries: int
    retry_at: datetime | None
    attempt_history: list[AttemptBody] | None
    worker_id: str | None
    cancel_requested: bool
    result: ExecutionResult | None
    error: ExecutionError | None
    webhook_delivered: bool | None
    last_event: int
    batch_id: str | None
    batch_index: int | None
    surface: str
    """Through which API it came."""
    retry_of: str | None
    """The execution that it runs once more."""
    workflow_id: str | None
    """Which workflow of the library it runs, with its version."""
    cover: CoverBody | msgspec.UnsetType | None = msgspec.UNSET
    outputs: int | msgspec.UnsetType = msgspec.UNSET
    """How many files it has."""


class ExecutionList(msgspec.Struct, kw_only=True):
    executions: list[Execution]
    next_cursor: str | None


class NodeResultBody(msgspec.Struct, kw_only=True):
    """How one node went. `duration` in seconds."""

    node_id: str
    class_type: str | None
    status: str
    started_at: datetime | None
    duration: float | None
    cached: bool
    error_type: str | None
    error_message: str | None


class NodeResults(msgspec.Struct, kw_only=True):
    execution_id: str
    nodes: list[NodeResultBody]


class EventBody(msgspec.Struct, kw_only=True):
    execution_id: str
    number: int
    type: str
    timestamp: datetime
    data: Mapping[str, Any]


class Health(msgspec.Struct, kw_only=True):
    status: str
    version: str


class Readiness(msgspec.Struct, kw_only=True):
    status: str
    queued: int
    processing: int
    workers: dict[str, int]
    can_start: int
    paused: bool


def time_of(instant: Instant | None) -> datetime | None:
    return None if instant is None else moment(instant)


def instant_of(when: datetime | None, field: str) -> Instant | None:
    """A time of a request. Raises MalformedRequest where it does not say which zone it means, and
    where it lies behind all calendars.
    """
    if when is None:
        return None
    if when.tzinfo is None:
        raise MalformedRequest(
            f"{field} has no time zone. Write it like 2026-01-31T08:00:00Z.", code="NO_TIME_ZONE"
        )
    instant = Instant(max(0, round(when.timestamp() * 1000)))
    if instant > LATEST:
        raise MalformedRequest(f"{field} is later than the year 9998. Is the date right?")
    return instant


def instant_in(text: str | None, field: str) -> Instant | None:
    """A time of a query. Raises MalformedRequest."""
    if text is None:
        return None
    try:
        return instant_of(msgspec.convert(text, datetime), field)
    except msgspec.ValidationError as error:
        raise MalformedRequest(
            f"{field} is a time like 2026-01-31T08:00:00Z, not {text[:40]!r}."
        ) from error


def moment(instant: Instant) -> datetime:
    """What no calendar has is shown as the nearest time that it has."""
    return datetime.fromtimestamp(min(max(0, instant), LATEST) / 1000, UTC)


def execution_body(job: Job, status: JobStatus | None = None) -> Execution:
    """A job as the API shows it; the parts that take another look are null in lists."""
    outputs = shown_outputs(status) if status else []
    shows_result = status is not None and (bool(outputs) or job.state == "completed")
    return Execution(
        execution_id=job.id,
        title=job.title,
        status=job.state,
        reason=job.reason,
        priority=job.priority,
        effective_priority=round(job.effective_priority, 2),
        queue_class=job.queue_class,
        submitted_at=moment(job.submitted_at),
        not_before=time_of(job.not_before),
        expires_at=time_of(job.expires_at) if job.state == "queued" else None,
        started_at=time_of(job.started_at),
        completed_at=time_of(job.completed_at),
        queue_position=status.queue_position if status else None,
        predicted_wait=rounded(status.predicted_wait if status else None),
        waiting_for=status.waiting_for if status else None,
        progress=round(job.progress.fraction, 4),
        current_node=job.progress.current_node,
        completed_nodes=job.progress.completed_nodes,
        total_nodes=job.progress.total_nodes,
        preview=status.previews if status else None,
        estimated_duration=round(job.expected_seconds, 3),
        estimated_remaining=rounded(status.remaining_seconds if status else None),
        estimated_cost=dollars(job.estimated_cost),
        cost=dollars(job.cost),
        timeout=job.timeout_seconds,
        attempts=job.attempts,
        retries=job.retries,
        max_retries=job.max_retries,
        retry_at=time_of(job.held_until) if job.reason == RETRYING else None,
        attempt_history=[attempt_body(each) for each in status.attempts] if status else None,
        worker_id=job.worker_id,
        cancel_requested=job.cancel_requested,
        result=ExecutionResult(outputs=outputs) if shows_result else None,
        error=execution_error(job.fault) if job.fault else None,
        webhook_delivered=job.webhook_delivered,
        last_event=job.last_event,
        batch_id=job.batch_id,
        batch_index=job.batch_index,
        surface=job.surface,
        retry_of=retry_of(job),
        workflow_id=job.workflow_id,
    )


def show_cover(body: Execution, cover: Cover | None) -> None:
    """Add what a list was asked for."""
    body.cover, body.outputs = None, 0
    if cover is not None:
        body.outputs = cover.files
        body.cover = cover_body(cover, output_body(cover.output, cover.media))


def cover_body(cover: Cover, shown: OutputBody, url: str | None = None) -> CoverBody:
    """`url`: where its file is, if not where v1 has it."""
    return CoverBody(
        output_id=cover.output.file.id,
        content_type=shown.content_type,
        kind=shown.kind,
        url=url or shown.url,
        thumbnail=shown.variants.get(COVER_VARIANT),
    )


def shown_outputs(status: JobStatus) -> list[OutputBody]:
    return [output_body(output, status.media.get(media_file(output))) for output in status.outputs]


def output_body(output: Output, media: KnownMedia | None = None) -> OutputBody:
    """`media`: what is known of its file; None: nothing, or nobody has looked it up."""
    url = f"/v1/workflows/execution/{output.job_id}/outputs/{output.file.id}"
    return OutputBody(
        output_id=output.file.id,
        node_id=output.file.node_id,
        kind=output.file.kind,
        filename=output.file.filename,
        temporary=output.file.is_temporary,
        partial=output.is_partial,
        content_type=output.file.content_type,
        size=output.file.size,
        sha256=output.file.sha256,
        created_at=moment(output.created_at),
        url=url,
        media=None if media is None else media.facts,
        variants={}
        if media is None
        else {name: f"{url}/variants/{name}" for name in media.variants},
        tier=output.tier,
        gone_at=time_of(output.gone_at),
        gone_reason=output.gone_reason,
    )


def node_body(result: NodeResult) -> NodeResultBody:
    return NodeResultBody(
        node_id=result.node_id,
        class_type=result.class_type,
        status=result.status,
        started_at=time_of(result.started_at),
        duration=result.duration_seconds,
        cached=result.is_cached,
        error_type=result.error_type,
        error_message=result.error_message,
    )


def event_body(event: Event) -> EventBody:
    return EventBody(
        execution_id=event.job_id,
        number=event.number,
        type=event.type,
        timestamp=moment(event.at),
        data=event.data,
    )


def attempt_body(attempt: AttemptRecord) -> AttemptBody:
    return AttemptBody(
        attempt=attempt.number,
        worker_id=attempt.worker_id,
        status=attempt.state,
        started_at=moment(attempt.started_at),
        ended_at=time_of(attempt.ended_at),
        cause=attempt.cause,
        error=execution_error(attempt.fault) if attempt.fault else None,
        recovery=attempt.recovery,
        retry_delay=rounded(attempt.retry_delay),
    )


def execution_error(fault: Fault) -> ExecutionError:
    return ExecutionError(
        category=fault.category,
        code=fault.code,
        message=fault.message,
        details=fault.details,
        retry_after=fault.retry_after,
    )


def dollars(cost: float | None) -> float | None:
    return None if cost is None else round(cost, 6)


def rounded(seconds: float | None) -> float | None:
    return None if seconds is None else round(seconds, 1)
