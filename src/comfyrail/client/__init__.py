"""The Python client: HTTP only, nothing of the server."""

from comfyrail.client.client import (
    ComfyrailClient,
    Event,
    Execution,
    ExecutionFailure,
    Output,
    RequestFailed,
    ServerUnreachable,
    Worker,
)

__all__ = [
    "ComfyrailClient",
    "Event",
    "Execution",
    "ExecutionFailure",
    "Output",
    "RequestFailed",
    "ServerUnreachable",
    "Worker",
]
