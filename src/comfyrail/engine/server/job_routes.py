"""/api/jobs: what waits, runs and has ended, in one list."""

from collections.abc import Iterable
from typing import Any

from aiohttp import web

from comfyrail.engine.server.prompt_queue import QueuedPrompt
from comfyrail.engine.server.replies import json_reply
from comfyrail.engine.server.worker import Worker

STATUSES = ("pending", "in_progress", "completed", "failed")

Job = dict[str, Any]


class JobRoutes:
    def __init__(self, worker: Worker) -> None:
        self._worker = worker

    def table(self) -> list[web.RouteDef]:
        """The path has the prefix in it, so that there is no /jobs, as in ComfyUI."""
        return [
            web.get("/api/jobs", self.show_jobs),
            web.get("/api/jobs/{job_id}", self.show_job),
        ]

    async def show_jobs(self, request: web.Request) -> web.Response:
        query = request.query
        fault = find_fault(query)
        if fault is not None:
            return json_reply({"error": fault}, 400)
        wanted = query.get("status", ",".join(STATUSES)).split(",")
        workflow_id = query.get("workflow_id")
        jobs = [
            job
            for job in self._all_jobs()
            if job["status"] in wanted and workflow_id in (None, job.get("workflow_id"))
        ]
        jobs.sort(key=_sort_key(query.get("sort_by")), reverse=query.get("sort_order") != "asc")
        offset = max(0, int(query.get("offset", 0)))
        limit = int(query["limit"]) if "limit" in query else None
        page = jobs[offset:] if limit is None else jobs[offset : offset + limit]
        pagination = {
            "offset": offset,
            "limit": limit,
            "total": len(jobs),
            "has_more": offset + len(page) < len(jobs),
        }
        return json_reply({"jobs": page, "pagination": pagination})

    async def show_job(self, request: web.Request) -> web.Response:
        job_id = request.match_info["job_id"]
        entry = self._worker.history.get(job_id)
        if entry is not None:
            job = ended_job(entry)
            job |= {"outputs": entry["outputs"], "execution_status": entry["status"]}
            job["workflow"] = {"prompt": entry["prompt"][2], "extra_data": entry["prompt"][3]}
            return json_reply(job)
        for job, item in self._open_jobs():
            if item.prompt_id == job_id:
                workflow = {"prompt": item.prompt, "extra_data": item.extra_data}
                return json_reply({**job, "workflow": workflow})
        return json_reply({"error": "Job not found"}, 404)

    def _all_jobs(self) -> Iterable[Job]:
        for job, _ in self._open_jobs():
            yield job
        for entry in self._worker.history.page().values():
            yield ended_job(entry)

    def _open_jobs(self) -> Iterable[tuple[Job, QueuedPrompt]]:
        running = self._worker.running
        if running is not None:
            yield _job(running.as_list(), "in_progress"), running
        for item in self._worker.queue.in_order():
            yield _job(item.as_list(), "pending"), item


def find_fault(query: Any) -> str | None:
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


def ended_job(entry: dict[str, Any]) -> Job:
    """A job of the list, from an entry of the history."""
    succeeded = entry["status"]["completed"]
    job = _job(entry["prompt"], "completed" if succeeded else "failed")
    times = [data["timestamp"] for _, data in entry["status"]["messages"]]
    if times:
        job |= {"execution_start_time": times[0], "execution_end_time": times[-1]}
    last_kind, last_data = entry["status"]["messages"][-1]
    if last_kind == "execution_error":
        job["execution_error"] = last_data
    files = list(_files_of(entry["outputs"]))
    job["outputs_count"] = len(files)
    if files:
        job["preview_output"] = files[0]
    return job


def _job(prompt: list[Any], status: str) -> Job:
    number, prompt_id, _, extra_data, _ = prompt
    job = {
        "id": prompt_id,
        "status": status,
        "priority": number,
        "create_time": extra_data["create_time"],
        "outputs_count": 0,
    }
    workflow = (extra_data.get("extra_pnginfo") or {}).get("workflow") or {}
    if isinstance(workflow, dict) and workflow.get("id") is not None:
        job["workflow_id"] = workflow["id"]
    return job


def _files_of(outputs: dict[str, Any]) -> Iterable[Job]:
    for node_id, ui in outputs.items():
        for media, items in ui.items():
            for item in items:
                if isinstance(item, dict) and "filename" in item:
                    yield {**item, "nodeId": node_id, "mediaType": media}


def _sort_key(sort_by: str | None) -> Any:
    if sort_by == "execution_duration":
        return lambda job: job.get("execution_end_time", 0) - job.get("execution_start_time", 0)
    return lambda job: job["create_time"]
