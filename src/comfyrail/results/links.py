"""Links to files that anybody may follow until they expire [8.3]: signed by the server."""

import base64
import binascii
import hashlib
import hmac
from urllib.parse import quote

import msgspec

from comfyrail.clock import Instant
from comfyrail.errors import Forbidden
from comfyrail.ids import JobId, OutputId, TenantId

FILES = "/v1/files"
LONGEST_LINK_SECONDS = 7 * 86_400.0
LONGEST_TOKEN = 700
SIGNATURE_BYTES = 32
PURPOSE = b"comfyrail file link 1\n"


class FileLink(msgspec.Struct, frozen=True, array_like=True):
    """What a link opens: one output, or one of its variants."""

    tenant: TenantId
    job_id: JobId
    output_id: OutputId
    expires_at: Instant
    variant: str | None = None
    is_download: bool = False
    """The browser saves it instead of showing it."""


_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(FileLink).decode


class LinkSigner:
    def __init__(self, secret: bytes) -> None:
        self._secret = secret

    def sign(self, link: FileLink) -> str:
        """A text for URLs, which opens what the link says."""
        content = _encode(link)
        return f"{_text(content)}.{_text(self._signature(content))}"

    def read(self, token: str, now: Instant) -> FileLink:
        """Raises Forbidden for what this server has not signed, and for what has expired."""
        content, _, signature = token.partition(".")
        try:
            given, raw = _bytes(signature), _bytes(content)
        except (binascii.Error, ValueError):
            raise _not_signed() from None
        if len(token) > LONGEST_TOKEN or not hmac.compare_digest(given, self._signature(raw)):
            raise _not_signed()
        link = _decode(raw)
        if link.expires_at <= now:
            raise Forbidden("The link has expired. Ask for a new one.", code="LINK_EXPIRED")
        return link

    def _signature(self, content: bytes) -> bytes:
        return hmac.digest(self._secret, PURPOSE + content, hashlib.sha256)


def link_path(token: str, filename: str) -> str:
    """Where the server answers to a link. The name is only for those who save the file."""
    return f"{FILES}/{token}/{quote(filename, safe='')}"


def _not_signed() -> Forbidden:
    return Forbidden(
        "The link is not one of this server's, or part of it is missing.", code="INVALID_LINK"
    )


def _text(content: bytes) -> str:
    return base64.urlsafe_b64encode(content).rstrip(b"=").decode()


def _bytes(text: str) -> bytes:
    content = base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True)
    if _text(content) != text:
        raise ValueError("not the shortest form")
    return content
