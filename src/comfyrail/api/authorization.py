"""Whether the caller may use a route. Who it is was found out at the gate, before."""

from starlette.requests import HTTPConnection

from comfyrail.api.permission_check import check_permission
from comfyrail.api.rates import count_submission
from comfyrail.api.surfaces import OPERATIONS
from comfyrail.errors import Forbidden

SOCKET = "get"
"""A WebSocket is asked for with GET."""


async def authorize_route(connection: HTTPConnection) -> None:
    """A dependency of every route of the framework. What has no operation is nobody's: a route
    that was forgotten there answers 403, not everything.
    """
    scope = connection.scope
    path = scope["route"].path
    method = SOCKET if scope["type"] == "websocket" else scope["method"].lower()
    operation = OPERATIONS.get((method, path))
    if operation is None and method == "head":
        operation = OPERATIONS.get(("get", path))
    if operation is None:
        raise Forbidden(f"{scope['path']} is not open to anybody.")
    check_permission(scope, operation.permission)
    await count_submission(scope, operation)
