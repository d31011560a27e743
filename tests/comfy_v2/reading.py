"""Talking the Comfy API v2 by hand."""

import json
from collections.abc import Callable
from typing import Any
from urllib.request import Request, urlopen

from tests.comfy_v2 import shapes
from tests.processes import Comfyrail, wait_until

JOBS = "/api/v2/jobs"
ASSETS = "/api/v2/assets"
ENDS = ("succeeded", "canceled", "failed", "expired")
EVENT_SHAPES = {
    "progress": shapes.PROGRESS,
    "output": shapes.OUTPUT,
    "preview": shapes.PREVIEW_EVENT,
    "log": shapes.LOG_EVENT,
}

Frame = tuple[str, int | None, dict[str, Any]]
"""Name, id, data."""


def submit(server: Comfyrail, workflow: Any, **fields: Any) -> dict[str, Any]:
    status, body = server.call("POST", JOBS, {"workflow": workflow, **fields})
    assert status == 201, body
    return dict(shapes.check(body, shapes.JOB))


def show(server: Comfyrail, job_id: str) -> dict[str, Any]:
    status, body = server.call("GET", f"{JOBS}/{job_id}")
    assert status == 200, body
    return dict(shapes.check(body, shapes.JOB))


def until(server: Comfyrail, job_id: str, *statuses: str) -> dict[str, Any]:
    wanted = statuses or ENDS

    def look() -> dict[str, Any] | None:
        job = show(server, job_id)
        assert job["status"] in wanted or job["status"] not in ENDS, job
        return job if job["status"] in wanted else None

    found = wait_until(look, limit=30)
    assert found is not None
    return found


def stream(
    server: Comfyrail,
    job_id: str,
    after: int | None = None,
    told: Callable[[Frame], None] = lambda _frame: None,
) -> list[Frame]:
    """Every event until the stream ends, each of the shape that its name asks for."""
    headers = {} if after is None else {"Last-Event-ID": str(after)}
    request = Request(f"{server.url}{JOBS}/{job_id}/events", headers=headers)
    frames: list[Frame] = []
    block: list[str] = []
    with urlopen(request, timeout=60) as reply:
        assert reply.headers["content-type"].startswith("text/event-stream")
        for raw in reply:
            line = raw.decode().rstrip("\r\n")
            if line and not line.startswith(":"):
                block.append(line)
            elif block and not line:
                frames.append(_frame(block))
                told(frames[-1])
                block = []
    return frames


def _frame(block: list[str]) -> Frame:
    fields = dict(line.split(": ", 1) for line in block)
    data = json.loads(fields["data"])
    name = fields["event"]
    if name == "status":
        is_last = data["status"] in ENDS
        shapes.check(data, shapes.LAST_STATUS_EVENT if is_last else shapes.STATUS_EVENT)
    else:
        shapes.check(data, EVENT_SHAPES[name])
    return name, int(fields["id"]) if "id" in fields else None, data
