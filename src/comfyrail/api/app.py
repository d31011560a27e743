"""The application: all surfaces in one."""

from fastapi import FastAPI

from comfyrail import __version__
from comfyrail.api import executions, health, streams, workers
from comfyrail.api.errors import install_error_handlers
from comfyrail.api.guard import Guard
from comfyrail.api.openapi import build_openapi
from comfyrail.api.services import Services


def create_app() -> FastAPI:
    """The ASGI app. It needs `give_services` before the first request."""
    app = FastAPI(
        title="Comfyrail",
        version=__version__,
        docs_url=None,  # its page loads scripts from elsewhere
        redoc_url=None,
    )
    install_error_handlers(app)
    executions.install_hot_routes(app)
    for router in (executions.router, streams.router, workers.router, health.router):
        app.include_router(router)
    app.openapi = lambda: build_openapi(app)  # type: ignore[method-assign] # FastAPI's own way to extend it
    app.add_middleware(Guard)
    return app


def give_services(app: FastAPI, services: Services) -> None:
    app.state.services = services
