"""Around every request: its id, where it may come from, headers, and the last net for errors."""

import asyncio
import re
from functools import lru_cache
from ipaddress import ip_address
from urllib.parse import urlsplit

import structlog
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from comfyrail.access.principal import LOCAL_USER
from comfyrail.api.errors import broken_off, error_response, internal_error
from comfyrail.errors import ForbiddenOrigin
from comfyrail.ids import new_request_id

log = structlog.get_logger(__name__)

_REQUEST_ID = re.compile(r"[A-Za-z0-9._-]{1,64}")

SECURITY_HEADERS = (
    (b"x-content-type-options", b"nosniff"),
    (b"x-frame-options", b"DENY"),
    (b"referrer-policy", b"no-referrer"),
    (b"content-security-policy", b"default-src 'self'; style-src 'self' 'unsafe-inline'"),
)


class Guard:
    """Pure ASGI, so that streams pass through untouched."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] not in {"http", "websocket"}:
            await self._app(scope, receive, send)
            return
        host, origin, given = _origin_headers(scope)
        request_id = given if _REQUEST_ID.fullmatch(given) else new_request_id()
        scope["request_id"] = request_id
        scope["principal"] = LOCAL_USER
        reply = _Reply(send, request_id, is_begun=scope["type"] == "websocket")
        refusal = refuse_foreign(host, origin)
        if refusal is not None:
            await error_response(refusal, scope)(scope, receive, reply.send)
            return
        try:
            await self._app(scope, receive, reply.send)
            await reply.end_stream()
        except asyncio.CancelledError:
            # Only a server that stops does this, when it has waited long enough.
            if not reply.is_begun:
                await broken_off(scope)(scope, receive, reply.send)
            raise
        except Exception:
            log.exception("request_failed", request_id=request_id, path=scope["path"])
            if reply.is_begun:
                raise
            await internal_error(scope)(scope, receive, reply.send)


class _Reply:
    """Passes on what the app sends, with our headers. `is_begun`: no other can be given."""

    def __init__(self, send: Send, request_id: str, *, is_begun: bool) -> None:
        self._send = send
        self._headers = (*SECURITY_HEADERS, (b"x-request-id", request_id.encode()))
        self._is_open_stream = False
        self.is_begun = is_begun

    async def send(self, message: Message) -> None:
        if message["type"] in {"http.response.start", "websocket.http.response.start"}:
            self.is_begun = True
            self._is_open_stream = _is_event_stream(message)
            message["headers"] = [*message["headers"], *self._headers]
        elif self._is_open_stream:
            self._is_open_stream = bool(message.get("more_body"))
        await self._send(message)

    async def end_stream(self) -> None:
        """A server that stops breaks its streams off; they are to end as others do."""
        if self._is_open_stream:
            await self._send({"type": "http.response.body", "body": b""})


def _origin_headers(scope: Scope) -> tuple[str, str | None, str]:
    """Host, Origin and X-Request-ID, in one pass over the headers."""
    host, origin, request_id = "", None, ""
    for name, value in scope["headers"]:
        if name == b"host":
            host = value.decode("latin-1")
        elif name == b"origin":
            origin = value.decode("latin-1")
        elif name == b"x-request-id":
            request_id = value.decode("latin-1")
    return host, origin, request_id


def _is_event_stream(message: Message) -> bool:
    return any(
        name.lower() == b"content-type" and value.startswith(b"text/event-stream")
        for name, value in message["headers"]
    )


def refuse_foreign(host: str, origin: str | None) -> ForbiddenOrigin | None:
    """Access is off, so a page of some other site must not be able to act through the browser.

    A Host that is no loopback name is DNS rebinding; an Origin other than the Host is cross-site.
    """
    if not _is_loopback(host):
        return ForbiddenOrigin(
            f"This server answers on loopback addresses only, not as {host!r}.",
            code="FORBIDDEN_HOST",
        )
    if origin is not None and origin.lower().partition("://")[2] != host.lower():
        return ForbiddenOrigin(f"Requests from pages of {origin!r} are not allowed.")
    return None


@lru_cache(maxsize=64)
def _is_loopback(host: str) -> bool:
    try:
        name = urlsplit(f"//{host}").hostname or ""
    except ValueError:
        return False
    if name == "localhost" or name.endswith(".localhost"):
        return True
    try:
        return ip_address(name).is_loopback
    except ValueError:
        return False
