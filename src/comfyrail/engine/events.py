"""What happens while a graph runs, as values. The executor emits them; a sink takes them."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from comfyrail.clock import Instant

PreviewFormat = Literal["jpeg", "png"]


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
    | NodeExecuted
    | NodeFinished
    | ExecutionSucceeded
    | ExecutionFailed
    | ExecutionInterrupted
)

Sink = Callable[[Event], None]
