"""A prompt's entry in the worker's history: the truth about how it ended."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from comfyrail.fleet.comfyui.decoding import shorten
from comfyrail.fleet.comfyui.shown import Shown, read_shown

FAILURES_KEPT = 20
LONGEST_SECONDS = 10 * 86_400.0


@dataclass(frozen=True, slots=True)
class NodeFailure:
    """What an execution_error says, without the worker's stack trace."""

    node_id: str
    node_type: str
    exception_type: str
    message: str


@dataclass(frozen=True, slots=True)
class HistoryEntry:
    status: Literal["success", "error", "interrupted"]
    shown: tuple[Shown, ...]
    failures: tuple[NodeFailure, ...]
    seconds: float | None = None
    """How long it ran, as far as the worker tells."""


def parse_history(raw: object, prompt_id: str) -> HistoryEntry | None:
    """The entry of a prompt in a reply to /history/{id}, or None when there is none."""
    entry = raw.get(prompt_id) if isinstance(raw, dict) else None
    if not isinstance(entry, dict):
        return None
    status = entry.get("status")
    status = status if isinstance(status, dict) else {}
    messages = list(_messages(status.get("messages")))
    kinds = {kind for kind, _ in messages}
    errors = [data for kind, data in messages if kind == "execution_error"]
    failures = tuple(read_failure(data) for data in errors[:FAILURES_KEPT])
    return HistoryEntry(
        status=_judge(str(status.get("status_str")), kinds),
        shown=read_shown(entry.get("outputs")),
        failures=failures,
        seconds=_seconds(messages),
    )


def _judge(status: str, kinds: set[str]) -> Literal["success", "error", "interrupted"]:
    if "execution_interrupted" in kinds:
        return "interrupted"
    # A cycle made by node expansion ends in an error, yet ComfyUI's history calls it a success;
    # a blocked branch reports an error and goes on to a real success.
    if "execution_error" in kinds and "execution_success" not in kinds:
        return "error"
    return "success" if status == "success" else "error"


def _messages(raw: object) -> Iterator[tuple[str, Mapping[str, Any]]]:
    for item in raw if isinstance(raw, list) else ():
        if isinstance(item, list) and len(item) == 2 and isinstance(item[1], dict):
            yield str(item[0]), item[1]


def _seconds(messages: Sequence[tuple[str, Mapping[str, Any]]]) -> float | None:
    """From the first message about the execution to the last, by the worker's own clock."""
    stamps = [
        stamp
        for kind, data in messages
        if kind.startswith("execution_")
        and isinstance(stamp := data.get("timestamp"), int | float)
        and not isinstance(stamp, bool)
    ]
    if len(stamps) < 2:
        return None
    return min(LONGEST_SECONDS, max(0.0, (stamps[-1] - stamps[0]) / 1000))


def read_failure(data: Mapping[str, Any]) -> NodeFailure:
    """The data of an execution_error."""
    return NodeFailure(
        node_id=shorten(str(data.get("node_id")), 200),
        node_type=shorten(str(data.get("node_type")), 200),
        exception_type=shorten(str(data.get("exception_type")), 200),
        message=shorten(str(data.get("exception_message")).strip()),
    )
