"""What happened to a job, in lines that people read.

Only from the job's own events: what its worker has written may be about jobs of others.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from comfyrail.access.principal import Principal
from comfyrail.clock import Instant
from comfyrail.ids import JobId
from comfyrail.jobs.events import Event, EventType
from comfyrail.store.interface import Store

EVENTS_A_READ = 1000
LONGEST_LINE = 2000

Level = Literal["info", "warning", "error"]
Data = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class LogLine:
    """`number` is that of its event."""

    number: int
    at: Instant
    level: Level
    event: EventType
    message: str


@dataclass(frozen=True, slots=True)
class LogPage:
    lines: Sequence[LogLine]
    next_after: int | None
    """None: there is no more now."""


class JobLogs:
    def __init__(self, store: Store) -> None:
        self._store = store

    async def __call__(
        self, principal: Principal, job_id: JobId, after: int, limit: int
    ) -> LogPage:
        """The lines of events behind a number, so many at most. Raises JobNotFound."""
        lines: list[LogLine] = []
        while events := await self._store.events_after(
            principal.tenant, job_id, after, EVENTS_A_READ
        ):
            for event in events:
                line = line_of(event)
                if line is None:
                    continue
                if len(lines) == limit:
                    return LogPage(lines, lines[-1].number)
                lines.append(line)
            after = events[-1].number
        return LogPage(lines, None)


def line_of(event: Event) -> LogLine | None:
    """None for what would only fill the log: every bit of progress."""
    say = SENTENCES.get(event.type)
    if say is None:
        return None
    message = " ".join(say(event.data).split())
    if len(message) > LONGEST_LINE:
        message = message[: LONGEST_LINE - 1] + "…"
    return LogLine(event.number, event.at, _level_of(event), event.type, message)


def _level_of(event: Event) -> Level:
    if event.type is EventType.FAILED:
        return "error"
    is_retry = event.type is EventType.QUEUED and "cause" in event.data
    return "warning" if is_retry or event.type is EventType.WARNING else "info"


def _queued(data: Data) -> str:
    match data.get("reason"):
        case "retrying" if "cause" in data:
            attempt = f"Attempt {data.get('attempt')} on {data.get('worker_id')} came to nothing"
            return f"{attempt}: {data['cause']} The job is tried again{_in(data.get('delay'))}."
        case "scheduled":
            return "The job is kept for later."
        case "due" | "retrying":
            return f"The job's time has come{_place(data)}."
        case "reprioritized":
            return f"The job has priority {data.get('priority')} now{_place(data)}."
    return f"The job is in the queue with priority {data.get('priority')}{_place(data)}."


def _place(data: Data) -> str:
    position = data.get("queue_position")
    return "" if position is None else f", at position {position}"


def _in(delay: Any) -> str:
    return f" in {delay:.1f} s" if isinstance(delay, int | float) and delay >= 0.1 else ""


def _node(data: Data) -> str:
    return f"Node {data.get('node_id')} ({data.get('node_type')})"


def _node_completed(data: Data) -> str:
    if data.get("cached"):
        return f"{_node(data)} was known already."
    duration = data.get("duration")
    took = f" after {duration:.3f} s" if isinstance(duration, int | float) else ""
    return f"{_node(data)} is done{took}."


def _output(data: Data) -> str:
    size = data.get("size")
    return f"Node {data.get('node_id')} made {data.get('filename')} ({size} bytes)."


def _failed(data: Data) -> str:
    error = data.get("error")
    found: Data = error if isinstance(error, Mapping) else {}
    return f"The job has failed with {found.get('code')}: {found.get('message')}"


SENTENCES: Mapping[EventType, Callable[[Data], str]] = {
    EventType.QUEUED: _queued,
    EventType.STARTED: lambda data: (
        f"Attempt {data.get('attempt')} begins on {data.get('worker_id')}."
    ),
    EventType.NODE_STARTED: lambda data: f"{_node(data)} begins.",
    EventType.NODE_COMPLETED: _node_completed,
    EventType.MODEL_LOADING: lambda data: (
        f"{_node(data)} needs {', '.join(map(str, data.get('models', ())))}."
    ),
    EventType.OUTPUT_READY: _output,
    EventType.WARNING: lambda data: f"{data.get('code')}: {data.get('message')}",
    EventType.COMPLETED: lambda data: f"The job is done, with {data.get('outputs', 0)} outputs.",
    EventType.FAILED: _failed,
    EventType.CANCELLED: lambda _: "The job was cancelled.",
}
