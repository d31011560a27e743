"""What has ended: /history."""

from collections.abc import Sequence

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response

from comfyrail.api.comfyui.entries import entries_of
from comfyrail.api.comfyui.parts import json_in_parts
from comfyrail.api.comfyui.requests import ids_in, index_in, read_object
from comfyrail.api.comfyui.words import ENDED
from comfyrail.api.messages import encode
from comfyrail.api.services import principal_of, services_of
from comfyrail.jobs.job import Job
from comfyrail.store.interface import HistoryQuery

MOST_SHOWN = 1000

router = APIRouter(tags=["ComfyUI"])


@router.get("/history")
async def show_history(request: Request) -> Response:
    """The newest, the oldest of them first; with an offset those from there on, from the oldest."""
    wanted, offset = index_in(request, "max_items"), index_in(request, "offset")
    limit = MOST_SHOWN if wanted is None else max(0, min(wanted, MOST_SHOWN))
    records, principal = services_of(request).comfyui.records, principal_of(request)
    if offset is None or offset < 0:
        page = await records.history(principal, HistoryQuery(ENDED, limit))
        return await _reply(request, page.jobs[::-1])
    page = await records.history(principal, HistoryQuery(ENDED, limit, offset, is_ascending=True))
    return await _reply(request, page.jobs)


@router.get("/history/{prompt_id}")
async def show_prompt(request: Request, prompt_id: str) -> Response:
    """Empty for one that nobody knows, or that has not ended."""
    job = await services_of(request).comfyui.records.find(principal_of(request), prompt_id)
    return await _reply(
        request, [job] if job is not None and job.state.is_final and not job.is_hidden else []
    )


@router.post("/history")
async def change_history(request: Request) -> Response:
    """`clear`, or `delete` some: they are not shown here any more. The jobs stay."""
    body = await read_object(request)
    records, principal = services_of(request).comfyui.records, principal_of(request)
    if body.get("clear"):
        await records.hide_all(principal)
    if "delete" in body:
        await records.hide(principal, ids_in(body, "delete"))
    return Response()


async def _reply(request: Request, jobs: Sequence[Job]) -> Response:
    catalog = services_of(request).comfyui.fleet.catalog
    entries = entries_of(request).history(principal_of(request), jobs, catalog)
    members = (b"%b:%b" % (encode(prompt_id), content) async for prompt_id, content in entries)
    return await json_in_parts((b"{", members), (b"}", None))
