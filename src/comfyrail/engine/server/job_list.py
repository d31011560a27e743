"""What the list of jobs says of each, and how it is chosen and put in order."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from comfyrail.engine.server.prompt_queue import QueuedPrompt
from comfyrail.engine.server.wire import encode_json, list_parts, object_parts

JobStatus = Literal["pending", "in_progress", "completed", "failed"]

StatusMessage = tuple[str, Mapping[str, Any]]


@dataclass(frozen=True, slots=True)
class Job:
    """`content` is the job as JSON; beside it is what a list chooses and sorts by."""

    status: JobStatus
    created_at: int
    duration: int
    workflow_id: str | int | None
    content: bytes


@dataclass(frozen=True, slots=True)
class JobQuery:
    statuses: Sequence[str]
    workflow_id: str | None
    by_duration: bool
    ascending: bool
    offset: int
    limit: int | None


def list_jobs(jobs: Iterable[Job], query: JobQuery) -> Iterator[bytes]:
    """The reply to a query, as parts of JSON."""
    found = [
        job
        for job in jobs
        if job.status in query.statuses and query.workflow_id in (None, job.workflow_id)
    ]
    found.sort(
        key=lambda job: job.duration if query.by_duration else job.created_at,
        reverse=not query.ascending,
    )
    stop = None if query.limit is None else query.offset + query.limit
    page = found[query.offset : stop]
    pagination = {
        "offset": query.offset,
        "limit": query.limit,
        "total": len(found),
        "has_more": query.offset + len(page) < len(found),
    }
    shown = list_parts(job.content for job in page)
    yield from object_parts([("jobs", shown), ("pagination", [encode_json(pagination)])])


def open_job(item: QueuedPrompt, status: Literal["pending", "in_progress"]) -> Job:
    return _job(item, status, 0, {})


def ended_job(
    item: QueuedPrompt,
    messages: Sequence[StatusMessage],
    outputs: Mapping[str, Any],
    *,
    succeeded: bool,
) -> Job:
    times = [data["timestamp"] for _, data in messages]
    about: dict[str, Any] = {}
    if times:
        about |= {"execution_start_time": times[0], "execution_end_time": times[-1]}
        last_kind, last_data = messages[-1]
        if last_kind == "execution_error":
            about["execution_error"] = last_data
    files = list(_files_of(outputs))
    about["outputs_count"] = len(files)
    if files:
        about["preview_output"] = files[0]
    duration = times[-1] - times[0] if times else 0
    return _job(item, "completed" if succeeded else "failed", duration, about)


def _job(item: QueuedPrompt, status: JobStatus, duration: int, about: Mapping[str, Any]) -> Job:
    shown: dict[str, Any] = {
        "id": item.prompt_id,
        "status": status,
        "priority": item.number,
        "create_time": item.created_at,
        "outputs_count": 0,
    }
    if item.workflow_id is not None:
        shown["workflow_id"] = item.workflow_id
    content = encode_json({**shown, **about})
    return Job(status, item.created_at, duration, item.workflow_id, content)


def _files_of(outputs: Mapping[str, Any]) -> Iterable[dict[str, Any]]:
    for node_id, ui in outputs.items():
        for media, items in ui.items():
            for item in items:
                if isinstance(item, dict) and "filename" in item:
                    yield {**item, "nodeId": node_id, "mediaType": media}
