"""One running prompt as clients see it: events become messages, history and a way to catch up."""

import json
from collections.abc import Iterator
from typing import Any, assert_never

from comfyrail.clock import Clock
from comfyrail.engine.events import (
    Event,
    ExecutionFailed,
    ExecutionInterrupted,
    ExecutionStarted,
    ExecutionSucceeded,
    NodeBlocked,
    NodeExecuted,
    NodeFinished,
    NodeProgress,
    NodeRecovered,
    NodesAdded,
    NodesCached,
    NodeStarted,
    Picture,
    Preview,
    TextShown,
)
from comfyrail.engine.server.history import HistoryEntry
from comfyrail.engine.server.job_list import ended_job
from comfyrail.engine.server.prompt_queue import QueuedPrompt
from comfyrail.engine.server.wire import (
    Message,
    TextMessage,
    encode_json,
    object_parts,
    preview_message,
    shown_text_message,
    text_message,
)

Data = dict[str, Any]


class PromptRecord:
    """Takes the events of one execution in their order. Owned by the event loop."""

    def __init__(self, item: QueuedPrompt) -> None:
        self.item = item
        self._status: list[tuple[str, Data]] = []
        self._outputs: dict[str, Any] = {}
        self._states: dict[str, Data] = {}
        self._current: str | None = None
        self._progress: TextMessage | None = None
        self._succeeded = False
        self._parents: dict[str, str] = {}
        self._displays: dict[str, str] = {}

    def apply(self, event: Event) -> Iterator[Message]:
        """Remember the event and give the messages that tell the client of it."""
        match event:
            case NodeStarted(node_id):
                yield from self._start_node(node_id)
            case NodeProgress(node_id, value, maximum):
                yield from self._report_progress(node_id, value, maximum)
            case Preview() | Picture() | TextShown():
                yield self._look_inside(event)
            case NodeExecuted(node_id, ui):
                self._outputs[node_id] = ui
                yield self._executed_message(node_id)
            case NodeFinished(node_id, cached):
                yield self._finish_node(node_id, cached=cached)
            case NodesAdded(parent_id, displays):
                self._parents.update(dict.fromkeys(displays, parent_id))
                self._displays.update(displays)
            case NodeBlocked() | NodeRecovered():
                yield self._trouble_message(event)
            case (
                ExecutionStarted()
                | NodesCached()
                | ExecutionSucceeded()
                | ExecutionFailed()
                | ExecutionInterrupted()
            ):
                yield self._change_status(event)
            case _:
                assert_never(event)

    def _look_inside(self, event: Preview | Picture | TextShown) -> Message:
        if isinstance(event, TextShown):
            return shown_text_message(event.node_id, event.text)
        return preview_message(
            event.image,
            event.format,
            self._names_of(event.node_id),
            droppable=isinstance(event, Preview),
        )

    def end_message(self) -> TextMessage:
        """The only sure sign of the end: sent after history has the prompt."""
        return self._message("executing", {"node": None})

    def closing_messages(self) -> list[Message]:
        """For a client that was away at the end: how it ended, and the end itself."""
        kind, data = self._status[-1]
        return [text_message(kind, data), self.end_message()]

    def catch_up(self) -> Iterator[Message]:
        """For a client that comes (back) while the prompt runs: what it missed, put together."""
        for kind, data in self._status:
            yield text_message(kind, data)
        for node_id in self._outputs:
            yield self._executed_message(node_id)
        if self._states:
            yield self._message("progress_state", {"nodes": self._states}, prompt_first=True)
        if self._current is not None:
            yield self._executing_message(self._current)
        if self._progress is not None:
            yield self._progress

    def history_entry(self) -> HistoryEntry:
        status = {
            "status_str": "success" if self._succeeded else "error",
            "completed": self._succeeded,
            "messages": [[kind, data] for kind, data in self._status],
        }
        meta = {node_id: self._meta_of(node_id) for node_id in self._outputs}
        parts = object_parts(
            [
                ("prompt", [self.item.listed]),
                ("outputs", [encode_json(self._outputs)]),
                ("status", [encode_json(status)]),
                ("meta", [encode_json(meta)]),
            ]
        )
        job = ended_job(self.item, self._status, self._outputs, succeeded=self._succeeded)
        return HistoryEntry(job, b"".join(parts))

    def cut_off(self, clock: Clock) -> ExecutionInterrupted:
        """The last event of an execution that does not come to an end by itself."""
        current = self._current
        entry = json.loads(self.item.listed)[2].get(current) if current is not None else None
        node_type = entry.get("class_type") if isinstance(entry, dict) else None
        return ExecutionInterrupted(current, node_type, (), clock.now())

    def unshowable_entry(self, error: Exception) -> HistoryEntry:
        """In place of an entry whose outputs or messages have no JSON."""
        self._outputs = {}
        self._succeeded = False
        reason = f"What the nodes show cannot be written as JSON: {type(error).__name__}"
        own = {"prompt_id": self.item.prompt_id, "node_id": "", "node_type": "", "executed": []}
        message = {"exception_message": reason, "exception_type": type(error).__name__}
        rest: Data = {"traceback": [], "current_inputs": {}, "current_outputs": []}
        rest["timestamp"] = self._status[-1][1]["timestamp"] if self._status else 0
        self._status = [("execution_error", {**own, **message, **rest})]
        return self.history_entry()

    def _start_node(self, node_id: str) -> Iterator[Message]:
        self._current = node_id
        self._progress = None
        yield self._state_message(node_id, 0.0, 1.0, "running")
        yield self._executing_message(node_id)

    def _report_progress(self, node_id: str, value: float, maximum: float) -> Iterator[Message]:
        yield self._state_message(node_id, value, maximum, "running", droppable=True)
        self._progress = text_message(
            "progress",
            {
                "value": value,
                "max": maximum,
                "prompt_id": self.item.prompt_id,
                "node": node_id,
            },
            droppable=True,
        )
        yield self._progress

    def _finish_node(self, node_id: str, *, cached: bool) -> TextMessage:
        self._progress = None
        state = self._states.get(node_id)
        maximum = 1 if cached or state is None else state["max"]
        return self._state_message(node_id, maximum, maximum, "finished")

    def _change_status(
        self,
        event: ExecutionStarted
        | NodesCached
        | ExecutionSucceeded
        | ExecutionFailed
        | ExecutionInterrupted,
    ) -> TextMessage:
        kind, about = _describe_status(event)
        own = {"prompt_id": self.item.prompt_id}
        names_nodes = isinstance(event, NodesCached)
        data = {**(about | own if names_nodes else own | about), "timestamp": event.at}
        self._succeeded = isinstance(event, ExecutionSucceeded)
        self._status.append((kind, data))
        return text_message(kind, data)

    def _state_message(
        self, node_id: str, value: float, maximum: float, state: str, *, droppable: bool = False
    ) -> TextMessage:
        """Only the node that changed: all of them each time would grow with the square."""
        self._states[node_id] = {
            "value": value,
            "max": maximum,
            "state": state,
            **self._names_of(node_id),
        }
        return self._message(
            "progress_state",
            {"nodes": {node_id: self._states[node_id]}},
            prompt_first=True,
            droppable=droppable,
        )

    def _executing_message(self, node_id: str) -> TextMessage:
        return self._message(
            "executing", {"node": node_id, "display_node": self._display_of(node_id)}
        )

    def _executed_message(self, node_id: str) -> TextMessage:
        return self._message(
            "executed",
            {
                "node": node_id,
                "display_node": self._display_of(node_id),
                "output": self._outputs[node_id],
            },
        )

    def _names_of(self, node_id: str) -> Data:
        return {
            "node_id": node_id,
            "prompt_id": self.item.prompt_id,
            "display_node_id": self._display_of(node_id),
            "parent_node_id": self._parents.get(node_id),
            "real_node_id": self._real_of(node_id),
        }

    def _meta_of(self, node_id: str) -> Data:
        return {
            "node_id": node_id,
            "display_node": self._display_of(node_id),
            "parent_node": self._parents.get(node_id),
            "real_node_id": self._real_of(node_id),
        }

    def _display_of(self, node_id: str) -> str:
        return self._displays.get(node_id, node_id)

    def _real_of(self, node_id: str) -> str:
        while node_id in self._parents:
            node_id = self._parents[node_id]
        return node_id

    def _trouble_message(self, event: NodeBlocked | NodeRecovered) -> TextMessage:
        """What does not end the prompt: it is not among the messages of its history."""
        if isinstance(event, NodeRecovered):
            # ComfyUI has no such message: it fails at the first error.
            return self._message(
                "node_recovered",
                {
                    "node_id": event.node_id,
                    "node_type": event.node_type,
                    "action": event.action,
                    "attempt": event.attempt,
                    "exception_message": f"{event.message} ({event.action})",
                    "exception_type": "NodeRecovered",
                },
            )
        return text_message(
            "execution_error",
            {
                "prompt_id": self.item.prompt_id,
                "node_id": event.node_id,
                "node_type": event.node_type,
                "executed": list(event.executed),
                "exception_message": f"Execution Blocked: {event.message}",
                "exception_type": "ExecutionBlocked",
                "traceback": [],
                "current_inputs": [],
                "current_outputs": [],
            },
        )

    def _message(
        self, kind: str, data: Data, *, prompt_first: bool = False, droppable: bool = False
    ) -> TextMessage:
        own = {"prompt_id": self.item.prompt_id}
        return text_message(
            kind, {**own, **data} if prompt_first else {**data, **own}, droppable=droppable
        )


def _describe_status(
    event: ExecutionStarted
    | NodesCached
    | ExecutionSucceeded
    | ExecutionFailed
    | ExecutionInterrupted,
) -> tuple[str, Data]:
    match event:
        case ExecutionStarted():
            return "execution_start", {}
        case NodesCached(node_ids):
            return "execution_cached", {"nodes": list(node_ids)}
        case ExecutionSucceeded():
            return "execution_success", {}
        case ExecutionInterrupted():
            return "execution_interrupted", {
                "node_id": event.node_id,
                "node_type": event.node_type,
                "executed": list(event.executed),
            }
        case ExecutionFailed():
            return "execution_error", {
                "node_id": event.node_id,
                "node_type": event.node_type,
                "executed": list(event.executed),
                "exception_message": event.message,
                "exception_type": event.exception_type,
                "traceback": list(event.traceback),
                "current_inputs": event.inputs,
                "current_outputs": list(event.finished),
                **_recovery_of(event),
            }
        case _:
            assert_never(event)


def _recovery_of(event: ExecutionFailed) -> Data:
    """What ComfyUI does not say, and only where there is something to say."""
    said: Data = {"kind": event.kind, "recoverable": event.recoverable}
    return said if event.checkpoint is None else {**said, "checkpoint": event.checkpoint}
