"""API v1: the queue as a whole."""

from datetime import datetime

import msgspec
from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response

from comfyrail.api.access.acts import note_act
from comfyrail.api.contract import time_of
from comfyrail.api.messages import json_response, read_json
from comfyrail.api.services import services_of
from comfyrail.usecases.queue import ClassReport, QueueReport

QUEUE = "/v1/queue"
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
