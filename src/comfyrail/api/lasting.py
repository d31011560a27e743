"""Streams and sockets that stay open: who has one must still be allowed to, a minute later too,
and be logged in still; and one tenant does not take the places of all [11.1].
"""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Coroutine, Iterator
from contextlib import contextmanager, suppress
from typing import Any, TypeVar

from sse_starlette import EventSourceResponse, ServerSentEvent
from starlette.requests import HTTPConnection
from starlette.types import Receive, Scope, Send
from starlette.websockets import WebSocket, WebSocketDisconnect, WebSocketState

from comfyrail.access.permissions import Permission
from comfyrail.access.principal import Principal
from comfyrail.api.services import principal_of
from comfyrail.errors import (
    ComfyrailError,
    Forbidden,
    StoreUnavailable,
    TooManyRequests,
    Unauthorized,
)
from comfyrail.ids import TenantId

ASK_AGAIN_SECONDS = 60.0
ACCESS_LOST = 4401
"""The code with which a socket is closed."""
HEARTBEAT_SECONDS = 15
MOST_OF_A_TENANT = 200
RETRY_SECONDS = 10.0

Result = TypeVar("Result")

_open: Counter[TenantId] = Counter()


async def caller_now(connection: HTTPConnection, permission: Permission) -> Principal:
    """The caller as she is at this time. Raises Unauthorized once her key or token does not count,
    or she belongs to another tenant, and Forbidden where she lacks the permission.
    """
    ask_again = connection.scope.get("ask_again")
    before = principal_of(connection)
    now: Principal = before if ask_again is None else await ask_again()
    if now.tenant != before.tenant:
        raise Unauthorized(
            "You belong to another tenant now. Connect again.", code="TENANT_CHANGED"
        )
    now.check_may(permission)
    return now


async def access_lost(connection: HTTPConnection, permission: Permission) -> ComfyrailError:
    """Returns when the caller may no longer have what is open, with the reason."""
    while True:
        with suppress(TimeoutError):
            async with asyncio.timeout(ASK_AGAIN_SECONDS):
                await session_over(connection)
        try:
            # Also what she may besides, such as looking at the fleet, counts from now on.
            connection.scope["principal"] = await caller_now(connection, permission)
        except (Unauthorized, Forbidden) as error:
            return error
        except StoreUnavailable:
            continue


async def session_over(connection: HTTPConnection) -> None:
    """Returns when the caller's session is over; never for one who has none."""
    over = connection.scope.get("session_over")
    await (asyncio.Event().wait() if over is None else over())


async def unless_session_ends(
    connection: HTTPConnection, waiting: Coroutine[Any, Any, Result]
) -> Result:
    """What the waiting comes to. Raises Unauthorized where the caller's session ends before."""
    found = asyncio.create_task(waiting, name="waiting")
    over = asyncio.create_task(session_over(connection), name="session")
    try:
        await asyncio.wait({found, over}, return_when=asyncio.FIRST_COMPLETED)
        if over.done():
            raise Unauthorized("The session is over. Log in again.", code="SESSION_OVER")
        return found.result()
    finally:
        for task in (found, over):
            task.cancel()
        await asyncio.gather(found, over, return_exceptions=True)


class LastingStream(EventSourceResponse):
    """Server-Sent Events that end when the caller may no longer have them."""

    def __init__(self, frames: AsyncIterator[ServerSentEvent], connection: HTTPConnection) -> None:
        super().__init__(frames, ping=HEARTBEAT_SECONDS)
        self._connection = connection

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        with place_of(principal_of(self._connection)):
            streaming = asyncio.create_task(super().__call__(scope, receive, send), name="stream")
            lost = asyncio.create_task(access_lost(self._connection, Permission.JOBS_READ))
            try:
                await asyncio.wait({streaming, lost}, return_when=asyncio.FIRST_COMPLETED)
            finally:
                lost.cancel()
                streaming.cancel()
                ends = await asyncio.gather(streaming, lost, return_exceptions=True)
        if isinstance(ends[0], Exception):
            raise ends[0]


@contextmanager
def unless_gone(socket: WebSocket) -> Iterator[None]:
    """Whoever has gone need not be told how it ends: that is no fault."""
    try:
        yield
    except WebSocketDisconnect:
        return
    except RuntimeError:
        if socket.client_state is WebSocketState.CONNECTED is socket.application_state:
            raise


@contextmanager
def place_of(principal: Principal) -> Iterator[None]:
    """One of the places that a tenant has. Raises TooManyRequests where all are taken."""
    tenant = principal.tenant
    if _open[tenant] >= MOST_OF_A_TENANT:
        raise TooManyRequests(
            f"You have {MOST_OF_A_TENANT} streams and sockets open, and may have no more. Close "
            "some, or ask for the state instead.",
            code="TOO_MANY_STREAMS",
            details={"limit": MOST_OF_A_TENANT},
            retry_after=RETRY_SECONDS,
        )
    _open[tenant] += 1
    try:
        yield
    finally:
        _open[tenant] -= 1
        if not _open[tenant]:
            del _open[tenant]
