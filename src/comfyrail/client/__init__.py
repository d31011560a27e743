"""The Python client: HTTP only, nothing of the server."""

from comfyrail.client.checks import (
    Finding,
    Fix,
    NodeSummary,
    NodeType,
    Plan,
    ValidationReport,
    WorkerFit,
    WorkerPlan,
)
from comfyrail.client.client import (
    KEY_VARIABLE,
    SERVER_VARIABLE,
    AttemptOfJob,
    ComfyrailClient,
    Event,
    Execution,
    ExecutionFailure,
    LogLine,
    NodeResult,
    Output,
    Submitted,
)
from comfyrail.client.errors import (
    InvalidAddress,
    InvalidRequest,
    RequestFailed,
    ServerUnreachable,
    UnexpectedReply,
)
from comfyrail.client.fleet import FleetFigures, Pool, QueueReport, Worker
from comfyrail.client.library import (
    UNCHANGED,
    DeclaredInput,
    LibraryWorkflow,
    SavedWorkflow,
    WorkflowSummary,
)
from comfyrail.client.uploads import Asset

__all__ = [
    "KEY_VARIABLE",
    "SERVER_VARIABLE",
    "UNCHANGED",
    "Asset",
    "AttemptOfJob",
    "ComfyrailClient",
    "DeclaredInput",
    "Event",
    "Execution",
    "ExecutionFailure",
    "Finding",
    "Fix",
    "FleetFigures",
    "InvalidAddress",
    "InvalidRequest",
    "LibraryWorkflow",
    "LogLine",
    "NodeResult",
    "NodeSummary",
    "NodeType",
    "Output",
    "Plan",
    "Pool",
    "QueueReport",
    "RequestFailed",
    "SavedWorkflow",
    "ServerUnreachable",
    "Submitted",
    "UnexpectedReply",
    "ValidationReport",
    "Worker",
    "WorkerFit",
    "WorkerPlan",
    "WorkflowSummary",
]
