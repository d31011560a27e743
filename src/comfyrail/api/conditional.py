"""Statuses that are sent only when they have changed: ETag, If-None-Match and long polls."""

import re
import zlib
from collections.abc import Callable
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from comfyrail.api.messages import json_response
from comfyrail.api.preferences import whole_number
from comfyrail.api.services import principal_of, services_of
from comfyrail.api.waiting import wait_for
from comfyrail.ids import JobId
from comfyrail.usecases.jobs import JobStatus

LONGEST_POLL_SECONDS = 60
MOST_EVENTS = 10**15 - 1
NOT_MODIFIED = 304

_TAGS = re.compile(r'(?:W/)?("[^"]*")')


def tag_of(status: JobStatus) -> str:
    """Another one with every event, when a queued job's place or obstacle changes, and when more is
    known of its files. What is merely worked out anew with every look, such as the seconds left, is
    not in it.
    """
    job = status.job
    looked_at = sum(each.state != "waiting" for each in status.media.values())
    seen = f"{job.id}/{job.state}/{status.queue_position}/{status.waiting_for}/{looked_at}"
    return f'"{job.last_event}-{zlib.crc32(seen.encode()):08x}"'


def is_known(given: str | None, tag: str) -> bool:
    """Whether an If-None-Match names the tag."""
    if given is None:
        return False
    return given.strip() == "*" or tag in _TAGS.findall(given)


async def answer_status(
    request: Request, job_id: JobId, body: Callable[[JobStatus], Any]
) -> Response:
    """The status, or 304 where the client has it. With `wait` it comes at the next change."""
    known = request.headers.get("if-none-match")
    query = request.query_params if request.scope["query_string"] else {}
    seconds = whole_number(query.get("wait", "0"), "wait", LONGEST_POLL_SECONDS)
    after = whole_number(query["after"], "after", MOST_EVENTS) if "after" in query else None
    jobs, principal = services_of(request).jobs, principal_of(request)
    status = await jobs.status(principal, job_id)
    has_it = is_known(known, tag_of(status))
    if after is None and has_it:
        after = status.job.last_event
    if seconds and after is not None:
        status = await wait_for(request, job_id, seconds, after) or status
        has_it = is_known(known, tag_of(status))
    return tagged(body(status), tag_of(status), is_known=has_it)


def tagged(body: Any, tag: str, *, is_known: bool) -> Response:
    headers = {"ETag": tag, "Cache-Control": "private, no-cache"}
    if is_known:
        return Response(status_code=NOT_MODIFIED, headers=headers)
    return json_response(body, 200, headers)
