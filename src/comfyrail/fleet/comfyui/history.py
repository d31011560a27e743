"""A prompt's entry in the worker's history: the truth about how it ended."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from comfyrail.fleet.comfyui.decoding import shorten


@dataclass(frozen=True, slots=True)
class WorkerFile:
    """A file that a node reports; fetched by /view."""

    node_id: str
    kind: str
    filename: str
    subfolder: str
    folder_type: str


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
    files: tuple[WorkerFile, ...]
    failures: tuple[NodeFailure, ...]


def parse_history(raw: object, prompt_id: str) -> HistoryEntry | None:
    """The entry of a prompt in a reply to /history/{id}, or None when there is none."""
    entry = raw.get(prompt_id) if isinstance(raw, dict) else None
    if not isinstance(entry, dict):
        return None
    status = entry.get("status")
    status = status if isinstance(status, dict) else {}
    messages = list(_messages(status.get("messages")))
    kinds = {kind for kind, _ in messages}
    failures = tuple(read_failure(data) for kind, data in messages if kind == "execution_error")
    return HistoryEntry(
        status=_judge(str(status.get("status_str")), kinds),
        files=tuple(_files(entry.get("outputs"))),
        failures=failures,
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


def _files(outputs: object) -> Iterator[WorkerFile]:
    for node_id, shown in outputs.items() if isinstance(outputs, dict) else ():
        for kind, items in shown.items() if isinstance(shown, dict) else ():
            for item in items if isinstance(items, list) else ():
                if isinstance(item, dict) and isinstance(item.get("filename"), str):
                    yield WorkerFile(
                        node_id=str(node_id),
                        kind=str(kind),
                        filename=item["filename"],
                        subfolder=str(item.get("subfolder") or ""),
                        folder_type=str(item.get("type") or "output"),
                    )


def read_failure(data: Mapping[str, Any]) -> NodeFailure:
    """The data of an execution_error."""
    return NodeFailure(
        node_id=shorten(str(data.get("node_id")), 200),
        node_type=shorten(str(data.get("node_type")), 200),
        exception_type=shorten(str(data.get("exception_type")), 200),
        message=shorten(str(data.get("exception_message")).strip()),
    )
