"""Comfy API v2: jobs."""

from typing import Annotated

import msgspec
from fastapi import APIRouter, Query
from starlette.requests import Request
from starlette.responses import Response

from comfyrail.api.comfy_v2.contract import (
    CANCEL,
    JOB,
    JOBS,
    WORKFLOW,
    ComfyExtraData,
    ComfyJob,
    ComfyJobList,
    ComfyJobRequest,
    ComfyJobWorkflow,
    Links,
    job_body,
    summary_body,
)
from comfyrail.api.comfy_v2.labels import has_labels, origin_with, read_filter
from comfyrail.api.comfy_v2.progress import latest_progress
from comfyrail.api.comfy_v2.words import SURFACE
from comfyrail.api.contract import instant_of
from comfyrail.api.cursors import LONGEST_CURSOR, read_cursor, write_cursor
from comfyrail.api.idempotency import REPLAYED, idempotency_key
from comfyrail.api.messages import decode_json, json_response, read_json_text
from comfyrail.api.services import principal_of, services_of
from comfyrail.errors import Conflict, InvalidWorkflow, MalformedRequest
from comfyrail.ids import JobId
from comfyrail.jobs.job import Job
from comfyrail.jobs.output_config import AS_IT_IS
from comfyrail.store.interface import JobFilter
from comfyrail.usecases.checks import WorkflowRequest
from comfyrail.usecases.jobs import JobStatus
from comfyrail.usecases.submit import Submission

JOBS_A_READ = 500
READS_A_PAGE = 10
"""A list that has looked at so many jobs says where it goes on, whatever it has found."""
RESERVED = ("webhook_url", "inputs")

router = APIRouter(tags=["Comfy API v2"])

_job_request = msgspec.json.Decoder(ComfyJobRequest)
_parts_of_graph = msgspec.json.Decoder(dict[str, msgspec.Raw])


@router.post(JOBS)
async def submit_job(request: Request) -> Response:
    """Checked before it is answered: a 201 is on disk and in the queue."""
    content = await read_json_text(request)
    body = decode_json(content, _job_request)
    _refuse_reserved(body)
    _refuse_editor_format(bytes(body.workflow))
    wishes = body.comfyrail
    accepted = await services_of(request).submit(
        principal_of(request),
        Submission(
            WorkflowRequest(bytes(body.workflow)),
            priority=wishes.priority,
            timeout_seconds=wishes.timeout,
            execution_config=wishes.execution_config,
            labels=wishes.labels,
            not_before=instant_of(wishes.not_before, "comfyrail.not_before"),
            queue_timeout=wishes.queue_timeout,
            max_retries=wishes.max_retries,
            is_batch=wishes.queue_class == "batch",
            idempotency=idempotency_key(request, content),
            origin=origin_with(body.metadata),
            secrets=_secrets(body.extra_data),
            output_config=wishes.output_config or AS_IT_IS,
            webhook=wishes.webhook_config,
        ),
    )
    status = await services_of(request).jobs.status(principal_of(request), accepted.job_id)
    headers = {"Location": Links.of(request).to_job(JOB, accepted.job_id)}
    if accepted.is_replay:
        headers[REPLAYED] = "true"
    return json_response(await _described(request, status), 201, headers)


@router.get(JOBS)
async def list_jobs(
    request: Request,
    limit: Annotated[int, Query(ge=1, le=100)] = 50,
    cursor: Annotated[str | None, Query(max_length=LONGEST_CURSOR)] = None,
) -> Response:
    """Newest first; with `metadata[name]=value` those that have all of these labels."""
    wanted = read_filter(request.query_params.multi_items())
    found, last = await _find_jobs(request, wanted, read_cursor(cursor), limit)
    body = ComfyJobList(jobs=[summary_body(job) for job in found], next_cursor=write_cursor(last))
    return json_response(body)


@router.get(JOB)
async def show_job(request: Request, job_id: str) -> Response:
    status = await services_of(request).jobs.status(principal_of(request), JobId(job_id))
    return json_response(await _described(request, status))


@router.post(CANCEL)
async def cancel_job(request: Request, job_id: str) -> Response:
    """Of a job that has ended nothing changes: it is shown as it is."""
    jobs, principal = services_of(request).jobs, principal_of(request)
    try:
        status = await jobs.cancel(principal, JobId(job_id))
    except Conflict:
        status = await jobs.status(principal, JobId(job_id))
    return json_response(await _described(request, status))


@router.get(WORKFLOW)
async def show_workflow(request: Request, job_id: str) -> Response:
    """The graph that runs or ran, in API format."""
    prompt = await services_of(request).jobs.prompt(principal_of(request), JobId(job_id))
    return json_response(ComfyJobWorkflow(workflow=msgspec.Raw(prompt)))


async def _find_jobs(
    request: Request, wanted: dict[str, str], start: str | None, limit: int
) -> tuple[list[Job], JobId | None]:
    """Jobs, and the one behind which to look on."""
    jobs, principal = services_of(request).jobs, principal_of(request)
    after = JobId(start) if start else None
    if not wanted:
        page = await jobs.page(principal, JobFilter(), after, limit)
        return list(page.jobs), page.next_cursor
    found: list[Job] = []
    for _ in range(READS_A_PAGE):
        page = await jobs.page(principal, JobFilter(surface=SURFACE), after, JOBS_A_READ)
        for job in page.jobs:
            if has_labels(job, wanted):
                found.append(job)
                if len(found) == limit:
                    return found, job.id
        after = page.next_cursor
        if after is None:
            break
    return found, after


async def _described(request: Request, status: JobStatus) -> ComfyJob:
    progress = await latest_progress(services_of(request).jobs, principal_of(request), status.job)
    return job_body(status, progress, Links.of(request))


def _secrets(extra_data: ComfyExtraData) -> dict[str, str]:
    key = extra_data.api_key_comfy_org
    return {"api_key_comfy_org": key} if key else {}


def _refuse_reserved(body: ComfyJobRequest) -> None:
    for name in RESERVED:
        if getattr(body, name) is not msgspec.UNSET:
            raise MalformedRequest(
                f"{name} is reserved in the Comfy API v2 and not accepted yet. Leave it out.",
                code="RESERVED_FIELD",
                details={"field": name},
            )


def _refuse_editor_format(workflow: bytes) -> None:
    """A graph is all that this API takes; /v1 takes the editor's files too."""
    try:
        parts = _parts_of_graph.decode(workflow)
    except msgspec.DecodeError:
        return  # what is wrong with it the checks say better
    nodes = parts.get("nodes")
    if nodes is not None and bytes(nodes).lstrip().startswith(b"["):
        raise InvalidWorkflow(
            "The workflow is in the editor's format. Export it with 'Export (API)' in ComfyUI, or "
            "submit it to /v1/workflows/execute, which takes both.",
            code="WORKFLOW_FORMAT_UI",
        )
