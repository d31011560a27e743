"""API v1: a job's events, live, by Server-Sent Events and by WebSocket."""

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import Any

import msgspec
from fastapi import APIRouter
from sse_starlette import EventSourceResponse, ServerSentEvent
from starlette.requests import Request
from starlette.responses import Response
from starlette.websockets import WebSocket

from comfyrail.api.contract import event_body, execution_body
from comfyrail.api.errors import error_body, error_response
from comfyrail.api.executions import EXECUTION
from comfyrail.api.messages import encode
from comfyrail.api.services import principal_of, services_of
from comfyrail.errors import ComfyrailError, MalformedRequest
from comfyrail.ids import JobId
from comfyrail.usecases.jobs import JobStatus

HEARTBEAT_SECONDS = 15

router = APIRouter(tags=["streams"])


class SocketMessage(msgspec.Struct):
    type: str


_read_message = msgspec.json.Decoder(SocketMessage).decode


@router.get(EXECUTION + "/events")
async def stream_events(request: Request, execution_id: str, after: str | None = None) -> Response:
    """Server-Sent Events from number `Last-Event-ID` (or `after`) on; `event: close` ends them."""
    return await send_events(request, JobId(execution_id), after)


@router.websocket(EXECUTION + "/ws")
async def socket_events(socket: WebSocket, execution_id: str, after: str | None = None) -> None:
    """The current state first, then events; `{"type": "cancel"}` cancels the job."""
    await follow_by_socket(
        socket, JobId(execution_id), after, lambda status: execution_body(status.job, status)
    )


async def send_events(request: Request, job_id: JobId, after: str | None) -> Response:
    number = event_number(request.headers.get("last-event-id") or after)
    jobs, principal = services_of(request).jobs, principal_of(request)
    await jobs.status(principal, job_id)

    async def events() -> AsyncIterator[ServerSentEvent]:
        async for event in jobs.events(principal, job_id, number):
            yield ServerSentEvent(
                encode(event_body(event)).decode(), event=event.type, id=str(event.number)
            )
        yield ServerSentEvent("{}", event="close")

    return EventSourceResponse(events(), ping=HEARTBEAT_SECONDS)


async def follow_by_socket(
    socket: WebSocket, job_id: JobId, after: str | None, body: Callable[[JobStatus], Any]
) -> None:
    """`body` shows the state that is sent first."""
    jobs, principal = services_of(socket).jobs, principal_of(socket)
    try:
        number = None if after is None else event_number(after)
        status = await jobs.status(principal, job_id)
    except ComfyrailError as error:
        await socket.send_denial_response(error_response(error, socket.scope))
        return
    await socket.accept()
    state = {"type": "state", "data": body(status)}
    await socket.send_text(encode(state).decode())
    listener = asyncio.create_task(_obey(socket, job_id), name=f"socket-{job_id}")
    sender = asyncio.create_task(
        _send_events(socket, job_id, status.job.last_event if number is None else number),
        name=f"events-{job_id}",
    )
    try:
        await asyncio.wait({listener, sender}, return_when=asyncio.FIRST_COMPLETED)
    finally:
        listener.cancel()
        sender.cancel()
        await asyncio.gather(listener, sender, return_exceptions=True)
    if not sender.cancelled() and sender.exception() is None:
        await socket.close()


async def _send_events(socket: WebSocket, job_id: JobId, after: int) -> None:
    jobs, principal = services_of(socket).jobs, principal_of(socket)
    async for event in jobs.events(principal, job_id, after):
        await socket.send_text(encode(event_body(event)).decode())


async def _obey(socket: WebSocket, job_id: JobId) -> None:
    """Read what the client sends, until it goes away."""
    jobs, principal = services_of(socket).jobs, principal_of(socket)
    while True:
        message = await socket.receive()
        if message["type"] == "websocket.disconnect":
            return
        text = message.get("text") or ""
        try:
            kind = _message_type(text)
            if kind != "cancel":
                raise MalformedRequest(f"Messages of type {kind!r} are not known; try 'cancel'.")
            await jobs.cancel(principal, job_id)
        except ComfyrailError as error:
            reply = {"type": "error", **msgspec.to_builtins(error_body(error, None))}
            await socket.send_text(encode(reply).decode())


def _message_type(text: str) -> str:
    try:
        return _read_message(text).type
    except (msgspec.DecodeError, RecursionError) as error:
        raise MalformedRequest('Send JSON messages such as {"type": "cancel"}.') from error


def event_number(text: str | None) -> int:
    if text is None:
        return 0
    if not text.isascii() or not text.isdigit() or len(text) > 15:
        raise MalformedRequest(
            f"Last-Event-ID is the number of an event of this execution, not {text[:40]!r}."
        )
    return int(text)
