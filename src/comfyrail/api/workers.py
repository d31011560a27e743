"""API v1: workers."""

import msgspec
from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response

from comfyrail.api.contract import AddWorkerRequest, worker_body, worker_list
from comfyrail.api.messages import json_response, read_json
from comfyrail.api.services import services_of
from comfyrail.ids import WorkerId

WORKERS = "/v1/workers"
WORKER = "/v1/workers/{worker_id}"

router = APIRouter(tags=["workers"])

_add_request = msgspec.json.Decoder(AddWorkerRequest)


@router.get(WORKERS)
async def list_workers(request: Request) -> Response:
    return json_response(worker_list(services_of(request).workers.list()))


@router.post(WORKERS, status_code=201)
async def add_worker(request: Request) -> Response:
    """Add a running ComfyUI or `comfyrail worker` by its URL."""
    body = await read_json(request, _add_request)
    view = await services_of(request).workers.add(body.url)
    return json_response(worker_body(view), 201, {"Location": WORKER.format(worker_id=view.id)})


@router.get(WORKER)
async def show_worker(request: Request, worker_id: str) -> Response:
    return json_response(worker_body(services_of(request).workers.show(WorkerId(worker_id))))


@router.delete(WORKER, status_code=204)
async def remove_worker(request: Request, worker_id: str) -> Response:
    """Let go of a worker that was added by URL; its running jobs go to others."""
    await services_of(request).workers.remove(WorkerId(worker_id))
    return Response(status_code=204)
