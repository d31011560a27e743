"""The routes of the run API."""

from collections import Counter
from typing import Annotated

import msgspec
from fastapi import APIRouter, Query
from starlette.requests import Request
from starlette.responses import Response

from comfyrail.access.permissions import Permission
from comfyrail.api.access.acts import note_act
from comfyrail.api.idempotency import REPLAYED, idempotency_key
from comfyrail.api.messages import decode_json, json_response, read_json, read_json_text
from comfyrail.api.operations import Operation, Operations
from comfyrail.api.runs.contract import (
    ClearedRunStates,
    RunOutputs,
    RunProgressBody,
    RunReply,
    RunRequest,
    RunStateBody,
    RunStateList,
    RunSummary,
    SaveRunStateRequest,
    progress_body,
    run_output,
    run_reply,
    run_wish,
    state_body,
)
from comfyrail.api.services import principal_of, services_of
from comfyrail.ids import JobId
from comfyrail.usecases.run_record import FETCH_FAILED

EXECUTE = "/comfyui/workflow/execute"
PROGRESS = "/comfyui/workflow/{workflow_id}/progress"
CANCEL = "/comfyui/workflow/{workflow_id}/cancel"
FETCH = "/comfyui/workflow/{workflow_id}/fetch"
OUTPUTS = "/comfyui/workflow/{workflow_id}/outputs"
STATE = "/workflow/state"
SUMMARY = "/workflow/state/summary"

BODY_LIMIT = 32 << 20
"""Pictures may be in it."""

router = APIRouter(tags=["runs"])

_run_request = msgspec.json.Decoder(RunRequest)
_save_request = msgspec.json.Decoder(SaveRunStateRequest)


@router.post(EXECUTE)
async def execute(request: Request) -> Response:
    """Run a workflow on one worker."""
    content = await read_json_text(request, BODY_LIMIT)
    wish = run_wish(decode_json(content, _run_request), idempotency_key(request, content))
    runs = services_of(request).runs
    started = await runs.start(principal_of(request), wish)
    if started.is_new_worker:
        await note_act(request, "worker.add", started.worker.id, driver=started.worker.driver)
    headers = {"Location": PROGRESS.format(workflow_id=started.accepted.job_id)}
    if started.accepted.is_replay:
        headers[REPLAYED] = "true"
    return json_response(run_reply(started, runs.limit), 200, headers)


@router.get(PROGRESS)
async def show_progress(request: Request, workflow_id: str) -> Response:
    runs = services_of(request).runs
    return json_response(
        progress_body(await runs.progress(principal_of(request), JobId(workflow_id)))
    )


@router.post(CANCEL)
async def cancel(request: Request, workflow_id: str) -> Response:
    """Cancel a run: a queued one at once, a running one as soon as its worker has stopped."""
    runs = services_of(request).runs
    progress = await runs.cancel(principal_of(request), JobId(workflow_id))
    message = (
        "The run is cancelled."
        if progress.status.job.state == "cancelled"
        else "The run is cancelled as soon as its worker has stopped."
    )
    return json_response(RunReply(success=True, workflow_id=workflow_id, message=message))


@router.post(FETCH)
async def fetch_again(request: Request, workflow_id: str) -> Response:
    """Bring the outputs of an ended run to `output_dir`, where the server has given that up."""
    runs = services_of(request).runs
    return json_response(progress_body(await runs.fetch(principal_of(request), JobId(workflow_id))))


@router.get(OUTPUTS)
async def list_outputs(request: Request, workflow_id: str) -> Response:
    """What a run has made, and where it was fetched to."""
    runs = services_of(request).runs
    outputs, known = await runs.outputs(principal_of(request), JobId(workflow_id))
    return json_response(
        RunOutputs(
            workflow_id=workflow_id,
            output_dir=known.state.output_dir if known else None,
            outputs=[run_output(output, known) for output in outputs],
        )
    )


@router.get(STATE)
async def show_states(
    request: Request,
    workflow_id: Annotated[str | None, Query(max_length=64)] = None,
    limit: Annotated[int, Query(ge=1, le=500)] = 100,
) -> Response:
    """The states of the caller's runs, newest first; with `workflow_id` that of one."""
    states, principal = services_of(request).runs.states, principal_of(request)
    if workflow_id is not None:
        found = [await states.show(principal, JobId(workflow_id))]
    else:
        found = list(await states.newest(principal, limit))
    return json_response(RunStateList(runs=[state_body(each) for each in found]))


@router.post(STATE)
async def save_state(request: Request) -> Response:
    """Merge notes into the state of a run."""
    body = await read_json(request, _save_request)
    known = await services_of(request).runs.states.note(
        principal_of(request), JobId(body.workflow_id), body.notes, body.version
    )
    return json_response(state_body(known))


@router.delete(STATE)
async def clear_states(
    request: Request, workflow_id: Annotated[str | None, Query(max_length=64)] = None
) -> Response:
    """Forget the states of all runs that have ended, or of one."""
    states, principal = services_of(request).runs.states, principal_of(request)
    if workflow_id is None:
        return json_response(ClearedRunStates(cleared=await states.clear_ended(principal)))
    await states.clear(principal, JobId(workflow_id))
    return json_response(ClearedRunStates(cleared=1))


@router.get(SUMMARY)
async def summarize(request: Request) -> Response:
    """How many runs there are in which state, and those that are active."""
    found = await services_of(request).runs.states.summary(principal_of(request))
    active = [each for each in found if not each.state.is_final]
    return json_response(
        RunSummary(
            total=len(found),
            active=len(active),
            by_status=dict(Counter(each.state.status for each in found)),
            not_fetched=[
                each.state.run_id for each in found if each.state.fetch.state == FETCH_FAILED
            ],
            runs=[state_body(each) for each in active],
        )
    )


OPERATIONS: Operations = {
    ("post", EXECUTE): Operation(
        Permission.JOBS_WRITE,
        "Run a workflow on one worker",
        RunReply,
        body=RunRequest,
        errors=(404, 413, 415, 422),
        is_submission=True,
        example={"worker": "local-1", "workflow_file": "portrait", "workflow_name": "Portrait"},
    ),
    ("get", PROGRESS): Operation(
        Permission.JOBS_READ, "How far a run is", RunProgressBody, errors=(404,)
    ),
    ("post", CANCEL): Operation(Permission.JOBS_WRITE, "Cancel a run", RunReply, errors=(404, 409)),
    ("post", FETCH): Operation(
        Permission.JOBS_WRITE,
        "Fetch the outputs of a run again",
        RunProgressBody,
        errors=(404, 409, 422),
    ),
    ("get", OUTPUTS): Operation(
        Permission.JOBS_READ, "Outputs of a run", RunOutputs, errors=(404,)
    ),
    ("get", STATE): Operation(Permission.JOBS_READ, "States of runs", RunStateList, errors=(404,)),
    ("post", STATE): Operation(
        Permission.JOBS_WRITE,
        "Keep notes with the state of a run",
        RunStateBody,
        body=SaveRunStateRequest,
        errors=(404, 409, 413, 415),
    ),
    ("delete", STATE): Operation(
        Permission.JOBS_WRITE, "Forget states of runs", ClearedRunStates, errors=(404, 409)
    ),
    ("get", SUMMARY): Operation(Permission.JOBS_READ, "Count runs by state", RunSummary),
}
