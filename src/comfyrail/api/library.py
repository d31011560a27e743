"""API v1: the library of workflows."""

import asyncio
import hashlib
from collections.abc import AsyncIterator
from typing import Annotated, BinaryIO

import msgspec
from fastapi import APIRouter, Query
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from comfyrail.api.cursors import invalid_cursor
from comfyrail.api.library_contract import (
    LIBRARY,
    LIBRARY_ENTRY,
    SaveWorkflowRequest,
    list_body,
    saved_body,
    versions_body,
    workflow_body,
)
from comfyrail.api.messages import check_content_type, json_response, read_body, read_json
from comfyrail.api.services import principal_of, services_of
from comfyrail.library.files import LIMITS, PREVIEW_FILE
from comfyrail.library.names import is_name
from comfyrail.library.writer import Added
from comfyrail.usecases.library import Draft

IMPORT = LIBRARY + "/import"
VERSIONS = LIBRARY_ENTRY + "/versions"
PREVIEW = LIBRARY_ENTRY + "/preview"
BUNDLE = LIBRARY_ENTRY + "/bundle"

SAVE_LIMIT = 20 << 20
"""A workflow of 10 MiB, a preview of 4 MiB in base64, and texts."""
CHUNK = 1 << 18

Version = Annotated[int | None, Query(ge=1, le=999_999_999)]

router = APIRouter(tags=["library"])

_save_request = msgspec.json.Decoder(SaveWorkflowRequest)


@router.get(LIBRARY)
async def list_workflows(
    request: Request,
    limit: Annotated[int, Query(ge=1, le=500)] = 50,
    cursor: Annotated[str, Query(max_length=64)] = "",
) -> Response:
    """By name, each in its newest version. A cursor is a name: the list goes on behind it."""
    if cursor and not is_name(cursor):
        raise invalid_cursor()
    page = await services_of(request).library.page(principal_of(request), cursor, limit)
    return json_response(list_body(page))


@router.post(IMPORT, status_code=201)
async def import_bundle(
    request: Request,
    name: Annotated[str | None, Query(max_length=64)] = None,
    replace: bool = False,
) -> Response:
    """Keep a bundle under its own name or another; 200 where that workflow was there already."""
    check_content_type(request, "application/zip", "application/octet-stream")
    added = await services_of(request).library.import_bundle(
        principal_of(request), request.stream(), name, replace=replace
    )
    return _saved(added)


@router.get(LIBRARY_ENTRY)
async def show_workflow(request: Request, name: str, version: Version = None) -> Response:
    """A workflow with its declared inputs and description, in its newest version or another."""
    entry = await services_of(request).library.show(principal_of(request), name, version)
    return json_response(workflow_body(entry))


@router.put(LIBRARY_ENTRY, status_code=201)
async def save_workflow(request: Request, name: str) -> Response:
    """Save the next version; 200 where the workflow was there already."""
    body = await read_json(request, _save_request, SAVE_LIMIT)
    draft = Draft(bytes(body.workflow), body.description, body.inputs, body.preview)
    return _saved(await services_of(request).library.save(principal_of(request), name, draft))


@router.delete(LIBRARY_ENTRY, status_code=204)
async def delete_workflow(request: Request, name: str) -> Response:
    """Remove a workflow with all its versions."""
    await services_of(request).library.delete(principal_of(request), name)
    return Response(status_code=204)


@router.get(VERSIONS)
async def list_versions(request: Request, name: str) -> Response:
    """Every version, the newest first."""
    summaries = await services_of(request).library.versions(principal_of(request), name)
    return json_response(versions_body(name, summaries))


@router.head(PREVIEW, include_in_schema=False)
@router.get(PREVIEW)
async def show_preview(request: Request, name: str, version: Version = None) -> Response:
    """The picture, with an ETag."""
    content = await services_of(request).library.preview(principal_of(request), name, version)
    headers = {
        "ETag": f'"{hashlib.sha256(content).hexdigest()}"',
        "Cache-Control": "private, no-cache",
    }
    if headers["ETag"] in request.headers.get("if-none-match", ""):
        return Response(status_code=304, headers=headers)
    return Response(content, 200, headers, "image/png")


@router.put(PREVIEW, status_code=204)
async def save_preview(request: Request, name: str) -> Response:
    """Set the picture of the newest version."""
    content = await read_body(request, LIMITS[PREVIEW_FILE], "image/png")
    await services_of(request).library.save_preview(principal_of(request), name, content)
    return Response(status_code=204)


@router.get(BUNDLE)
async def export_bundle(request: Request, name: str, version: Version = None) -> Response:
    """The workflow with all its versions, or with one, as a zip file."""
    file = await services_of(request).library.export_bundle(principal_of(request), name, version)
    size = file.seek(0, 2)
    return StreamingResponse(
        _chunks(file),
        media_type="application/zip",
        headers={
            "Content-Length": str(size),
            "Content-Disposition": f'attachment; filename="{name}.zip"',
        },
    )


async def _chunks(file: BinaryIO) -> AsyncIterator[bytes]:
    with file:
        file.seek(0)
        while chunk := await asyncio.to_thread(file.read, CHUNK):
            yield chunk


def _saved(added: Added) -> Response:
    body = saved_body(added)
    where = f"{LIBRARY_ENTRY.format(name=body.name)}?version={body.version}"
    return json_response(body, 201 if added.is_new else 200, {"Location": where})
