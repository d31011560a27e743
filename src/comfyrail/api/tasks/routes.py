"""The routes of the task API."""

from typing import Annotated, Literal

import msgspec
from fastapi import APIRouter, Query
from starlette.requests import Request
from starlette.responses import Response

from comfyrail.access.permissions import Permission
from comfyrail.api.access.acts import note_act
from comfyrail.api.contract import moment
from comfyrail.api.cursors import LONGEST_CURSOR, read_cursor, write_cursor
from comfyrail.api.idempotency import REPLAYED, idempotency_key
from comfyrail.api.messages import decode_json, json_response, read_json, read_json_text
from comfyrail.api.operations import Operation, Operations
from comfyrail.api.services import principal_of, services_of
from comfyrail.api.submissions import webhook_of
from comfyrail.api.tasks.contract import (
    ChangeTaskWorkerRequest,
    TaskBody,
    TaskList,
    TaskQueueMetrics,
    TaskReply,
    TaskRequest,
    TaskWorker,
    TaskWorkerList,
    TaskWorkerMetrics,
    queue_metrics,
    task_body,
    task_worker,
    worker_metrics,
    workflow_request,
)
from comfyrail.api.tasks.words import STATE_OF, STATUS_OF, SURFACE
from comfyrail.api.worker_contract import AddWorkerRequest, new_worker
from comfyrail.ids import JobId, WorkerId
from comfyrail.jobs.job import Origin
from comfyrail.jobs.output_config import AS_IT_IS
from comfyrail.store.interface import JobFilter
from comfyrail.usecases.submit import Submission

TASKS = "/api/v1/tasks"
TASK = "/api/v1/tasks/{task_id}"
QUEUE_METRICS = "/api/v1/metrics/queue"
WORKER_METRICS = "/api/v1/metrics/workers"
WORKERS = "/api/v1/workers"
WORKER = "/api/v1/workers/{worker_id}"

router = APIRouter(tags=["tasks"])

_task_request = msgspec.json.Decoder(TaskRequest)
_add_request = msgspec.json.Decoder(AddWorkerRequest)
_change_request = msgspec.json.Decoder(ChangeTaskWorkerRequest)

TaskStatus = Literal["pending", "running", "completed", "failed", "cancelled"]


@router.post(TASKS, status_code=201)
async def add_task(request: Request) -> Response:
    content = await read_json_text(request)
    body = decode_json(content, _task_request)
    accepted = await services_of(request).submit(
        principal_of(request),
        Submission(
            workflow_request(body),
            body.priority,
            body.timeout,
            max_retries=body.max_retries,
            idempotency=idempotency_key(request, content),
            origin=Origin(SURFACE, body.workflow_id, bytes(body.payload) or b"{}"),
            output_config=body.output_config or AS_IT_IS,
            webhook=webhook_of(body.callback_url),
            workflow_label=body.workflow_id,
        ),
    )
    headers = {"Location": TASK.format(task_id=accepted.job_id)}
    if accepted.is_replay:
        headers[REPLAYED] = "true"
    reply = TaskReply(
        id=accepted.job_id,
        workflow_id=body.workflow_id,
        status=STATUS_OF[accepted.state],
        created_at=moment(accepted.submitted_at),
    )
    return json_response(reply, 201, headers)


@router.get(TASKS)
async def list_tasks(
    request: Request,
    status: TaskStatus | None = None,
    limit: Annotated[int, Query(ge=1, le=500)] = 50,
    cursor: Annotated[str | None, Query(max_length=LONGEST_CURSOR)] = None,
) -> Response:
    """Newest first, those that came in as tasks. `next_cursor` goes on as `cursor`."""
    where = JobFilter(STATE_OF[status] if status else None, surface=SURFACE)
    after = read_cursor(cursor)
    page = await services_of(request).jobs.page(
        principal_of(request), where, JobId(after) if after else None, limit
    )
    return json_response(
        TaskList(
            tasks=[task_body(job) for job in page.jobs],
            next_cursor=write_cursor(page.next_cursor),
        )
    )


@router.get(TASK)
async def show_task(request: Request, task_id: str) -> Response:
    """Any of the caller's jobs; `payload` is null for those that did not come in as tasks."""
    principal, jobs = principal_of(request), services_of(request).jobs
    status = await jobs.status(principal, JobId(task_id))
    payload = None
    if status.job.surface == SURFACE:
        payload = (await jobs.origin(principal, JobId(task_id))).data
    return json_response(task_body(status.job, payload, status.outputs))


@router.delete(TASK)
async def cancel_task(request: Request, task_id: str) -> Response:
    """Cancel a task: a pending one at once, a running one as soon as its worker has stopped."""
    status = await services_of(request).jobs.cancel(principal_of(request), JobId(task_id))
    return json_response(task_body(status.job, None, status.outputs))


@router.get(QUEUE_METRICS)
async def show_queue_metrics(request: Request) -> Response:
    counts = await services_of(request).jobs.counts(principal_of(request))
    return json_response(queue_metrics(counts))


@router.get(WORKER_METRICS)
async def show_worker_metrics(request: Request) -> Response:
    return json_response(worker_metrics(services_of(request).workers.figures().overall))


@router.get(WORKERS)
async def list_workers(request: Request) -> Response:
    views = services_of(request).workers.list(principal_of(request))
    return json_response(TaskWorkerList(workers=[task_worker(view) for view in views]))


@router.post(WORKERS, status_code=201)
async def add_worker(request: Request) -> Response:
    """Add a running ComfyUI or `comfyrail worker` by its URL, or let a driver make one."""
    wanted = new_worker(await read_json(request, _add_request))
    view = await services_of(request).workers.add(wanted)
    await note_act(request, "worker.add", view.id, driver=view.driver)
    return json_response(task_worker(view), 201, {"Location": WORKER.format(worker_id=view.id)})


@router.get(WORKER)
async def show_worker(request: Request, worker_id: str) -> Response:
    view = services_of(request).workers.show(principal_of(request), WorkerId(worker_id))
    return json_response(task_worker(view))


@router.put(WORKER)
async def change_worker(request: Request, worker_id: str) -> Response:
    """Take a worker back, give it no new jobs, or stop it when it has done what it has."""
    body = await read_json(request, _change_request)
    workers = services_of(request).workers
    change, act = {
        "active": (workers.resume, "worker.resume"),
        "cordoned": (workers.cordon, "worker.cordon"),
        "drained": (workers.drain, "worker.drain"),
    }[body.state]
    view = await change(WorkerId(worker_id))
    await note_act(request, act, view.id)
    return json_response(task_worker(view))


@router.delete(WORKER, status_code=204)
async def remove_worker(request: Request, worker_id: str) -> Response:
    """Let go of a worker, and end it if Comfyrail started it; its running jobs go to others."""
    await services_of(request).workers.remove(WorkerId(worker_id))
    await note_act(request, "worker.remove", worker_id)
    return Response(status_code=204)


OPERATIONS: Operations = {
    ("post", TASKS): Operation(
        Permission.JOBS_WRITE,
        "Submit a task",
        TaskReply,
        201,
        TaskRequest,
        (404, 413, 415, 422),
        is_submission=True,
        example={"workflow_id": "portrait", "priority": 5, "payload": {"prompt": "a cat"}},
    ),
    ("get", TASKS): Operation(Permission.JOBS_READ, "List tasks", TaskList),
    ("get", TASK): Operation(Permission.JOBS_READ, "Show a task", TaskBody, errors=(404,)),
    ("delete", TASK): Operation(
        Permission.JOBS_WRITE, "Cancel a task", TaskBody, errors=(404, 409)
    ),
    ("get", QUEUE_METRICS): Operation(
        Permission.JOBS_READ, "Count the caller's tasks", TaskQueueMetrics
    ),
    ("get", WORKER_METRICS): Operation(
        Permission.FLEET_READ, "Count the workers", TaskWorkerMetrics
    ),
    ("get", WORKERS): Operation(Permission.FLEET_READ, "List workers", TaskWorkerList),
    ("post", WORKERS): Operation(
        Permission.FLEET_WRITE,
        "Add a worker",
        TaskWorker,
        201,
        AddWorkerRequest,
        (409, 415, 422),
        example={"url": "http://127.0.0.1:8188"},
    ),
    ("get", WORKER): Operation(Permission.FLEET_READ, "Show a worker", TaskWorker, errors=(404,)),
    ("put", WORKER): Operation(
        Permission.FLEET_WRITE,
        "Change whether a worker takes jobs",
        TaskWorker,
        body=ChangeTaskWorkerRequest,
        errors=(404, 415),
        example={"state": "cordoned"},
    ),
    ("delete", WORKER): Operation(
        Permission.FLEET_WRITE, "Remove a worker", "", 204, errors=(404, 409)
    ),
}
