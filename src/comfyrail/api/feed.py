"""API v1: all events of one's jobs in one stream: Server-Sent Events, WebSocket, long poll."""

import asyncio
import contextlib
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from datetime import datetime
from functools import partial
from typing import Annotated, Any

import msgspec
from fastapi import APIRouter, Query
from sse_starlette import ServerSentEvent
from starlette.requests import HTTPConnection, Request
from starlette.responses import Response
from starlette.websockets import WebSocket

from comfyrail.access.permissions import Permission
from comfyrail.api.contract import moment
from comfyrail.api.errors import error_body, error_response
from comfyrail.api.lasting import (
    ACCESS_LOST,
    LastingStream,
    access_lost,
    place_of,
    unless_gone,
    unless_session_ends,
)
from comfyrail.api.messages import encode, json_response
from comfyrail.api.operations import Operation, Operations
from comfyrail.api.services import principal_of, services_of
from comfyrail.api.streams import event_number
from comfyrail.api.waiting import unless_client_leaves
from comfyrail.errors import ComfyrailError, MalformedRequest
from comfyrail.ids import BatchId, JobId
from comfyrail.jobs.events import EventType, FeedEntry
from comfyrail.notifications.streams import FeedFilter
from comfyrail.store.feed import FeedPage

EVENTS = "/v1/events"
STREAM = "/v1/events/stream"
SOCKET = "/v1/events/ws"
LONGEST_POLL_SECONDS = 60
MOST_TYPES = 30
FAR_BEHIND = 1000
SILENT_SECONDS = 15.0

Types = Annotated[
    list[str] | None,
    Query(
        max_length=MOST_TYPES,
        description="Event types, such as execution.completed or execution.*: repeated, or with "
        "commas.",
    ),
]
Word = Annotated[str | None, Query(max_length=200)]
After = Annotated[
    str | None,
    Query(
        max_length=16,
        description="The `id` of the last event that you have; `0`: from the beginning. Without "
        "it: from now on.",
    ),
]

router = APIRouter(tags=["streams"])


class FeedEvent(msgspec.Struct, kw_only=True):
    """`id`: where it stands among all. `execution_id` and `number` are null for events of workers
    and of the server.
    """

    id: int
    execution_id: str | None
    number: int | None
    type: str
    timestamp: datetime
    workflow_id: str | None
    batch_id: str | None
    data: Mapping[str, Any]


class FeedEvents(msgspec.Struct, kw_only=True):
    """`next_after`: pass it back as `after` to go on. `has_more`: there are events behind it now,
    also where the filter has shown none of those before it.
    """

    events: list[FeedEvent]
    next_after: int
    has_more: bool


@router.get(EVENTS)
async def list_events(
    request: Request,
    types: Types = None,
    execution_id: Word = None,
    workflow_id: Word = None,
    batch_id: Word = None,
    surface: Word = None,
    after: After = None,
    limit: Annotated[int, Query(ge=1, le=500)] = 100,
    wait: Annotated[int, Query(ge=0, le=LONGEST_POLL_SECONDS)] = 0,
) -> Response:
    """Events behind `after`, oldest first; with `wait` the reply comes with the next one, or after
    so many seconds without any.
    """
    feed, principal = services_of(request).feed, principal_of(request)
    where = feed_filter(types, execution_id, workflow_id, batch_id, surface)
    number = await _beginning(request, after)
    found = unless_session_ends(request, feed.page(principal, number, where, limit, wait))
    page = await unless_client_leaves(request, found)
    if page is None:  # nobody waits any longer, or the server stops
        return json_response(FeedEvents(events=[], next_after=number, has_more=False))
    return json_response(
        FeedEvents(
            events=[feed_body(each) for each in page.entries],
            next_after=page.reached,
            has_more=page.has_more,
        )
    )


@router.get(STREAM)
async def stream_events(
    request: Request,
    types: Types = None,
    execution_id: Word = None,
    workflow_id: Word = None,
    batch_id: Word = None,
    surface: Word = None,
    after: After = None,
) -> Response:
    """Server-Sent Events from `Last-Event-ID` (or `after`) on, for as long as the client stays."""
    where = feed_filter(types, execution_id, workflow_id, batch_id, surface)
    number = await _beginning(request, request.headers.get("last-event-id") or after)
    pages = services_of(request).feed.follow(partial(principal_of, request), number, where)
    return LastingStream(_frames(pages, number), request)


async def _frames(pages: AsyncIterator[FeedPage], number: int) -> AsyncGenerator[ServerSentEvent]:
    # Said at once: one that loses the line before the first event goes on from here.
    yield ServerSentEvent(encode({"id": number}).decode(), event="open", id=str(number))
    now = asyncio.get_running_loop().time
    said, said_at = number, now()
    async for page in pages:
        for entry in page.entries:
            said, said_at = entry.sequence, now()
            yield ServerSentEvent(encode(feed_body(entry)).decode(), event=entry.type, id=str(said))
        is_far = page.reached - said >= FAR_BEHIND or now() - said_at >= SILENT_SECONDS
        if page.reached > said and is_far:
            # A number alone is no event: whoever reconnects need not have all that was not shown
            # looked at again.
            said, said_at = page.reached, now()
            yield ServerSentEvent(id=str(said))


@router.websocket(SOCKET)
async def socket_events(
    socket: WebSocket,
    types: Types = None,
    execution_id: Word = None,
    workflow_id: Word = None,
    batch_id: Word = None,
    surface: Word = None,
    after: After = None,
) -> None:
    """The same over a WebSocket: first `{"type": "open", "id": …}`, then an event a message."""
    with contextlib.ExitStack() as stack:
        try:
            stack.enter_context(place_of(principal_of(socket)))
            where = feed_filter(types, execution_id, workflow_id, batch_id, surface)
            number = await _beginning(socket, after)
        except ComfyrailError as error:
            await socket.send_denial_response(error_response(error, socket.scope))
            return
        await socket.accept()
        with unless_gone(socket):
            await socket.send_text(encode({"type": "open", "id": number}).decode())
            await _follow(socket, number, where)


async def _follow(socket: WebSocket, number: int, where: FeedFilter) -> None:
    async def send() -> None:
        feed = services_of(socket).feed
        async for page in feed.follow(partial(principal_of, socket), number, where):
            for entry in page.entries:
                await socket.send_text(encode(feed_body(entry)).decode())

    async def leave() -> None:
        while (await socket.receive())["type"] != "websocket.disconnect":
            continue

    sender = asyncio.create_task(send(), name="feed")
    leaver = asyncio.create_task(leave(), name="feed-end")
    lost = asyncio.create_task(access_lost(socket, Permission.JOBS_READ), name="feed-access")
    tasks = (sender, leaver, lost)
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            task.cancel()
        ends = await asyncio.gather(*tasks, return_exceptions=True)
    refusal = ends[2]
    if isinstance(refusal, ComfyrailError):
        body = {"type": "error", **msgspec.to_builtins(error_body(refusal, None))}
        await socket.send_text(encode(body).decode())
        await socket.close(ACCESS_LOST, refusal.code)
    elif isinstance(ends[0], Exception):
        raise ends[0]


async def _beginning(connection: HTTPConnection, given: str | None) -> int:
    after = None if given is None else event_number(given, of="your events")
    return await services_of(connection).feed.beginning(after)


def feed_filter(
    types: list[str] | None,
    execution_id: str | None,
    workflow_id: str | None,
    batch_id: str | None,
    surface: str | None,
) -> FeedFilter:
    """Raises MalformedRequest for a type that no event can have."""
    wanted = frozenset(word.strip() for text in types or () for word in text.split(","))
    for word in wanted:
        is_known = any(
            each == word or (word.endswith(".*") and each.startswith(word[:-1]))
            for each in EventType
        )
        if not is_known:
            raise MalformedRequest(
                f"There are no events of type {word[:60]!r}. There are {', '.join(EventType)}, and "
                "patterns such as execution.*.",
                code="UNKNOWN_EVENT_TYPE",
            )
    return FeedFilter(
        wanted,
        JobId(execution_id) if execution_id else None,
        workflow_id or None,
        BatchId(batch_id) if batch_id else None,
        surface or None,
    )


def feed_body(entry: FeedEntry) -> FeedEvent:
    return FeedEvent(
        id=entry.sequence,
        execution_id=entry.job_id,
        number=entry.number,
        type=entry.type,
        timestamp=moment(entry.at),
        workflow_id=entry.workflow_id,
        batch_id=entry.batch_id,
        data=entry.data,
    )


OPERATIONS: Operations = {
    ("get", EVENTS): Operation(
        Permission.JOBS_READ, "Events of all executions", FeedEvents, errors=(410,)
    ),
    ("get", STREAM): Operation(
        Permission.JOBS_READ,
        "Stream of all events",
        "text/event-stream",
        errors=(410,),
        headers=("Last-Event-ID",),
    ),
    ("get", SOCKET): Operation(
        Permission.JOBS_READ, "All events by WebSocket", "", 101, is_shown=False
    ),
}
