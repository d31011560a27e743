"""What waits and what runs: /queue, /interrupt, /free."""

from collections.abc import AsyncIterator

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response

from comfyrail.access.permissions import Permission
from comfyrail.api.comfyui.entries import entries_of
from comfyrail.api.comfyui.parts import json_in_parts
from comfyrail.api.comfyui.requests import ids_in, read_object
from comfyrail.api.services import principal_of, services_of
from comfyrail.jobs.states import JobState
from comfyrail.store.interface import HistoryQuery

MOST_SHOWN = 1000
"""Of those that wait, and of those that run: the newest."""

router = APIRouter(tags=["ComfyUI"])


@router.get("/queue")
async def show_queue(request: Request) -> Response:
    running = await _items(request, JobState.PROCESSING)
    pending = await _items(request, JobState.QUEUED)
    return await json_in_parts(
        (b'{"queue_running":[', running), (b'],"queue_pending":[', pending), (b"]}", None)
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


async def _items(request: Request, state: JobState) -> AsyncIterator[bytes]:
    comfyui, principal = services_of(request).comfyui, principal_of(request)
    page = await comfyui.records.history(principal, HistoryQuery(frozenset({state}), MOST_SHOWN))
    return entries_of(request).queue_items(principal, page.jobs[::-1], comfyui.fleet.catalog)
