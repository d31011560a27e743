"""The application: all surfaces in one."""

from fastapi import Depends, FastAPI
from starlette.types import ASGIApp

from comfyrail import __version__
from comfyrail.api.authorization import authorize_route
from comfyrail.api.comfyui.paths import OneNamePaths
from comfyrail.api.errors import install_error_handlers
from comfyrail.api.guard import Guard
from comfyrail.api.heads import Heads, answer_head_too, methods_of
from comfyrail.api.hot_paths import HotPaths
from comfyrail.api.idempotency import IdempotentPosts
from comfyrail.api.messages import encode
from comfyrail.api.openapi import build_openapi
from comfyrail.api.route_operations import RouteOperations
from comfyrail.api.services import Services
from comfyrail.api.surfaces import HOT_PATHS, OPERATIONS, ROUTERS
from comfyrail.api.versions import AgreedVersions, StatedVersions


def create_app(services: Services) -> ASGIApp:
    """The ASGI app: guard, hot paths, all other routes."""
    app = _routes()
    app.state.services = services
    app.state.methods_of = methods_of(OPERATIONS)
    app.state.describe = lambda: _described(app)
    operations = RouteOperations(ROUTERS, OPERATIONS)
    posts = IdempotentPosts(HotPaths(app, HOT_PATHS), services.replies, operations.find)
    inside = AgreedVersions(Heads(posts))
    return OneNamePaths(StatedVersions(Guard(inside, services.gate)))


def describe() -> str:
    """The OpenAPI document of all surfaces, without a server."""
    return _described(_routes()).decode()


def _described(app: FastAPI) -> bytes:
    return encode(build_openapi(app, OPERATIONS, HOT_PATHS))


def _routes() -> FastAPI:
    app = FastAPI(
        title="Comfyrail",
        version=__version__,
        openapi_url=None,  # docs_page has one, and a page that loads nothing from elsewhere
        dependencies=[Depends(authorize_route)],
        redirect_slashes=False,  # a redirect would say the Host that somebody else has chosen
    )
    install_error_handlers(app)
    for router in ROUTERS:
        answer_head_too(router)
        app.include_router(router)
    return app
