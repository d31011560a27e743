"""What happens while a graph runs, as values. The executor emits them; a sink takes them."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from comfyrail.clock import Instant

PreviewFormat = Literal["jpeg", "png"]
ErrorKind = Literal["validation", "resource", "timeout", "dependency", "runtime"]


@dataclass(frozen=True, slots=True)
class ExecutionStarted:
    at: Instant


@dataclass(frozen=True, slots=True)
class NodesCached:
    """The nodes of the requested outputs whose results are known already."""

    node_ids: Sequence[str]
    at: Instant


@dataclass(frozen=True, slots=True)
class NodeStarted:
    node_id: str


@dataclass(frozen=True, slots=True)
class NodeProgress:
    node_id: str
    value: float
    maximum: float


@dataclass(frozen=True, slots=True)
class Preview:
    """A picture of an unfinished result, encoded."""

    node_id: str
    image: bytes
    format: PreviewFormat


@dataclass(frozen=True, slots=True)
class Picture:
    """A finished picture that is sent to the client instead of being saved; never left out."""

    node_id: str
    image: bytes
    format: PreviewFormat


@dataclass(frozen=True, slots=True)
class TextShown:
    """A text about an unfinished result."""

    node_id: str
    text: str


@dataclass(frozen=True, slots=True)
class NodesAdded:
    """A node put other nodes in its place; `displays` says under which node each is shown."""

    parent_id: str
    displays: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class NodeBlocked:
    """A node did not run because an input was blocked with a message. The execution goes on."""

    node_id: str
    node_type: str
    message: str
    executed: Sequence[str]


@dataclass(frozen=True, slots=True)
class NodeRecovered:
    """A node failed, and its policy found a way on. `action` says which."""

    node_id: str
    node_type: str
    action: Literal["retry", "fallback", "skip"]
    attempt: int
    message: str


@dataclass(frozen=True, slots=True)
class NodeExecuted:
    """A node has something to show: files that it wrote, texts."""

    node_id: str
    ui: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class NodeFinished:
    node_id: str
    cached: bool = False


@dataclass(frozen=True, slots=True)
class ExecutionSucceeded:
    at: Instant


@dataclass(frozen=True, slots=True)
class ExecutionFailed:
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


@dataclass(frozen=True, slots=True)
class ExecutionInterrupted:
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
