"""Where a list goes on: a text that only the server makes, and knows again."""

import base64
import binascii
import hashlib
import struct
import uuid

from comfyrail.errors import MalformedRequest

LONGEST_CURSOR = 64
CHECK_BYTES = 8
ID_BYTES = 16
_PLACE = struct.Struct(">Bq16s")


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
    return str(uuid.UUID(bytes=_read(cursor, ID_BYTES)))


def write_place_cursor(stage: int, key: int, last_id: str) -> str:
    """For the page behind an id in a list whose entries change their places meanwhile."""
    raw = _PLACE.pack(stage, key, uuid.UUID(last_id).bytes)
    return base64.urlsafe_b64encode(raw + _check(raw)).decode()


def read_place_cursor(cursor: str | None) -> tuple[int, int, str] | None:
    """The same again. Raises MalformedRequest for what this server has not given out."""
    if not cursor:
        return None
    raw = _read(cursor, _PLACE.size)
    stage, key, last_id = _PLACE.unpack(raw)
    return stage, key, str(uuid.UUID(bytes=last_id))


def invalid_cursor() -> MalformedRequest:
    return MalformedRequest(
        "The cursor is none of this list. Take next_cursor from the page before, or leave it out "
        "to begin anew.",
        code="INVALID_CURSOR",
    )


def _read(cursor: str, size: int) -> bytes:
    try:
        content = base64.b64decode(cursor, altchars=b"-_", validate=True)
    except (binascii.Error, ValueError):
        content = b""
    raw = content[:size]
    if len(content) != size + CHECK_BYTES or content[size:] != _check(raw):
        raise invalid_cursor()
    return raw


def _check(raw: bytes) -> bytes:
    """Against mistakes, not against forgers: a cursor opens nothing that the list does not."""
    return hashlib.blake2s(raw, digest_size=CHECK_BYTES, person=b"cursor").digest()
