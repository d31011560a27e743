"""API v1: workers."""

from typing import Annotated

import msgspec
from fastapi import APIRouter, Query
from starlette.requests import Request
from starlette.responses import Response

from comfyrail.api.access.acts import note_act
from comfyrail.api.messages import json_response, read_json
from comfyrail.api.services import principal_of, services_of
from comfyrail.api.worker_contract import (
    AddWorkerRequest,
    WorkerLogs,
    fleet_body,
    new_worker,
    worker_body,
    worker_list,
)
from comfyrail.ids import WorkerId

WORKERS = "/v1/workers"
WORKER = "/v1/workers/{worker_id}"
DRAIN = WORKER + "/drain"
CORDON = WORKER + "/cordon"
RESUME = WORKER + "/resume"
LOGS = WORKER + "/logs"
FLEET = "/v1/fleet"

router = APIRouter(tags=["workers"])

_add_request = msgspec.json.Decoder(AddWorkerRequest)


@router.get(WORKERS)
async def list_workers(request: Request) -> Response:
    return json_response(worker_list(services_of(request).workers.list(principal_of(request))))


@router.post(WORKERS, status_code=201)
async def add_worker(request: Request) -> Response:
    """Add a running ComfyUI or `comfyrail worker` by its URL, or let a driver make one."""
    wanted = new_worker(await read_json(request, _add_request))
    view = await services_of(request).workers.add(wanted)
    await note_act(request, "worker.add", view.id, driver=view.driver)
    return json_response(worker_body(view), 201, {"Location": WORKER.format(worker_id=view.id)})


@router.get(FLEET)
async def show_fleet(request: Request) -> Response:
    """How many workers there are and what they do, in all and by pool."""
    workers = services_of(request).workers
    return json_response(fleet_body(workers.figures(), workers.pools()))


@router.get(WORKER)
async def show_worker(request: Request, worker_id: str) -> Response:
    view = services_of(request).workers.show(principal_of(request), WorkerId(worker_id))
    return json_response(worker_body(view))


@router.delete(WORKER, status_code=204)
async def remove_worker(request: Request, worker_id: str) -> Response:
    """Let go of a worker, and end it if Comfyrail started it; its running jobs go to others."""
    await services_of(request).workers.remove(WorkerId(worker_id))
    await note_act(request, "worker.remove", worker_id)
    return Response(status_code=204)


@router.post(DRAIN)
async def drain_worker(request: Request, worker_id: str) -> Response:
    """Let a worker finish what it has begun and give it nothing more."""
    view = await services_of(request).workers.drain(WorkerId(worker_id))
    await note_act(request, "worker.drain", view.id)
    return json_response(worker_body(view))


@router.post(CORDON)
async def cordon_worker(request: Request, worker_id: str) -> Response:
    """Give a worker no new jobs until it is resumed."""
    view = await services_of(request).workers.cordon(WorkerId(worker_id))
    await note_act(request, "worker.cordon", view.id)
    return json_response(worker_body(view))


@router.post(RESUME)
async def resume_worker(request: Request, worker_id: str) -> Response:
    """Take a cordoned, drained or blocked worker back."""
    view = await services_of(request).workers.resume(WorkerId(worker_id))
    await note_act(request, "worker.resume", view.id)
    return json_response(worker_body(view))


@router.get(LOGS)
async def worker_logs(
    request: Request, worker_id: str, lines: Annotated[int, Query(ge=1, le=10_000)] = 200
) -> Response:
    """The last lines of what a worker has written, as far as its driver can get at them."""
    text = await services_of(request).workers.logs(WorkerId(worker_id), lines)
    return json_response(WorkerLogs(worker_id=worker_id, text=text))
