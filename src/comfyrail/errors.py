"""Every error that Comfyrail raises on purpose.

ComfyrailError
├── RequestError                  the caller can mend it
│   ├── MalformedRequest          the body or a query value cannot be read
│   ├── PayloadTooLarge
│   ├── UnsupportedMediaType
│   ├── RangeNotSatisfiable
│   ├── RequestTimeout            its body does not come
│   ├── Unauthorized              nobody knows who the caller is
│   ├── Forbidden                 the caller is known and may not
│   │   └── ForbiddenOrigin       a page of another site, or an address that is blocked
│   ├── TooManyRequests           a rate or a quota is used up
│   ├── NotFound                  of a job, an output, a worker, a node type, the library
│   ├── Conflict                  the thing is not in a state that allows this
│   ├── IdempotencyMismatch       one key for two different requests
│   ├── InvalidWorkflow           carries all findings
│   │   ├── MalformedWorkflow
│   │   ├── CyclicWorkflow
│   │   └── UnknownParameter
│   ├── InvalidWebhook            an address, header or template that cannot be used
│   ├── InvalidLibraryEntry       what the library of workflows cannot keep or read
│   └── WorkerRefused             a worker that cannot be added
├── WorkerError                   a worker did not do what was asked
│   ├── WorkerUnreachable
│   ├── WorkerProtocolError
│   ├── DriverRefused             only a person can mend it: a key, an image, a program
│   └── PromptRejected            the worker refused the graph
├── StoreError
│   ├── StaleAttempt              a write with a fencing token that is no longer valid
│   ├── IllegalTransition
│   └── StoreUnavailable
│       ├── StorageFull           the disk has no room, or less than is kept in reserve
│       └── StorageReadOnly
├── OutgoingError                 a request to an address that a user chose did not work
│   ├── AddressRefused            the address may not be asked at all
│   └── ResponseTooLarge
├── ConversionFailed              a picture cannot be made into what is wanted
├── NotReady                      the server cannot work yet
└── ConfigurationError            the server cannot start like this

A message says what happened and what to do next. Data travels as attributes; `details` is what a
client may see. How an error becomes an HTTP reply is in `comfyrail.api.errors` alone.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Literal

Category = Literal["validation", "resource", "execution", "timeout", "system"]


class ComfyrailError(Exception):
    """Base of all errors here: a message for people, a code for programs."""

    category: Category = "system"
    code: str = "INTERNAL_ERROR"

    def __init__(
        self,
        message: str,
        *,
        code: str | None = None,
        details: Mapping[str, Any] | None = None,
        retry_after: float | None = None,
    ) -> None:
        super().__init__(message)
        self.message = message
        if code is not None:
            self.code = code
        self.details: dict[str, Any] = dict(details or {})
        self.retry_after = retry_after


class RequestError(ComfyrailError):
    category: Category = "validation"
    code = "INVALID_REQUEST"


class MalformedRequest(RequestError):
    code = "MALFORMED_REQUEST"


class PayloadTooLarge(RequestError):
    code = "PAYLOAD_TOO_LARGE"


class UnsupportedMediaType(RequestError):
    code = "UNSUPPORTED_MEDIA_TYPE"


class RequestTimeout(RequestError):
    """A request whose body does not come, or comes too slowly."""

    category: Category = "timeout"
    code = "REQUEST_TIMEOUT"


class Unauthorized(RequestError):
    code = "UNAUTHORIZED"


class Forbidden(RequestError):
    code = "FORBIDDEN"


class ForbiddenOrigin(Forbidden):
    code = "FORBIDDEN_ORIGIN"


class TooManyRequests(RequestError):
    category: Category = "resource"
    code = "RATE_LIMITED"


class RangeNotSatisfiable(RequestError):
    code = "RANGE_NOT_SATISFIABLE"


class NotFound(RequestError):
    code = "NOT_FOUND"


class Gone(RequestError):
    """It was there, and is not any more."""

    code = "GONE"


class JobNotFound(NotFound):
    code = "EXECUTION_NOT_FOUND"


class OutputNotFound(NotFound):
    code = "OUTPUT_NOT_FOUND"


class AssetNotFound(NotFound):
    code = "ASSET_NOT_FOUND"


class WorkerNotFound(NotFound):
    code = "WORKER_NOT_FOUND"


class NodeTypeNotFound(NotFound):
    code = "NODE_TYPE_NOT_FOUND"


class BatchNotFound(NotFound):
    code = "BATCH_NOT_FOUND"


class LibraryEntryNotFound(NotFound):
    code = "WORKFLOW_NOT_FOUND"


class UserNotFound(NotFound):
    code = "USER_NOT_FOUND"


class KeyNotFound(NotFound):
    code = "KEY_NOT_FOUND"


class BlockNotFound(NotFound):
    code = "BLOCK_NOT_FOUND"


class EndpointNotFound(NotFound):
    code = "WEBHOOK_NOT_FOUND"


class DeliveryNotFound(NotFound):
    code = "DELIVERY_NOT_FOUND"


class Conflict(RequestError):
    code = "CONFLICT"


class IdempotencyMismatch(RequestError):
    """The same idempotency key came with another request before."""

    code = "IDEMPOTENCY_KEY_REUSED"


class InvalidWorkflow(RequestError):
    """A workflow that cannot run; `findings` holds every fault that was found, as plain data."""

    code = "INVALID_WORKFLOW"

    def __init__(
        self,
        message: str,
        *,
        code: str | None = None,
        findings: Sequence[Mapping[str, Any]] = (),
        details: Mapping[str, Any] | None = None,
    ) -> None:
        merged = dict(details or {})
        if findings:
            merged["findings"] = [dict(finding) for finding in findings]
        super().__init__(message, code=code, details=merged)


class MalformedWorkflow(InvalidWorkflow):
    code = "SCHEMA_VALIDATION_ERROR"


class CyclicWorkflow(InvalidWorkflow):
    code = "CIRCULAR_DEPENDENCY"

    def __init__(self, cycle: Sequence[str]) -> None:
        path = " → ".join([*cycle, cycle[0]])
        super().__init__(
            f"The workflow has a cycle: {path}. Remove one of these links.",
            details={"cycle": list(cycle)},
        )
        self.cycle = list(cycle)


class UnknownParameter(InvalidWorkflow):
    code = "UNKNOWN_PARAMETER"


class InvalidWebhook(RequestError):
    """Somebody to be told whom nothing can be told, or not like this."""

    code = "INVALID_WEBHOOK"


class InvalidLibraryEntry(RequestError):
    code = "INVALID_LIBRARY_ENTRY"


class WorkerRefused(RequestError):
    code = "WORKER_REFUSED"


class WorkerError(ComfyrailError):
    code = "WORKER_ERROR"


class WorkerUnreachable(WorkerError):
    code = "WORKER_UNREACHABLE"


class WorkerProtocolError(WorkerError):
    code = "WORKER_PROTOCOL_ERROR"


class DriverRefused(WorkerError):
    """A worker cannot be had until a person changes something: trying again is of no use."""

    code = "DRIVER_REFUSED"


class PromptRejected(WorkerError):
    """The worker refused the graph; `body` is its own answer, `kept` what a client may see of it
    where that is too long.
    """

    category: Category = "validation"
    code = "PROMPT_REJECTED"

    def __init__(
        self, message: str, body: Mapping[str, Any], kept: Mapping[str, Any] | None = None
    ) -> None:
        super().__init__(message, details={"worker_reply": dict(body if kept is None else kept)})
        self.body = dict(body)


class StoreError(ComfyrailError):
    code = "STORE_ERROR"


class StaleAttempt(StoreError):
    code = "STALE_ATTEMPT"


class IllegalTransition(StoreError):
    code = "ILLEGAL_TRANSITION"


class StoreUnavailable(StoreError):
    code = "STORE_UNAVAILABLE"


class StorageFull(StoreUnavailable):
    category: Category = "resource"
    code = "STORAGE_FULL"


class StorageReadOnly(StoreUnavailable):
    code = "STORAGE_READ_ONLY"


class OutgoingError(ComfyrailError):
    """`reason` is for programs: why there is no answer."""

    category: Category = "execution"
    code = "OUTGOING_REQUEST_FAILED"

    def __init__(self, message: str, reason: str = "unreachable") -> None:
        super().__init__(message, details={"reason": reason})
        self.reason = reason


class AddressRefused(OutgoingError):
    category: Category = "validation"
    code = "ADDRESS_REFUSED"


class ResponseTooLarge(OutgoingError):
    code = "RESPONSE_TOO_LARGE"


class ConversionFailed(ComfyrailError):
    """The message is the reason alone."""

    category: Category = "execution"
    code = "OUTPUT_NOT_CONVERTED"


class NotReady(ComfyrailError):
    code = "NOT_READY"


class ConfigurationError(ComfyrailError):
    code = "CONFIGURATION_ERROR"
