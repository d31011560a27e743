"""API v1: executions."""

from typing import Annotated

import msgspec
from fastapi import APIRouter, Depends, Query
from starlette.requests import Request
from starlette.responses import Response

from comfyrail.access.permissions import Permission
from comfyrail.api.check_contract import fix_bodies, given_text
from comfyrail.api.conditional import answer_status
from comfyrail.api.contract import (
    ChangeRequest,
    ExecuteReply,
    ExecuteRequest,
    Execution,
    ExecutionList,
    NodeResults,
    OutputList,
    RetryRequest,
    execution_body,
    instant_in,
    instant_of,
    moment,
    node_body,
    rounded,
    show_cover,
)
from comfyrail.api.cursors import LONGEST_CURSOR, read_cursor, write_cursor
from comfyrail.api.hot_paths import HotPath
from comfyrail.api.idempotency import idempotency_key
from comfyrail.api.job_files import send_output, send_preview
from comfyrail.api.job_logs import MOST_LINES, send_log
from comfyrail.api.messages import (
    decode_json,
    json_response,
    read_json,
    read_json_text,
    read_optional_json,
)
from comfyrail.api.output_bodies import output_bodies
from comfyrail.api.preferences import LONGEST_WAIT_SECONDS
from comfyrail.api.services import principal_of, services_of
from comfyrail.api.submissions import (
    answer_submission,
    synchronous_wait,
    webhook_of,
)
from comfyrail.errors import MalformedRequest
from comfyrail.ids import BatchId, JobId, OutputId
from comfyrail.jobs.output_config import AS_IT_IS
from comfyrail.jobs.states import JobState
from comfyrail.store.interface import JobFilter
from comfyrail.usecases.checks import WorkflowRequest
from comfyrail.usecases.jobs import JobStatus
from comfyrail.usecases.resubmit import Changes
from comfyrail.usecases.submit import Accepted, Submission

EXECUTE = "/v1/workflows/execute"
RUNSYNC = "/v1/workflows/runsync"
EXECUTION = "/v1/workflows/execution/{execution_id}"
EXECUTIONS = "/v1/workflows/executions"

Limit = Annotated[int, Query(ge=1, le=500)]
Cursor = Annotated[str | None, Query(max_length=LONGEST_CURSOR)]
Statuses = Annotated[
    list[str] | None,
    Query(
        max_length=20,
        description="queued, processing, completed, failed or cancelled: repeated, or with commas.",
    ),
]
Time = Annotated[str | None, Query(json_schema_extra={"format": "date-time"})]
Text = Annotated[str | None, Query(max_length=500)]
WithCover = Annotated[
    bool, Query(description="Each with `cover`, the file that shows best what it has made.")
]
LogLimit = Annotated[int, Query(ge=1, le=MOST_LINES)]
EventNumber = Annotated[int, Query(ge=0, le=10**15)]
WaitLimit = Annotated[int | None, Query(ge=0, le=LONGEST_WAIT_SECONDS)]

router = APIRouter(tags=["executions"])

_execute_request = msgspec.json.Decoder(ExecuteRequest)
_change_request = msgspec.json.Decoder(ChangeRequest)
_retry_request = msgspec.json.Decoder(RetryRequest)


async def execute(request: Request) -> Response:
    """Check a workflow and queue it. The reply comes when the job is on disk, or with
    `Prefer: wait` when it has ended.
    """
    return await _submit(request)


@router.post(RUNSYNC)
async def run_and_wait(request: Request, timeout: WaitLimit = None) -> Response:
    """As execute, and wait for the end of the job, for so many seconds at most: 60 where neither
    the query nor `Prefer: wait` says another number.
    """
    return await _submit(request, wait=synchronous_wait(request) if timeout is None else timeout)


async def _submit(request: Request, wait: int | None = None) -> Response:
    content = await read_json_text(request)
    body = decode_json(content, _execute_request)
    accepted = await services_of(request).submit(
        principal_of(request),
        Submission(
            WorkflowRequest(
                given_text(body.workflow),
                body.workflow_id,
                given_text(body.input_params),
                body.auto_fix,
                body.optimize,
            ),
            body.priority,
            body.timeout,
            body.execution_config,
            body.labels,
            instant_of(body.not_before, "not_before"),
            body.queue_timeout,
            body.max_retries,
            body.queue_class == "batch",
            idempotency_key(request, content),
            output_config=body.output_config or AS_IT_IS,
            webhook=webhook_of(body.callback_url, body.webhook_config),
        ),
    )
    return await _accepted_response(request, accepted, has_fixes=body.auto_fix, wait=wait)


async def _accepted_response(
    request: Request, accepted: Accepted, *, has_fixes: bool, wait: int | None = None
) -> Response:
    location = EXECUTION.format(execution_id=accepted.job_id)

    def reply(accepted: Accepted) -> ExecuteReply:
        return ExecuteReply(
            execution_id=accepted.job_id,
            status=accepted.state,
            submitted_at=moment(accepted.submitted_at),
            estimated_duration=round(accepted.expected_seconds, 3),
            queue_position=accepted.queue_position,
            predicted_wait=rounded(accepted.predicted_wait),
            fixes=fix_bodies(accepted.fixes) if has_fixes else msgspec.UNSET,
        )

    return await answer_submission(request, accepted, location, reply, _whole, wait=wait)


def _whole(status: JobStatus) -> Execution:
    return execution_body(status.job, status)


async def show_execution(request: Request) -> Response:
    """The job as it is now. With an ETag in `If-None-Match`, or `after`, and with `wait`, the reply
    comes at the next change.
    """
    return await answer_status(request, JobId(request.path_params["execution_id"]), _whole)


async def change_execution(request: Request) -> Response:
    """Give a queued job another priority."""
    job_id = JobId(request.path_params["execution_id"])
    body = await read_json(request, _change_request)
    status = await services_of(request).jobs.reprioritize(
        principal_of(request), job_id, body.priority
    )
    return json_response(_whole(status))


HOT_PATHS = (
    HotPath(EXECUTE, "POST", execute, Permission.JOBS_WRITE),
    HotPath(EXECUTION, "GET", show_execution, Permission.JOBS_READ),
    HotPath(EXECUTION, "PATCH", change_execution, Permission.JOBS_WRITE),
)


async def job_filter(
    status: Statuses = None,
    submitted_from: Time = None,
    submitted_before: Time = None,
    batch_id: Annotated[str | None, Query(max_length=64)] = None,
    surface: Annotated[str | None, Query(max_length=20)] = None,
    text: Text = None,
    workflow_id: Annotated[str | None, Query(max_length=200)] = None,
) -> JobFilter:
    """Which jobs a list shows. Raises MalformedRequest for words that there are not."""
    words = [word for given in status or () for word in given.split(",")]
    try:
        states = frozenset(JobState(word.strip()) for word in words)
    except ValueError as error:
        raise MalformedRequest(
            f"status is one of {', '.join(JobState)}, or several with commas between."
        ) from error
    return JobFilter(
        surface=surface,
        submitted_from=instant_in(submitted_from, "submitted_from"),
        submitted_before=instant_in(submitted_before, "submitted_before"),
        states=states,
        batch_id=BatchId(batch_id) if batch_id else None,
        text=searchable(text),
        workflow=workflow_id or None,
    )


def searchable(text: str | None) -> str | None:
    """A text of a query; None where there is nothing to look for. Raises MalformedRequest."""
    if text is not None and "\x00" in text:
        raise MalformedRequest("text has a character that no text has.")
    return text if text and text.strip() else None


WantedJobs = Annotated[JobFilter, Depends(job_filter)]


@router.get(EXECUTIONS)
async def list_executions(
    request: Request,
    where: WantedJobs,
    cover: WithCover = False,
    limit: Limit = 50,
    cursor: Cursor = None,
) -> Response:
    """Newest first. `text` looks in the prompts and other texts of the graphs, in names of files,
    and for the beginning of an id. Pass `next_cursor` back as `cursor` to go on.
    """
    jobs, principal, after = services_of(request).jobs, principal_of(request), read_cursor(cursor)
    page = await jobs.page(principal, where, JobId(after) if after else None, limit)
    bodies = [execution_body(job) for job in page.jobs]
    if cover:
        covers = await jobs.covers(principal, page.jobs)
        for body in bodies:
            show_cover(body, covers.get(JobId(body.execution_id)))
    return json_response(
        ExecutionList(executions=bodies, next_cursor=write_cursor(page.next_cursor))
    )


@router.post(EXECUTION + "/cancel")
async def cancel_execution(request: Request, execution_id: str) -> Response:
    """Cancel a job: a queued one at once, a running one as soon as its worker has stopped."""
    status = await services_of(request).jobs.cancel(principal_of(request), JobId(execution_id))
    return json_response(_whole(status))


@router.post(EXECUTION + "/retry", status_code=202)
async def retry_execution(request: Request, execution_id: str) -> Response:
    """Run an ended job once more: a new execution of the same graph and options, but for what the
    body changes.
    """
    content, body = await read_optional_json(request, _retry_request, RetryRequest())
    accepted = await services_of(request).resubmit(
        principal_of(request),
        JobId(execution_id),
        Changes(body.priority, body.timeout, body.max_retries),
        "v1",
        idempotency_key(request, request.url.path.encode() + content),
    )
    return await _accepted_response(request, accepted, has_fixes=False)


@router.get(EXECUTION + "/logs")
async def show_log(
    request: Request, execution_id: str, after: EventNumber = 0, limit: LogLimit = 1000
) -> Response:
    """What happened to it, in readable lines: JSON, or with `Accept: text/plain` plain text."""
    return await send_log(request, JobId(execution_id), after, limit)


@router.get(EXECUTION + "/nodes")
async def list_nodes(request: Request, execution_id: str) -> Response:
    """How each node of the last attempt goes or went."""
    results = await services_of(request).jobs.nodes(principal_of(request), JobId(execution_id))
    return json_response(
        NodeResults(execution_id=execution_id, nodes=[node_body(each) for each in results])
    )


@router.get(EXECUTION + "/preview")
async def show_preview(request: Request, execution_id: str) -> Response:
    """The newest picture of what is being sampled; 204 where there is none now."""
    return await send_preview(request, JobId(execution_id))


@router.get(EXECUTION + "/outputs")
async def list_outputs(request: Request, execution_id: str, inline: bool = False) -> Response:
    """The files that it has made; with `inline` those for which there is room as base64 too."""
    services = services_of(request)
    outputs = await services.jobs.outputs(principal_of(request), JobId(execution_id))
    bodies = await output_bodies(services, outputs)
    if inline:
        contents = await services.outputs.inline(outputs)
        for body in bodies:
            body.data = contents.get(OutputId(body.output_id))
    return json_response(OutputList(execution_id=execution_id, outputs=bodies))


@router.get(EXECUTION + "/outputs/{output_id}")
async def download_output(request: Request, execution_id: str, output_id: str) -> Response:
    """The file itself, with ranges and ETag."""
    return await send_output(request, JobId(execution_id), OutputId(output_id))
