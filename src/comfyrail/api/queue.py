"""API v1: the queue as a whole."""

from datetime import datetime
from typing import Annotated

import msgspec
from fastapi import APIRouter, Query
from starlette.requests import Request
from starlette.responses import Response

from comfyrail.api.access.acts import note_act
from comfyrail.api.contract import time_of
from comfyrail.api.cursors import (
    LONGEST_CURSOR,
    invalid_cursor,
    read_place_cursor,
    write_place_cursor,
)
from comfyrail.api.messages import json_response, read_json
from comfyrail.api.services import principal_of, services_of
from comfyrail.api.v2.contract import V2ExecutionList, open_body
from comfyrail.ids import JobId
from comfyrail.store.interface import OpenJobMark, OpenStage
from comfyrail.usecases.queue import ClassReport, QueueReport

QUEUE = "/v1/queue"
OPEN_JOBS = QUEUE + "/executions"
PAUSE = QUEUE + "/pause"
RESUME = QUEUE + "/resume"

router = APIRouter(tags=["queue"])


class PauseRequest(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """`reason` is shown to whoever asks why nothing starts."""

    reason: str | None = None


class ClassBody(msgspec.Struct, kw_only=True):
    """One class of the queue. Waits are of the jobs that this server started since it began."""

    queue_class: str
    target_seconds: float
    queued: int
    expected_seconds: float
    started: int
    targets_missed: int
    wait_p50: float | None
    wait_p95: float | None


class QueueBody(msgspec.Struct, kw_only=True):
    paused: bool
    paused_at: datetime | None
    reason: str | None
    queued: int
    scheduled: int
    processing: int
    late: int
    classes: list[ClassBody]


_pause_request = msgspec.json.Decoder(PauseRequest)


@router.get(QUEUE)
async def show_queue(request: Request) -> Response:
    return json_response(queue_body(await services_of(request).queue.report()))


@router.get(OPEN_JOBS)
async def list_open_jobs(
    request: Request,
    limit: Annotated[int, Query(ge=1, le=200)] = 50,
    cursor: Annotated[str | None, Query(max_length=LONGEST_CURSOR)] = None,
) -> Response:
    """The caller's executions that have not ended, in the order in which they will run: those that
    are processing, then the queued ones, then those that may not start yet. Pass `next_cursor` back
    as `cursor` to go on.
    """
    statuses, mark = await services_of(request).jobs.open_jobs(
        principal_of(request), _read_mark(cursor), limit
    )
    following = None if mark is None else write_place_cursor(mark.stage, mark.key, mark.job_id)
    return json_response(
        V2ExecutionList(
            executions=[open_body(status) for status in statuses], next_cursor=following
        )
    )


def _read_mark(cursor: str | None) -> OpenJobMark | None:
    found = read_place_cursor(cursor)
    if found is None:
        return None
    stage, key, job_id = found
    if stage not in set(OpenStage):
        raise invalid_cursor()
    return OpenJobMark(OpenStage(stage), key, JobId(job_id))


@router.post(PAUSE)
async def pause_queue(request: Request) -> Response:
    """Start no more jobs. Running ones go on, new ones are accepted and wait."""
    body = await read_json(request, _pause_request)
    report = await services_of(request).queue.pause(body.reason)
    await note_act(request, "queue.pause", "queue", reason=body.reason)
    return json_response(queue_body(report))


@router.post(RESUME)
async def resume_queue(request: Request) -> Response:
    report = await services_of(request).queue.resume()
    await note_act(request, "queue.resume", "queue")
    return json_response(queue_body(report))


def queue_body(report: QueueReport) -> QueueBody:
    return QueueBody(
        paused=report.state.is_paused,
        paused_at=time_of(report.state.paused_at),
        reason=report.state.reason,
        queued=report.queued,
        scheduled=report.scheduled,
        processing=report.processing,
        late=report.late,
        classes=[_class_body(each) for each in report.classes],
    )


def _class_body(report: ClassReport) -> ClassBody:
    waits = report.waits
    return ClassBody(
        queue_class=report.queue_class,
        target_seconds=report.target_seconds,
        queued=report.queued,
        expected_seconds=round(report.expected_seconds, 1),
        started=waits.started,
        targets_missed=waits.missed,
        wait_p50=None if waits.median is None else round(waits.median, 3),
        wait_p95=None if waits.p95 is None else round(waits.p95, 3),
    )
