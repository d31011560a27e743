"""API v1: executions."""

import re
from typing import Annotated

import msgspec
from fastapi import APIRouter, Query
from fastapi.responses import FileResponse
from starlette.requests import Request
from starlette.responses import Response

from comfyrail.access.permissions import Permission
from comfyrail.api.check_contract import fix_bodies, given_text
from comfyrail.api.contract import (
    ChangeRequest,
    ExecuteReply,
    ExecuteRequest,
    ExecutionList,
    NodeResults,
    OutputList,
    execution_body,
    instant_of,
    moment,
    node_body,
    output_body,
    rounded,
)
from comfyrail.api.hot_paths import HotPath
from comfyrail.api.idempotency import REPLAYED, idempotency_key
from comfyrail.api.messages import decode_json, json_response, read_json, read_json_text
from comfyrail.api.services import principal_of, services_of
from comfyrail.errors import MalformedRequest, RangeNotSatisfiable
from comfyrail.ids import JobId, OutputId
from comfyrail.jobs.states import JobState
from comfyrail.store.interface import JobFilter
from comfyrail.usecases.checks import WorkflowRequest
from comfyrail.usecases.submit import Submission

EXECUTE = "/v1/workflows/execute"
EXECUTION = "/v1/workflows/execution/{execution_id}"
EXECUTIONS = "/v1/workflows/executions"

MOST_RANGES = 20
SHOWN_INLINE = ("image/", "video/", "audio/")
NEVER_INLINE = {"image/svg+xml"}

router = APIRouter(tags=["executions"])

_RANGES = re.compile(r"bytes=\s*(\d+-\d*|-\d+)(\s*,\s*(\d+-\d*|-\d+))*")

_execute_request = msgspec.json.Decoder(ExecuteRequest)
_change_request = msgspec.json.Decoder(ChangeRequest)


async def execute(request: Request) -> Response:
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
        ),
    )
    reply = ExecuteReply(
        execution_id=accepted.job_id,
        status=accepted.state,
        submitted_at=moment(accepted.submitted_at),
        estimated_duration=round(accepted.expected_seconds, 3),
        queue_position=accepted.queue_position,
        predicted_wait=rounded(accepted.predicted_wait),
        fixes=fix_bodies(accepted.fixes) if body.auto_fix else msgspec.UNSET,
    )
    headers = {"Location": EXECUTION.format(execution_id=accepted.job_id)}
    if accepted.is_replay:
        headers[REPLAYED] = "true"
    return json_response(reply, 202, headers)


async def show_execution(request: Request) -> Response:
    job_id = JobId(request.path_params["execution_id"])
    status = await services_of(request).jobs.status(principal_of(request), job_id)
    return json_response(execution_body(status.job, status))


async def change_execution(request: Request) -> Response:
    """Give a queued job another priority."""
    job_id = JobId(request.path_params["execution_id"])
    body = await read_json(request, _change_request)
    status = await services_of(request).jobs.reprioritize(
        principal_of(request), job_id, body.priority
    )
    return json_response(execution_body(status.job, status))


HOT_PATHS = (
    HotPath(EXECUTE, "POST", execute, Permission.JOBS_WRITE),
    HotPath(EXECUTION, "GET", show_execution, Permission.JOBS_READ),
    HotPath(EXECUTION, "PATCH", change_execution, Permission.JOBS_WRITE),
)


@router.get(EXECUTIONS)
async def list_executions(
    request: Request,
    status: JobState | None = None,
    limit: Annotated[int, Query(ge=1, le=500)] = 50,
    cursor: Annotated[str | None, Query(max_length=64)] = None,
) -> Response:
    """Newest first. Pass `next_cursor` back as `cursor` to go on."""
    after = JobId(cursor) if cursor else None
    page = await services_of(request).jobs.page(
        principal_of(request), JobFilter(status), after, limit
    )
    return json_response(
        ExecutionList(
            executions=[execution_body(job) for job in page.jobs], next_cursor=page.next_cursor
        )
    )


@router.post(EXECUTION + "/cancel")
async def cancel_execution(request: Request, execution_id: str) -> Response:
    """Cancel a job: a queued one at once, a running one as soon as its worker has stopped."""
    status = await services_of(request).jobs.cancel(principal_of(request), JobId(execution_id))
    return json_response(execution_body(status.job, status))


@router.get(EXECUTION + "/nodes")
async def list_nodes(request: Request, execution_id: str) -> Response:
    """How each node of the last attempt goes or went."""
    results = await services_of(request).jobs.nodes(principal_of(request), JobId(execution_id))
    return json_response(
        NodeResults(execution_id=execution_id, nodes=[node_body(each) for each in results])
    )


@router.get(EXECUTION + "/preview")
async def show_preview(request: Request, execution_id: str) -> Response:
    """The newest picture of what is being sampled."""
    preview = await services_of(request).jobs.preview(principal_of(request), JobId(execution_id))
    headers = {"ETag": f'"{preview.number}"', "Cache-Control": "no-store"}
    if request.headers.get("if-none-match") == headers["ETag"]:
        return Response(status_code=304, headers=headers)
    return Response(preview.image, media_type=preview.content_type, headers=headers)


@router.get(EXECUTION + "/outputs")
async def list_outputs(request: Request, execution_id: str) -> Response:
    outputs = await services_of(request).jobs.outputs(principal_of(request), JobId(execution_id))
    return json_response(
        OutputList(execution_id=execution_id, outputs=[output_body(output) for output in outputs])
    )


@router.head(EXECUTION + "/outputs/{output_id}", include_in_schema=False)
@router.get(EXECUTION + "/outputs/{output_id}")
async def download_output(request: Request, execution_id: str, output_id: str) -> Response:
    """The file itself, with ranges and ETag."""
    output, path = await services_of(request).jobs.output_file(
        principal_of(request), JobId(execution_id), OutputId(output_id)
    )
    kind = output.file.content_type
    is_inline = kind.startswith(SHOWN_INLINE) and kind not in NEVER_INLINE
    headers = {
        "ETag": f'"{output.file.sha256}"',
        "Cache-Control": "private, max-age=31536000, immutable",
    }
    if headers["ETag"] in request.headers.get("if-none-match", ""):
        return Response(status_code=304, headers=headers)
    _check_range(request, output.file.size)
    return FileResponse(
        path,
        media_type=kind if is_inline else "application/octet-stream",
        filename=output.file.filename,
        content_disposition_type="inline" if is_inline else "attachment",
        headers=headers,
    )


def _check_range(request: Request, size: int) -> None:
    """Refuse ranges that make no sense, in the shape that all errors have."""
    given = request.headers.get("range")
    if given is None:
        return
    if not _RANGES.fullmatch(given.strip()) or given.count(",") >= MOST_RANGES:
        raise MalformedRequest(f"The Range header {given[:80]!r} is not like bytes=0-99.")
    starts = [part.strip().partition("-")[0] for part in given.partition("=")[2].split(",")]
    if any(start and int(start) >= size for start in starts):
        raise RangeNotSatisfiable(
            f"The file has {size} bytes: the range is behind its end.", details={"size": size}
        )
