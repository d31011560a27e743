"""The page: one document at `/`, and its scripts and styles."""

import asyncio
from html import escape
from typing import Any

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response

from comfyrail import __version__
from comfyrail.access.principal import Principal
from comfyrail.api.comfyui.editor_files import editor_folder
from comfyrail.api.conditional import NOT_MODIFIED, is_known
from comfyrail.api.messages import encode
from comfyrail.api.operations import Operation, Operations
from comfyrail.api.page.build import PageBuild, read_build
from comfyrail.api.services import services_of
from comfyrail.api.session.page import START, unbuilt_page
from comfyrail.errors import NotFound

FILE = "/page/{file:path}"
PLACE_OF_FACTS = "__COMFYRAIL__"
"""In the document: where what the page has to know from the beginning is written."""
NOT_KEPT = {"Cache-Control": "no-store"}
# Their names change with their content.
KEPT = {"Cache-Control": "public, max-age=31536000, immutable"}

router = APIRouter(tags=["page"])


@router.get(START, include_in_schema=False)
async def show_page(request: Request) -> Response:
    """The page for whoever asks; it sends those who must log in first to the login page."""
    build = await _build(request)
    principal: Principal | None = request.scope["principal"]
    has_access = services_of(request).gatekeeper is not None
    if build is None:
        return HTMLResponse(unbuilt_page(principal, has_access=has_access), headers=NOT_KEPT)
    facts = {
        "version": __version__,
        "access": has_access,
        "user": None if principal is None else _who(principal),
        "editor": editor_folder() is not None,
        # Where the page's stream begins: what it loads is never older.
        "events": None if principal is None else await services_of(request).feed.beginning(None),
    }
    page = build.index.replace(PLACE_OF_FACTS, escape(encode(facts).decode()))
    return HTMLResponse(page, headers=NOT_KEPT)


def _who(principal: Principal) -> dict[str, Any]:
    return {
        "user_id": principal.user_id or "",
        "tenant": principal.tenant,
        "tier": principal.tier,
        "permissions": sorted(principal.permissions),
    }


@router.get(FILE, include_in_schema=False)
async def show_file(request: Request, file: str) -> Response:
    """A script, a style, a picture of the page."""
    build = await _build(request)
    found = None if build is None else build.files.get(file)
    if found is None:
        raise NotFound("The page has no such part. Reload it.", code="ROUTE_NOT_FOUND")
    headers = {**KEPT, "ETag": found.tag, "Vary": "Accept-Encoding"}
    if is_known(request.headers.get("if-none-match"), found.tag):
        return Response(status_code=NOT_MODIFIED, headers=headers)
    content = found.content
    if found.compressed is not None and "gzip" in request.headers.get("accept-encoding", ""):
        content = found.compressed
        headers["Content-Encoding"] = "gzip"
    return Response(content, 200, headers, found.content_type)


async def _build(request: Request) -> PageBuild | None:
    """Read once. One that is not there yet is looked for again."""
    state = request.app.state
    if getattr(state, "page_build", None) is None:
        state.page_build = await asyncio.to_thread(read_build)
    build: PageBuild | None = state.page_build
    return build


OPERATIONS: Operations = {
    ("get", START): Operation(None, "The page", "text/html", is_shown=False),
    ("get", FILE): Operation(None, "A file of the page", "text/javascript", is_shown=False),
}
