"""How an error becomes a reply: the only place that knows status codes."""

import math
from collections.abc import Mapping
from datetime import UTC, datetime

import structlog
from fastapi import FastAPI
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.requests import HTTPConnection, Request
from starlette.responses import Response
from starlette.routing import Match
from starlette.types import Scope
from starlette.websockets import WebSocket

from comfyrail import errors
from comfyrail.api.contract import ErrorDetail, ErrorReply
from comfyrail.api.dialects import DIALECTS
from comfyrail.api.messages import json_response

log = structlog.get_logger(__name__)

STATUS_OF: tuple[tuple[type[errors.ComfyrailError], int], ...] = (
    (errors.MalformedRequest, 400),
    (errors.Unauthorized, 401),
    (errors.Forbidden, 403),
    (errors.NotFound, 404),
    (errors.RequestTimeout, 408),
    (errors.Conflict, 409),
    (errors.Gone, 410),
    (errors.PayloadTooLarge, 413),
    (errors.UnsupportedMediaType, 415),
    (errors.RangeNotSatisfiable, 416),
    (errors.TooManyRequests, 429),
    (errors.RequestError, 422),
    (errors.WorkerError, 502),
    (errors.StorageFull, 507),
    (errors.StoreUnavailable, 503),
    (errors.NotReady, 503),
    (errors.ComfyrailError, 500),
)

METHODS = ("DELETE", "GET", "HEAD", "PATCH", "POST", "PUT")
WRONG_METHOD = 405
UNKNOWN_CALLER = 401
ROUTE_ERRORS = {404: "ROUTE_NOT_FOUND", WRONG_METHOD: "METHOD_NOT_ALLOWED"}


def status_of(error: errors.ComfyrailError) -> int:
    return next(status for kind, status in STATUS_OF if isinstance(error, kind))


def error_response(
    error: errors.ComfyrailError, scope: Scope, status: int | None = None
) -> Response:
    """The reply for an error, in the one shape that all errors have, or as programs expect it that
    were written for another API.
    """
    headers = {}
    if error.retry_after is not None:
        headers["Retry-After"] = str(math.ceil(error.retry_after))
    status = status or status_of(error)
    if status == UNKNOWN_CALLER:
        headers["WWW-Authenticate"] = 'Bearer realm="comfyrail"'
    if isinstance(error, errors.RangeNotSatisfiable):
        headers["Content-Range"] = f"bytes */{error.details['size']}"
    body = error_body(error, request_id_in(scope))
    path: str = scope["path"]
    for dialect in DIALECTS:
        if dialect.paths.match(path):
            return json_response(*dialect.translate(body, status, error), headers)
    return json_response(body, status, headers)


def error_body(error: errors.ComfyrailError, request_id: str | None) -> ErrorReply:
    return ErrorReply(
        error=ErrorDetail(
            category=error.category,
            code=error.code,
            message=error.message,
            details=error.details,
            retry_after=error.retry_after,
            timestamp=datetime.now(UTC),
            request_id=request_id,
        )
    )


def route_error(request: Request, status: int, headers: Mapping[str, str] | None) -> Response:
    """For a path or a method that the API does not have."""
    message = f"{request.method} {request.url.path} is not part of this API. See /openapi.json."
    own = errors.RequestError(message, code=ROUTE_ERRORS[status])
    response = error_response(own, request.scope, status)
    response.headers.update(headers or {})
    return response


def allowed(request: Request) -> list[str]:
    """The methods that a path has: the framework names those of its first route only. A path that
    stands as it is in the API has no others, even where a name could stand in its place.
    """
    own: Mapping[str, frozenset[str]] = request.app.state.methods_of
    if request.url.path in own:
        return sorted(own[request.url.path])
    return [
        method
        for method in METHODS
        if any(
            route.matches({**request.scope, "method": method})[0] is Match.FULL
            for route in request.app.routes
        )
    ]


def internal_error(scope: Scope) -> Response:
    """For what should never happen: the log has the trace, the client has the id to find it."""
    hidden = errors.ComfyrailError(
        "Something went wrong inside the server. Its log says more under this request id.",
        code="INTERNAL_ERROR",
    )
    return error_response(hidden, scope, 500)


def broken_off(scope: Scope) -> Response:
    """For a request that a server that stops has not finished."""
    stopping = errors.NotReady(
        "The server has stopped before it could answer. Ask its next start whether this was done, "
        "or send it again: with the same Idempotency-Key it is done once.",
        code="SHUTTING_DOWN",
        retry_after=5.0,
    )
    response = error_response(stopping, scope)
    response.headers["Connection"] = "close"
    return response


def request_id_in(scope: Scope) -> str | None:
    value = scope.get("request_id")
    return value if isinstance(value, str) else None


def install_error_handlers(app: FastAPI) -> None:
    @app.exception_handler(errors.ComfyrailError)
    async def _on_own(connection: HTTPConnection, error: errors.ComfyrailError) -> Response:
        response = error_response(error, connection.scope)
        if isinstance(connection, WebSocket):
            await connection.send_denial_response(response)
        return response

    @app.exception_handler(HTTPException)
    async def _on_http(request: Request, error: HTTPException) -> Response:
        if error.status_code == WRONG_METHOD:
            return route_error(request, WRONG_METHOD, {"Allow": ", ".join(allowed(request))})
        if error.status_code in ROUTE_ERRORS:
            return route_error(request, error.status_code, error.headers)
        own = errors.RequestError(str(error.detail), code="HTTP_ERROR")
        return error_response(own, request.scope, error.status_code)

    @app.exception_handler(Exception)
    async def _on_fault(request: Request, _error: Exception) -> Response:
        # The guard around the app writes it to the log.
        return internal_error(request.scope)

    @app.exception_handler(RequestValidationError)
    async def _on_parameter(request: Request, error: RequestValidationError) -> Response:
        faults = [
            {"path": ".".join(str(part) for part in each["loc"]), "message": each["msg"]}
            for each in error.errors()
        ]
        message = "; ".join(f"{fault['path']}: {fault['message']}" for fault in faults)
        own = errors.MalformedRequest(message, details={"faults": faults})
        return error_response(own, request.scope)
