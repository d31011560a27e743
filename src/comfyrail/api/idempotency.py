"""The caller's own name for a request: the same request twice is done once [4.7]."""

import hashlib

from starlette.requests import Request

from comfyrail.errors import MalformedRequest
from comfyrail.jobs.job import IdempotencyKey

HEADER = "idempotency-key"
REPLAYED = "Idempotent-Replayed"
LONGEST_KEY = 255


def idempotency_key(request: Request, content: bytes) -> IdempotencyKey | None:
    """The key of the request's header, with what tells its body from another one."""
    key = request.headers.get(HEADER)
    if key is None:
        return None
    if not key or len(key) > LONGEST_KEY or not key.isprintable():
        raise MalformedRequest(
            f"Idempotency-Key has 1 to {LONGEST_KEY} printable characters.",
            code="INVALID_IDEMPOTENCY_KEY",
        )
    return IdempotencyKey(key, hashlib.sha256(content).hexdigest())
