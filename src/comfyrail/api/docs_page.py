"""The API described: `/openapi.json`, and a page that shows it without a request elsewhere."""

import asyncio
import hashlib
from importlib import resources

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response

from comfyrail.api.conditional import NOT_MODIFIED, is_known
from comfyrail.errors import NotFound

OPENAPI = "/openapi.json"
DOCS = "/docs"
FILE = "/docs/{file}"

TYPES = {
    "docs.html": "text/html; charset=utf-8",
    "docs.js": "text/javascript; charset=utf-8",
    "docs.css": "text/css; charset=utf-8",
}
CACHING = {"Cache-Control": "no-cache"}

router = APIRouter(tags=["description"])


@router.get(OPENAPI)
async def show_openapi(request: Request) -> Response:
    """Every route of the server as an OpenAPI 3.1 document."""
    state = request.app.state
    if getattr(state, "openapi_text", None) is None:
        # Some tenth of a second, once.
        state.openapi_text = await asyncio.to_thread(state.describe)
    return _send(request, state.openapi_text, "application/json")


@router.get(DOCS, include_in_schema=False)
async def show_docs(request: Request) -> Response:
    """The page."""
    return await show_file(request, "docs.html")


@router.get(FILE, include_in_schema=False)
async def show_file(request: Request, file: str) -> Response:
    """Its script and its style."""
    if file not in TYPES:
        raise NotFound("The page has no such part. See /docs.", code="ROUTE_NOT_FOUND")
    content = await asyncio.to_thread(_read, file)
    return _send(request, content, TYPES[file])


def _read(file: str) -> bytes:
    return (resources.files("comfyrail.api") / "docs_files" / file).read_bytes()


def _send(request: Request, content: bytes, content_type: str) -> Response:
    tag = f'"{hashlib.sha256(content).hexdigest()[:32]}"'
    headers = {**CACHING, "ETag": tag}
    if is_known(request.headers.get("if-none-match"), tag):
        return Response(status_code=NOT_MODIFIED, headers=headers)
    return Response(content, 200, headers, content_type)
