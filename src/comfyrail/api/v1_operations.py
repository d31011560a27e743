"""The routes of v1."""

from comfyrail.access.permissions import Permission
from comfyrail.api import (
    batch_contract,
    batches,
    check_contract,
    checks,
    contract,
    docs_page,
    examples,
    executions,
    job_logs,
    library,
    library_contract,
    metrics,
    nodes,
    plan_contract,
    queue,
    worker_contract,
    workers,
)
from comfyrail.api.conditional import LONGEST_POLL_SECONDS, MOST_EVENTS
from comfyrail.api.operations import Operation, Operations
from comfyrail.api.v2.contract import V2ExecutionList

TAGS = ["executions"]
LONG_POLL = [
    {
        "name": "wait",
        "in": "query",
        "schema": {"type": "integer", "minimum": 0, "maximum": LONGEST_POLL_SECONDS},
        "description": "With `If-None-Match` or `after`: seconds to wait for a change.",
    },
    {
        "name": "after",
        "in": "query",
        "schema": {"type": "integer", "minimum": 0, "maximum": MOST_EVENTS},
        "description": "With `wait`: the number of the last event that you know of.",
    },
]

_EVENTS = executions.EXECUTION + "/events"
_OUTPUT = executions.EXECUTION + "/outputs/{output_id}"

OPERATIONS: Operations = {
    ("post", executions.EXECUTE): Operation(
        Permission.JOBS_WRITE,
        "Submit a workflow",
        contract.ExecuteReply,
        202,
        contract.ExecuteRequest,
        (404, 422),
        is_submission=True,
        headers=("Prefer",),
        example=examples.EXECUTE,
        other_replies={200: contract.Execution},
        reply_headers=("Location", "Preference-Applied"),
        extra={"tags": TAGS},
    ),
    ("post", executions.RUNSYNC): Operation(
        Permission.JOBS_WRITE,
        "Submit a workflow and wait for its end",
        contract.Execution,
        200,
        contract.ExecuteRequest,
        (404, 422),
        is_submission=True,
        headers=("Prefer",),
        example=examples.EXECUTE,
        other_replies={202: contract.ExecuteReply},
        reply_headers=("Location", "Preference-Applied"),
    ),
    ("get", executions.EXECUTION): Operation(
        Permission.JOBS_READ,
        "Status of an execution",
        contract.Execution,
        headers=("If-None-Match",),
        other_statuses=(304,),
        extra={"tags": TAGS, "parameters": LONG_POLL},
    ),
    ("patch", executions.EXECUTION): Operation(
        Permission.JOBS_WRITE,
        "Change the priority of an execution",
        contract.Execution,
        body=contract.ChangeRequest,
        errors=(409,),
        example=examples.CHANGE,
        extra={"tags": TAGS},
    ),
    ("get", executions.EXECUTIONS): Operation(
        Permission.JOBS_READ, "List executions", contract.ExecutionList
    ),
    ("post", executions.EXECUTION + "/cancel"): Operation(
        Permission.JOBS_WRITE, "Cancel an execution", contract.Execution, errors=(409,)
    ),
    ("post", executions.EXECUTION + "/retry"): Operation(
        Permission.JOBS_WRITE,
        "Run an execution once more",
        contract.ExecuteReply,
        202,
        contract.RetryRequest,
        (409, 422),
        is_submission=True,
        headers=("Prefer",),
        example=examples.RETRY,
        other_replies={200: contract.Execution},
        is_body_required=False,
        reply_headers=("Location", "Preference-Applied"),
    ),
    ("get", executions.EXECUTION + "/logs"): Operation(
        Permission.JOBS_READ, "Log of an execution", job_logs.LogBody, also_as=("text/plain",)
    ),
    ("get", executions.EXECUTION + "/nodes"): Operation(
        Permission.JOBS_READ, "Results of its nodes", contract.NodeResults
    ),
    ("get", executions.EXECUTION + "/preview"): Operation(
        Permission.JOBS_READ,
        "Latest preview image",
        "image/jpeg",
        headers=("If-None-Match",),
        other_statuses=(304,),
        other_replies={204: ""},
        also_as=("image/png",),
    ),
    ("get", executions.EXECUTION + "/outputs"): Operation(
        Permission.JOBS_READ, "Outputs of an execution", contract.OutputList
    ),
    ("get", _OUTPUT): Operation(
        Permission.JOBS_READ,
        "Download an output",
        "*/*",
        errors=(416,),
        headers=("Range", "If-None-Match"),
        other_statuses=(206, 304),
    ),
    ("get", executions.EXECUTION + "/ws"): Operation(
        Permission.JOBS_READ, "Follow an execution by WebSocket", "", 101, is_shown=False
    ),
    ("get", _EVENTS): Operation(
        Permission.JOBS_READ,
        "Follow an execution",
        "text/event-stream",
        headers=("Last-Event-ID",),
    ),
    ("post", checks.VALIDATE): Operation(
        Permission.JOBS_READ,
        "Check a workflow",
        check_contract.ValidationReport,
        body=check_contract.CheckRequest,
        errors=(404, 413, 415),
        writes=False,
        example=examples.CHECK,
    ),
    ("post", checks.PLAN): Operation(
        Permission.JOBS_READ,
        "Plan a workflow",
        plan_contract.PlanBody,
        body=check_contract.CheckRequest,
        errors=(404, 413, 415, 422),
        writes=False,
        example=examples.CHECK,
    ),
    ("post", checks.CONVERT): Operation(
        Permission.JOBS_READ,
        "Convert a workflow",
        check_contract.ConvertedBody,
        body="application/json",
        errors=(413, 415, 422),
        writes=False,
        example=examples.WORKFLOW,
    ),
    ("get", checks.WORKFLOW_SCHEMA): Operation(
        Permission.JOBS_READ, "JSON Schema of a workflow", "application/json"
    ),
    ("get", metrics.METRICS): Operation(
        Permission.METRICS_READ, "Figures for Prometheus", "text/plain"
    ),
    ("get", nodes.NODES): Operation(Permission.FLEET_READ, "List node types", nodes.NodeList),
    ("get", nodes.NODE): Operation(
        Permission.FLEET_READ, "Show a node type", nodes.NodeBody, errors=(404,)
    ),
    ("get", library_contract.LIBRARY): Operation(
        Permission.LIBRARY_READ, "List the workflows of the library", library_contract.WorkflowList
    ),
    ("post", library.IMPORT): Operation(
        Permission.LIBRARY_WRITE,
        "Import a bundle",
        library_contract.SavedWorkflow,
        201,
        "application/zip",
        (409, 413, 415, 422),
        other_statuses=(200,),
    ),
    ("get", library_contract.LIBRARY_ENTRY): Operation(
        Permission.LIBRARY_READ,
        "Show a workflow",
        library_contract.LibraryWorkflow,
        errors=(404, 422),
    ),
    ("put", library_contract.LIBRARY_ENTRY): Operation(
        Permission.LIBRARY_WRITE,
        "Save a workflow",
        library_contract.SavedWorkflow,
        201,
        library_contract.SaveWorkflowRequest,
        (409, 413, 415, 422),
        other_statuses=(200,),
        example=examples.SAVE_WORKFLOW,
    ),
    ("delete", library_contract.LIBRARY_ENTRY): Operation(
        Permission.LIBRARY_WRITE, "Delete a workflow", "", 204, errors=(404,)
    ),
    ("get", library.VERSIONS): Operation(
        Permission.LIBRARY_READ,
        "Versions of a workflow",
        library_contract.WorkflowVersions,
        errors=(404,),
    ),
    ("get", library.PREVIEW): Operation(
        Permission.LIBRARY_READ,
        "Preview of a workflow",
        "image/png",
        errors=(404,),
        other_statuses=(304,),
    ),
    ("put", library.PREVIEW): Operation(
        Permission.LIBRARY_WRITE, "Set the preview", "", 204, "image/png", (404, 413, 415, 422)
    ),
    ("get", library.BUNDLE): Operation(
        Permission.LIBRARY_READ, "Export a workflow", "application/zip", errors=(404, 409)
    ),
    ("post", batch_contract.BATCHES): Operation(
        Permission.JOBS_WRITE,
        "Submit a batch",
        batch_contract.BatchReply,
        202,
        batch_contract.BatchRequest,
        (404, 413, 415, 422),
        is_submission=True,
        example=examples.BATCH,
    ),
    ("get", batch_contract.BATCHES): Operation(
        Permission.JOBS_READ, "List batches", batch_contract.BatchList
    ),
    ("get", batch_contract.BATCH): Operation(
        Permission.JOBS_READ, "Status of a batch", batch_contract.BatchBody, errors=(404,)
    ),
    ("get", batches.EXECUTIONS): Operation(
        Permission.JOBS_READ,
        "Executions of a batch",
        batch_contract.BatchExecutionList,
        errors=(404,),
    ),
    ("post", batches.CANCEL): Operation(
        Permission.JOBS_WRITE, "Cancel a batch", batch_contract.BatchBody, errors=(404, 409)
    ),
    ("post", batches.SCORES): Operation(
        Permission.JOBS_WRITE,
        "Score a trial",
        batch_contract.BatchBody,
        body=batch_contract.ScoreRequest,
        errors=(404, 409, 415),
        example=examples.SCORE,
    ),
    ("get", queue.QUEUE): Operation(Permission.FLEET_READ, "Show the queue", queue.QueueBody),
    ("get", queue.OPEN_JOBS): Operation(
        Permission.JOBS_READ, "List executions that have not ended", V2ExecutionList
    ),
    ("post", queue.PAUSE): Operation(
        Permission.FLEET_WRITE,
        "Pause the queue",
        queue.QueueBody,
        body=queue.PauseRequest,
        errors=(415,),
        example=examples.PAUSE,
    ),
    ("post", queue.RESUME): Operation(Permission.FLEET_WRITE, "Resume the queue", queue.QueueBody),
    ("get", workers.WORKERS): Operation(
        Permission.FLEET_READ, "List workers", worker_contract.WorkerList
    ),
    ("post", workers.WORKERS): Operation(
        Permission.FLEET_WRITE,
        "Add a worker",
        worker_contract.WorkerBody,
        201,
        worker_contract.AddWorkerRequest,
        (409, 415, 422),
        example=examples.ADD_WORKER,
    ),
    ("get", workers.FLEET): Operation(
        Permission.FLEET_READ, "Show the fleet's figures", worker_contract.FleetBody
    ),
    ("get", workers.WORKER): Operation(
        Permission.FLEET_READ, "Show a worker", worker_contract.WorkerBody, errors=(404,)
    ),
    ("delete", workers.WORKER): Operation(
        Permission.FLEET_WRITE, "Remove a worker", "", 204, errors=(404, 409)
    ),
    ("post", workers.DRAIN): Operation(
        Permission.FLEET_WRITE, "Drain a worker", worker_contract.WorkerBody, errors=(404,)
    ),
    ("post", workers.CORDON): Operation(
        Permission.FLEET_WRITE, "Cordon a worker", worker_contract.WorkerBody, errors=(404,)
    ),
    ("post", workers.RESUME): Operation(
        Permission.FLEET_WRITE, "Take a worker back", worker_contract.WorkerBody, errors=(404,)
    ),
    ("get", workers.LOGS): Operation(
        Permission.FLEET_WRITE, "Log of a worker", worker_contract.WorkerLogs, errors=(404, 502)
    ),
    ("get", docs_page.OPENAPI): Operation(
        None,
        "This description",
        "application/json",
        headers=("If-None-Match",),
        other_statuses=(304,),
    ),
    ("get", docs_page.DOCS): Operation(None, "Page of the API", "text/html", is_shown=False),
    ("get", docs_page.FILE): Operation(None, "Its parts", "text/html", is_shown=False),
    ("get", "/health"): Operation(None, "Liveness", contract.Health),
    ("get", "/ready"): Operation(None, "Readiness", contract.Readiness),
}
