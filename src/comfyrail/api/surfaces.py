"""All surfaces of the API: their routes, and what each route asks and answers."""

from fastapi import APIRouter

from comfyrail.api import (
    batches,
    checks,
    docs_page,
    executions,
    feed,
    forms,
    health,
    library,
    metrics,
    nodes,
    queue,
    streams,
    v1_operations,
    variants,
    workers,
)
from comfyrail.api.access import operations as access_operations
from comfyrail.api.assets import operations as asset_operations
from comfyrail.api.comfy_v2 import assets as comfy_v2_assets
from comfyrail.api.comfy_v2 import events as comfy_v2_events
from comfyrail.api.comfy_v2 import jobs as comfy_v2_jobs
from comfyrail.api.comfy_v2 import operations as comfy_v2_operations
from comfyrail.api.comfyui import surface as comfyui
from comfyrail.api.hot_paths import HotPath
from comfyrail.api.operations import Operation
from comfyrail.api.outputs import operations as output_operations
from comfyrail.api.page import routes as page
from comfyrail.api.runpod import routes as runpod
from comfyrail.api.runs import routes as runs
from comfyrail.api.session import operations as session_operations
from comfyrail.api.session import routes as session
from comfyrail.api.tasks import routes as tasks
from comfyrail.api.v2 import executions as v2_executions
from comfyrail.api.v2 import operations as v2_operations
from comfyrail.api.webhooks import operations as webhook_operations

ROUTERS: tuple[APIRouter, ...] = (
    executions.router,
    v2_executions.router,
    docs_page.router,
    batches.router,
    checks.router,
    forms.router,
    streams.router,
    feed.router,
    queue.router,
    workers.router,
    nodes.router,
    health.router,
    metrics.router,
    comfy_v2_jobs.router,
    comfy_v2_events.router,
    comfy_v2_assets.router,
    tasks.router,
    runs.router,
    runpod.router,
    *access_operations.ROUTERS,
    *asset_operations.ROUTERS,
    variants.router,
    *output_operations.ROUTERS,
    *webhook_operations.ROUTERS,
    session.router,
    page.router,
    *comfyui.ROUTERS,
    # Last: a workflow's name stands where other routes have a word.
    library.router,
)

OPERATIONS: dict[tuple[str, str], Operation] = {
    **v2_operations.OPERATIONS,
    **v1_operations.OPERATIONS,
    **feed.OPERATIONS,
    **forms.OPERATIONS,
    **access_operations.OPERATIONS,
    **asset_operations.OPERATIONS,
    **variants.OPERATIONS,
    **output_operations.OPERATIONS,
    **webhook_operations.OPERATIONS,
    **session_operations.OPERATIONS,
    **page.OPERATIONS,
    **comfy_v2_operations.OPERATIONS,
    **tasks.OPERATIONS,
    **runs.OPERATIONS,
    **runpod.OPERATIONS,
    **comfyui.OPERATIONS,
}

HOT_PATHS: tuple[HotPath, ...] = (*executions.HOT_PATHS, *v2_executions.HOT_PATHS)
