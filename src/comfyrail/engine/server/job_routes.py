"""/api/jobs: what waits, runs and has ended, in one list."""

import asyncio
import json
from collections.abc import Iterator, Mapping
from typing import Literal, get_args

from aiohttp import web

from comfyrail.engine.server.history import HistoryEntry
from comfyrail.engine.server.job_list import JobQuery, JobStatus, list_jobs, open_job
from comfyrail.engine.server.prompt_queue import QueuedPrompt
from comfyrail.engine.server.replies import as_index, encoded_reply, json_reply, long_reply
from comfyrail.engine.server.wire import encode_json
from comfyrail.engine.server.worker import Worker

STATUSES: tuple[JobStatus, ...] = get_args(JobStatus)


class JobRoutes:
    def __init__(self, worker: Worker) -> None:
        self._worker = worker

    def table(self) -> list[web.RouteDef]:
        """The path has the prefix in it, so that there is no /jobs, as in ComfyUI."""
        return [
            web.get("/api/jobs", self.show_jobs),
            web.get("/api/jobs/{job_id}", self.show_job),
        ]

    async def show_jobs(self, request: web.Request) -> web.StreamResponse:
        fault = find_fault(request.query)
        if fault is not None:
            return json_reply({"error": fault}, 400)
        running, waiting = self._worker.running, self._worker.queue.in_order()
        ended = list(self._worker.history.page().values())

        def build() -> Iterator[bytes]:
            jobs = [] if running is None else [open_job(running, "in_progress")]
            jobs += [open_job(item, "pending") for item in waiting]
            jobs += [entry.job for entry in ended]
            return list_jobs(jobs, read_query(request.query))

        return await long_reply(request, build)

    async def show_job(self, request: web.Request) -> web.Response:
        job_id = request.match_info["job_id"]
        entry = self._worker.history.get(job_id)
        if entry is not None:
            return encoded_reply(await asyncio.to_thread(_describe_ended, entry))
        running = self._worker.running
        if running is not None and running.prompt_id == job_id:
            return encoded_reply(await asyncio.to_thread(_describe_open, running, "in_progress"))
        waiting = self._worker.queue.get(job_id)
        if waiting is not None:
            return encoded_reply(await asyncio.to_thread(_describe_open, waiting, "pending"))
        return json_reply({"error": "Job not found"}, 404)


def find_fault(query: Mapping[str, str]) -> str | None:
    """What is wrong with the parameters of a list, in ComfyUI's words."""
    unknown = [each for each in query.get("status", "pending").split(",") if each not in STATUSES]
    if unknown:
        return f"Invalid status value(s): {', '.join(unknown)}. Valid values: {', '.join(STATUSES)}"
    if query.get("sort_by", "created_at") not in ("created_at", "execution_duration"):
        return "sort_by must be 'created_at' or 'execution_duration'"
    if query.get("sort_order", "desc") not in ("asc", "desc"):
        return "sort_order must be 'asc' or 'desc'"
    for name in ("limit", "offset"):
        if name in query:
            try:
                number = int(query[name])
            except ValueError:
                return f"{name} must be an integer"
            if name == "limit" and number < 1:
                return "limit must be a positive integer"
    return None


def read_query(query: Mapping[str, str]) -> JobQuery:
    """The parameters of a list in which no fault was found."""
    return JobQuery(
        statuses=query.get("status", ",".join(STATUSES)).split(","),
        workflow_id=query.get("workflow_id"),
        by_duration=query.get("sort_by") == "execution_duration",
        ascending=query.get("sort_order") == "asc",
        offset=max(0, as_index(query.get("offset", "0"))),
        limit=as_index(query["limit"]) if "limit" in query else None,
    )


def _describe_ended(entry: HistoryEntry) -> bytes:
    job, found = json.loads(entry.job.content), json.loads(entry.content)
    _, _, prompt, extra_data, _ = found["prompt"]
    job |= {"outputs": found["outputs"], "execution_status": found["status"]}
    return encode_json({**job, "workflow": {"prompt": prompt, "extra_data": extra_data}})


def _describe_open(item: QueuedPrompt, status: Literal["pending", "in_progress"]) -> bytes:
    job = json.loads(open_job(item, status).content)
    _, _, prompt, extra_data, _ = json.loads(item.listed)
    return encode_json({**job, "workflow": {"prompt": prompt, "extra_data": extra_data}})
