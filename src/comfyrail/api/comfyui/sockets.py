"""GET /ws: what happens to a client's prompts, as it happens."""

import asyncio
import contextlib
import uuid
from collections.abc import Iterator
from typing import Any

import msgspec
from fastapi import APIRouter
from starlette.websockets import WebSocket, WebSocketState

from comfyrail.access.permissions import Permission
from comfyrail.access.principal import Principal
from comfyrail.api.comfyui.entries import (
    Entries,
    end_data,
    entries_of,
    is_socket_picture,
    prompt_id_of,
    read_prompt,
)
from comfyrail.api.comfyui.features import FEATURES
from comfyrail.api.comfyui.frames import Outbox, picture_frame, status_frame, text_frame
from comfyrail.api.comfyui.requests import LONGEST_ID
from comfyrail.api.comfyui.story import Story
from comfyrail.api.comfyui.words import END_OF
from comfyrail.api.errors import error_response
from comfyrail.api.lasting import ACCESS_LOST, access_lost, place_of, unless_gone
from comfyrail.api.services import principal_of, services_of
from comfyrail.errors import ComfyrailError, MalformedRequest, TooManyRequests
from comfyrail.fleet.previews import Preview
from comfyrail.ids import JobId
from comfyrail.jobs.events import Event
from comfyrail.jobs.job import Job
from comfyrail.jobs.states import JobState
from comfyrail.usecases.comfyui_records import ComfyuiRecords

MOST_SOCKETS = 4096
TRY_AGAIN_LATER = 1013
LARGEST_PICTURE = 64 << 20

router = APIRouter(tags=["ComfyUI"])

_decode = msgspec.json.Decoder(dict[str, Any]).decode
_open: set[object] = set()


@router.websocket("/ws")
async def listen(socket: WebSocket) -> None:
    client_id = socket.query_params.get("clientId") or uuid.uuid4().hex
    with contextlib.ExitStack() as stack:
        try:
            _check_id(client_id)
            stack.enter_context(_place(principal_of(socket)))
        except ComfyrailError as error:
            await socket.send_denial_response(error_response(error, socket.scope))
            return
        await socket.accept()
        with unless_gone(socket):
            await _serve(socket, client_id)


async def _serve(socket: WebSocket, client_id: str) -> None:
    services, principal = services_of(socket), principal_of(socket)
    records = services.comfyui.records
    client = _Client(records, entries_of(socket), principal)
    client.say_status(await records.count_open(principal), client_id)
    lost = asyncio.create_task(access_lost(socket, Permission.JOBS_READ), name=f"ws-{client_id}")
    tasks = [
        lost,
        asyncio.create_task(_read(socket, client), name=f"ws-read-{client_id}"),
        asyncio.create_task(_write(socket, client.outbox), name=f"ws-write-{client_id}"),
        asyncio.create_task(
            services.comfyui.feeds.run(principal, client_id, client), name=f"ws-feed-{client_id}"
        ),
    ]
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            task.cancel()
        ends = await asyncio.gather(*tasks, return_exceptions=True)
    if not lost.cancelled() and lost.exception() is None:
        await socket.close(ACCESS_LOST, lost.result().code)
        return
    for end in ends:
        if isinstance(end, Exception):
            raise end
    if client.outbox.is_broken and socket.application_state is WebSocketState.CONNECTED:
        await socket.close(TRY_AGAIN_LATER, "You read too slowly.")


def _check_id(client_id: str) -> None:
    if len(client_id) > LONGEST_ID or not client_id.isprintable():
        raise MalformedRequest(f"clientId has {LONGEST_ID} printable characters at most.")


@contextlib.contextmanager
def _place(principal: Principal) -> Iterator[None]:
    """One of all, and one of those of the tenant."""
    if len(_open) >= MOST_SOCKETS:
        raise TooManyRequests("Too many clients are connected. Try again later.", retry_after=10.0)
    with place_of(principal):
        mine = object()
        _open.add(mine)
        try:
            yield
        finally:
            _open.discard(mine)


async def _read(socket: WebSocket, client: "_Client") -> None:
    """The first message may say what the client can do; nothing else is read, as in ComfyUI."""
    is_first = True
    while True:
        message = await socket.receive()
        if message["type"] == "websocket.disconnect":
            return
        if is_first:
            client.negotiate(message.get("text") or "")
        is_first = False


async def _write(socket: WebSocket, outbox: Outbox) -> None:
    while (frame := await outbox.take()) is not None:
        if isinstance(frame.content, str):
            await socket.send_text(frame.content)
        else:
            await socket.send_bytes(frame.content)


class _Client:
    """Hears of the jobs, and says it in ComfyUI's words. See `Listener`."""

    def __init__(self, records: ComfyuiRecords, entries: Entries, principal: Principal) -> None:
        self._records = records
        self._entries = entries
        self._principal = principal
        self._stories: dict[JobId, Story] = {}
        self._wants_metadata = False
        self._count = -1
        self.outbox = Outbox()

    def negotiate(self, text: str) -> None:
        try:
            message = _decode(text)
        except (msgspec.MsgspecError, RecursionError):
            return
        if message.get("type") == "feature_flags":
            flags = message.get("data")
            known = flags if isinstance(flags, dict) else {}
            self._wants_metadata = known.get("supports_preview_metadata") is True
            self.outbox.put(text_frame("feature_flags", FEATURES))

    def open_jobs(self, count: int) -> None:
        """Unless it is known already."""
        if count != self._count:
            self.say_status(count)

    def say_status(self, count: int, sid: str | None = None) -> None:
        self._count = count
        self.outbox.put(status_frame(count, sid))

    async def begin(self, job: Job) -> None:
        self._stories[job.id] = Story(prompt_id_of(job), job.progress.total_nodes)

    async def tell(self, job: Job, event: Event, open_jobs: int | None) -> None:
        story = self._stories[job.id]
        for frame in story.tell(event):
            self.outbox.put(frame)
        if event.type.is_final:
            await self._end(job.id, story, open_jobs)
            del self._stories[job.id]

    def show(self, job: Job, preview: Preview) -> None:
        frame = picture_frame(
            preview.image,
            preview.content_type,
            prompt_id_of(job),
            preview.node_id,
            with_metadata=self._wants_metadata,
            is_spare=True,
        )
        self.outbox.put(frame)

    async def _end(self, job_id: JobId, story: Story, open_jobs: int | None) -> None:
        job = await self._records.find(self._principal, job_id)
        submitted = (await self._records.submitted(self._principal, [job_id])).get(job_id)
        if job is None or submitted is None:
            return
        prompt = await read_prompt(submitted)
        for output in submitted.outputs:
            if is_socket_picture(output, prompt):
                await self._send_picture(job, story, output)
        for node, shown in (await self._entries.ui(submitted.outputs, prompt)).items():
            self.outbox.put(story.executed(node, shown))
        was_taken_out = job.started_at is None and job.state is JobState.CANCELLED
        if job.state in END_OF and not was_taken_out:
            run = await self._records.nodes_run(self._principal, job_id)
            self.outbox.put(text_frame(END_OF[job.state], end_data(job, run, prompt)))
        if open_jobs is not None:
            self.say_status(open_jobs)
        if not was_taken_out:
            self.outbox.put(story.over())

    async def _send_picture(self, job: Job, story: Story, output: Any) -> None:
        """Clients take the pictures for those of the node that runs."""
        if story.current != output.file.node_id:
            self.outbox.put(story.execute(output.file.node_id))
        image = await self._records.content(output, LARGEST_PICTURE)
        frame = picture_frame(
            image,
            output.file.content_type,
            prompt_id_of(job),
            output.file.node_id,
            with_metadata=self._wants_metadata,
            is_spare=False,
        )
        self.outbox.put(frame)
