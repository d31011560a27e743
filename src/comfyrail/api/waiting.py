"""Requests that wait for something to happen.

A client that goes away ends its waiting, never its job. A server that stops answers at once.
"""

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

from starlette.requests import Request

from comfyrail.api.services import principal_of, services_of
from comfyrail.ids import JobId
from comfyrail.usecases.jobs import JobStatus

Result = TypeVar("Result")

NOT_THE_END = {"Cache-Control": "no-store"}
"""Of an answer that came before the end of the job, to one who waited for it. It is not kept under
an Idempotency-Key: the same request finds the same job, and waits again.
"""


async def wait_for(
    request: Request, job_id: JobId, seconds: float, after: int | None = None
) -> JobStatus | None:
    """The status at the job's end, or with `after` at its next event, or when the time is up.

    None where nobody waits for it any longer. The request's body must have been read.
    """
    waiting = services_of(request).jobs.wait(principal_of(request), job_id, seconds, after)
    return await unless_client_leaves(request, waiting)


async def unless_client_leaves(
    request: Request, waiting: Coroutine[Any, Any, Result]
) -> Result | None:
    """What the waiting comes to; None where the client has gone before, or the server stops."""
    found = asyncio.create_task(waiting, name="waiting")
    others = [
        asyncio.create_task(_gone(request), name="client"),
        asyncio.create_task(services_of(request).shutdown.has_drained.wait(), name="end"),
    ]
    try:
        await asyncio.wait([found, *others], return_when=asyncio.FIRST_COMPLETED)
        return found.result() if found.done() else None
    finally:
        for task in (found, *others):
            task.cancel()
        await asyncio.gather(found, *others, return_exceptions=True)


async def _gone(request: Request) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass
