"""The bodies of the task API."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, Literal

import msgspec

from comfyrail.api.contract import (
    CallbackUrl,
    ExecutionError,
    OutputBody,
    moment,
    output_body,
    time_of,
)
from comfyrail.api.tasks.words import STATUS_OF, SURFACE, WORKER_STATUS_OF
from comfyrail.errors import MalformedRequest
from comfyrail.fleet.figures import PoolFigures
from comfyrail.fleet.view import WorkerView
from comfyrail.jobs.job import Job, Output
from comfyrail.jobs.output_config import OutputConfig
from comfyrail.jobs.states import JobState
from comfyrail.usecases.checks import WorkflowRequest

WORKFLOW = "workflow"
PARAMETERS = "input_params"


class TaskRequest(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """`workflow_id` is one of the library (`name` or `name@version`) and `payload` its values; or
    `payload` has the `workflow` itself, and `workflow_id` is a label.
    """

    workflow_id: str
    priority: int = 5
    payload: msgspec.Raw = msgspec.field(default_factory=lambda: msgspec.Raw(b"{}"))
    max_retries: int | None = None
    timeout: float = 1800.0
    callback_url: CallbackUrl | None = None
    """It is told of the end of the task."""
    output_config: OutputConfig | None = None


class TaskReply(msgspec.Struct, kw_only=True):
    id: str
    workflow_id: str
    status: str
    created_at: datetime


class TaskResult(msgspec.Struct, kw_only=True):
    outputs: list[OutputBody]


class TaskBody(msgspec.Struct, kw_only=True):
    """A task. In lists `payload` and `result` are null."""

    id: str
    workflow_id: str | None
    priority: int
    status: str
    payload: msgspec.Raw | None
    worker_id: str | None
    created_at: datetime
    started_at: datetime | None
    completed_at: datetime | None
    result: TaskResult | None
    error: ExecutionError | None
    retry_count: int
    max_retries: int


class TaskList(msgspec.Struct, kw_only=True):
    tasks: list[TaskBody]
    next_cursor: str | None


class TaskQueueMetrics(msgspec.Struct, kw_only=True):
    """The caller's own jobs, by whichever door they came."""

    pending: int
    running: int
    completed: int
    failed: int
    cancelled: int


class TaskWorkerMetrics(msgspec.Struct, kw_only=True):
    total: int
    idle: int
    running: int
    starting: int
    failed: int


class TaskWorker(msgspec.Struct, kw_only=True):
    id: str
    driver: str
    status: str
    endpoint: str | None
    labels: dict[str, str]
    current_tasks: list[str]
    cordoned: bool
    created_at: datetime
    last_active_at: datetime | None
    error: str | None


class TaskWorkerList(msgspec.Struct, kw_only=True):
    workers: list[TaskWorker]


class ChangeTaskWorkerRequest(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """`active` takes it back, `cordoned` gives it no new jobs, `drained` stops it when it is
    done.
    """

    state: Literal["active", "cordoned", "drained"]


_names = msgspec.json.Decoder(dict[str, msgspec.Raw])


def workflow_request(body: TaskRequest) -> WorkflowRequest:
    """What a task asks to run."""
    if not body.workflow_id or len(body.workflow_id) > 200:
        raise MalformedRequest("workflow_id has 1 to 200 characters.")
    text = bytes(body.payload) or b"{}"
    try:
        names = _names.decode(text)
    except (msgspec.MsgspecError, RecursionError) as error:
        raise MalformedRequest(
            "payload is an object: the values of the workflow's inputs, or a workflow."
        ) from error
    if WORKFLOW in names:
        unknown = sorted(names.keys() - {WORKFLOW, PARAMETERS})
        if unknown:
            raise MalformedRequest(
                "Beside 'workflow' the payload may have 'input_params', but not "
                f"{unknown[0][:60]!r}."
            )
        return WorkflowRequest(_text(names, WORKFLOW), input_params=_text(names, PARAMETERS))
    given = _text(names, PARAMETERS) if names.keys() == {PARAMETERS} else text
    return WorkflowRequest(workflow_id=body.workflow_id, input_params=given if names else None)


def _text(names: Mapping[str, msgspec.Raw], name: str) -> bytes | None:
    return bytes(names[name]) if name in names else None


def task_body(
    job: Job, payload: bytes | None = None, outputs: Sequence[Output] | None = None
) -> TaskBody:
    result = None
    if outputs is not None and (outputs or job.state is JobState.COMPLETED):
        result = TaskResult(outputs=[output_body(each) for each in outputs])
    fault = job.fault
    return TaskBody(
        id=job.id,
        workflow_id=job.origin_key if job.surface == SURFACE else None,
        priority=job.priority,
        status=STATUS_OF[job.state],
        payload=None if payload is None else msgspec.Raw(payload),
        worker_id=job.worker_id,
        created_at=moment(job.submitted_at),
        started_at=time_of(job.started_at),
        completed_at=time_of(job.completed_at),
        result=result,
        error=None
        if fault is None
        else ExecutionError(
            category=fault.category,
            code=fault.code,
            message=fault.message,
            details=fault.details,
            retry_after=fault.retry_after,
        ),
        retry_count=job.retries,
        max_retries=job.max_retries,
    )


def queue_metrics(counts: Mapping[JobState, int]) -> TaskQueueMetrics:
    named: dict[str, Any] = {STATUS_OF[state]: counts.get(state, 0) for state in JobState}
    return TaskQueueMetrics(**named)


def worker_metrics(figures: PoolFigures) -> TaskWorkerMetrics:
    return TaskWorkerMetrics(
        total=figures.total,
        idle=figures.idle,
        running=figures.running,
        starting=figures.starting,
        failed=figures.failed,
    )


def task_worker(view: WorkerView) -> TaskWorker:
    return TaskWorker(
        id=view.id,
        driver=view.driver,
        status=WORKER_STATUS_OF[view.status],
        endpoint=view.endpoint,
        labels=dict(view.labels),
        current_tasks=list(view.current_jobs),
        cordoned=view.is_cordoned,
        created_at=moment(view.added_at),
        last_active_at=time_of(view.last_active_at),
        error=view.error,
    )
