"""Which errors an operation has, each with an example in the words of its surface."""

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

from comfyrail import errors
from comfyrail.api.contract import ErrorReply
from comfyrail.api.dialects import DIALECTS
from comfyrail.api.errors import error_body
from comfyrail.api.operations import Operation

ALWAYS = (400, 403, 429, 500, 503)
"""400: it cannot be read; 403: a foreign host or origin; 503: the database does not answer, or the
server stops.
"""
OF_KNOWN_CALLERS = (401,)
OF_POSTS = (409, 422)
"""Of a key that is in use, or was used for another request."""
OF_BODIES = (413, 415)
OF_PARAMETERS = (404,)
DISK_FULL = (507,)
TRIES_A_WRITE = {"/ready"}

WAIT = {429, 503}
"""They say when to try again."""

SAMPLES: dict[int, errors.ComfyrailError] = {
    400: errors.MalformedRequest(
        "The request body is not right: Expected `int` - at `$.priority`."
    ),
    401: errors.Unauthorized(
        "Say who you are: send an API key or a token as 'Authorization: Bearer …'."
    ),
    402: errors.RequestError("There is nothing left to pay with.", code="INVALID_REQUEST"),
    403: errors.Forbidden(
        "This needs the permission jobs:write, which your key or token does not have.",
        code="PERMISSION_MISSING",
        details={"permission": "jobs:write"},
    ),
    404: errors.NotFound("There is nothing with this id. Check it."),
    405: errors.RequestError("This method is not part of the API.", code="METHOD_NOT_ALLOWED"),
    409: errors.Conflict("It is not in a state that allows this."),
    410: errors.NotFound("It is gone."),
    412: errors.Conflict("It has changed meanwhile."),
    413: errors.PayloadTooLarge(
        "The request body is larger than 10 MiB.", details={"limit": 10 << 20}
    ),
    415: errors.UnsupportedMediaType(
        "Send JSON with the header 'Content-Type: application/json' (got text/plain)."
    ),
    416: errors.RangeNotSatisfiable(
        "The file has 151 bytes: the range is behind its end.", details={"size": 151}
    ),
    422: errors.InvalidWorkflow(
        "Node '1': no worker knows the node type 'SaveImge'. Did you mean 'SaveImage'?",
        code="UNKNOWN_NODE_TYPE",
    ),
    429: errors.TooManyRequests("Too many requests. Wait 12 s.", retry_after=12.0),
    500: errors.ComfyrailError(
        "Something went wrong inside the server. Its log says more under this request id."
    ),
    502: errors.WorkerError("The worker does not answer."),
    503: errors.NotReady("The server is not ready yet.", retry_after=5.0),
    507: errors.StorageFull("The disk has no room left. Nothing was kept."),
}

KEY_REUSED = errors.IdempotencyMismatch(
    "This Idempotency-Key was used for another request. Take a new one.",
    details={"key": "order-4711"},
)

MEANINGS: dict[int, str] = {
    400: "The request cannot be read",
    401: "Nobody knows who is asking",
    403: "The caller may not do this",
    404: "It is not there",
    409: "It is not in a state that allows this",
    413: "The body is too large",
    415: "The body is of another type",
    416: "The range is behind the end",
    422: "It can be read, but not carried out",
    429: "Too many requests",
    500: "A fault of the server",
    502: "A worker does not answer as it should",
    503: "The server cannot do it now",
    507: "The disk is full",
}


def statuses_of(method: str, path: str, operation: Operation) -> list[int]:
    writes = path in TRIES_A_WRITE or (method not in {"get", "head"} and operation.writes)
    return sorted(
        {
            *ALWAYS,
            *operation.errors,
            *(OF_KNOWN_CALLERS if operation.permission is not None else ()),
            *(OF_POSTS if method == "post" else ()),
            *(OF_BODIES if operation.body is not None else ()),
            *(OF_PARAMETERS if "{" in path else ()),
            *(DISK_FULL if writes else ()),
        }
    )


def samples_of(
    method: str, path: str, operation: Operation
) -> Iterator[tuple[int, Any, errors.ComfyrailError]]:
    """Status and body of each error, as the path says them."""
    found = [
        (status, SAMPLES.get(status) or errors.RequestError("It cannot be done."))
        for status in statuses_of(method, path, operation)
    ]
    if method == "post":  # some surfaces say it with another status than the other 422s
        found.append((422, KEY_REUSED))
    for status, error in found:
        body = _body(error)
        for dialect in DIALECTS:
            if dialect.paths.match(path):
                translated, said = dialect.translate(body, status, error)
                yield said, translated, error
                break
        else:
            yield status, body, error


def _body(error: errors.ComfyrailError) -> ErrorReply:
    reply = error_body(error, "af1d3123c9954fb38c36a8fa8c51b7fb")
    reply.error.timestamp = datetime(2026, 11, 16, 9, 19, 24, 443534, UTC)
    return reply
