"""From a worker's messages to the job's progress and node events. Pure but for the clock."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from comfyrail.clock import Clock
from comfyrail.fleet.comfyui.messages import (
    Message,
    NodeExecuted,
    NodeExecuting,
    NodesCached,
    ProgressChanged,
)
from comfyrail.jobs.events import Event, EventType, NewEvent
from comfyrail.jobs.faults import Fault
from comfyrail.jobs.job import NewOutput, Progress

CEILING = 0.99
"""Only a completed job is at 1."""


@dataclass(slots=True)
class ProgressTracker:
    """Follows one attempt. `take` gives what is new since it was last called."""

    prompt: Mapping[str, Any]
    clock: Clock
    weights: Mapping[str, float] = field(default_factory=dict)
    """What each node is expected to cost, in any unit; a node that is not there costs the mean."""
    fraction: float = 0.0
    node_seconds: dict[str, float] = field(default_factory=dict)
    """How long the nodes took that have run."""
    cached: set[str] = field(default_factory=set)
    models: frozenset[str] = frozenset()
    """Names of the models that the job needs."""
    _started: dict[str, float] = field(default_factory=dict)
    _running: dict[str, float] = field(default_factory=dict)
    _steps: dict[str, tuple[float, float]] = field(default_factory=dict)
    _done: set[str] = field(default_factory=set)
    _current: str | None = None
    _events: list[NewEvent] = field(default_factory=list)
    _closing: list[NewEvent] = field(default_factory=list)
    _changed: bool = False
    _preview: int = 0
    _share_done: float = 0.0
    _shares: Mapping[str, float] = field(init=False)

    def __post_init__(self) -> None:
        self._shares = _shares_of(self.prompt, self.weights)

    def observe(self, message: Message) -> None:
        match message:
            case NodesCached(_, nodes):
                for node in nodes:
                    self._complete(node, cached=True)
            case NodeExecuting(_, node):
                self._begin(node)
            case NodeExecuted(_, node):
                self._complete(node, cached=False)
            case ProgressChanged(_, changes):
                for change in changes:
                    if change.state == "finished":
                        self._complete(change.node, cached=False)
                    elif change.node in self.prompt and change.node not in self._done:
                        self._begin(change.node)
                        self._steps[change.node] = (change.value, change.maximum)
                        self._advance(change.node, change.fraction)
            case _:
                return

    def restore(self, events: Iterable[Event]) -> None:
        """Go on from what another process has told of this attempt: nothing is told twice."""
        for event in events:
            node = event.data.get("node_id")
            if not isinstance(node, str) or node not in self.prompt:
                continue
            if event.type is EventType.NODE_STARTED and node not in self._started:
                ago = max(0, self.clock.now() - event.at) / 1000
                self._started[node] = self.clock.monotonic() - ago
                self._running.setdefault(node, 0.0)
                self._current = node
            elif event.type is EventType.NODE_COMPLETED and node not in self._done:
                self._close(node)
                if event.data.get("cached") is True:
                    self.cached.add(node)

    def complete_rest(self) -> None:
        """The prompt has succeeded: what was running has ended too."""
        for node in list(self._running):
            self._complete(node, cached=False)

    def note_outputs(self, outputs: Sequence[NewOutput]) -> None:
        """Files that are in the blob store now."""
        for output in outputs:
            self._changed = True
            data = {
                "output_id": output.id,
                "node_id": output.node_id,
                "kind": output.kind,
                "filename": output.filename,
                "content_type": output.content_type,
                "size": output.size,
            }
            self._closing.append(NewEvent(EventType.OUTPUT_READY, data))

    def note_preview(self, number: int) -> None:
        """There is a new picture of what is being sampled."""
        self._preview = number
        self._changed = True

    def warn(self, fault: Fault) -> None:
        """Note a fault that did not end the job."""
        self._changed = True
        data = {"code": fault.code, "message": fault.message, **fault.details}
        self._closing.append(NewEvent(EventType.WARNING, data))

    @property
    def has_news(self) -> bool:
        return self._changed

    def take(self) -> tuple[list[NewEvent], Progress | None]:
        """Events since the last call, progress as one of them at most; and the progress itself."""
        if not self._changed:
            return [], None
        progress = self.progress()
        self._changed = False
        events, self._events = self._events, []
        closing, self._closing = self._closing, []
        report = NewEvent(EventType.PROGRESS, self._describe(progress))
        return [*events, report, *closing], progress

    def put_back(self, events: Sequence[NewEvent]) -> None:
        """Events that could not be stored: all but progress, which is told anew, are kept."""
        kept = [event for event in events if event.type is not EventType.PROGRESS]
        self._events = [*kept, *self._events]
        self._changed = True

    def progress(self) -> Progress:
        total = max(1, len(self.prompt))
        running = sum(part * self._shares[node] for node, part in self._running.items())
        self.fraction = max(self.fraction, min(CEILING, self._share_done + running))
        return Progress(self.fraction, self._current, len(self._done), total)

    def _describe(self, progress: Progress) -> dict[str, Any]:
        return {
            "progress": round(progress.fraction, 4),
            "current_node": progress.current_node,
            "current_node_type": self._type_of(progress.current_node),
            "completed_nodes": progress.completed_nodes,
            "total_nodes": progress.total_nodes,
            "preview": self._preview,
            "node_progress": {node: round(part, 4) for node, part in self._running.items()},
            "node_steps": {
                node: self._steps[node] for node in self._running if node in self._steps
            },
        }

    def _advance(self, node: str, fraction: float) -> None:
        """A node that lists itself again at an earlier point has not gone back."""
        if fraction > self._running.get(node, 0.0):
            self._running[node] = fraction
            self._changed = True

    def _begin(self, node: str) -> None:
        if node not in self.prompt or node in self._done:
            return
        self._current = node
        if node in self._started:
            return
        self._started[node] = self.clock.monotonic()
        self._running.setdefault(node, 0.0)
        self._changed = True
        self._events.append(NewEvent(EventType.NODE_STARTED, self._name(node)))
        if self.models and (named := self._models_in(node)):
            told = {**self._name(node), "models": named}
            self._events.append(NewEvent(EventType.MODEL_LOADING, told))

    def _models_in(self, node: str) -> list[str]:
        """Those that a node which begins gives its worker to load, unless it has them already."""
        inputs = self.prompt[node].get("inputs")
        values = inputs.values() if isinstance(inputs, Mapping) else ()
        return [value for value in values if isinstance(value, str) and value in self.models]

    def _complete(self, node: str, *, cached: bool) -> None:
        if node not in self.prompt or node in self._done:
            return
        self._close(node)
        self._changed = True
        started = self._started.get(node)
        seconds = None if started is None else round(self.clock.monotonic() - started, 4)
        if cached:
            self.cached.add(node)
        elif seconds is not None:
            self.node_seconds[node] = seconds
        data = {**self._name(node), "cached": cached, "duration": seconds}
        self._events.append(NewEvent(EventType.NODE_COMPLETED, data))

    def _close(self, node: str) -> None:
        self._done.add(node)
        self._share_done += self._shares[node]
        self._running.pop(node, None)
        if self._current == node:
            self._current = None

    def _name(self, node: str) -> dict[str, Any]:
        return {"node_id": node, "node_type": self._type_of(node)}

    def _type_of(self, node: str | None) -> Any:
        return None if node is None else self.prompt[node].get("class_type")


def _shares_of(prompt: Mapping[str, Any], weights: Mapping[str, float]) -> dict[str, float]:
    """The part of the whole work that each node is."""
    known = [weights[node] for node in prompt if node in weights]
    mean = sum(known) / len(known) if known else 1.0
    shares = {node: weights.get(node, mean) for node in prompt}
    total = sum(shares.values())
    if total <= 0:
        return dict.fromkeys(prompt, 1 / max(1, len(prompt)))
    return {node: share / total for node, share in shares.items()}
