"""All surfaces of the API: their routes, and what each route asks and answers."""

from fastapi import APIRouter

from comfyrail.api import (
    batches,
    checks,
    executions,
    health,
    library,
    metrics,
    nodes,
    queue,
    streams,
    v1_operations,
    workers,
)
from comfyrail.api.hot_paths import HotPath
from comfyrail.api.operations import Operation

ROUTERS: tuple[APIRouter, ...] = (
    executions.router,
    batches.router,
    checks.router,
    streams.router,
    queue.router,
    workers.router,
    nodes.router,
    health.router,
    metrics.router,
    # Last: a workflow's name stands where other routes have a word.
    library.router,
)

OPERATIONS: dict[tuple[str, str], Operation] = {
    **v1_operations.OPERATIONS,
}

HOT_PATHS: tuple[HotPath, ...] = (*executions.HOT_PATHS,)
