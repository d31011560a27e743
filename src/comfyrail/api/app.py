"""The application: all surfaces in one."""

from fastapi import Depends, FastAPI
from starlette.types import ASGIApp

from comfyrail import __version__
from comfyrail.api.authorization import authorize_route
from comfyrail.api.errors import install_error_handlers
from comfyrail.api.guard import Guard
from comfyrail.api.hot_paths import HotPaths
from comfyrail.api.idempotency import IdempotentPosts
from comfyrail.api.openapi import build_openapi
from comfyrail.api.services import Services
from comfyrail.api.surfaces import HOT_PATHS, ROUTERS


def create_app(services: Services) -> ASGIApp:
    """The ASGI app: guard, hot paths, all other routes."""
    app = FastAPI(
        title="Comfyrail",
        version=__version__,
        docs_url=None,  # its page loads scripts from elsewhere
        redoc_url=None,
        dependencies=[Depends(authorize_route)],
    )
    install_error_handlers(app)
    for router in ROUTERS:
        app.include_router(router)
    app.openapi = lambda: build_openapi(app)  # type: ignore[method-assign] # FastAPI's own way to extend it
    app.state.services = services
    return Guard(IdempotentPosts(HotPaths(app, HOT_PATHS), services.replies))
