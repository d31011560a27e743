"""What became of each node of a job, read off the job's events [6.4]. Pure."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any

from comfyrail.clock import Instant
from comfyrail.jobs.events import Event, EventType


class NodeStatus(StrEnum):
    PENDING = "pending"
    RUNNING = "running"
    COMPLETED = "completed"
    CACHED = "cached"
    """It need not run: the worker had its result."""
    FAILED = "failed"
    INTERRUPTED = "interrupted"
    """It was running when the job ended otherwise than by it."""
    SKIPPED = "skipped"
    """The job ended without it: nothing needed it, or what came before it failed."""


@dataclass(frozen=True, slots=True)
class NodeResult:
    """`started_at` is when its start was written, at most 0.1 s late; None for one that never ran.
    Of a job with several attempts the last one counts.
    """

    node_id: str
    class_type: str | None = None
    status: NodeStatus = NodeStatus.PENDING
    started_at: Instant | None = None
    duration_seconds: float | None = None
    is_cached: bool = False
    progress: float | None = None
    """Of one that runs and tells of it, 0 to 1."""
    error_type: str | None = None
    error_message: str | None = None


def fold_events(
    events: Iterable[Event], nodes: Mapping[str, str | None] | None = None
) -> Sequence[NodeResult]:
    """The results of all nodes after these events, which are a job's from number 1 on.

    `nodes` are the ids and types of the job's nodes, in the order in which they are wanted; those
    that only events name come behind them.
    """
    results = _fresh(nodes or {})
    for event in events:
        if event.type is EventType.STARTED or _is_requeued(event):
            results = _fresh(nodes or {})
        elif event.type.is_final:
            results = _close(results, event)
        else:
            _apply(results, event)
    return list(results.values())


def _fresh(nodes: Mapping[str, str | None]) -> dict[str, NodeResult]:
    return {node_id: NodeResult(node_id, class_type) for node_id, class_type in nodes.items()}


def _is_requeued(event: Event) -> bool:
    return event.type is EventType.QUEUED and event.data.get("reason") == "retrying"


def _apply(results: dict[str, NodeResult], event: Event) -> None:
    if event.type is EventType.PROGRESS:
        _note_progress(results, event.data.get("node_progress"))
        return
    node_id = event.data.get("node_id")
    if not isinstance(node_id, str):
        return
    match event.type:
        case EventType.NODE_STARTED:
            results[node_id] = replace(
                _named(results, node_id, event.data),
                status=NodeStatus.RUNNING,
                started_at=event.at,
            )
        case EventType.NODE_COMPLETED:
            is_cached = event.data.get("cached") is True
            results[node_id] = replace(
                _named(results, node_id, event.data),
                status=NodeStatus.CACHED if is_cached else NodeStatus.COMPLETED,
                duration_seconds=0.0 if is_cached else _seconds(event.data.get("duration")),
                is_cached=is_cached,
            )
        case EventType.WARNING if node_id in results:
            # It did not end the job: the node was blocked, or tried again.
            results[node_id] = _with_error(results[node_id], event.data)
        case _:
            return


def _note_progress(results: dict[str, NodeResult], parts: Any) -> None:
    for node_id, part in parts.items() if isinstance(parts, Mapping) else ():
        if node_id in results and isinstance(part, int | float):
            results[node_id] = replace(results[node_id], progress=float(part))


def _close(results: Mapping[str, NodeResult], event: Event) -> dict[str, NodeResult]:
    """The job has ended: no node is pending or running any more."""
    error = event.data.get("error")
    details = error.get("details") if isinstance(error, Mapping) else None
    details = details if isinstance(details, Mapping) else {}
    blamed = details.get("node_id") if event.type is EventType.FAILED else None
    closed = dict(results)
    if isinstance(blamed, str) and blamed:
        named = _named(closed, blamed, details)
        closed[blamed] = replace(
            _with_error(named, details),
            status=NodeStatus.FAILED,
            duration_seconds=_since(named.started_at, event.at),
        )
    for node_id, result in closed.items():
        if result.status is NodeStatus.PENDING:
            closed[node_id] = replace(result, status=NodeStatus.SKIPPED)
        elif result.status is NodeStatus.RUNNING:
            closed[node_id] = replace(
                result,
                status=NodeStatus.INTERRUPTED,
                duration_seconds=_since(result.started_at, event.at),
            )
    return closed


def _named(results: Mapping[str, NodeResult], node_id: str, data: Mapping[str, Any]) -> NodeResult:
    found = results.get(node_id)
    if found is not None and found.class_type is not None:
        return found
    class_type = data.get("node_type")
    known = class_type if isinstance(class_type, str) else None
    return NodeResult(node_id, known) if found is None else replace(found, class_type=known)


def _with_error(result: NodeResult, data: Mapping[str, Any]) -> NodeResult:
    kind, message = data.get("exception_type"), data.get("exception_message", data.get("message"))
    return replace(
        result,
        error_type=kind if isinstance(kind, str) else None,
        error_message=message if isinstance(message, str) else None,
    )


def _since(started: Instant | None, now: Instant) -> float | None:
    return None if started is None else max(0, now - started) / 1000


def _seconds(value: Any) -> float | None:
    return float(value) if isinstance(value, int | float) else None
