"""The routes of the RunPod-shaped surface: bare, and under `/runpod/{endpoint_id}`."""

from collections.abc import Mapping
from typing import Annotated

import msgspec
from fastapi import APIRouter, Query
from starlette.requests import Request
from starlette.responses import Response

from comfyrail.access.permissions import Permission
from comfyrail.api import examples
from comfyrail.api.check_contract import given_text
from comfyrail.api.idempotency import REPLAYED, idempotency_key
from comfyrail.api.messages import decode_json, json_response, read_json_text
from comfyrail.api.operations import Operation, Operations
from comfyrail.api.runpod.contract import (
    PodHealth,
    PodJob,
    PodPart,
    PodRequest,
    PodStatus,
    PodStream,
    check_request,
    patience_of,
    pod_health,
    pod_status,
    priority_of,
    secrets_of,
    timeout_of,
)
from comfyrail.api.runpod.outputs import pod_output
from comfyrail.api.runpod.words import STATUS_OF, SURFACE, status_of
from comfyrail.api.services import principal_of, services_of
from comfyrail.api.submissions import webhook_of
from comfyrail.api.waiting import NOT_THE_END, wait_for
from comfyrail.errors import Conflict
from comfyrail.ids import JobId
from comfyrail.jobs.events import Event, EventType
from comfyrail.jobs.job import Origin
from comfyrail.jobs.output_config import AS_IT_IS
from comfyrail.jobs.states import JobState
from comfyrail.usecases.checks import WorkflowRequest
from comfyrail.usecases.given_files import check_count, renamed
from comfyrail.usecases.jobs import JobStatus
from comfyrail.usecases.submit import Accepted, Submission

PREFIX = "/runpod/{endpoint_id}"
RUN = "/run"
RUN_SYNC = "/runsync"
STATUS = "/status/{job_id}"
STREAM = "/stream/{job_id}"
CANCEL = "/cancel/{job_id}"
HEALTH = PREFIX + "/health"

BODY_LIMIT = 20 << 20
LONGEST_WAIT_MILLISECONDS = 300_000
DEFAULT_WAIT_MILLISECONDS = 90_000
CANCEL_SECONDS = 2.0
STREAM_SECONDS = 2.0
"""How long an answer is held back while there is nothing to tell: its callers ask in a loop."""

router = APIRouter(tags=["RunPod"])

_pod_request = msgspec.json.Decoder(PodRequest)


@router.post(RUN)
@router.post(PREFIX + RUN)
async def run(request: Request) -> Response:
    """Submit a workflow."""
    accepted = await _submit(request)
    reply = PodJob(id=accepted.job_id, status=STATUS_OF[accepted.state])
    return json_response(reply, 200, _told_again(accepted))


@router.post(RUN_SYNC)
@router.post(PREFIX + RUN_SYNC)
async def run_sync(
    request: Request,
    wait: Annotated[int, Query(ge=0, le=LONGEST_WAIT_MILLISECONDS)] = DEFAULT_WAIT_MILLISECONDS,
) -> Response:
    """Submit a workflow and wait for its end, `wait` milliseconds at most."""
    accepted = await _submit(request)
    status = await wait_for(request, accepted.job_id, wait / 1000)
    if status is None:
        reply = PodJob(id=accepted.job_id, status=STATUS_OF[accepted.state])
        return json_response(reply, 200, {**NOT_THE_END, **_told_again(accepted)})
    headers = {} if status.job.state.is_final else NOT_THE_END
    return await _answer(request, status, {**headers, **_told_again(accepted)})


@router.post(STATUS, include_in_schema=False)
@router.post(PREFIX + STATUS, include_in_schema=False)
@router.get(STATUS)
@router.get(PREFIX + STATUS)
async def show_status(request: Request, job_id: str) -> Response:
    """How a job is, with its output at the end."""
    status = await services_of(request).jobs.status(principal_of(request), JobId(job_id))
    return await _answer(request, status)


@router.get(STREAM)
@router.get(PREFIX + STREAM)
async def stream(
    request: Request, job_id: str, after: Annotated[int | None, Query(ge=0, le=10**15)] = None
) -> Response:
    """What has happened since the last call, or since the event `after`."""
    services, principal = services_of(request), principal_of(request)
    known = services.read_positions.of(principal, JobId(job_id)) if after is None else after
    status = await wait_for(request, JobId(job_id), STREAM_SECONDS, known)
    if status is None:
        status = await services.jobs.status(principal, JobId(job_id))
    events = await services.jobs.events_so_far(principal, JobId(job_id), known)
    if events and after is None:
        services.read_positions.move(principal, JobId(job_id), events[-1].number)
    parts = [await _part(request, status, event) for event in events]
    return json_response(PodStream(status=status_of(status.job), stream=parts))


@router.post(CANCEL)
@router.post(PREFIX + CANCEL)
async def cancel(request: Request, job_id: str) -> Response:
    """Cancel a job. One that has ended is told as it ended."""
    jobs, principal = services_of(request).jobs, principal_of(request)
    try:
        status = await jobs.cancel(principal, JobId(job_id))
    except Conflict:
        status = await jobs.status(principal, JobId(job_id))
    if not status.job.state.is_final:
        status = await jobs.wait(principal, JobId(job_id), CANCEL_SECONDS)
    return json_response(PodJob(id=job_id, status=status_of(status.job)))


@router.get(HEALTH)
async def show_health(request: Request) -> Response:
    """The caller's own jobs and all workers, counted."""
    services, principal = services_of(request), principal_of(request)
    counts = await services.jobs.counts(principal)
    retried = await services.jobs.count_retried(principal)
    return json_response(pod_health(counts, retried, services.workers.list(principal_of(request))))


async def _submit(request: Request) -> Accepted:
    content = await read_json_text(request, BODY_LIMIT)
    body = decode_json(content, _pod_request)
    check_request(body)
    services, principal = services_of(request), principal_of(request)
    workflow = given_text(body.input.workflow)
    images = body.input.images or []
    check_count(len(images))
    names = {
        each.name: await services.given_files.from_base64(principal, each.name, each.image)
        for each in images
    }
    return await services.submit(
        principal,
        Submission(
            WorkflowRequest(
                None if workflow is None else await renamed(workflow, names),
                body.input.workflow_id,
                given_text(body.input.input_params),
            ),
            priority_of(body.policy),
            timeout_of(body.policy),
            queue_timeout=patience_of(body.policy),
            idempotency=idempotency_key(request, content),
            origin=Origin(SURFACE, request.path_params.get("endpoint_id")),
            secrets=secrets_of(body.input),
            webhook=webhook_of(body.webhook, field="webhook"),
            output_config=body.output_config or AS_IT_IS,
        ),
    )


def _told_again(accepted: Accepted) -> Mapping[str, str]:
    return {REPLAYED: "true"} if accepted.is_replay else {}


async def _answer(
    request: Request, status: JobStatus, headers: Mapping[str, str] | None = None
) -> Response:
    shows_output = status.job.state is JobState.COMPLETED
    output = await pod_output(request, status.outputs) if shows_output else None
    return json_response(pod_status(status.job, output), 200, headers)


async def _part(request: Request, status: JobStatus, event: Event) -> PodPart:
    """An event; in the place of the one that says that all went well, the output."""
    if event.type is EventType.COMPLETED:
        return PodPart(output=await pod_output(request, status.outputs))
    name = event.type.removeprefix("execution.")
    return PodPart(output={"event": name, "number": event.number, **event.data})


_BARE: Operations = {
    ("post", RUN): Operation(
        Permission.JOBS_WRITE,
        "Submit a workflow, as to RunPod",
        PodJob,
        body=PodRequest,
        errors=(404, 413, 415, 422),
        is_submission=True,
        example={"input": {"workflow": examples.WORKFLOW}},
    ),
    ("post", RUN_SYNC): Operation(
        Permission.JOBS_WRITE,
        "Submit a workflow and wait, as with RunPod",
        PodStatus,
        body=PodRequest,
        errors=(404, 413, 415, 422),
        is_submission=True,
    ),
    ("get", STATUS): Operation(
        Permission.JOBS_READ, "Status of a job, as RunPod tells it", PodStatus, errors=(404,)
    ),
    ("post", STATUS): Operation(
        Permission.JOBS_READ,
        "The same, for programs that ask with POST",
        PodStatus,
        errors=(404,),
        writes=False,
        is_shown=False,
    ),
    ("get", STREAM): Operation(
        Permission.JOBS_READ, "What is new of a job, as RunPod tells it", PodStream, errors=(404,)
    ),
    ("post", CANCEL): Operation(
        Permission.JOBS_WRITE, "Cancel a job, as with RunPod", PodJob, errors=(404,)
    ),
}

OPERATIONS: Operations = {
    **_BARE,
    **{(method, PREFIX + path): operation for (method, path), operation in _BARE.items()},
    ("get", HEALTH): Operation(
        Permission.FLEET_READ, "Count jobs and workers, as RunPod does", PodHealth
    ),
}
