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

from comfyrail import errors
from comfyrail.api.contract import ErrorDetail, ErrorReply
from comfyrail.api.messages import json_response

log = structlog.get_logger(__name__)

STATUS_OF: tuple[tuple[type[errors.ComfyrailError], int], ...] = (
    (errors.MalformedRequest, 400),
    (errors.ForbiddenOrigin, 403),
    (errors.NotFound, 404),
    (errors.Conflict, 409),
    (errors.PayloadTooLarge, 413),
    (errors.UnsupportedMediaType, 415),
    (errors.RangeNotSatisfiable, 416),
    (errors.RequestError, 422),
    (errors.WorkerError, 502),
    (errors.StorageFull, 507),
    (errors.StoreUnavailable, 503),
    (errors.NotReady, 503),
    (errors.ComfyrailError, 500),
)

METHODS = ("DELETE", "GET", "HEAD", "PATCH", "POST", "PUT")
WRONG_METHOD = 405
ROUTE_ERRORS = {404: "ROUTE_NOT_FOUND", WRONG_METHOD: "METHOD_NOT_ALLOWED"}


def status_of(error: errors.ComfyrailError) -> int:
    return next(status for kind, status in STATUS_OF if isinstance(error, kind))


def error_response(
    error: errors.ComfyrailError, request_id: str | None, status: int | None = None
) -> Response:
    """The reply for an error, in the one shape that all errors have."""
    headers = {}
    if error.retry_after is not None:
        headers["Retry-After"] = str(math.ceil(error.retry_after))
    return json_response(error_body(error, request_id), status or status_of(error), headers)


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
    response = error_response(own, request_id_of(request), status)
    response.headers.update(headers or {})
    return response


def allowed(request: Request) -> list[str]:
    """The methods that a path has: the framework names those of its first route only."""
    return [
        method
        for method in METHODS
        if any(
            route.matches({**request.scope, "method": method})[0] is Match.FULL
            for route in request.app.routes
        )
    ]


def internal_error(request_id: str | None) -> Response:
    """For what should never happen: the log has the trace, the client has the id to find it."""
    hidden = errors.ComfyrailError(
        "Something went wrong inside the server. Its log says more under this request id.",
        code="INTERNAL_ERROR",
    )
    return error_response(hidden, request_id, 500)


def broken_off(request_id: str | None) -> Response:
    """For a request that a server that stops has not finished."""
    stopping = errors.NotReady(
        "The server has stopped before it could answer. Ask its next start whether this was done, "
        "or send it again: with the same Idempotency-Key it is done once.",
        code="SHUTTING_DOWN",
        retry_after=5.0,
    )
    response = error_response(stopping, request_id)
    response.headers["Connection"] = "close"
    return response


def request_id_of(connection: HTTPConnection) -> str | None:
    value = connection.scope.get("request_id")
    return value if isinstance(value, str) else None


def install_error_handlers(app: FastAPI) -> None:
    @app.exception_handler(errors.ComfyrailError)
    async def _on_own(request: Request, error: errors.ComfyrailError) -> Response:
        return error_response(error, request_id_of(request))

    @app.exception_handler(HTTPException)
    async def _on_http(request: Request, error: HTTPException) -> Response:
        if error.status_code == WRONG_METHOD:
            return route_error(request, WRONG_METHOD, {"Allow": ", ".join(allowed(request))})
        if error.status_code in ROUTE_ERRORS:
            return route_error(request, error.status_code, error.headers)
        own = errors.RequestError(str(error.detail), code="HTTP_ERROR")
        return error_response(own, request_id_of(request), error.status_code)

    @app.exception_handler(Exception)
    async def _on_fault(request: Request, _error: Exception) -> Response:
        # The guard around the app writes it to the log.
        return internal_error(request_id_of(request))

    @app.exception_handler(RequestValidationError)
    async def _on_parameter(request: Request, error: RequestValidationError) -> Response:
        faults = [
            {"path": ".".join(str(part) for part in each["loc"]), "message": each["msg"]}
            for each in error.errors()
        ]
        message = "; ".join(f"{fault['path']}: {fault['message']}" for fault in faults)
        own = errors.MalformedRequest(message, details={"faults": faults})
        return error_response(own, request_id_of(request))
