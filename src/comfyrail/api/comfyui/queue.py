"""What waits and what runs: /queue, /interrupt, /free."""

import asyncio
from typing import Any

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response

from comfyrail.access.permissions import Permission
from comfyrail.api.comfyui.entries import queue_item
from comfyrail.api.comfyui.requests import ids_in, read_object
from comfyrail.api.messages import json_response
from comfyrail.api.services import principal_of, services_of
from comfyrail.jobs.states import JobState
from comfyrail.store.interface import HistoryQuery

MOST_SHOWN = 1000
"""Of those that wait, and of those that run: the newest."""

router = APIRouter(tags=["ComfyUI"])


@router.get("/queue")
async def show_queue(request: Request) -> Response:
    return json_response(
        {
            "queue_running": await _items(request, JobState.PROCESSING),
            "queue_pending": await _items(request, JobState.QUEUED),
        }
    )


@router.post("/queue")
async def change_queue(request: Request) -> Response:
    """`clear`, or `delete` some: only what still waits."""
    body = await read_object(request)
    records, principal = services_of(request).comfyui.records, principal_of(request)
    if body.get("clear"):
        await records.cancel_queued(principal)
    if "delete" in body:
        await records.cancel_queued(principal, ids_in(body, "delete"))
    return Response()


@router.post("/interrupt")
async def interrupt(request: Request) -> Response:
    """Stop what runs: one prompt, or all that came from ComfyUI's clients."""
    body = await read_object(request, may_be_empty=True)
    prompt_id, client_id = body.get("prompt_id"), body.get("client_id")
    await services_of(request).comfyui.records.interrupt(
        principal_of(request),
        str(prompt_id) if prompt_id else None,
        str(client_id) if client_id else None,
    )
    return Response()


@router.post("/free")
async def free(request: Request) -> Response:
    """Memory of all workers, for those who may change the fleet; for others nothing happens."""
    body = await read_object(request, may_be_empty=True)
    wants_room = bool(body.get("unload_models") or body.get("free_memory"))
    if wants_room and principal_of(request).may(Permission.FLEET_WRITE):
        await services_of(request).comfyui.fleet.free()
    return Response()


async def _items(request: Request, state: JobState) -> list[Any]:
    comfyui, principal = services_of(request).comfyui, principal_of(request)
    page = await comfyui.records.history(principal, HistoryQuery(frozenset({state}), MOST_SHOWN))
    submitted = await comfyui.records.submitted(principal, [job.id for job in page.jobs])
    catalog = comfyui.fleet.catalog

    def build() -> list[Any]:
        return [
            queue_item(job, submitted[job.id], catalog)
            for job in reversed(page.jobs)
            if job.id in submitted
        ]

    return await asyncio.to_thread(build)
