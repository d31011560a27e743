"""A job's log, as JSON or as plain text."""

from datetime import datetime

import msgspec
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response

from comfyrail.api.contract import moment
from comfyrail.api.messages import json_response
from comfyrail.api.services import principal_of, services_of
from comfyrail.ids import JobId
from comfyrail.usecases.logs import Level, LogLine, LogPage

MOST_LINES = 5000


class LogLineBody(msgspec.Struct, kw_only=True):
    """`number` and `event` are those of the event that it tells of."""

    number: int
    timestamp: datetime
    level: Level
    event: str
    message: str


class LogBody(msgspec.Struct, kw_only=True):
    execution_id: str
    lines: list[LogLineBody]
    next_after: int | None
    """Pass it back as `after` to go on; null at the end."""


async def send_log(request: Request, job_id: JobId, after: int, limit: int) -> Response:
    """Plain text for those who ask for that before anything else, else JSON."""
    page = await services_of(request).logs(principal_of(request), job_id, after, limit)
    headers = {"Vary": "Accept"}
    if not _wants_text(request.headers.get("accept", "")):
        return json_response(_body(job_id, page), 200, headers)
    if page.next_after is not None:
        link = f"{request.url.path}?after={page.next_after}&limit={limit}"
        headers["Link"] = f'<{link}>; rel="next"'
    return PlainTextResponse("".join(_text_of(line) for line in page.lines), headers=headers)


def _wants_text(accept: str) -> bool:
    for part in accept.split(","):
        kind = part.partition(";")[0].strip().lower()
        if kind in {"text/plain", "text/*"}:
            return True
        if kind in {"application/json", "application/*", "*/*"}:
            return False
    return False


def _body(job_id: JobId, page: LogPage) -> LogBody:
    return LogBody(
        execution_id=job_id,
        lines=[
            LogLineBody(
                number=line.number,
                timestamp=moment(line.at),
                level=line.level,
                event=line.event,
                message=line.message,
            )
            for line in page.lines
        ],
        next_after=page.next_after,
    )


def _text_of(line: LogLine) -> str:
    when = moment(line.at).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    return f"{when} {line.level:<7} {line.message}\n"
