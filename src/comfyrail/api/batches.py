"""API v1: batches."""

import asyncio
from typing import Annotated

import msgspec
from fastapi import APIRouter, Query
from starlette.requests import Request
from starlette.responses import Response

from comfyrail.api.batch_contract import (
    BATCH,
    BATCHES,
    BatchRequest,
    ScoreRequest,
    base_of,
    batch_body,
    batch_list,
    explain_unknown_field,
    member_list,
    plan_of,
    reply_body,
)
from comfyrail.api.cursors import LONGEST_CURSOR, read_cursor, write_cursor
from comfyrail.api.idempotency import REPLAYED, idempotency_key
from comfyrail.api.messages import decode_json, json_response, read_json, read_json_text
from comfyrail.api.services import principal_of, services_of
from comfyrail.errors import MalformedRequest
from comfyrail.ids import BatchId, JobId
from comfyrail.jobs.job import IdempotencyKey
from comfyrail.usecases.batches import BatchSubmission
from comfyrail.usecases.checks import SMALL_REQUEST

EXECUTIONS = BATCH + "/executions"
CANCEL = BATCH + "/cancel"
SCORES = BATCH + "/scores"

router = APIRouter(tags=["batches"])

_batch_request = msgspec.json.Decoder(BatchRequest)
_score_request = msgspec.json.Decoder(ScoreRequest)


@router.post(BATCHES, status_code=202)
async def submit_batch(request: Request) -> Response:
    """Check all jobs of a batch, then queue all of them, or none."""
    content = await read_json_text(request)
    key = idempotency_key(request, content)
    if len(content) > SMALL_REQUEST:
        submission = await asyncio.to_thread(_read_submission, content, key)
    else:
        submission = _read_submission(content, key)
    accepted = await services_of(request).batches.submit(principal_of(request), submission)
    headers = {"Location": BATCH.format(batch_id=accepted.batch_id)}
    if accepted.is_replay:
        headers[REPLAYED] = "true"
    return json_response(reply_body(accepted), 202, headers)


def _read_submission(content: bytes, key: IdempotencyKey | None) -> BatchSubmission:
    try:
        body = decode_json(content, _batch_request)
    except MalformedRequest as error:
        raise MalformedRequest(error.message + explain_unknown_field(error.message)) from error
    return BatchSubmission(base_of(body), plan_of(body), body.name, body.stop_on_error, key)


@router.get(BATCHES)
async def list_batches(
    request: Request,
    limit: Annotated[int, Query(ge=1, le=100)] = 20,
    cursor: Annotated[str | None, Query(max_length=LONGEST_CURSOR)] = None,
) -> Response:
    """Newest first. Pass `next_cursor` back as `cursor` to go on."""
    after = read_cursor(cursor)
    statuses, following = await services_of(request).batches.page(
        principal_of(request), BatchId(after) if after else None, limit
    )
    return json_response(batch_list(statuses, write_cursor(following)))


@router.get(BATCH)
async def show_batch(request: Request, batch_id: str) -> Response:
    """All its jobs as one: counts, progress, cost, the best trial of a search."""
    status = await services_of(request).batches.status(principal_of(request), BatchId(batch_id))
    return json_response(batch_body(status))


@router.get(EXECUTIONS)
async def list_batch_executions(
    request: Request,
    batch_id: str,
    limit: Annotated[int, Query(ge=1, le=500)] = 100,
    cursor: Annotated[int, Query(ge=-1, le=1 << 40)] = -1,
) -> Response:
    """In the order of the batch. Pass `next_cursor` back as `cursor` to go on."""
    page = await services_of(request).batches.members(
        principal_of(request), BatchId(batch_id), cursor, limit
    )
    return json_response(member_list(batch_id, page))


@router.post(CANCEL)
async def cancel_batch(request: Request, batch_id: str) -> Response:
    """Cancel its queued jobs at once, and those that run as soon as their workers have stopped."""
    status = await services_of(request).batches.cancel(principal_of(request), BatchId(batch_id))
    return json_response(batch_body(status))


@router.post(SCORES)
async def score_trial(request: Request, batch_id: str) -> Response:
    """Say what an execution of a search is worth, where the caller does that."""
    body = await read_json(request, _score_request)
    status = await services_of(request).batches.score(
        principal_of(request), BatchId(batch_id), JobId(body.execution_id), body.score
    )
    return json_response(batch_body(status))
