"""The OpenAPI document: FastAPI's routes, the hot routes, and schemas from the contract."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec
from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi

from comfyrail import __version__
from comfyrail.api import (
    batch_contract,
    batches,
    check_contract,
    checks,
    contract,
    executions,
    library,
    library_contract,
    metrics,
    nodes,
    plan_contract,
    queue,
    worker_contract,
    workers,
)

REFERENCE = "#/components/schemas/{name}"
COMMON_ERRORS = (400, 403, 500, 503)
"""503: the database does not answer, or the server stops."""
DISK_FULL = 507
WRITES_NOTHING = {checks.VALIDATE, checks.PLAN, checks.CONVERT}
"""Asked with POST for their long bodies."""
TRIES_A_WRITE = {"/ready"}


@dataclass(frozen=True, slots=True)
class Operation:
    """What a route reads and writes. Errors are the same everywhere."""

    summary: str
    reply: type | str
    status: int = 200
    body: type | str | None = None
    errors: tuple[int, ...] = ()
    parameters: tuple[str, ...] = field(default=())
    other_statuses: tuple[int, ...] = ()
    """Further replies that are no errors: of the same form for 2xx, empty otherwise."""


_EVENTS = executions.EXECUTION + "/events"
_OUTPUT = executions.EXECUTION + "/outputs/{output_id}"

OPERATIONS: dict[tuple[str, str], Operation] = {
    ("post", executions.EXECUTE): Operation(
        "Submit a workflow",
        contract.ExecuteReply,
        202,
        contract.ExecuteRequest,
        (404, 413, 415, 422),
    ),
    ("get", executions.EXECUTION): Operation(
        "Status of an execution", contract.Execution, errors=(404,), parameters=("execution_id",)
    ),
    ("patch", executions.EXECUTION): Operation(
        "Change the priority of an execution",
        contract.Execution,
        body=contract.ChangeRequest,
        errors=(404, 409, 415),
        parameters=("execution_id",),
    ),
    ("get", executions.EXECUTION + "/nodes"): Operation(
        "Results of its nodes", contract.NodeResults, errors=(404,)
    ),
    ("get", executions.EXECUTION + "/preview"): Operation(
        "Latest preview image", "image/jpeg", errors=(404,)
    ),
    ("get", executions.EXECUTIONS): Operation("List executions", contract.ExecutionList),
    ("post", executions.EXECUTION + "/cancel"): Operation(
        "Cancel an execution", contract.Execution, errors=(404, 409)
    ),
    ("get", executions.EXECUTION + "/outputs"): Operation(
        "Outputs of an execution", contract.OutputList, errors=(404,)
    ),
    ("get", _OUTPUT): Operation("Download an output", "application/octet-stream", errors=(404,)),
    ("get", _EVENTS): Operation("Follow an execution", "text/event-stream", errors=(404,)),
    ("post", checks.VALIDATE): Operation(
        "Check a workflow",
        check_contract.ValidationReport,
        body=check_contract.CheckRequest,
        errors=(404, 413, 415),
    ),
    ("post", checks.PLAN): Operation(
        "Plan a workflow",
        plan_contract.PlanBody,
        body=check_contract.CheckRequest,
        errors=(404, 413, 415, 422),
    ),
    ("post", checks.CONVERT): Operation(
        "Convert a workflow",
        check_contract.ConvertedBody,
        body="application/json",
        errors=(413, 415, 422),
    ),
    ("get", checks.WORKFLOW_SCHEMA): Operation("JSON Schema of a workflow", "application/json"),
    ("get", metrics.METRICS): Operation("Figures for Prometheus", "text/plain"),
    ("get", nodes.NODES): Operation("List node types", nodes.NodeList),
    ("get", nodes.NODE): Operation("Show a node type", nodes.NodeBody, errors=(404,)),
    ("get", library_contract.LIBRARY): Operation(
        "List the workflows of the library", library_contract.WorkflowList
    ),
    ("post", library.IMPORT): Operation(
        "Import a bundle",
        library_contract.SavedWorkflow,
        201,
        "application/zip",
        (409, 413, 415, 422),
        other_statuses=(200,),
    ),
    ("get", library_contract.LIBRARY_ENTRY): Operation(
        "Show a workflow", library_contract.LibraryWorkflow, errors=(404, 422)
    ),
    ("put", library_contract.LIBRARY_ENTRY): Operation(
        "Save a workflow",
        library_contract.SavedWorkflow,
        201,
        library_contract.SaveWorkflowRequest,
        (409, 413, 415, 422),
        other_statuses=(200,),
    ),
    ("delete", library_contract.LIBRARY_ENTRY): Operation(
        "Delete a workflow", "", 204, errors=(404,)
    ),
    ("get", library.VERSIONS): Operation(
        "Versions of a workflow", library_contract.WorkflowVersions, errors=(404,)
    ),
    ("get", library.PREVIEW): Operation(
        "Preview of a workflow", "image/png", errors=(404,), other_statuses=(304,)
    ),
    ("put", library.PREVIEW): Operation(
        "Set the preview", "", 204, "image/png", (404, 413, 415, 422)
    ),
    ("get", library.BUNDLE): Operation("Export a workflow", "application/zip", errors=(404, 409)),
    ("post", batch_contract.BATCHES): Operation(
        "Submit a batch",
        batch_contract.BatchReply,
        202,
        batch_contract.BatchRequest,
        (404, 413, 415, 422),
    ),
    ("get", batch_contract.BATCHES): Operation("List batches", batch_contract.BatchList),
    ("get", batch_contract.BATCH): Operation(
        "Status of a batch", batch_contract.BatchBody, errors=(404,)
    ),
    ("get", batches.EXECUTIONS): Operation(
        "Executions of a batch", batch_contract.BatchExecutionList, errors=(404,)
    ),
    ("post", batches.CANCEL): Operation(
        "Cancel a batch", batch_contract.BatchBody, errors=(404, 409)
    ),
    ("post", batches.SCORES): Operation(
        "Score a trial",
        batch_contract.BatchBody,
        body=batch_contract.ScoreRequest,
        errors=(404, 409, 415),
    ),
    ("get", queue.QUEUE): Operation("Show the queue", queue.QueueBody),
    ("post", queue.PAUSE): Operation(
        "Pause the queue", queue.QueueBody, body=queue.PauseRequest, errors=(415,)
    ),
    ("post", queue.RESUME): Operation("Resume the queue", queue.QueueBody),
    ("get", workers.WORKERS): Operation("List workers", worker_contract.WorkerList),
    ("post", workers.WORKERS): Operation(
        "Add a worker",
        worker_contract.WorkerBody,
        201,
        worker_contract.AddWorkerRequest,
        (409, 415, 422),
    ),
    ("get", workers.FLEET): Operation("Show the fleet's figures", worker_contract.FleetBody),
    ("get", workers.WORKER): Operation("Show a worker", worker_contract.WorkerBody, errors=(404,)),
    ("delete", workers.WORKER): Operation("Remove a worker", "", 204, errors=(404, 409)),
    ("post", workers.DRAIN): Operation("Drain a worker", worker_contract.WorkerBody, errors=(404,)),
    ("post", workers.CORDON): Operation(
        "Cordon a worker", worker_contract.WorkerBody, errors=(404,)
    ),
    ("post", workers.RESUME): Operation(
        "Take a worker back", worker_contract.WorkerBody, errors=(404,)
    ),
    ("get", workers.LOGS): Operation(
        "Log of a worker", worker_contract.WorkerLogs, errors=(404, 502)
    ),
    ("get", "/health"): Operation("Liveness", contract.Health),
    ("get", "/ready"): Operation("Readiness", contract.Readiness),
}


def build_openapi(app: FastAPI) -> dict[str, Any]:
    """The whole document."""
    document = get_openapi(
        title="Comfyrail",
        version=__version__,
        description=f"Runs ComfyUI workflows on a fleet. WebSocket: {executions.EXECUTION}/ws.",
        routes=app.routes,
    )
    types = {
        kind
        for operation in OPERATIONS.values()
        for kind in (operation.reply, operation.body, contract.ErrorReply)
        if isinstance(kind, type)
    }
    ordered = sorted(types, key=lambda kind: kind.__name__)
    _, schemas = msgspec.json.schema_components(ordered, ref_template=REFERENCE)
    known = document.setdefault("components", {}).setdefault("schemas", {})
    known.update(schemas)
    for foreign in ("HTTPValidationError", "ValidationError"):
        known.pop(foreign, None)  # ours has one shape for all errors
    for (method, path), operation in OPERATIONS.items():
        entry = document["paths"].setdefault(path, {}).setdefault(method, {})
        _describe(entry, operation, _errors_of(method, path, operation))
    return document


def _errors_of(method: str, path: str, operation: Operation) -> list[int]:
    writes = path in TRIES_A_WRITE or (method != "get" and path not in WRITES_NOTHING)
    return sorted({*COMMON_ERRORS, *operation.errors, *((DISK_FULL,) if writes else ())})


def _describe(entry: dict[str, Any], operation: Operation, errors: Sequence[int]) -> None:
    entry["summary"] = operation.summary
    entry.setdefault("parameters", []).extend(
        {"name": name, "in": "path", "required": True, "schema": {"type": "string"}}
        for name in operation.parameters
    )
    if operation.body is not None:
        entry["requestBody"] = {"required": True, "content": _content(operation.body)}
    success: dict[str, Any] = {"description": "Done"}
    if operation.reply:
        success["content"] = _content(operation.reply)
    entry["responses"] = {str(operation.status): success}
    for status in operation.other_statuses:
        is_same = 200 <= status < 300
        entry["responses"][str(status)] = success if is_same else {"description": "Not again"}
    for status in errors:
        entry["responses"][str(status)] = {
            "description": "An error",
            "content": _content(contract.ErrorReply),
        }


def _content(kind: type | str) -> dict[str, Any]:
    if isinstance(kind, str):
        return {kind: {"schema": {"type": "string"}}}
    return {"application/json": {"schema": {"$ref": REFERENCE.format(name=kind.__name__)}}}
