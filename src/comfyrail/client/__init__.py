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
    FeedEvent,
    LogLine,
    NodeResult,
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
from comfyrail.client.forms import ExecutionForm, Form, FormField, FormNode
from comfyrail.client.library import (
    UNCHANGED,
    DeclaredInput,
    LibraryWorkflow,
    SavedWorkflow,
    WorkflowSummary,
)
from comfyrail.client.outputs import FoundOutput, Link, Output
from comfyrail.client.uploads import Asset
from comfyrail.client.verification import (
    InvalidSignature,
    WebhookMessage,
    verify_signature,
    verify_webhook,
)
from comfyrail.client.webhooks import Delivery, DeliveryDetail, Webhook, WebhookTest

__all__ = [
    "KEY_VARIABLE",
    "SERVER_VARIABLE",
    "UNCHANGED",
    "Asset",
    "AttemptOfJob",
    "ComfyrailClient",
    "DeclaredInput",
    "Delivery",
    "DeliveryDetail",
    "Event",
    "Execution",
    "ExecutionFailure",
    "ExecutionForm",
    "FeedEvent",
    "Finding",
    "Fix",
    "FleetFigures",
    "Form",
    "FormField",
    "FormNode",
    "FoundOutput",
    "InvalidAddress",
    "InvalidRequest",
    "InvalidSignature",
    "LibraryWorkflow",
    "Link",
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
    "Webhook",
    "WebhookMessage",
    "WebhookTest",
    "Worker",
    "WorkerFit",
    "WorkerPlan",
    "WorkflowSummary",
    "verify_signature",
    "verify_webhook",
]
