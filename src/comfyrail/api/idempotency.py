"""The caller's own name for a request: the same request twice is done once [4.7].

Any POST may have one. The first answer is kept and given again, to the same user and only while she
may use the route; another request under the same name is refused, and so is the same one while the
first is under way. What was refused or failed leaves no trace: it may be tried again.

A submission is also remembered with its job, in one transaction: when the server dies between the
job and the answer, the same request finds that job.
"""

import hashlib
from collections.abc import Callable, Sequence
from typing import Any, Protocol

import structlog
from starlette.requests import Request
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from comfyrail.access.principal import Principal
from comfyrail.api.errors import error_response
from comfyrail.api.operations import Operation
from comfyrail.api.permission_check import check_permission
from comfyrail.errors import ComfyrailError, IdempotencyMismatch, MalformedRequest
from comfyrail.ids import TenantId
from comfyrail.jobs.job import IdempotencyKey, kept_key
from comfyrail.store.interface import KeptReply

log = structlog.get_logger(__name__)

HEADER = "idempotency-key"
REPLAYED = "Idempotent-Replayed"
LONGEST_KEY = 255
LONGEST_REPLY = 64 << 10
NOT_KEPT = {"date", "server", "content-length", "x-request-id", "set-cookie"}
SUCCESS = range(200, 300)

FindOperation = Callable[[str, str], Operation | None]
"""By method and path, as the framework would find the route."""


class Replies(Protocol):
    """The side of the store that is needed here."""

    async def claim_reply(self, tenant: TenantId, key: str, owner: str) -> KeptReply | None: ...

    async def save_reply(
        self, tenant: TenantId, key: str, owner: str, reply: KeptReply
    ) -> None: ...

    async def release_reply(self, tenant: TenantId, key: str, owner: str) -> None: ...


def idempotency_key(request: Request, content: bytes) -> IdempotencyKey | None:
    """The key of a submission, with what tells its body from another one."""
    key = request.headers.get(HEADER)
    if key is None:
        return None
    check_key(key)
    principal: Principal = request.scope["principal"]
    return IdempotencyKey(key, hashlib.sha256(content).hexdigest(), principal.user_id)


def check_key(key: str) -> None:
    if not key or len(key) > LONGEST_KEY or not key.isprintable():
        raise MalformedRequest(
            f"Idempotency-Key has 1 to {LONGEST_KEY} printable characters.",
            code="INVALID_IDEMPOTENCY_KEY",
        )


class IdempotentPosts:
    """Around all routes. Requests without a key, callers that nobody knows, and routes that are not
    there pass through; so do those that change nothing, once the key is seen to be one.
    """

    def __init__(self, app: ASGIApp, replies: Replies, find_operation: FindOperation) -> None:
        self._app = app
        self._replies = replies
        self._find_operation = find_operation

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        key = _key_in(scope)
        principal: Principal | None = scope.get("principal")
        operation = None if key is None else self._find_operation(scope["method"], scope["path"])
        if key is None or principal is None or operation is None:
            await self._app(scope, receive, send)
            return
        try:
            check_key(key)
        except ComfyrailError as error:
            await error_response(error, scope)(scope, receive, send)
            return
        if not operation.writes:
            await self._app(scope, receive, send)
            return
        request = _HashedRequest(scope, receive)
        kept_as = kept_key(principal.user_id, key)
        try:
            check_permission(scope, operation.permission)
            kept = await self._replies.claim_reply(principal.tenant, kept_as, scope["request_id"])
            if kept is not None and not await request.is_that_of(kept.fingerprint):
                raise IdempotencyMismatch(
                    "This Idempotency-Key was used for another request. Take a new one.",
                    details={"key": key},
                )
        except ComfyrailError as error:
            await error_response(error, scope)(scope, receive, send)
            return
        if kept is not None:
            await _replay(kept, send)
            return
        await self._run(scope, request, send, principal.tenant, kept_as)

    async def _run(
        self, scope: Scope, request: "_HashedRequest", send: Send, tenant: TenantId, key: str
    ) -> None:
        reply = _RecordedReply(send)
        owner = scope["request_id"]
        try:
            await self._app(scope, request.receive, reply.send)
            if not reply.can_be_kept:
                await self._replies.release_reply(tenant, key, owner)
        except BaseException:
            await self._replies.release_reply(tenant, key, owner)
            raise
        if reply.can_be_kept:
            kept = KeptReply(
                await request.fingerprint(), reply.status, reply.headers, bytes(reply.body)
            )
            try:
                await self._replies.save_reply(tenant, key, owner, kept)
            except ComfyrailError as error:  # it is done: the client must hear of that
                log.warning("reply_not_kept", error=error.message)
            await reply.release_end()


class _HashedRequest:
    """Passes a body on and remembers what it was: method, path, query, type and every byte."""

    def __init__(self, scope: Scope, receive: Receive) -> None:
        self._receive = receive
        self._digest = hashlib.sha256()
        self._size = 0
        self._is_over = False
        parts = (
            scope["method"].encode(),
            scope["path"].encode(),
            scope["query_string"],
            *(value for name, value in scope["headers"] if name == b"content-type"),
        )
        for part in parts:
            self._digest.update(len(part).to_bytes(4, "big") + part)

    async def receive(self) -> Message:
        message = await self._receive()
        if message["type"] == "http.request" and not self._is_over:
            content = message.get("body", b"")
            self._size += len(content)
            self._digest.update(content)
            self._is_over = not message.get("more_body", False)
        elif message["type"] == "http.disconnect":
            self._is_over = True
        return message

    async def fingerprint(self) -> str:
        """Reads what is left of the body."""
        while not self._is_over:
            await self.receive()
        return f"{self._size}:{self._digest.hexdigest()}"

    async def is_that_of(self, fingerprint: str) -> bool:
        """Reads no more of the body than the other one had."""
        size = int(fingerprint.partition(":")[0])
        while not self._is_over and self._size <= size:
            await self.receive()
        return self._size <= size and await self.fingerprint() == fingerprint


class _RecordedReply:
    """Passes an answer on and keeps it. The last part waits until it is kept: whoever has seen the
    whole answer finds it again.
    """

    def __init__(self, send: Send) -> None:
        self._send = send
        self._end: Message | None = None
        self.status = 0
        self.headers: Sequence[tuple[str, str]] = ()
        self.body = bytearray()
        self.can_be_kept = False

    async def send(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.status = message["status"]
            self.headers = _kept_headers(message)
            self.can_be_kept = self.status in SUCCESS and not _is_secret(self.headers)
        elif message["type"] == "http.response.body" and self.can_be_kept:
            self.body += message.get("body", b"")
            self.can_be_kept = len(self.body) <= LONGEST_REPLY
            if self.can_be_kept and not message.get("more_body", False):
                self._end = message
                return
        await self._send(message)

    async def release_end(self) -> None:
        if self._end is not None:
            await self._send(self._end)


async def _replay(kept: KeptReply, send: Send) -> None:
    headers = [(name.encode("latin-1"), value.encode("latin-1")) for name, value in kept.headers]
    headers.append((REPLAYED.lower().encode(), b"true"))
    headers.append((b"content-length", str(len(kept.body)).encode()))
    await send({"type": "http.response.start", "status": kept.status, "headers": headers})
    await send({"type": "http.response.body", "body": kept.body})


def _is_secret(headers: Sequence[tuple[str, str]]) -> bool:
    """A reply that is to be kept nowhere, such as a new API key: a second request is done anew."""
    return any(name == "cache-control" and "no-store" in value for name, value in headers)


def _kept_headers(message: Any) -> list[tuple[str, str]]:
    found = [
        (name.decode("latin-1").lower(), value.decode("latin-1"))
        for name, value in message["headers"]
    ]
    return [
        (name, value) for name, value in found if name not in NOT_KEPT and name != REPLAYED.lower()
    ]


def _key_in(scope: Scope) -> str | None:
    if scope["type"] != "http" or scope["method"] != "POST":
        return None
    for name, value in scope["headers"]:
        if name == b"idempotency-key":
            text: str = value.decode("latin-1")
            return text
    return None
