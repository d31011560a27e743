"""API v1: a job's events, live, by Server-Sent Events and by WebSocket."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from typing import Any

import msgspec
from fastapi import APIRouter
from sse_starlette import ServerSentEvent
from starlette.requests import Request
from starlette.responses import Response
from starlette.websockets import WebSocket

from comfyrail.access.permissions import Permission
from comfyrail.api.contract import event_body, execution_body
from comfyrail.api.errors import error_body, error_response
from comfyrail.api.executions import EXECUTION
from comfyrail.api.lasting import (
    ACCESS_LOST,
    LastingStream,
    access_lost,
    caller_now,
    place_of,
    unless_gone,
)
from comfyrail.api.messages import encode
from comfyrail.api.services import principal_of, services_of
from comfyrail.errors import ComfyrailError, Forbidden, MalformedRequest, Unauthorized
from comfyrail.ids import JobId
from comfyrail.usecases.jobs import JobStatus

FAILED = 1011

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

    return LastingStream(events(), request)


async def follow_by_socket(
    socket: WebSocket, job_id: JobId, after: str | None, body: Callable[[JobStatus], Any]
) -> None:
    """`body` shows the state that is sent first."""
    jobs, principal = services_of(socket).jobs, principal_of(socket)
    with contextlib.ExitStack() as stack:
        try:
            stack.enter_context(place_of(principal))
            number = None if after is None else event_number(after)
            status = await jobs.status(principal, job_id)
        except ComfyrailError as error:
            await socket.send_denial_response(error_response(error, socket.scope))
            return
        await socket.accept()
        with unless_gone(socket):
            await _send(socket, {"type": "state", "data": body(status)})
            last = status.job.last_event if number is None else number
            await _follow(socket, job_id, last)


async def _follow(socket: WebSocket, job_id: JobId, after: int) -> None:
    listener = asyncio.create_task(_obey(socket, job_id), name=f"socket-{job_id}")
    sender = asyncio.create_task(_send_events(socket, job_id, after), name=f"events-{job_id}")
    lost = asyncio.create_task(access_lost(socket, Permission.JOBS_READ), name=f"access-{job_id}")
    tasks = (sender, listener, lost)
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            task.cancel()
        ends = await asyncio.gather(*tasks, return_exceptions=True)
    refusal = next((end for end in ends if isinstance(end, ComfyrailError)), None)
    if isinstance(refusal, Unauthorized | Forbidden):
        await _send_error(socket, refusal)
        await socket.close(ACCESS_LOST, refusal.code)
    elif refusal is not None:
        await _send_error(socket, refusal)
        await socket.close(FAILED, refusal.code)
    elif ends[0] is None:
        await socket.close()
    else:
        for end in ends:
            if isinstance(end, Exception):
                raise end


async def _send_events(socket: WebSocket, job_id: JobId, after: int) -> None:
    jobs, principal = services_of(socket).jobs, principal_of(socket)
    async for event in jobs.events(principal, job_id, after):
        await _send(socket, event_body(event))


async def _obey(socket: WebSocket, job_id: JobId) -> None:
    """Read what the client sends, until it goes away. Raises Unauthorized for one who wants
    something with a key or a token that counts no longer.
    """
    jobs = services_of(socket).jobs
    while True:
        message = await socket.receive()
        if message["type"] == "websocket.disconnect":
            return
        text = message.get("text") or ""
        try:
            kind = _message_type(text)
            if kind != "cancel":
                raise MalformedRequest(
                    f"Messages of type {kind[:40]!r} are not known; try 'cancel'."
                )
            await jobs.cancel(await caller_now(socket, Permission.JOBS_WRITE), job_id)
        except Unauthorized:
            raise
        except ComfyrailError as error:
            await _send_error(socket, error)


async def _send_error(socket: WebSocket, error: ComfyrailError) -> None:
    await _send(socket, {"type": "error", **msgspec.to_builtins(error_body(error, None))})


async def _send(socket: WebSocket, message: Any) -> None:
    await socket.send_text(encode(message).decode())


def _message_type(text: str) -> str:
    try:
        return _read_message(text).type
    except (msgspec.DecodeError, RecursionError) as error:
        raise MalformedRequest('Send JSON messages such as {"type": "cancel"}.') from error


def event_number(text: str | None, *, of: str = "this execution") -> int:
    if text is None:
        return 0
    if not text.isascii() or not text.isdigit() or len(text) > 15:
        raise MalformedRequest(
            f"Last-Event-ID and after are the number of one of the events of {of}, not "
            f"{text[:40]!r}."
        )
    return int(text)
