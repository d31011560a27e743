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
    AttemptOfJob,
    ComfyrailClient,
    Event,
    Execution,
    ExecutionFailure,
    NodeResult,
    Output,
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

__all__ = [
    "UNCHANGED",
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
    "UnexpectedReply",
    "ValidationReport",
    "Worker",
    "WorkerFit",
    "WorkerPlan",
    "WorkflowSummary",
]
