"""What happens while a graph runs, as values. The executor emits them; a sink takes them."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal

import msgspec

from comfyrail.clock import Instant

PreviewFormat = Literal["jpeg", "png"]
ErrorKind = Literal["validation", "resource", "timeout", "dependency", "runtime"]


class ExecutionStarted(msgspec.Struct, frozen=True):
    at: Instant


class NodesCached(msgspec.Struct, frozen=True):
    """The nodes of the requested outputs whose results are known already."""

    node_ids: Sequence[str]
    at: Instant


class NodeStarted(msgspec.Struct, frozen=True):
    node_id: str


class NodeProgress(msgspec.Struct, frozen=True):
    node_id: str
    value: float
    maximum: float


class Preview(msgspec.Struct, frozen=True):
    """A picture of an unfinished result, encoded."""

    node_id: str
    image: bytes
    format: PreviewFormat


class Picture(msgspec.Struct, frozen=True):
    """A finished picture that is sent to the client instead of being saved; never left out."""

    node_id: str
    image: bytes
    format: PreviewFormat


class TextShown(msgspec.Struct, frozen=True):
    """A text about an unfinished result."""

    node_id: str
    text: str


class NodesAdded(msgspec.Struct, frozen=True):
    """A node put other nodes in its place; `displays` says under which node each is shown."""

    parent_id: str
    displays: Mapping[str, str]


class NodeBlocked(msgspec.Struct, frozen=True):
    """A node did not run because an input was blocked with a message. The execution goes on."""

    node_id: str
    node_type: str
    message: str
    executed: Sequence[str]


class NodeRecovered(msgspec.Struct, frozen=True):
    """A node failed, and its policy found a way on. `action` says which."""

    node_id: str
    node_type: str
    action: Literal["retry", "fallback", "skip"]
    attempt: int
    message: str


class NodeExecuted(msgspec.Struct, frozen=True):
    """A node has something to show: files that it wrote, texts."""

    node_id: str
    ui: Mapping[str, Any]


class NodeFinished(msgspec.Struct, frozen=True):
    node_id: str
    cached: bool = False


class ExecutionSucceeded(msgspec.Struct, frozen=True):
    at: Instant


class ExecutionFailed(msgspec.Struct, frozen=True):
    """A node raised. `inputs` are short texts of what it was given."""

    node_id: str
    node_type: str
    exception_type: str
    message: str
    traceback: Sequence[str]
    inputs: Mapping[str, Sequence[Any]]
    executed: Sequence[str]
    finished: Sequence[str]
    at: Instant
    kind: ErrorKind = "runtime"
    recoverable: bool = False
    """Whether the same execution may succeed later, or go on from its checkpoint."""
    checkpoint: str | None = None
    """The name of the checkpoint to resume from, where one was written."""


class ExecutionInterrupted(msgspec.Struct, frozen=True):
    """An interrupt was seen; no node is named when it came between two nodes."""

    node_id: str | None
    node_type: str | None
    executed: Sequence[str]
    at: Instant


Event = (
    ExecutionStarted
    | NodesCached
    | NodeStarted
    | NodeProgress
    | Preview
    | Picture
    | TextShown
    | NodesAdded
    | NodeBlocked
    | NodeRecovered
    | NodeExecuted
    | NodeFinished
    | ExecutionSucceeded
    | ExecutionFailed
    | ExecutionInterrupted
)

Sink = Callable[[Event], None]
