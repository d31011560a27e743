"""Files that jobs made or that were uploaded: /view."""

import asyncio
import re
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from pathlib import Path

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response

from comfyrail.access.permissions import Permission
from comfyrail.access.principal import Principal
from comfyrail.api.files import file_response
from comfyrail.api.job_files import send_output
from comfyrail.api.services import Services, principal_of, services_of
from comfyrail.errors import Forbidden, MalformedRequest, NotFound
from comfyrail.ids import JobId
from comfyrail.jobs.job import Output
from comfyrail.store.assets import Asset
from comfyrail.usecases.asset_names import INPUT, folder_of

KINDS = frozenset({"input", "output", "temp"})
PICTURES_AT_ONCE = 2
"""Each may take hundreds of megabytes while it is made."""

_ANNOTATED = re.compile(r"(.+?) \[(input|output|temp)\]", re.DOTALL)
_JOB_FOLDER = re.compile(
    r"([0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12})(?:/(.*))?", re.DOTALL
)
_pictures = asyncio.Semaphore(PICTURES_AT_ONCE)

router = APIRouter(tags=["ComfyUI"])


@router.get("/view")
async def view(request: Request) -> Response:
    query = request.query_params
    services, principal = services_of(request), principal_of(request)
    found = await find_file(
        services,
        principal,
        query.get("filename", ""),
        query.get("subfolder", ""),
        query.get("type"),
    )
    if "preview" in query:
        return await _picture(services, found, _preview, query["preview"])
    if query.get("channel", "rgba") != "rgba":
        return await _picture(services, found, _channel, query["channel"])
    if isinstance(found, Output):
        return await send_output(request, found.job_id, found.file.id)
    return await _send_asset(request, services, found)


async def find_file(
    services: Services, principal: Principal, filename: str, subfolder: str, kind: str | None
) -> Output | Asset:
    """The file that a client means. Raises what ComfyUI answers: 400 for a name that leads
    elsewhere, 403 for a folder that does, 404 where there is none.
    """
    if not filename:
        raise NotFound("Say which file: the query has no filename.", code="FILE_NOT_FOUND")
    annotated = _ANNOTATED.fullmatch(filename)
    name = annotated[1] if annotated else filename
    wanted = kind or (annotated[2] if annotated else "output")
    if wanted not in KINDS or name.startswith("/") or ".." in name or "\0" in name:
        raise MalformedRequest(
            "A file has a plain name, and the type input, output or temp.", code="INVALID_FILE_NAME"
        )
    if ".." in subfolder or subfolder.startswith("/") or "\0" in subfolder:
        raise Forbidden("The subfolder leads out of the folder.")
    folder, _, last = name.rpartition("/")
    subfolder = "/".join(part for part in (subfolder.strip("/"), folder) if part)
    whole = f"{subfolder}/{last}" if subfolder else last
    if wanted == INPUT:
        return await _find_asset(services, principal, whole)
    in_job = _JOB_FOLDER.fullmatch(subfolder)
    if not in_job and principal.may(Permission.ASSETS_READ):
        uploaded = await services.assets.find_by_name(principal, folder_of(wanted) + whole)
        if uploaded is not None:
            return uploaded
    return await services.comfyui.records.output(
        principal,
        JobId(in_job[1]) if in_job else None,
        last,
        (in_job[2] or "") if in_job else subfolder,
        is_temporary=wanted == "temp",
    )


def local_file(services: Services, found: Output | Asset) -> AbstractAsyncContextManager[Path]:
    """A file with its bytes, for as long as the context is open."""
    if isinstance(found, Output):
        return services.comfyui.records.local(found)
    return services.assets.local(found)


async def make_picture(make: Callable[[], tuple[bytes, str]]) -> tuple[bytes, str]:
    async with _pictures:
        return await asyncio.to_thread(make)


async def _find_asset(services: Services, principal: Principal, name: str) -> Asset:
    principal.check_may(Permission.ASSETS_READ)
    found = await services.assets.find_by_name(principal, name)
    if found is None:
        raise NotFound(f"You have uploaded no file '{name[:200]}'.", code="FILE_NOT_FOUND")
    return found


async def _picture(
    services: Services,
    found: Output | Asset,
    make: Callable[[Path, str], tuple[bytes, str]],
    wish: str,
) -> Response:
    try:
        async with local_file(services, found) as path:
            content, kind = await make_picture(lambda: make(path, wish))
    except FileNotFoundError as error:
        raise NotFound("The file is gone.", code="FILE_NOT_FOUND") from error
    return Response(content, media_type=kind, headers={"Cache-Control": "private, max-age=3600"})


def _preview(path: Path, wish: str) -> tuple[bytes, str]:
    from comfyrail.engine.request_pictures import (  # noqa: PLC0415 - Pillow, when it is needed
        make_preview,
    )

    return make_preview(path, wish)


def _channel(path: Path, wish: str) -> tuple[bytes, str]:
    from comfyrail.engine.request_pictures import (  # noqa: PLC0415 - Pillow, when it is needed
        make_channel,
    )

    return make_channel(path, wish)


async def _send_asset(request: Request, services: Services, asset: Asset) -> Response:
    """Another may get its name."""
    return file_response(
        request,
        await services.assets.open(asset),
        filename=asset.name.rpartition("/")[2],
        content_type=asset.content_type,
        sha256=asset.sha256,
        caching="private, no-cache",
    )
