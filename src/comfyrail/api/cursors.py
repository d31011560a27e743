"""Where a list goes on: a text that only the server makes, and knows again."""

import base64
import binascii
import hashlib
import uuid

from comfyrail.errors import MalformedRequest

LONGEST_CURSOR = 64
CHECK_BYTES = 8
ID_BYTES = 16


def write_cursor(last_id: str | None) -> str | None:
    """For the page behind an id; None where there is none."""
    if last_id is None:
        return None
    raw = uuid.UUID(last_id).bytes
    return base64.urlsafe_b64encode(raw + _check(raw)).decode()


def read_cursor(cursor: str | None) -> str | None:
    """The id. Raises MalformedRequest for what this server has not given out."""
    if not cursor:
        return None
    try:
        content = base64.b64decode(cursor, altchars=b"-_", validate=True)
    except (binascii.Error, ValueError):
        content = b""
    raw = content[:ID_BYTES]
    if len(content) != ID_BYTES + CHECK_BYTES or content[ID_BYTES:] != _check(raw):
        raise invalid_cursor()
    return str(uuid.UUID(bytes=raw))


def invalid_cursor() -> MalformedRequest:
    return MalformedRequest(
        "The cursor is none of this list. Take next_cursor from the page before, or leave it out "
        "to begin anew.",
        code="INVALID_CURSOR",
    )


def _check(raw: bytes) -> bytes:
    """Against mistakes, not against forgers: a cursor opens nothing that the list does not."""
    return hashlib.blake2s(raw, digest_size=CHECK_BYTES, person=b"cursor").digest()
