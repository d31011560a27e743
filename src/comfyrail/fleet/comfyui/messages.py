"""The WebSocket's messages as values. What cannot be understood is None, never an error."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from comfyrail.errors import WorkerProtocolError
from comfyrail.fleet.comfyui.decoding import decode_reply
from comfyrail.fleet.comfyui.history import NodeFailure, read_failure


@dataclass(frozen=True, slots=True)
class NodesCached:
    prompt_id: str
    nodes: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class NodeExecuting:
    prompt_id: str
    node: str


@dataclass(frozen=True, slots=True)
class NodeProgress:
    """`state` is running or finished; fraction is the node's own progress, 0 to 1."""

    node: str
    state: str
    value: float
    maximum: float

    @property
    def fraction(self) -> float:
        return min(1.0, max(0.0, self.value / self.maximum)) if self.maximum > 0 else 0.0


@dataclass(frozen=True, slots=True)
class ProgressChanged:
    prompt_id: str
    nodes: tuple[NodeProgress, ...]


@dataclass(frozen=True, slots=True)
class NodeExecuted:
    prompt_id: str
    node: str


@dataclass(frozen=True, slots=True)
class PromptEnded:
    """The only safe end mark: the worker's history holds the result now."""

    prompt_id: str


@dataclass(frozen=True, slots=True)
class ExecutionNoted:
    """The prompt began, succeeded, failed or was interrupted: a sign of life, not the truth.

    A failure may be all that is ever heard of a blocked branch: ComfyUI leaves it out of history.
    """

    prompt_id: str
    type: str
    failure: NodeFailure | None = None


Message = (
    NodesCached | NodeExecuting | ProgressChanged | NodeExecuted | PromptEnded | ExecutionNoted
)

_NOTED = frozenset({"execution_start", "execution_success", "execution_interrupted"})


def parse_message(text: str) -> Message | None:
    """Read a text message; None for those that say nothing about a prompt."""
    try:
        return read_message(decode_reply(text))
    except WorkerProtocolError:
        return None


def read_message(raw: Any) -> Message | None:
    """The same for one that is decoded."""
    if not isinstance(raw, dict) or not isinstance(raw.get("data"), dict):
        return None
    data = raw["data"]
    prompt_id = data.get("prompt_id")
    if not isinstance(prompt_id, str):
        return None
    return _read(str(raw.get("type")), prompt_id, data)


def _read(kind: str, prompt_id: str, data: Mapping[str, Any]) -> Message | None:
    message: Message | None = None
    shown_node = data.get("display_node") or data.get("node")
    match kind:
        case "execution_cached":
            nodes = data.get("nodes")
            known = nodes if isinstance(nodes, list) else ()
            message = NodesCached(prompt_id, tuple(str(node) for node in known))
        case "executing" if data.get("node") is None:
            message = PromptEnded(prompt_id)
        case "executing":
            message = NodeExecuting(prompt_id, str(shown_node))
        case "executed" if shown_node != data.get("node"):
            # A node made by expansion: the node that shows it goes on.
            message = NodeExecuting(prompt_id, str(shown_node))
        case "executed":
            message = NodeExecuted(prompt_id, str(shown_node))
        case "progress":
            step = (_number(data, "value"), _number(data, "max"))
            message = ProgressChanged(prompt_id, (NodeProgress(str(shown_node), "running", *step),))
        case "progress_state":
            nodes = data.get("nodes")
            entries = nodes.values() if isinstance(nodes, dict) else ()
            changes = tuple(_read_node(entry) for entry in entries if isinstance(entry, dict))
            message = ProgressChanged(prompt_id, changes)
        case "execution_error" | "node_recovered":
            message = ExecutionNoted(prompt_id, kind, read_failure(data))
        case _ if kind in _NOTED:
            message = ExecutionNoted(prompt_id, kind)
    return message


def _read_node(entry: Mapping[str, Any]) -> NodeProgress:
    node = entry.get("display_node_id") or entry.get("node_id")
    if entry.get("node_id") != node:
        # Nodes made by expansion begin and finish many times under the id of the node that shows
        # them: that one runs, and how far it is nobody knows.
        return NodeProgress(str(node), "running", 0.0, 1.0)
    state = str(entry.get("state"))
    return NodeProgress(str(node), state, _number(entry, "value"), _number(entry, "max"))


def _number(data: Mapping[str, Any], key: str) -> float:
    value = data.get(key)
    try:
        return float(value) if isinstance(value, int | float) else 0.0
    except OverflowError:
        return 0.0
