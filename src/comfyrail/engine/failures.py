"""What went wrong in a node: of what kind it is, and how it is told."""

import traceback
from collections.abc import Mapping, Sequence
from typing import Any

from comfyrail.clock import Instant
from comfyrail.engine.caching.result import Slot
from comfyrail.engine.events import ErrorKind, ExecutionFailed
from comfyrail.engine.live_graph import DuplicateNode, ExpansionTooLarge, UnknownNode
from comfyrail.engine.resources.errors import ResourceError
from comfyrail.errors import Category, ComfyrailError

SHOWN_INPUT_LENGTH = 200
LONGEST_NUMBER_BITS = 512


class ExecutionError(ComfyrailError):
    """A graph that was computed for its values failed."""

    category: Category = "execution"
    code = "EXECUTION_FAILED"


class DependencyCycleError(Exception):
    """Nodes wait for each other: only a node that expands can bring that about."""


class NodeTimeout(Exception):
    """A node ran longer than its definition allows."""


class UnservedInput(Exception):
    """A lazy node asked for an input that the graph does not give it."""


class WorkerLost(Exception):
    """Whoever ran the node for us is gone; it may run elsewhere."""


_OF_DEPENDENCIES = (
    DependencyCycleError,
    UnknownNode,
    UnservedInput,
    DuplicateNode,
    ExpansionTooLarge,
)


def kind_of(error: BaseException) -> ErrorKind:
    """Which of the five kinds an error is of."""
    if isinstance(error, NodeTimeout | TimeoutError):
        return "timeout"
    if isinstance(error, MemoryError | ResourceError) or _is_out_of_memory(error):
        return "resource"
    if isinstance(error, _OF_DEPENDENCIES):
        return "dependency"
    return "runtime"


def is_recoverable(error: BaseException) -> bool:
    """Whether the same node may succeed with the same inputs another time."""
    if isinstance(error, WorkerLost | OSError):
        return True
    return kind_of(error) in ("timeout", "resource")


def full_type_name(error: BaseException) -> str:
    """The error's class with its module, which is left out for Python's own."""
    if isinstance(error, DependencyCycleError):
        return "graph.DependencyCycleError"
    kind = type(error)
    return (
        kind.__qualname__
        if kind.__module__ == "builtins"
        else f"{kind.__module__}.{kind.__qualname__}"
    )


def message_of(error: BaseException) -> str:
    """Python's own MemoryError says nothing, and a KeyError only a name."""
    if isinstance(error, MemoryError) and not str(error):
        return "The worker has not enough memory for this node. Use smaller or fewer images."
    return text_of(error)


def text_of(error: BaseException) -> str:
    """What an error says; some of foreign classes fail to say it."""
    try:
        return str(error)
    except Exception:  # noqa: BLE001 - whatever its __str__ raises
        return type(error).__name__


def shown_inputs(inputs: Mapping[str, Slot]) -> dict[str, Sequence[Any]]:
    """Short texts of what a node was given."""
    return {name: [_short_text(value) for value in slot] for name, slot in inputs.items()}


def failed_event(
    node: tuple[str, str],
    error: BaseException,
    inputs: Mapping[str, Slot],
    *,
    message: str,
    executed: Sequence[str],
    finished: Sequence[str],
    checkpoint: str | None,
    at: Instant,
) -> ExecutionFailed:
    """How a node's error ends an execution; `node` is its id and its type."""
    return ExecutionFailed(
        node_id=node[0],
        node_type=node[1],
        exception_type=full_type_name(error),
        message=message_of(error) if message == text_of(error) else message,
        traceback=traceback.format_tb(error.__traceback__),
        inputs=shown_inputs(inputs),
        executed=tuple(executed),
        finished=tuple(finished),
        at=at,
        kind=kind_of(error),
        recoverable=checkpoint is not None or is_recoverable(error),
        checkpoint=checkpoint,
    )


def _is_out_of_memory(error: BaseException) -> bool:
    return type(error).__name__ in ("OutOfMemoryError", "AcceleratorError")


def _short_text(value: Any) -> Any:
    if isinstance(value, int) and value.bit_length() > LONGEST_NUMBER_BITS:
        return f"a number of {value.bit_length()} bits"
    if value is None or isinstance(value, bool | int | float):
        return value
    try:
        text = value if isinstance(value, str) else repr(value)
    except Exception:  # noqa: BLE001 - an object of a foreign class may fail to say what it is
        text = f"<{type(value).__name__}>"
    return text if len(text) <= SHOWN_INPUT_LENGTH else text[:SHOWN_INPUT_LENGTH] + "…"
