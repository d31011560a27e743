"""What clients can learn of the fleet, as if it were one ComfyUI."""

import asyncio
import gzip
import os
import sys
from typing import Any

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response

from comfyrail import __version__
from comfyrail.api.comfyui.features import FEATURES, NO_MODELS
from comfyrail.api.conditional import NOT_MODIFIED, is_known
from comfyrail.api.messages import json_response
from comfyrail.api.services import principal_of, services_of
from comfyrail.errors import NotFound
from comfyrail.fleet.comfyui.client import SERVER_MARK
from comfyrail.fleet.view import WorkerView
from comfyrail.jobs.workers import WorkerStatus
from comfyrail.workflow.comfyui_features import COMFYUI_VERSION, MODEL_FOLDERS

WORTH_PACKING = 1 << 12
UP = frozenset({WorkerStatus.IDLE, WorkerStatus.BUSY, WorkerStatus.DRAINING})

router = APIRouter(tags=["ComfyUI"])


@router.get("/object_info")
async def show_all_nodes(request: Request) -> Response:
    """All node types of all workers."""
    found = await services_of(request).comfyui.fleet.object_info(principal_of(request))
    packed = "gzip" in request.headers.get("accept-encoding", "")
    headers = {
        "ETag": f'"{found.tag}{"-gzip" if packed else ""}"',
        "Cache-Control": "private, no-cache",
        "Vary": "Accept-Encoding",
    }
    if is_known(request.headers.get("if-none-match"), headers["ETag"]):
        return Response(status_code=NOT_MODIFIED, headers=headers)
    content = found.content
    if packed and len(content) > WORTH_PACKING:
        content = await asyncio.to_thread(gzip.compress, content, 1)
        headers["Content-Encoding"] = "gzip"
    return Response(content, headers=headers, media_type="application/json")


@router.get("/object_info/{node_class}")
async def show_node(request: Request, node_class: str) -> Response:
    """One of them; empty where no worker has it."""
    fleet = services_of(request).comfyui.fleet
    found = await fleet.object_info(principal_of(request), node_class)
    return Response(found.content, media_type="application/json")


@router.get("/system_stats")
async def show_system(request: Request) -> Response:
    """Every worker that is up is a device."""
    workers = [each for each in services_of(request).comfyui.fleet.workers() if each.status in UP]
    total, free = _memory_bytes()
    return json_response(
        {
            "system": {
                "os": sys.platform,
                "ram_total": total,
                "ram_free": free,
                "comfyui_version": COMFYUI_VERSION,
                SERVER_MARK: __version__,
                "python_version": sys.version,
                "pytorch_version": "none",
                "embedded_python": False,
                "argv": ["comfyrail"],
            },
            "devices": [_device(index, each) for index, each in enumerate(workers)],
        }
    )


@router.get("/features")
async def show_features() -> Response:
    return json_response(FEATURES)


@router.get("/embeddings")
async def list_embeddings(request: Request) -> Response:
    """Their names without endings, as prompts use them."""
    models = await services_of(request).comfyui.fleet.models()
    names = models.get("embeddings", {})
    return json_response(sorted({name.rpartition(".")[0] or name for name in names}))


@router.get("/models")
async def list_model_folders(request: Request) -> Response:
    models = await services_of(request).comfyui.fleet.models()
    return json_response(list(dict.fromkeys([*MODEL_FOLDERS, *models])))


@router.get("/models/{folder}")
async def list_models(request: Request, folder: str) -> Response:
    """The models of all workers."""
    models = await services_of(request).comfyui.fleet.models()
    if folder not in models and folder not in MODEL_FOLDERS:
        raise _no_folder(folder)
    return json_response(sorted(models.get(folder, ())))


@router.get("/experiment/models")
async def describe_model_folders(request: Request) -> Response:
    models = await services_of(request).comfyui.fleet.models()
    names = dict.fromkeys([*MODEL_FOLDERS, *models])
    return json_response([{"name": name, "folders": []} for name in names if name not in NO_MODELS])


@router.get("/experiment/models/{folder}")
async def describe_models(request: Request, folder: str) -> Response:
    models = await services_of(request).comfyui.fleet.models()
    if folder not in models and folder not in MODEL_FOLDERS:
        raise _no_folder(folder)
    found = sorted(models.get(folder, {}).items())
    return json_response([{"name": name, "pathIndex": 0, "size": size} for name, size in found])


@router.get("/view_metadata/{folder}")
async def show_model_metadata(folder: str) -> Response:
    """The files are on the workers: what is written in them is not known here."""
    raise NotFound(f"Nothing is known of the files in '{folder[:80]}'.", code="FILE_NOT_FOUND")


def _no_folder(folder: str) -> NotFound:
    return NotFound(f"No worker has a folder of models '{folder[:80]}'.", code="FOLDER_NOT_FOUND")


def _device(index: int, worker: WorkerView) -> dict[str, Any]:
    total, free = worker.memory_total or 0, worker.memory_free or 0
    name = worker.device or "cpu"
    return {
        "name": f"{worker.id} {name}",
        "type": "cpu" if name == "cpu" else "cuda",
        "index": index,
        "vram_total": total,
        "vram_free": free,
        "torch_vram_total": total,
        "torch_vram_free": free,
    }


def _memory_bytes() -> tuple[int, int]:
    """All and free memory; zeros where the system does not tell."""
    try:
        page = os.sysconf("SC_PAGE_SIZE")
        return page * os.sysconf("SC_PHYS_PAGES"), page * os.sysconf("SC_AVPHYS_PAGES")
    except (ValueError, OSError, AttributeError):
        return 0, 0
