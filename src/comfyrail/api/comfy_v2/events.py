"""Comfy API v2: a job's events, live.

The contract knows no ids and no replay. Ours has both as additions: a client that sends
`Last-Event-ID` gets what it missed, all others the state as it is and then what comes.
"""

import asyncio
import base64
import contextlib
from collections.abc import AsyncIterator
from typing import Any

from fastapi import APIRouter
from sse_starlette import ServerSentEvent
from starlette.requests import Request
from starlette.responses import Response

from comfyrail.access.principal import Principal
from comfyrail.api.comfy_v2.contract import (
    EVENTS,
    ComfyLogEvent,
    ComfyPreviewEvent,
    ComfyStatusEvent,
    Links,
    output_bodies,
    output_body,
    progress_of_event,
)
from comfyrail.api.comfy_v2.progress import latest_progress
from comfyrail.api.comfy_v2.words import ENDS, Status, status_of
from comfyrail.api.lasting import LastingStream
from comfyrail.api.messages import encode
from comfyrail.api.services import principal_of, services_of
from comfyrail.api.streams import event_number
from comfyrail.errors import JobNotFound, OutputNotFound
from comfyrail.ids import JobId, OutputId
from comfyrail.jobs.events import Event, EventType
from comfyrail.jobs.job import Output
from comfyrail.jobs.states import JobState
from comfyrail.usecases.jobs import Jobs, JobStatus

PROGRESS_SECONDS = 0.5
"""Between two `progress` events, and between two previews."""
QUEUE_SECONDS = 2.0
"""Between two looks at a place in the queue."""

router = APIRouter(tags=["Comfy API v2"])


@router.get(EVENTS)
async def stream_job(request: Request, job_id: str) -> Response:
    """Ends after the terminal `status`."""
    jobs, principal = services_of(request).jobs, principal_of(request)
    given = request.headers.get("last-event-id")
    after = None if given is None else event_number(given)
    status = await jobs.status(principal, JobId(job_id))
    stream = JobStream(jobs, principal, status, Links.of(request))
    return LastingStream(stream.frames(after), request)


class JobStream:
    """Turns the log of one job into the events of this API."""

    def __init__(self, jobs: Jobs, principal: Principal, status: JobStatus, links: Links) -> None:
        self._jobs = jobs
        self._principal = principal
        self._status = status
        self._job_id = status.job.id
        self._links = links
        self._number = 0
        self._word: Status | None = None
        self._position: int | None = None
        self._progress: ServerSentEvent | None = None
        self._progress_due = 0.0
        self._preview_due = 0.0
        self._preview_number = 0
        self._unready: list[OutputId] = []

    async def frames(self, after: int | None) -> AsyncIterator[ServerSentEvent]:
        if after is None:
            self._number = self._status.job.last_event
            async for frame in self._snapshot():
                yield frame
        else:
            self._number = after
        while not self._is_over:
            self._status = await self._jobs.wait(
                self._principal, self._job_id, self._patience(), self._number
            )
            async for frame in self._news():
                yield frame

    @property
    def _is_over(self) -> bool:
        return self._word in ENDS

    def _patience(self) -> float:
        if self._progress is not None:
            return max(0.0, self._progress_due - _now())
        is_running = self._status.job.state is JobState.PROCESSING
        return PROGRESS_SECONDS if is_running else QUEUE_SECONDS

    async def _snapshot(self) -> AsyncIterator[ServerSentEvent]:
        """The state as it is. At the end the terminal status comes last: nobody reads on."""
        job = self._status.job
        if not job.state.is_final:
            yield self._status_frame(self._number)
        progress = await latest_progress(self._jobs, self._principal, job)
        if progress is not None:
            yield _frame("progress", progress, self._number)
        async for frame in self._new_preview():
            yield frame
        for output in self._status.outputs:
            yield self._output_frame(output, self._number)
        if job.state.is_final:
            yield self._status_frame(self._number)

    async def _news(self) -> AsyncIterator[ServerSentEvent]:
        known = self._status.job
        for event in await self._jobs.events_so_far(self._principal, self._job_id, self._number):
            self._number = event.number
            async for frame in self._told(event):
                yield frame
            if event.type.is_final:
                return
        if self._progress is not None and _now() >= self._progress_due:
            yield self._take_progress(self._progress)
        async for frame in self._new_preview():
            yield frame
        if self._number >= known.last_event and self._has_changed():
            yield self._status_frame()

    async def _told(self, event: Event) -> AsyncIterator[ServerSentEvent]:
        """What one event of the log is here."""
        if event.type is EventType.PROGRESS:
            self._progress = _frame("progress", progress_of_event(event.data), event.number)
            return
        if self._progress is not None:
            yield self._take_progress(self._progress)
        match event.type:
            case EventType.OUTPUT_READY:
                self._unready.append(OutputId(event.data["output_id"]))
                async for frame in self._ready_outputs(event.number):
                    yield frame
            case EventType.WARNING:
                said = ComfyLogEvent(level="warning", message=str(event.data.get("message", "")))
                yield _frame("log", said, event.number)
            case EventType.QUEUED:
                self._word = "queued"
                self._position = event.data.get("queue_position")
                said_status = ComfyStatusEvent(status="queued", queue_position=self._position)
                yield _frame("status", said_status, event.number)
            case EventType.STARTED:
                self._word, self._position = "running", None
                yield _frame("status", ComfyStatusEvent(status="running"), event.number)
            case kind if kind.is_final:
                async for frame in self._ready_outputs(event.number):
                    yield frame
                self._status = await self._jobs.status(self._principal, self._job_id)
                yield self._status_frame(event.number)
            case _:
                return

    def _take_progress(self, frame: ServerSentEvent) -> ServerSentEvent:
        self._progress = None
        self._progress_due = _now() + PROGRESS_SECONDS
        return frame

    def _has_changed(self) -> bool:
        """Besides what events tell: that it is being cancelled, and its place in the queue."""
        status = self._status
        moved = status.queue_position is not None and status.queue_position != self._position
        return status_of(status.job) != self._word or moved

    def _status_frame(self, number: int | None = None) -> ServerSentEvent:
        status = self._status
        self._word, self._position = status_of(status.job), status.queue_position
        said = ComfyStatusEvent(status=self._word, queue_position=self._position)
        if status.job.state.is_final:
            said.outputs = output_bodies(status.outputs, self._links)
        return _frame("status", said, number)

    async def _ready_outputs(self, number: int) -> AsyncIterator[ServerSentEvent]:
        """Of those that events told of the ones that can be fetched by now."""
        waiting, self._unready = self._unready, []
        for output_id in waiting:
            try:
                output = await self._jobs.find_output(self._principal, output_id)
            except OutputNotFound:
                self._unready.append(output_id)
            else:
                yield self._output_frame(output, number)

    def _output_frame(self, output: Output, number: int) -> ServerSentEvent:
        return _frame("output", output_body(output, self._links), number)

    async def _new_preview(self) -> AsyncIterator[ServerSentEvent]:
        if self._status.job.state is not JobState.PROCESSING or _now() < self._preview_due:
            return
        with contextlib.suppress(JobNotFound):
            preview = await self._jobs.preview(self._principal, self._job_id)
            if preview is None or preview.number == self._preview_number:
                return
            self._preview_number = preview.number
            self._preview_due = _now() + PROGRESS_SECONDS
            said = ComfyPreviewEvent(
                node_id=preview.node_id or "",
                content_type=preview.content_type,
                data_base64=base64.b64encode(preview.image).decode(),
            )
            yield _frame("preview", said)


def _frame(name: str, body: Any, number: int | None = None) -> ServerSentEvent:
    return ServerSentEvent(
        encode(body).decode(), event=name, id=None if number is None else str(number)
    )


def _now() -> float:
    return asyncio.get_running_loop().time()
