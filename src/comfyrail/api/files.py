"""Giving files to clients: with ranges and ETag, and so that a browser runs nothing in them."""

import asyncio
import os
import re
from pathlib import Path

from fastapi.responses import FileResponse
from starlette.datastructures import Headers
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from comfyrail.api.conditional import NOT_MODIFIED, is_known
from comfyrail.api.errors import error_response
from comfyrail.errors import ComfyrailError, MalformedRequest, NotFound, RangeNotSatisfiable

MOST_RANGES = 20
MOST_DIGITS = 18
SHOWN_INLINE = ("image/", "video/", "audio/")
NEVER_INLINE = {"image/svg+xml"}
FOREVER = "private, max-age=31536000, immutable"
"""Of a file that never changes: its name is what it has in it."""

_RANGE = rf"\d{{1,{MOST_DIGITS}}}-\d{{0,{MOST_DIGITS}}}|-\d{{1,{MOST_DIGITS}}}"
_RANGES = re.compile(rf"\s*({_RANGE})(\s*,\s*({_RANGE}))*\s*")


def file_response(
    request: Request,
    path: Path,
    *,
    filename: str,
    content_type: str,
    sha256: str,
    caching: str = FOREVER,
) -> Response:
    """The file itself."""
    is_inline = content_type.startswith(SHOWN_INLINE) and content_type not in NEVER_INLINE
    headers = {"ETag": f'"{sha256}"', "Cache-Control": caching}
    if is_known(request.headers.get("if-none-match"), headers["ETag"]):
        return Response(status_code=NOT_MODIFIED, headers=headers)
    return RangedFile(
        path,
        media_type=content_type if is_inline else "application/octet-stream",
        filename=filename,
        content_disposition_type="inline" if is_inline else "attachment",
        headers=headers,
    )


class RangedFile(FileResponse):
    """A file, or the ranges of it that are asked for. What is wrong with them is said in the shape
    that all errors have.
    """

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            self.stat_result = await asyncio.to_thread(os.stat, self.path)
            self.set_stat_headers(self.stat_result)
            ranges = self._wanted(Headers(scope=scope), self.stat_result.st_size)
        except FileNotFoundError:
            gone = NotFound("The file is gone.", code="FILE_NOT_FOUND")
            await error_response(gone, scope)(scope, receive, send)
            return
        except ComfyrailError as error:
            await error_response(error, scope)(scope, receive, send)
            return
        headers = [pair for pair in scope["headers"] if pair[0] not in {b"range", b"if-range"}]
        if ranges:
            headers.append((b"range", f"bytes={ranges}".encode()))
        await super().__call__({**scope, "headers": headers}, receive, send)

    def _wanted(self, asked: Headers, size: int) -> str:
        """Those that can be given; none: the whole file."""
        given = asked.get("range")
        other = asked.get("if-range")
        if given is None or (other is not None and other != self.headers.get("etag")):
            return ""
        return satisfiable(given, size)


def satisfiable(given: str, size: int) -> str:
    """The ranges of a Range header that a file of this size has, without their unit. Empty: the
    header is to be passed over, as one of another unit, or with an end before its beginning.
    """
    unit, _, ranges = given.partition("=")
    if unit.strip().lower() != "bytes":
        return ""
    if not _RANGES.fullmatch(ranges) or ranges.count(",") >= MOST_RANGES:
        raise MalformedRequest(f"The Range header {given[:80]!r} is not like bytes=0-99.")
    found = []
    for part in ranges.split(","):
        first, _, last = part.strip().partition("-")
        if first and last and int(last) < int(first):
            return ""
        if int(first) < size if first else min(int(last), size) > 0:
            found.append(part.strip())
    if not found:
        raise RangeNotSatisfiable(
            f"The file has {size} bytes: the range is behind its end.", details={"size": size}
        )
    return ",".join(found)
