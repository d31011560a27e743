"""All of it in one list: /api/jobs."""

from collections.abc import Mapping
from typing import Any

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response

from comfyrail.api.comfyui.entries import (
    entries_of,
    job_body,
    read_prompt,
    size_of,
    status_messages,
)
from comfyrail.api.comfyui.off_loop import off_loop
from comfyrail.api.comfyui.requests import ids_in, read_object
from comfyrail.api.comfyui.words import CANCELLED, ENDED, STATES_OF, STATUS_OF
from comfyrail.api.messages import json_response
from comfyrail.api.services import principal_of, services_of
from comfyrail.errors import JobNotFound, MalformedRequest
from comfyrail.jobs.job import Job
from comfyrail.jobs.states import JobState
from comfyrail.store.interface import HistoryQuery, Submitted
from comfyrail.usecases.comfyui_records import NodesRun

JOBS = "/api/jobs"
JOB = JOBS + "/{prompt_id}"
MOST_SHOWN = 1000

router = APIRouter(tags=["ComfyUI"])


@router.get(JOBS)
async def list_jobs(request: Request) -> Response:
    query, shown_limit = _read_query(request.query_params)
    comfyui, principal = services_of(request).comfyui, principal_of(request)
    page = await comfyui.records.history(principal, query)
    jobs = [
        await _body(request, job, submitted)
        async for job, submitted in entries_of(request).submitted(principal, page.jobs)
        if submitted is not None
    ]
    pagination = {
        "offset": query.offset,
        "limit": shown_limit,
        "total": page.total,
        "has_more": query.offset + len(page.jobs) < page.total,
    }
    return json_response({"jobs": jobs, "pagination": pagination})


@router.get(JOB)
async def show_job(request: Request, prompt_id: str) -> Response:
    comfyui, principal = services_of(request).comfyui, principal_of(request)
    job = await comfyui.records.find(principal, prompt_id)
    submitted = {} if job is None else await comfyui.records.submitted(principal, [job.id])
    if job is None or job.is_hidden or job.id not in submitted:
        raise JobNotFound("Job not found")
    graph = submitted[job.id]
    entry = await entries_of(request).describe(principal, job, graph, comfyui.fleet.catalog)
    _, _, prompt, extra_data, _ = entry["prompt"]
    body = await _body(request, job, graph)
    if job.state in ENDED:
        body |= {"outputs": entry["outputs"], "execution_status": entry["status"]}
    body |= {"workflow": {"prompt": prompt, "extra_data": extra_data}}
    return await off_loop(size_of(graph), json_response, body)


@router.post(JOB + "/cancel")
async def cancel_job(request: Request, prompt_id: str) -> Response:
    """Stop one, whether it waits or runs."""
    if not await services_of(request).comfyui.records.cancel(principal_of(request), prompt_id):
        raise JobNotFound("Job not found")
    return json_response({"id": prompt_id})


@router.post(JOBS + "/cancel")
async def cancel_jobs(request: Request) -> Response:
    """Stop several; those that are not there are passed over."""
    records, principal = services_of(request).comfyui.records, principal_of(request)
    for prompt_id in ids_in(await read_object(request), "job_ids"):
        await records.cancel(principal, prompt_id)
    return json_response({})


async def _body(request: Request, job: Job, submitted: Submitted) -> dict[str, Any]:
    prompt = await read_prompt(submitted)
    ui = await entries_of(request).ui(submitted.outputs, prompt)
    error = None
    if job.state is JobState.FAILED:
        error = list(status_messages(job, NodesRun(), prompt))[-1][1]
    body: dict[str, Any] = job_body(job, submitted, ui, error)
    if job.state is JobState.CANCELLED and _knows_cancelled(request.query_params):
        body["status"] = CANCELLED
    return body


def _read_query(given: Mapping[str, str]) -> tuple[HistoryQuery, int | None]:
    """And the limit as it was given. Raises MalformedRequest in ComfyUI's words."""
    states = _states_by_word(given)
    statuses = given.get("status", ",".join(STATES_OF)).split(",")
    unknown = [each[:40] for each in statuses if each not in states]
    if unknown:
        known = ", ".join(STATES_OF)
        raise MalformedRequest(
            f"Invalid status value(s): {', '.join(unknown[:10])}. Valid values: {known}"
        )
    if given.get("sort_by", "created_at") not in {"created_at", "execution_duration"}:
        raise MalformedRequest("sort_by must be 'created_at' or 'execution_duration'")
    if given.get("sort_order", "desc") not in {"asc", "desc"}:
        raise MalformedRequest("sort_order must be 'asc' or 'desc'")
    limit, offset = _whole(given, "limit"), _whole(given, "offset")
    if limit is not None and limit < 1:
        raise MalformedRequest("limit must be a positive integer")
    query = HistoryQuery(
        states=frozenset(state for each in statuses for state in states[each]),
        limit=min(limit or MOST_SHOWN, MOST_SHOWN),
        offset=max(0, offset or 0),
        workflow_id=given.get("workflow_id"),
        by_duration=given.get("sort_by") == "execution_duration",
        is_ascending=given.get("sort_order") == "asc",
    )
    return query, limit


def _states_by_word(given: Mapping[str, str]) -> Mapping[str, frozenset[JobState]]:
    if not _knows_cancelled(given):
        return STATES_OF
    return {
        **STATES_OF,
        STATUS_OF[JobState.FAILED]: frozenset({JobState.FAILED}),
        CANCELLED: frozenset({JobState.CANCELLED}),
    }


def _knows_cancelled(given: Mapping[str, str]) -> bool:
    return CANCELLED in given.get("status", "").split(",")


def _whole(given: Mapping[str, str], name: str) -> int | None:
    try:
        return min(int(given[name][:20]), 1 << 31) if name in given else None
    except ValueError as error:
        raise MalformedRequest(f"{name} must be an integer") from error
