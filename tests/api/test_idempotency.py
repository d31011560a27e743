"""Requests with a name: done once, answered the same again."""

import asyncio
import re
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import msgspec
import pytest
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.types import Message, Receive, Scope, Send

from comfyrail.access.permissions import OF_USERS, Permission
from comfyrail.access.principal import LOCAL_USER, Principal
from comfyrail.api.idempotency import LONGEST_REPLY, REPLAYED, IdempotentPosts
from comfyrail.api.operations import Operation
from comfyrail.api.route_operations import RouteOperations
from comfyrail.api.surfaces import OPERATIONS, ROUTERS
from comfyrail.clock import Instant, SystemClock
from comfyrail.errors import Conflict, PayloadTooLarge, StoreUnavailable
from comfyrail.ids import TenantId, new_request_id
from comfyrail.store.interface import Store
from comfyrail.store.sqlite import document_operations, reply_operations
from comfyrail.store.sqlite.store import open_sqlite_store

OTHER = Principal(TenantId("other"), user_id="other")
HALF_A_DAY = 43_200_000


class SetClock(SystemClock):
    """Runs ahead as a test says."""

    ahead = 0

    def now(self) -> Instant:
        return Instant(super().now() + self.ahead)


@dataclass
class Reply:
    status: int = 0
    headers: dict[str, str] = field(default_factory=dict)
    body: bytes = b""

    @property
    def code(self) -> str:
        return str(msgspec.json.decode(self.body)["error"]["code"])


class App:
    """Counts what it does; answers as a test wants it."""

    def __init__(self) -> None:
        self.done = 0
        self.answer: Callable[[Request, bytes], Awaitable[Response]] = self.count

    async def count(self, _request: Request, content: bytes) -> Response:
        self.done += 1
        return JSONResponse(
            {"number": self.done, "got": len(content)}, 201, {"Location": f"/x/{self.done}"}
        )

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        request = Request(scope, receive)
        response = await self.answer(request, await request.body())
        await response(scope, receive, send)


class Door:
    def __init__(self, store: Store, app: App) -> None:
        self.app = app
        self._posts = IdempotentPosts(app, store, self._find)

    @staticmethod
    def _find(_method: str, path: str) -> Operation | None:
        """All are for those who may write jobs, but `/read` changes nothing."""
        if path == "/nowhere":
            return None
        return Operation(Permission.JOBS_WRITE, "", "", writes=path != "/read")

    async def post(
        self,
        key: str | None,
        *parts: bytes,
        principal: Principal | None = LOCAL_USER,
        path: str = "/a",
        method: str = "POST",
        kind: bytes = b"application/json",
    ) -> Reply:
        given = list(parts) or [b"{}"]
        reply = Reply()

        async def receive() -> Message:
            if not given:
                return {"type": "http.disconnect"}
            return {"type": "http.request", "body": given.pop(0), "more_body": bool(given)}

        async def send(message: Message) -> None:
            if message["type"] == "http.response.start":
                reply.status = message["status"]
                reply.headers = {
                    name.decode(): value.decode() for name, value in message["headers"]
                }
            else:
                reply.body += message.get("body", b"")

        headers = [] if key is None else [(b"idempotency-key", key.encode("latin-1"))]
        headers.append((b"content-type", kind))
        self.parts_left = given
        scope = {
            "type": "http",
            "method": method,
            "path": path,
            "query_string": b"",
            "headers": headers,
            "principal": principal,
            "request_id": new_request_id(),
        }
        await self._posts(scope, receive, send)
        return reply


@pytest.fixture
def clock() -> SetClock:
    return SetClock()


@pytest.fixture
async def store(tmp_path: Path, clock: SetClock) -> AsyncIterator[Store]:
    opened = await open_sqlite_store(tmp_path, clock)
    yield opened
    await opened.close()


@pytest.fixture
def door(store: Store) -> Door:
    return Door(store, App())


async def test_answer_is_given_again_only_to_one_who_may_use_the_route(door: Door) -> None:
    assert (await door.post("k", principal=replace(LOCAL_USER, permissions=OF_USERS))).status == 201
    reader = replace(LOCAL_USER, permissions=frozenset({Permission.JOBS_READ}))
    refused = await door.post("k", principal=reader)
    assert (refused.status, refused.code) == (403, "PERMISSION_MISSING")
    assert door.app.done == 1


async def test_users_of_a_tenant_do_not_get_each_others_answers(door: Door) -> None:
    await door.post("k", b"[1]")
    other = await door.post("k", b"[2]", principal=replace(LOCAL_USER, user_id="ben"))
    assert (other.status, door.app.done) == (201, 2)


async def test_body_that_is_longer_than_the_first_was_is_refused_before_its_end(
    door: Door,
) -> None:
    await door.post("k", b"[1]")
    refused = await door.post("k", b"[1]", b"more", *[b"and more"] * 50)
    assert (refused.status, refused.code) == (422, "IDEMPOTENCY_KEY_REUSED")
    assert len(door.parts_left) == 50


async def test_same_bytes_of_another_type_are_another_request(door: Door) -> None:
    await door.post("k", b"[1]")
    assert (await door.post("k", b"[1]", kind=b"text/plain")).status == 422


async def test_nothing_is_kept_of_routes_that_change_nothing_or_are_not_there(
    door: Door, store: Store
) -> None:
    for path in ("/read", "/nowhere"):
        for _ in range(2):
            assert REPLAYED.lower() not in (await door.post("k", path=path)).headers
    assert door.app.done == 4
    assert await store.claim_reply(LOCAL_USER.tenant, "local:k", "me") is None


async def test_tenant_keeps_its_newest_answers_only(
    door: Door, clock: SetClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reply_operations, "MOST_REPLIES", 3)
    await door.post("other tenant's", principal=OTHER)
    for number in range(5):
        clock.ahead += 10
        await door.post(f"k{number}")
    assert REPLAYED.lower() in (await door.post("k2")).headers
    assert REPLAYED.lower() in (await door.post("other tenant's", principal=OTHER)).headers
    assert REPLAYED.lower() not in (await door.post("k1")).headers


async def test_second_request_under_a_key_gets_the_first_answer(door: Door) -> None:
    first = await door.post("k", b"[1, ", b"2]")
    again = await door.post("k", b"[1, 2]")
    assert (first.status, door.app.done) == (201, 1)
    assert (again.status, again.body) == (first.status, first.body)
    assert again.headers["location"] == "/x/1"
    assert again.headers["idempotent-replayed"] == "true"
    assert "idempotent-replayed" not in first.headers


async def test_requests_without_a_key_and_reads_are_done_every_time(door: Door) -> None:
    for _ in range(2):
        await door.post(None)
        await door.post("k", method="GET")
    assert door.app.done == 4


async def test_other_body_or_path_under_a_key_is_refused(door: Door) -> None:
    await door.post("k", b"[1]")
    for reply in (await door.post("k", b"[2]"), await door.post("k", b"[1]", path="/b")):
        assert (reply.status, reply.code) == (422, "IDEMPOTENCY_KEY_REUSED")
    assert door.app.done == 1


async def test_key_of_one_tenant_is_free_for_another(door: Door) -> None:
    await door.post("k", b"[1]")
    assert (await door.post("k", b"[2]", principal=OTHER)).status == 201
    assert door.app.done == 2


async def test_key_of_a_request_that_is_under_way_is_refused(door: Door) -> None:
    begun, go_on = asyncio.Event(), asyncio.Event()

    async def wait(request: Request, content: bytes) -> Response:
        begun.set()
        await go_on.wait()
        return await door.app.count(request, content)

    door.app.answer = wait
    first = asyncio.create_task(door.post("k"))
    await begun.wait()
    reply = await door.post("k")
    assert (reply.status, reply.code) == (409, "IDEMPOTENCY_KEY_IN_USE")
    assert reply.headers["retry-after"] == "1"
    go_on.set()
    assert (await first).status == 201
    assert (await door.post("k")).headers["idempotent-replayed"] == "true"
    assert door.app.done == 1


async def test_refused_and_failed_requests_may_be_sent_again(door: Door) -> None:
    async def refuse(_request: Request, _content: bytes) -> Response:
        return JSONResponse({}, 422)

    async def fail(_request: Request, _content: bytes) -> Response:
        raise RuntimeError("broken")

    door.app.answer = refuse
    assert (await door.post("k", b"[1]")).status == 422
    door.app.answer = fail
    with pytest.raises(RuntimeError, match="broken"):
        await door.post("k", b"[2]")
    door.app.answer = door.app.count
    assert (await door.post("k", b"[3]")).status == 201


async def test_answer_that_is_too_long_to_keep_is_given_and_the_key_is_free(door: Door) -> None:
    async def ramble(_request: Request, _content: bytes) -> Response:
        async def parts() -> AsyncIterator[bytes]:
            for _ in range(3):
                yield b"x" * (LONGEST_REPLY // 2)

        return StreamingResponse(parts())

    door.app.answer = ramble
    for _ in range(2):
        reply = await door.post("k")
        assert (reply.status, len(reply.body)) == (200, 3 * (LONGEST_REPLY // 2))
        assert "idempotent-replayed" not in reply.headers


async def test_answer_that_cannot_be_kept_is_given_all_the_same(
    door: Door, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def refuse(*_arguments: Any) -> None:
        raise StoreUnavailable("the disk is full")

    monkeypatch.setattr(store, "save_reply", refuse)
    reply = await door.post("k")
    assert (reply.status, msgspec.json.decode(reply.body)["number"]) == (201, 1)


@pytest.mark.parametrize("key", ["", "k" * 256, "a\x7fb"])
@pytest.mark.parametrize("path", ["/a", "/read"])
async def test_key_that_is_none_is_refused(door: Door, path: str, key: str) -> None:
    reply = await door.post(key, path=path)
    assert (reply.status, reply.code) == (400, "INVALID_IDEMPOTENCY_KEY")
    assert door.app.done == 0


async def test_key_is_forgotten_after_a_day(door: Door, clock: SetClock) -> None:
    await door.post("k", b"[1]")
    clock.ahead = HALF_A_DAY
    assert (await door.post("k", b"[1]")).headers["idempotent-replayed"] == "true"
    clock.ahead = 2 * HALF_A_DAY + 1000
    assert (await door.post("k", b"[2]")).status == 201


async def test_key_of_a_request_that_died_with_its_server_is_free(tmp_path: Path) -> None:
    store = await open_sqlite_store(tmp_path, SystemClock())
    assert await store.claim_reply(LOCAL_USER.tenant, "k", "request-1") is None
    with pytest.raises(Conflict):
        await store.claim_reply(LOCAL_USER.tenant, "k", "request-2")
    await store.close()
    store = await open_sqlite_store(tmp_path, SystemClock())
    assert await store.claim_reply(LOCAL_USER.tenant, "k", "request-3") is None
    await store.close()


# Documents: small texts that surfaces keep


async def test_document_is_replaced_only_in_the_version_that_was_read(store: Store) -> None:
    put = store.put_document
    assert await put(LOCAL_USER.tenant, "runs", "a", b"1") == 1
    assert await put(LOCAL_USER.tenant, "runs", "a", b"2", version=1) == 2
    for wrong in (0, 1, 3):
        with pytest.raises(Conflict, match="version 2"):
            await put(LOCAL_USER.tenant, "runs", "a", b"3", version=wrong)
    found = await store.get_document(LOCAL_USER.tenant, "runs", "a")
    assert found is not None
    assert (found.content, found.version, found.size) == (b"2", 2, 1)


async def test_documents_are_listed_by_area_prefix_and_tenant(store: Store) -> None:
    for area, name in (("x", "b/1"), ("x", "a/2"), ("x", "a/1"), ("y", "a/3")):
        await store.put_document(LOCAL_USER.tenant, area, name, b"{}")
    names: Callable[[Any], list[str]] = lambda found: [each.name for each in found]  # noqa: E731 - short
    assert names(await store.list_documents(LOCAL_USER.tenant, "x")) == ["a/1", "a/2", "b/1"]
    assert names(await store.list_documents(LOCAL_USER.tenant, "x", "a/")) == ["a/1", "a/2"]
    assert names(await store.list_documents(LOCAL_USER.tenant, "x", "", "a/1", 1)) == ["a/2"]
    assert await store.list_documents(OTHER.tenant, "x") == []
    assert await store.delete_document(OTHER.tenant, "x", "a/1") is False
    assert await store.delete_document(LOCAL_USER.tenant, "x", "a/1") is True
    assert await store.get_document(LOCAL_USER.tenant, "x", "a/1") is None


async def test_tenant_cannot_fill_the_database_with_documents(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(document_operations, "MOST_BYTES", 10)
    await store.put_document(LOCAL_USER.tenant, "x", "a", b"12345678")
    with pytest.raises(PayloadTooLarge):
        await store.put_document(LOCAL_USER.tenant, "x", "b", b"1234")
    await store.put_document(LOCAL_USER.tenant, "x", "a", b"1234")
    await store.put_document(OTHER.tenant, "x", "b", b"12345678")


@pytest.mark.parametrize("path", sorted(path for method, path in OPERATIONS if method == "post"))
def test_operation_of_every_post_is_known_before_its_route_is_found(path: str) -> None:
    asked = re.sub(r"\{[^}]*\}", "x", path)
    found = RouteOperations(ROUTERS, OPERATIONS).find("POST", asked)
    assert found is not None
    assert found.permission is OPERATIONS["post", path].permission
