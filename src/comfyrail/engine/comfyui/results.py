"""What a function of a node class returns, as a NodeResult."""

from collections.abc import Mapping, Sequence
from typing import Any

from comfyrail.engine.blocking import ExecutionBlocker
from comfyrail.engine.definition import NodeResult
from comfyrail.workflow.catalog import OutputPort

BLOCKER_CLASS = "ExecutionBlocker"


class ResultReader:
    """Reads the returns of one node type: `label` names it in errors.

    As in ComfyUI, outputs that are missing are None and surplus ones are dropped.
    """

    def __init__(self, label: str, outputs: Sequence[OutputPort]) -> None:
        self._label = label
        self._outputs = outputs

    def read(self, returned: Any) -> NodeResult:
        """Raises TypeError for what cannot be a list of outputs."""
        if isinstance(returned, dict):
            return self._read_dict(returned)
        return NodeResult(self.outputs_of(returned))

    def _read_dict(self, returned: dict[str, Any]) -> NodeResult:
        result = returned.get("result")
        return NodeResult(
            self.outputs_of(() if result is None else result),
            ui=dict(returned.get("ui") or {}) or None,
            expand=read_expansion(returned.get("expand")),
        )

    def outputs_of(self, returned: Any) -> tuple[Any, ...]:
        blocker = as_blocker(returned)
        if blocker is not None:
            return (blocker,) * len(self._outputs)
        values = self._values_of(returned)
        return tuple(
            _converted(values[index], port) if index < len(values) else _missing(port)
            for index, port in enumerate(self._outputs)
        )

    def _values_of(self, returned: Any) -> Sequence[Any]:
        if isinstance(returned, tuple | list):
            return returned
        if returned is None and not self._outputs:
            return ()
        try:
            count = min(len(returned), len(self._outputs))
            return [returned[index] for index in range(count)]
        except (TypeError, KeyError) as error:
            raise TypeError(
                f"{self._label} returned {type(returned).__name__} where a tuple of "
                f"{len(self._outputs)} outputs was expected."
            ) from error


def as_blocker(value: Any) -> ExecutionBlocker | None:
    """The engine's form of ComfyUI's blocker, known by its name: its module may not be there."""
    if isinstance(value, ExecutionBlocker):
        return value
    if any(kind.__name__ == BLOCKER_CLASS for kind in type(value).__mro__):
        message = getattr(value, "message", None)
        return ExecutionBlocker(None if message is None else str(message))
    return None


def read_expansion(graph: Any) -> Mapping[str, Any] | None:
    """The graph that takes a node's place; blockers among its values are converted too."""
    if graph is None:
        return None
    return {node_id: _expanded_node(entry) for node_id, entry in graph.items()}


def _expanded_node(entry: Mapping[str, Any]) -> Mapping[str, Any]:
    inputs = entry.get("inputs")
    if not isinstance(inputs, Mapping):
        return entry
    return {**entry, "inputs": {name: as_blocker(value) or value for name, value in inputs.items()}}


def _converted(value: Any, port: OutputPort) -> Any:
    blocker = as_blocker(value)
    if blocker is not None:
        return blocker
    if port.is_list and isinstance(value, list | tuple):
        return [as_blocker(item) or item for item in value]
    return value


def _missing(port: OutputPort) -> Any:
    return [None] if port.is_list else None
