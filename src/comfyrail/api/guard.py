"""Around every request: its id, the gate, headers, and the last net for errors."""

import asyncio
import re
from urllib.parse import quote

import structlog
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from comfyrail.api.cors import Headers
from comfyrail.api.errors import UNKNOWN_CALLER, broken_off, error_response, internal_error
from comfyrail.api.gate import Gate
from comfyrail.api.rates import rate_headers
from comfyrail.api.request_head import RequestHead, read_head
from comfyrail.api.security_headers import security_headers
from comfyrail.api.timed_body import PATIENCE_SECONDS, TimedBody
from comfyrail.errors import ComfyrailError
from comfyrail.ids import new_request_id

log = structlog.get_logger(__name__)

LOGIN = "/login"
SEE_OTHER = 303
_REQUEST_ID = re.compile(r"[A-Za-z0-9._-]{1,64}")
_STARTS = {"http.response.start", "websocket.http.response.start"}


class Guard:
    """Pure ASGI, so that streams pass through untouched."""

    def __init__(self, app: ASGIApp, gate: Gate, patience: float = PATIENCE_SECONDS) -> None:
        """`patience`: seconds within which a body must come, or at least a good part of it."""
        self._app = app
        self._gate = gate
        self._patience = patience

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] not in {"http", "websocket"}:
            await self._app(scope, receive, send)
            return
        head = read_head(scope)
        given = head.request_id
        scope["request_id"] = given if _REQUEST_ID.fullmatch(given) else new_request_id()
        has_body = head.has_body and scope["type"] == "http"
        body = TimedBody(receive, self._patience) if has_body else None
        reply = _Reply(send, scope, self._gate.cors.headers(head.origin), body)
        if scope["type"] == "http" and scope["method"] == "GET":
            reply.offers_login = self._gate.has_login and head.wants_page
        if await self._admit(scope, head, receive, reply):
            await self._pass_on(scope, body.receive if body else receive, reply)

    async def _admit(
        self, scope: Scope, head: RequestHead, receive: Receive, reply: "_Reply"
    ) -> bool:
        try:
            answer = await self._gate.admit(scope, head)
        except ComfyrailError as error:
            answer = error_response(error, scope)
        except Exception:
            log.exception("gate_failed", request_id=scope["request_id"], path=scope["path"])
            answer = internal_error(scope)
        if answer is not None:
            await answer(scope, receive, reply.send)
        return answer is None

    async def _pass_on(self, scope: Scope, receive: Receive, reply: "_Reply") -> None:
        try:
            await self._app(scope, receive, reply.send)
            await reply.end_stream()
        except asyncio.CancelledError:
            # Only a server that stops does this, when it has waited long enough.
            if not reply.is_begun:
                await broken_off(scope)(scope, receive, reply.send)
            raise
        except Exception as error:
            if isinstance(error, ComfyrailError) and not reply.is_begun:
                await error_response(error, scope)(scope, receive, reply.send)
                return
            log.exception("request_failed", request_id=scope["request_id"], path=scope["path"])
            if reply.is_over:
                return  # whoever asked has been told, and may ask on by the same connection
            if reply.is_begun:
                raise
            await internal_error(scope)(scope, receive, reply.send)


class _Reply:
    """Passes on what the app sends, with our headers. `is_begun`: no other can be given; `is_over`:
    all of it was sent.

    `offers_login`: a person's browser asks, who is better served with a page than with an error.
    """

    def __init__(self, send: Send, scope: Scope, cors: Headers, body: TimedBody | None) -> None:
        self._send = send
        self._scope = scope
        self._cors = cors
        self._body = body
        self._is_open_stream = False
        self._is_replaced = False
        self.is_begun = scope["type"] == "websocket"
        self.is_over = False
        self.offers_login = False

    async def send(self, message: Message) -> None:
        if message["type"] in _STARTS:
            self.is_begun = True
            if self.offers_login and message["status"] == UNKNOWN_CALLER:
                await self._send_to_login()
                return
            self._is_open_stream = _is_event_stream(message)
            message["headers"] = [*message["headers"], *self._headers()]
        elif self._is_replaced:
            return
        elif self._is_open_stream:
            self._is_open_stream = bool(message.get("more_body"))
        await self._send(message)
        if message["type"] == "http.response.body":
            self.is_over = not message.get("more_body", False)

    async def end_stream(self) -> None:
        """A server that stops breaks its streams off; they are to end as others do."""
        if self._is_open_stream:
            await self._send({"type": "http.response.body", "body": b""})

    def _headers(self) -> Headers:
        headers = (
            *security_headers(self._scope),
            (b"x-request-id", self._scope["request_id"].encode()),
            *self._cors,
            *rate_headers(self._scope),
        )
        if self._body is not None and self._body.is_too_slow:
            return (*headers, (b"connection", b"close"))
        return headers

    async def _send_to_login(self) -> None:
        self._is_replaced = True
        query = self._scope["query_string"].decode("latin-1")
        wanted = self._scope["path"] + (f"?{query}" if query else "")
        location = f"{LOGIN}?next={quote(wanted, safe='')}".encode("ascii")
        headers = [(b"location", location), (b"content-length", b"0"), *self._headers()]
        await self._send({"type": "http.response.start", "status": SEE_OTHER, "headers": headers})
        await self._send({"type": "http.response.body", "body": b""})


def _is_event_stream(message: Message) -> bool:
    return any(
        name.lower() == b"content-type" and value.startswith(b"text/event-stream")
        for name, value in message["headers"]
    )
