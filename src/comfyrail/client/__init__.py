"""The Python client: HTTP only, nothing of the server."""

from comfyrail.client.client import (
    ComfyrailClient,
    Event,
    Execution,
    ExecutionFailure,
    Output,
    Worker,
)
from comfyrail.client.errors import (
    InvalidAddress,
    InvalidRequest,
    RequestFailed,
    ServerUnreachable,
    UnexpectedReply,
)

__all__ = [
    "ComfyrailClient",
    "Event",
    "Execution",
    "ExecutionFailure",
    "InvalidAddress",
    "InvalidRequest",
    "Output",
    "RequestFailed",
    "ServerUnreachable",
    "UnexpectedReply",
    "Worker",
]
