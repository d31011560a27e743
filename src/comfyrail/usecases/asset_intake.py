"""The way of an uploaded file's bytes: counted and judged while they pass."""

import codecs
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path

from comfyrail.errors import MalformedRequest, PayloadTooLarge, UnsupportedMediaType
from comfyrail.results.image_sizes import has_known_header, size_of_image
from comfyrail.sniffing import (
    ALLOWED_TYPES,
    HEAD_BYTES,
    Claims,
    judge,
)

PIXELS_TO_LIMIT = 4
"""An image that is given may have so many times the pixels of one that is made."""
TEXTS = frozenset({"text/plain", "application/json", "model/gltf+json"})


@dataclass(frozen=True, slots=True)
class UploadRules:
    """0 or None is no limit."""

    max_bytes: int = 2 << 30
    allowed_types: tuple[str, ...] = ALLOWED_TYPES
    retention_seconds: float = 0.0
    """How long a file is kept that does not say; 0: until it is deleted."""


class Intake:
    """Passes the chunks of one file on. `content_type` is there when all have passed."""

    def __init__(self, chunks: AsyncIterator[bytes], claims: Claims, rules: UploadRules) -> None:
        self._chunks = chunks
        self._claims = claims
        self._rules = rules
        self._decoder: codecs.IncrementalDecoder | None = None
        self.content_type = ""
        self.size = 0

    async def __aiter__(self) -> AsyncIterator[bytes]:
        head = bytearray()
        async for chunk in self._chunks:
            self.size += len(chunk)
            self._check_size()
            if self.content_type:
                self._follow_text(chunk)
                yield chunk
                continue
            head += chunk
            if len(head) >= HEAD_BYTES:
                self._decide(bytes(head), is_whole=False)
                yield bytes(head)
        if not self.size:
            raise empty_file(self._claims.name)
        if not self.content_type:
            self._decide(bytes(head), is_whole=True)
            yield bytes(head)

    def _check_size(self) -> None:
        limit = self._rules.max_bytes
        if limit and self.size > limit:
            raise file_too_large(self._claims.name, limit)

    def _decide(self, head: bytes, *, is_whole: bool) -> None:
        self.content_type = judge(head, self._claims, self._rules.allowed_types, is_whole=is_whole)
        if self.content_type in TEXTS and not is_whole:
            self._decoder = codecs.getincrementaldecoder("utf-8")()
            self._decoder.decode(head)

    def _follow_text(self, chunk: bytes) -> None:
        """What begins as a text is one to its end."""
        if self._decoder is None:
            return
        try:
            is_text = "\0" not in self._decoder.decode(chunk)
        except UnicodeDecodeError:
            is_text = False
        if not is_text:
            raise UnsupportedMediaType(
                f"'{self._claims.name}' begins as a text and goes on as something else.",
                code="CONTENT_TYPE_REFUSED",
                details={"name": self._claims.name, "detected": "application/octet-stream"},
            )


def check_picture(path: Path, content_type: str, name: str, max_pixels: int | None) -> None:
    """Raise where an image has no header that makes sense, or is far too large when unpacked."""
    if not content_type.startswith("image/"):
        return
    with path.open("rb") as file:
        size = size_of_image(content_type, file)
    if size is None or 0 in size:
        if has_known_header(content_type):
            raise UnsupportedMediaType(
                f"'{name}' begins like {content_type}, but its header is broken.",
                code="CONTENT_TYPE_REFUSED",
                details={"name": name, "detected": content_type},
            )
        return
    limit = (max_pixels or 0) * PIXELS_TO_LIMIT
    if limit and size[0] * size[1] > limit:
        raise PayloadTooLarge(
            f"'{name}' has {size[0]} x {size[1]} pixels; {limit:,} at most. Make it smaller.",
            code="IMAGE_TOO_LARGE",
            details={"name": name, "width": size[0], "height": size[1], "limit": limit},
        )


def empty_file(name: str) -> MalformedRequest:
    return MalformedRequest(f"'{name}' has no bytes.", code="EMPTY_FILE", details={"name": name})


def file_too_large(name: str, limit: int) -> PayloadTooLarge:
    return PayloadTooLarge(
        f"'{name}' has more than {limit:,} bytes, which is the limit of this server.",
        code="FILE_TOO_LARGE",
        details={"name": name, "limit": limit},
    )
