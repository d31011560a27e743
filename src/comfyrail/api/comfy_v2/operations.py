"""What the routes of the Comfy API v2 ask and answer."""

from comfyrail.access.permissions import Permission
from comfyrail.api.comfy_v2 import contract
from comfyrail.api.operations import Operation, Operations

OPERATIONS: Operations = {
    ("post", contract.JOBS): Operation(
        Permission.JOBS_WRITE,
        "Comfy API v2: submit a workflow",
        contract.ComfyJob,
        201,
        contract.ComfyJobRequest,
        (402, 413, 415, 422),
        is_submission=True,
    ),
    ("get", contract.JOBS): Operation(
        Permission.JOBS_READ, "Comfy API v2: list jobs", contract.ComfyJobList, errors=(422,)
    ),
    ("get", contract.JOB): Operation(
        Permission.JOBS_READ, "Comfy API v2: status of a job", contract.ComfyJob, errors=(404,)
    ),
    ("post", contract.CANCEL): Operation(
        Permission.JOBS_WRITE, "Comfy API v2: cancel a job", contract.ComfyJob, errors=(404,)
    ),
    ("get", contract.WORKFLOW): Operation(
        Permission.JOBS_READ,
        "Comfy API v2: the workflow of a job",
        contract.ComfyJobWorkflow,
        errors=(404,),
    ),
    ("get", contract.EVENTS): Operation(
        Permission.JOBS_READ,
        "Comfy API v2: follow a job",
        "text/event-stream",
        errors=(404,),
        headers=("Last-Event-ID",),
    ),
    ("post", contract.ASSETS): Operation(
        Permission.ASSETS_WRITE,
        "Comfy API v2: upload an asset",
        contract.ComfyAsset,
        201,
        "multipart/form-data",
        (409, 413, 415, 422),
        other_statuses=(200,),
    ),
    ("post", contract.FROM_HASH): Operation(
        Permission.ASSETS_WRITE,
        "Comfy API v2: an asset over bytes that are there",
        contract.ComfyAsset,
        201,
        contract.ComfyFromHash,
        (404, 415, 422),
        other_statuses=(200,),
    ),
    ("head", contract.BY_HASH): Operation(
        Permission.ASSETS_READ, "Comfy API v2: whether bytes are there", "", errors=(404,)
    ),
    ("get", contract.ASSET): Operation(
        Permission.ASSETS_READ, "Comfy API v2: show an asset", contract.ComfyAsset, errors=(404,)
    ),
    ("delete", contract.ASSET): Operation(
        Permission.ASSETS_WRITE, "Comfy API v2: delete an asset", "", 204, errors=(404, 409)
    ),
    ("get", contract.CONTENT): Operation(
        Permission.ASSETS_READ,
        "Comfy API v2: the bytes of an asset",
        "*/*",
        errors=(404, 416),
        headers=("Range",),
        other_statuses=(206,),
    ),
}
