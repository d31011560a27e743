"""What the routes of v2 ask and answer."""

from comfyrail.access.permissions import Permission
from comfyrail.api import examples, job_logs
from comfyrail.api.contract import ChangeRequest, NodeResults, RetryRequest
from comfyrail.api.operations import Operation, Operations
from comfyrail.api.v1_operations import LONG_POLL
from comfyrail.api.v2 import contract
from comfyrail.api.v2.contract import EXECUTE, EXECUTION, EXECUTIONS, RUNSYNC

TAGS = ["executions v2"]

OPERATIONS: Operations = {
    ("post", EXECUTE): Operation(
        Permission.JOBS_WRITE,
        "Submit a workflow",
        contract.V2Accepted,
        202,
        contract.V2ExecuteRequest,
        (404, 422),
        is_submission=True,
        headers=("Prefer",),
        example=examples.V2_EXECUTE,
        other_replies={200: contract.V2Execution},
        reply_headers=("Location", "Preference-Applied"),
        extra={"tags": TAGS},
    ),
    ("post", RUNSYNC): Operation(
        Permission.JOBS_WRITE,
        "Submit a workflow and wait for its end",
        contract.V2Execution,
        200,
        contract.V2ExecuteRequest,
        (404, 422),
        is_submission=True,
        headers=("Prefer",),
        example=examples.V2_EXECUTE,
        other_replies={202: contract.V2Accepted},
        reply_headers=("Location", "Preference-Applied"),
    ),
    ("get", EXECUTIONS): Operation(
        Permission.JOBS_READ, "List executions", contract.V2ExecutionList
    ),
    ("get", EXECUTION): Operation(
        Permission.JOBS_READ,
        "Status of an execution",
        contract.V2Execution,
        headers=("If-None-Match",),
        other_statuses=(304,),
        extra={"tags": TAGS, "parameters": LONG_POLL},
    ),
    ("patch", EXECUTION): Operation(
        Permission.JOBS_WRITE,
        "Change the priority of an execution",
        contract.V2Execution,
        body=ChangeRequest,
        errors=(409,),
        example=examples.CHANGE,
        extra={"tags": TAGS},
    ),
    ("post", EXECUTION + "/cancel"): Operation(
        Permission.JOBS_WRITE, "Cancel an execution", contract.V2Execution, errors=(409,)
    ),
    ("post", EXECUTION + "/retry"): Operation(
        Permission.JOBS_WRITE,
        "Run an execution once more",
        contract.V2Accepted,
        202,
        RetryRequest,
        (409, 422),
        is_submission=True,
        headers=("Prefer",),
        example=examples.RETRY,
        other_replies={200: contract.V2Execution},
        is_body_required=False,
        reply_headers=("Location", "Preference-Applied"),
    ),
    ("get", EXECUTION + "/outputs"): Operation(
        Permission.JOBS_READ, "Outputs of an execution", contract.V2Outputs
    ),
    ("get", EXECUTION + "/outputs/{output_id}"): Operation(
        Permission.JOBS_READ,
        "Download an output",
        "*/*",
        errors=(416,),
        headers=("Range", "If-None-Match"),
        other_statuses=(206, 304),
    ),
    ("get", EXECUTION + "/nodes"): Operation(
        Permission.JOBS_READ, "Results of its nodes", NodeResults
    ),
    ("get", EXECUTION + "/preview"): Operation(
        Permission.JOBS_READ,
        "Latest preview image",
        "image/jpeg",
        headers=("If-None-Match",),
        other_statuses=(304,),
        other_replies={204: ""},
        also_as=("image/png",),
    ),
    ("get", EXECUTION + "/logs"): Operation(
        Permission.JOBS_READ, "Log of an execution", job_logs.LogBody, also_as=("text/plain",)
    ),
    ("get", EXECUTION + "/events"): Operation(
        Permission.JOBS_READ,
        "Follow an execution",
        "text/event-stream",
        headers=("Last-Event-ID",),
    ),
    ("get", EXECUTION + "/ws"): Operation(
        Permission.JOBS_READ, "Follow an execution by WebSocket", "", 101, is_shown=False
    ),
}
