"""Giving files to clients: with ranges and ETag, and so that a browser runs nothing in them."""

import re
from pathlib import Path

from fastapi.responses import FileResponse
from starlette.requests import Request
from starlette.responses import Response

from comfyrail.api.conditional import NOT_MODIFIED, is_known
from comfyrail.errors import MalformedRequest, RangeNotSatisfiable

MOST_RANGES = 20
SHOWN_INLINE = ("image/", "video/", "audio/")
NEVER_INLINE = {"image/svg+xml"}

_RANGES = re.compile(r"bytes=\s*(\d+-\d*|-\d+)(\s*,\s*(\d+-\d*|-\d+))*")


def file_response(
    request: Request, path: Path, *, filename: str, content_type: str, size: int, sha256: str
) -> Response:
    """The file itself. It never changes: its name is what it has in it."""
    is_inline = content_type.startswith(SHOWN_INLINE) and content_type not in NEVER_INLINE
    headers = {
        "ETag": f'"{sha256}"',
        "Cache-Control": "private, max-age=31536000, immutable",
    }
    if is_known(request.headers.get("if-none-match"), headers["ETag"]):
        return Response(status_code=NOT_MODIFIED, headers=headers)
    _check_range(request, size)
    return FileResponse(
        path,
        media_type=content_type if is_inline else "application/octet-stream",
        filename=filename,
        content_disposition_type="inline" if is_inline else "attachment",
        headers=headers,
    )


def _check_range(request: Request, size: int) -> None:
    """Refuse ranges that make no sense, in the shape that all errors have."""
    given = request.headers.get("range")
    if given is None:
        return
    if not _RANGES.fullmatch(given.strip()) or given.count(",") >= MOST_RANGES:
        raise MalformedRequest(f"The Range header {given[:80]!r} is not like bytes=0-99.")
    starts = [part.strip().partition("-")[0] for part in given.partition("=")[2].split(",")]
    if any(start and int(start) >= size for start in starts):
        raise RangeNotSatisfiable(
            f"The file has {size} bytes: the range is behind its end.", details={"size": size}
        )
