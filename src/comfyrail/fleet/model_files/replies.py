"""What a server's answer to a request for a file, or for the rest of one, means. Pure."""

import re
from collections.abc import Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime

_CONTENT_RANGE = re.compile(r"bytes (\d{1,18})-(\d{1,18})/(\d{1,18}|\*)")


def first_byte(headers: Mapping[str, str]) -> int | None:
    """Where a partial reply begins, or None where it does not say."""
    found = _CONTENT_RANGE.fullmatch(headers.get("Content-Range", "").strip())
    return int(found[1]) if found else None


def announced_size(headers: Mapping[str, str], *, partial: bool) -> int | None:
    """The size of the whole file as the reply says it."""
    if partial:
        found = _CONTENT_RANGE.fullmatch(headers.get("Content-Range", "").strip())
        return int(found[3]) if found and found[3] != "*" else None
    length = headers.get("Content-Length", "")
    return int(length) if length.isascii() and length.isdigit() and len(length) < 19 else None


def validator_of(headers: Mapping[str, str]) -> str:
    """What `If-Range` may carry: a strong ETag, else the date of the last change, else nothing."""
    tag = headers.get("ETag", "")
    if tag.startswith('"') and len(tag) <= 1024:
        return tag
    date = headers.get("Last-Modified", "")
    return date if len(date) <= 64 else ""


def is_encoded(headers: Mapping[str, str]) -> bool:
    """Whether the bytes are not those of the file: offsets would be of something else."""
    return headers.get("Content-Encoding", "identity").strip().lower() not in {"", "identity"}


def retry_after(headers: Mapping[str, str], now: datetime | None = None) -> float | None:
    """Seconds that the server asks to wait; never negative."""
    text = headers.get("Retry-After", "").strip()
    if text.isascii() and text.isdigit() and len(text) < 10:
        return float(text)
    try:
        when = parsedate_to_datetime(text)
    except ValueError:
        return None
    if when.tzinfo is None:
        when = when.replace(tzinfo=UTC)
    return max(0.0, (when - (now or datetime.now(UTC))).total_seconds())
