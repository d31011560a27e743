"""How schemathesis writes bodies that are no JSON."""

from typing import Any

import schemathesis


@schemathesis.serializer(
    "application/zip",
    "application/octet-stream",
    "application/offset+octet-stream",
    "image/png",
    "image/*",
    "*/*",
)
def as_bytes(_context: Any, value: Any) -> bytes:
    if isinstance(value, bytes):
        return value
    return str(value).encode("utf-8", "surrogatepass")
