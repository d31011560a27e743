"""The application: all surfaces in one."""

from fastapi import FastAPI
from starlette.types import ASGIApp

from comfyrail import __version__
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
    workers,
)
from comfyrail.api.errors import install_error_handlers
from comfyrail.api.guard import Guard
from comfyrail.api.hot_paths import HotPaths
from comfyrail.api.openapi import build_openapi
from comfyrail.api.services import Services


def create_app(services: Services) -> ASGIApp:
    """The ASGI app: guard, hot paths, all other routes."""
    app = FastAPI(
        title="Comfyrail",
        version=__version__,
        docs_url=None,  # its page loads scripts from elsewhere
        redoc_url=None,
    )
    install_error_handlers(app)
    # The library last: a workflow's name stands where other routes have a word.
    routes = (executions, batches, checks, streams, queue, workers, nodes, health, metrics)
    for module in (*routes, library):
        app.include_router(module.router)
    app.openapi = lambda: build_openapi(app)  # type: ignore[method-assign] # FastAPI's own way to extend it
    app.state.services = services
    return Guard(HotPaths(app, executions.HOT_PATHS))
