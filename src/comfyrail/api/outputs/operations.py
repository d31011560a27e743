"""The routes of outputs."""

from comfyrail.access.permissions import Permission
from comfyrail.api.executions import EXECUTION
from comfyrail.api.operations import Operation, Operations
from comfyrail.api.outputs import contract, routes

ROUTERS = (routes.router,)

OPERATIONS: Operations = {
    ("get", contract.OUTPUTS): Operation(
        Permission.JOBS_READ, "Search outputs", contract.FoundOutputs
    ),
    ("get", contract.ZIP): Operation(
        Permission.JOBS_READ,
        "Download what a search finds",
        "application/zip",
        errors=(404, 410),
    ),
    ("get", EXECUTION + "/outputs.zip"): Operation(
        Permission.JOBS_READ,
        "Download all outputs of an execution",
        "application/zip",
        errors=(410,),
    ),
    ("get", contract.OUTPUT): Operation(
        Permission.JOBS_READ, "Show an output", contract.FoundOutputBody, errors=(404,)
    ),
    ("delete", contract.OUTPUT): Operation(
        Permission.JOBS_WRITE, "Delete an output", "", 204, errors=(404,)
    ),
    ("get", contract.CONTENT): Operation(
        Permission.JOBS_READ,
        "Download an output",
        "*/*",
        errors=(404, 410, 416),
        other_statuses=(206, 304),
    ),
    ("post", contract.LINK): Operation(
        Permission.JOBS_READ,
        "Make a link to an output",
        contract.LinkBody,
        body=contract.LinkRequest,
        errors=(404, 410),
        example={"expires_in": 3600},
        is_body_required=False,
        writes=False,
    ),
    ("get", contract.FILE): Operation(
        None,
        "Follow a link",
        "*/*",
        errors=(403, 404, 410, 416),
        other_statuses=(206, 304),
    ),
}
