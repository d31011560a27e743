"""API v2: executions."""

import msgspec
from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response
from starlette.websockets import WebSocket

from comfyrail.access.permissions import Permission
from comfyrail.api.check_contract import given_text
from comfyrail.api.conditional import answer_status
from comfyrail.api.contract import (
    ChangeRequest,
    NodeResults,
    RetryRequest,
    instant_of,
    node_body,
)
from comfyrail.api.cursors import read_cursor, write_cursor
from comfyrail.api.executions import (
    Cursor,
    EventNumber,
    Limit,
    LogLimit,
    WaitLimit,
    WantedJobs,
    WithCover,
)
from comfyrail.api.hot_paths import HotPath
from comfyrail.api.idempotency import idempotency_key
from comfyrail.api.job_files import send_output, send_preview
from comfyrail.api.job_logs import send_log
from comfyrail.api.messages import (
    decode_json,
    json_response,
    read_json,
    read_json_text,
    read_optional_json,
)
from comfyrail.api.services import principal_of, services_of
from comfyrail.api.streams import follow_by_socket, send_events
from comfyrail.api.submissions import (
    answer_submission,
    synchronous_wait,
    webhook_of,
)
from comfyrail.api.v2.contract import (
    EXECUTE,
    EXECUTION,
    EXECUTIONS,
    RUNSYNC,
    V2ExecuteRequest,
    V2ExecutionList,
    V2Outputs,
    accepted_body,
    execution_body,
    output_body,
    show_cover,
    whole_body,
)
from comfyrail.ids import JobId, OutputId
from comfyrail.jobs.job import Origin
from comfyrail.jobs.output_config import AS_IT_IS
from comfyrail.store.media import media_file
from comfyrail.usecases.checks import WorkflowRequest
from comfyrail.usecases.resubmit import Changes
from comfyrail.usecases.submit import Accepted, Submission

SURFACE = "v2"

router = APIRouter(tags=["executions v2"])

_execute_request = msgspec.json.Decoder(V2ExecuteRequest)
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
    config = body.execution_config
    submission = Submission(
        request=WorkflowRequest(
            given_text(body.workflow),
            body.workflow_id,
            given_text(body.input_params),
            config.auto_fix,
            config.optimize,
        ),
        priority=config.priority,
        timeout_seconds=config.timeout,
        execution_config=config.engine,
        labels=config.labels,
        not_before=instant_of(config.not_before, "execution_config.not_before"),
        queue_timeout=config.queue_timeout,
        max_retries=config.max_retries,
        is_batch=config.queue_class == "batch",
        idempotency=idempotency_key(request, content),
        origin=Origin(SURFACE),
        output_config=body.output_config or AS_IT_IS,
        webhook=webhook_of(body.callback_url, body.webhook_config),
    )
    accepted = await services_of(request).submit(principal_of(request), submission)
    return await _accepted_response(request, accepted, wait=wait)


async def _accepted_response(
    request: Request, accepted: Accepted, *, wait: int | None = None
) -> Response:
    location = EXECUTION.format(execution_id=accepted.job_id)
    return await answer_submission(
        request, accepted, location, accepted_body, whole_body, wait=wait
    )


async def show_execution(request: Request) -> Response:
    """The job as it is now. With an ETag in `If-None-Match`, or `after`, and with `wait`, the reply
    comes at the next change.
    """
    return await answer_status(request, JobId(request.path_params["execution_id"]), whole_body)


async def change_execution(request: Request) -> Response:
    """Give a queued job another priority."""
    job_id = JobId(request.path_params["execution_id"])
    body = await read_json(request, _change_request)
    status = await services_of(request).jobs.reprioritize(
        principal_of(request), job_id, body.priority
    )
    return json_response(whole_body(status))


HOT_PATHS = (
    HotPath(EXECUTE, "POST", execute, Permission.JOBS_WRITE),
    HotPath(EXECUTION, "GET", show_execution, Permission.JOBS_READ),
    HotPath(EXECUTION, "PATCH", change_execution, Permission.JOBS_WRITE),
)


@router.get(EXECUTIONS)
async def list_executions(
    request: Request,
    where: WantedJobs,
    cover: WithCover = False,
    limit: Limit = 50,
    cursor: Cursor = None,
) -> Response:
    """Newest first, whichever API they came through. `text` looks in the prompts and other texts of
    the graphs, in names of files, and for the beginning of an id. Pass `next_cursor` back as
    `cursor` to go on.
    """
    jobs, principal, after = services_of(request).jobs, principal_of(request), read_cursor(cursor)
    page = await jobs.page(principal, where, JobId(after) if after else None, limit)
    bodies = [execution_body(job) for job in page.jobs]
    if cover:
        covers = await jobs.covers(principal, page.jobs)
        for body in bodies:
            show_cover(body, covers.get(JobId(body.id)))
    return json_response(
        V2ExecutionList(executions=bodies, next_cursor=write_cursor(page.next_cursor))
    )


@router.post(EXECUTION + "/cancel")
async def cancel_execution(request: Request, execution_id: str) -> Response:
    """Cancel a job: a queued one at once, a running one as soon as its worker has stopped."""
    status = await services_of(request).jobs.cancel(principal_of(request), JobId(execution_id))
    return json_response(whole_body(status))


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
        SURFACE,
        idempotency_key(request, request.url.path.encode() + content),
    )
    return await _accepted_response(request, accepted)


@router.get(EXECUTION + "/outputs")
async def list_outputs(request: Request, execution_id: str) -> Response:
    """The files that it has made."""
    services = services_of(request)
    outputs = await services.jobs.outputs(principal_of(request), JobId(execution_id))
    media = await services.outputs.media_of(outputs)
    bodies = [output_body(each, media.get(media_file(each))) for each in outputs]
    return json_response(V2Outputs(outputs=bodies))


@router.get(EXECUTION + "/outputs/{output_id}")
async def download_output(request: Request, execution_id: str, output_id: str) -> Response:
    """The file itself, with ranges and ETag."""
    return await send_output(request, JobId(execution_id), OutputId(output_id))


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


@router.get(EXECUTION + "/logs")
async def show_log(
    request: Request, execution_id: str, after: EventNumber = 0, limit: LogLimit = 1000
) -> Response:
    """What happened to it, in readable lines: JSON, or with `Accept: text/plain` plain text."""
    return await send_log(request, JobId(execution_id), after, limit)


@router.get(EXECUTION + "/events")
async def stream_events(request: Request, execution_id: str, after: str | None = None) -> Response:
    """Server-Sent Events from number `Last-Event-ID` (or `after`) on; `event: close` ends them."""
    return await send_events(request, JobId(execution_id), after)


@router.websocket(EXECUTION + "/ws")
async def socket_events(socket: WebSocket, execution_id: str, after: str | None = None) -> None:
    """The current state first, then events; `{"type": "cancel"}` cancels the job."""
    await follow_by_socket(socket, JobId(execution_id), after, whole_body)
