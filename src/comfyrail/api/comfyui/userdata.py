"""What the editor keeps for its user, and what it asks of extensions: /settings, /userdata, …"""

from collections.abc import Iterable, Mapping
from pathlib import PurePosixPath
from typing import Any
from urllib.parse import unquote

import msgspec
from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response

from comfyrail.access.permissions import Permission
from comfyrail.api.comfyui.editor import FIRST_SCREEN
from comfyrail.api.comfyui.entries import file_body
from comfyrail.api.comfyui.requests import LARGEST_COMMAND
from comfyrail.api.comfyui.words import ENDED
from comfyrail.api.messages import decode_json, json_response, read_limited
from comfyrail.api.services import principal_of, services_of
from comfyrail.errors import Conflict, MalformedRequest, NotFound
from comfyrail.store.interface import Document, HistoryQuery
from comfyrail.usecases.comfyui_userdata import LARGEST_FILE
from comfyrail.workflow.comfyui_features import MODEL_FOLDERS

USERDATA = "/userdata/{file:path}"
JOBS_LOOKED_AT = 100
STYLE = "user.css"
"""The editor's page always asks for it; most users have none."""

DEFAULT_SETTINGS: Mapping[str, Any] = {"Comfy.TutorialCompleted": True}
"""Else the editor greets a new user with a window of templates, of which there are none here."""

router = APIRouter(tags=["ComfyUI"])

_decode_object = msgspec.json.Decoder(dict[str, Any])
_decode_value = msgspec.json.Decoder(Any)


@router.get("/settings")
async def show_settings(request: Request) -> Response:
    found = await services_of(request).comfyui.userdata.settings(principal_of(request))
    return json_response({**DEFAULT_SETTINGS, **found})


@router.post("/settings")
async def change_settings(request: Request) -> Response:
    changes = decode_json(await read_limited(request, LARGEST_COMMAND), _decode_object)
    await services_of(request).comfyui.userdata.change_settings(principal_of(request), changes)
    return Response()


@router.get("/settings/{setting:path}")
async def show_setting(request: Request, setting: str) -> Response:
    """Null where it was never set."""
    found = await services_of(request).comfyui.userdata.settings(principal_of(request))
    return json_response(found.get(setting, DEFAULT_SETTINGS.get(setting)))


@router.post("/settings/{setting:path}")
async def change_setting(request: Request, setting: str) -> Response:
    value = decode_json(await read_limited(request, LARGEST_COMMAND), _decode_value)
    await services_of(request).comfyui.userdata.change_settings(
        principal_of(request), {setting: value}
    )
    return Response()


@router.get("/users")
async def show_users() -> Response:
    """Who it is, the credentials say: the editor has one user."""
    return json_response({"storage": "server", "migrated": True})


@router.post("/users")
async def add_user() -> Response:
    raise MalformedRequest("Users are added with POST /v1/users.")


@router.get("/userdata")
async def list_files(request: Request) -> Response:
    """Files in `dir`, with `recurse` those in its folders too; `split`, `full_info`: with more."""
    query = request.query_params
    folder = query.get("dir", "").strip("/")
    if not folder:
        raise MalformedRequest("Directory not provided")
    userdata, principal = services_of(request).comfyui.userdata, principal_of(request)
    found = await userdata.files(principal, folder)
    if not found:
        raise NotFound("Directory not found", code="FOLDER_NOT_FOUND")
    names = [(each, each.name.removeprefix(f"{folder}/")) for each in found]
    if query.get("recurse", "").lower() != "true":
        names = [(each, name) for each, name in names if "/" not in name]
    if query.get("full_info", "").lower() == "true":
        return json_response([_file_body(each, name) for each, name in names])
    if query.get("split", "").lower() == "true":
        return json_response([[name, *PurePosixPath(name).parts] for _, name in names])
    return json_response([name for _, name in names])


@router.get("/v2/userdata")
async def list_folder(request: Request) -> Response:
    """Files and folders directly in `path`."""
    folder = request.query_params.get("path", "").strip("/")
    userdata, principal = services_of(request).comfyui.userdata, principal_of(request)
    found = await userdata.files(principal, folder)
    if folder and not found:
        raise NotFound("Directory not found", code="FOLDER_NOT_FOUND")
    return json_response(list(_listed(found, f"{folder}/" if folder else "")))


@router.get(USERDATA)
async def read_file(request: Request, file: str) -> Response:
    found = await services_of(request).comfyui.userdata.file(principal_of(request), file)
    if found is None and file == STYLE:
        return Response(media_type="text/css")
    if found is None:
        raise NotFound(f"There is no file '{file[:200]}'.", code="FILE_NOT_FOUND")
    kinds = {".json": "application/json", ".css": "text/css"}
    kind = kinds.get(PurePosixPath(file).suffix, "text/plain")
    return Response(found.content, media_type=kind)


@router.post(USERDATA)
async def write_file(request: Request, file: str) -> Response:
    """The body becomes the file. With `/move/` and another path behind it: it gets that name."""
    query = request.query_params
    overwrite = query.get("overwrite", "true").lower() != "false"
    userdata, principal = services_of(request).comfyui.userdata, principal_of(request)
    source, target = _moved(request)
    if target is None:
        content = await read_limited(request, LARGEST_FILE)
        saved = await _save(userdata.save(principal, file, content, overwrite=overwrite))
    else:
        moved = await _save(userdata.move(principal, source, target, overwrite=overwrite))
        if moved is None:
            raise NotFound(f"There is no file '{source[:200]}'.", code="FILE_NOT_FOUND")
        saved = moved
    is_full = query.get("full_info", "").lower() == "true"
    return json_response(_file_body(saved, saved.name) if is_full else saved.name)


@router.delete(USERDATA)
async def delete_file(request: Request, file: str) -> Response:
    if not await services_of(request).comfyui.userdata.delete(principal_of(request), file):
        raise NotFound(f"There is no file '{file[:200]}'.", code="FILE_NOT_FOUND")
    return Response(status_code=204)


@router.get("/extensions")
async def list_extensions() -> Response:
    """Ours alone: what workers have would run in the browser with the rights of its user."""
    return json_response([f"/{FIRST_SCREEN}"])


@router.get("/workflow_templates")
async def list_templates() -> Response:
    return json_response({})


@router.get("/i18n")
async def show_translations() -> Response:
    return json_response({})


@router.get("/global_subgraphs")
async def list_subgraphs() -> Response:
    return json_response({})


@router.get("/global_subgraphs/{subgraph_id}")
async def show_subgraph(subgraph_id: str) -> Response:
    raise NotFound(f"There is no subgraph '{subgraph_id[:80]}'.", code="FILE_NOT_FOUND")


@router.get("/internal/logs")
async def show_logs() -> Response:
    """Empty: the server's log is about everybody."""
    return json_response("")


@router.get("/internal/logs/raw")
async def show_raw_logs() -> Response:
    return json_response({"entries": [], "size": {"cols": 80, "rows": 24}})


@router.patch("/internal/logs/subscribe")
async def subscribe_logs() -> Response:
    return Response()


@router.get("/internal/folder_paths")
async def show_folders() -> Response:
    """Where files lie on the workers is nobody's business."""
    return json_response({name: [] for name in MODEL_FOLDERS})


@router.get("/internal/files/{kind}")
async def list_own_files(request: Request, kind: str) -> Response:
    """The caller's uploads, or what the last jobs have made."""
    services, principal = services_of(request), principal_of(request)
    if kind == "input":
        principal.check_may(Permission.ASSETS_READ)
        return json_response(list(await services.assets.names(principal)))
    if kind not in {"output", "temp"}:
        raise MalformedRequest("Invalid directory type")
    records = services.comfyui.records
    page = await records.history(principal, HistoryQuery(ENDED, JOBS_LOOKED_AT))
    submitted = await records.submitted(principal, [job.id for job in page.jobs])
    files = [file_body(output) for each in submitted.values() for output in each.outputs]
    return json_response(
        [f"{each['subfolder']}/{each['filename']}" for each in files if each["type"] == kind]
    )


async def _save(saving: Any) -> Any:
    """Says of a file that is there what the editor waits for."""
    try:
        return await saving
    except Conflict as error:
        raise Conflict("File already exists", code="FILE_EXISTS") from error


def _moved(request: Request) -> tuple[str, str | None]:
    """The two names of `/userdata/{file}/move/{dest}`: a slash within one is written %2F."""
    raw: bytes = request.scope.get("raw_path") or request.url.path.encode()
    parts = raw.partition(b"?")[0].decode("latin-1").split("/")
    if len(parts) == 5 and parts[3] == "move":
        return unquote(parts[2]), unquote(parts[4])
    return "", None


def _listed(found: Iterable[Document], prefix: str) -> Iterable[dict[str, Any]]:
    folders: set[str] = set()
    for each in found:
        name, *deeper = each.name.removeprefix(prefix).split("/")
        if not deeper:
            body = _file_body(each, name)
            yield {"name": name, "path": each.name, "type": "file", **_without_path(body)}
        elif name not in folders:
            folders.add(name)
            yield {"name": name, "path": prefix + name, "type": "directory"}


def _without_path(body: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in body.items() if key != "path"}


def _file_body(document: Document, path: str) -> dict[str, Any]:
    return {
        "path": path,
        "size": document.size,
        "modified": document.modified_at,
        "created": document.created_at,
    }
