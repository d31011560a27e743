"""Downloads [8.3]: ranges, ETag and what a client sees when the storage goes away, from a disk and
from a real S3 server.
"""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass
from email.parser import BytesParser
from pathlib import Path
from typing import Any

import pytest
from starlette.requests import Request
from starlette.types import Message, Scope

from comfyrail.api.files import file_response
from comfyrail.errors import OutputNotFound, StoreUnavailable
from comfyrail.results.blob_store import BlobReads, OpenBlob
from comfyrail.results.disk_blobs import DiskBlobStore
from tests.results.parts import content_of, in_pieces

CONTENT = content_of((5 << 20) + 3)
SIZE = len(CONTENT)
TAG = '"' + "a" * 64 + '"'


@dataclass(slots=True)
class Reply:
    status: int
    headers: dict[str, str]
    body: bytes
    is_whole: bool


@pytest.fixture(params=["disk", "s3"])
async def blob(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[OpenBlob]:
    if request.param == "disk":
        blobs: Any = DiskBlobStore(tmp_path)
    else:
        blobs = request.getfixturevalue("bucket").store(tmp_path)
    yield await kept(blobs)
    await blobs.close()


async def kept(blobs: Any) -> OpenBlob:
    reads: BlobReads = blobs
    return await reads.open((await blobs.save(in_pieces(CONTENT))).key)


async def ask(blob: OpenBlob, method: str = "GET", **headers: str) -> Reply:
    sent: list[Message] = []

    async def send(message: Message) -> None:
        sent.append(message)

    async def receive() -> Message:
        await asyncio.Event().wait()
        raise AssertionError

    scope = _scope(method, headers)
    response = file_response(
        Request(scope), blob, filename="a.png", content_type="image/png", sha256="a" * 64
    )
    await response(scope, receive, send)
    head, *parts = sent
    return Reply(
        head["status"],
        {name.decode(): value.decode() for name, value in head["headers"]},
        b"".join(part["body"] for part in parts),
        bool(parts) and not parts[-1].get("more_body", False),
    )


def _scope(method: str, headers: dict[str, str]) -> Scope:
    raw = [
        (name.lower().replace("_", "-").encode(), value.encode()) for name, value in headers.items()
    ]
    return {
        "type": "http",
        "method": method,
        "path": "/v1/outputs/x",
        "query_string": b"",
        "headers": raw,
        "asgi": {"spec_version": "2.3"},
    }


async def test_whole_file_says_how_long_it_is_and_what_it_is(blob: OpenBlob) -> None:
    reply = await ask(blob)
    assert (reply.status, reply.body, reply.is_whole) == (200, CONTENT, True)
    assert reply.headers["content-length"] == str(SIZE)
    assert reply.headers["etag"] == TAG
    assert reply.headers["accept-ranges"] == "bytes"
    assert reply.headers["content-type"] == "image/png"
    assert reply.headers["content-disposition"] == 'inline; filename="a.png"'


@pytest.mark.parametrize(
    ("given", "start", "stop"),
    [
        ("bytes=0-0", 0, 1),
        ("bytes=5-", 5, SIZE),
        ("bytes=-7", SIZE - 7, SIZE),
        (f"bytes={SIZE - 1}-{SIZE + 5}", SIZE - 1, SIZE),
        ("bytes=-99999999999", 0, SIZE),
        ("bytes=0-9,5-20,21-30", 0, 31),
        ("bytes=,0-0, ,", 0, 1),
        (f"BYTES = 2097150-2097155 , {SIZE}-", 2097150, 2097156),
    ],
    ids=["first", "from", "last", "over", "all", "touching", "gaps", "one-behind"],
)
async def test_range_is_given_as_asked(blob: OpenBlob, given: str, start: int, stop: int) -> None:
    reply = await ask(blob, Range=given)
    assert (reply.status, reply.body) == (206, CONTENT[start:stop])
    assert reply.headers["content-range"] == f"bytes {start}-{stop - 1}/{SIZE}"
    assert reply.headers["content-length"] == str(stop - start)


async def test_several_ranges_come_as_parts_of_one_reply(blob: OpenBlob) -> None:
    reply = await ask(blob, Range="bytes=100-199,0-9,-5")
    assert reply.status == 206
    assert reply.headers["content-length"] == str(len(reply.body))
    head = f"Content-Type: {reply.headers['content-type']}\r\n\r\n".encode()
    message = BytesParser().parsebytes(head + reply.body)
    spans = [(0, 10), (100, 200), (SIZE - 5, SIZE)]
    assert [part["Content-Range"] for part in message.walk() if not part.is_multipart()] == [
        f"bytes {start}-{stop - 1}/{SIZE}" for start, stop in spans
    ]
    for start, stop in spans:
        assert b"\r\n\r\n" + CONTENT[start:stop] + b"\r\n--" in reply.body


@pytest.mark.parametrize(
    ("given", "status"),
    [
        (f"bytes={SIZE}-", 416),
        ("bytes=-0", 416),
        ("bytes=a-b", 200),
        ("bytes=\u0663-", 200),
        ("bytes=", 200),
        ("bytes=,", 200),
        ("bytes=" + ",".join(["0-1"] * 21), 200),
        ("bytes=" + "9" * 19 + "-", 200),
        ("bytes=9-5", 200),
        ("lines=1-2", 200),
    ],
    ids=[
        "behind",
        "none",
        "letters",
        "digits",
        "empty",
        "comma",
        "many",
        "huge",
        "backwards",
        "unit",
    ],
)
async def test_range_that_makes_no_sense_is_told_or_passed_over(
    blob: OpenBlob, given: str, status: int
) -> None:
    reply = await ask(blob, Range=given)
    assert reply.status == status
    if status == 416:
        assert reply.headers["content-range"] == f"bytes */{SIZE}"
    elif status == 200:
        assert len(reply.body) == SIZE


async def test_range_of_another_version_gives_the_whole_file(blob: OpenBlob) -> None:
    assert (await ask(blob, Range="bytes=1-2", If_Range=TAG)).status == 206
    assert (await ask(blob, Range="bytes=1-2", If_Range='"other"')).status == 200
    assert (await ask(blob, Range="bytes=1-2", If_Range=f"W/{TAG}")).status == 200


async def test_file_that_is_known_is_not_sent_again(blob: OpenBlob) -> None:
    for known in (TAG, f"W/{TAG}", f'"other", {TAG}', "*"):
        reply = await ask(blob, If_None_Match=known)
        assert (reply.status, reply.body) == (304, b"")


async def test_head_is_that_of_the_reply_without_its_bytes(blob: OpenBlob) -> None:
    for headers in ({}, {"Range": "bytes=5-9"}):
        reply, head = await ask(blob, **headers), await ask(blob, "HEAD", **headers)
        assert (head.status, head.headers, head.body) == (reply.status, reply.headers, b"")


async def test_file_without_bytes_is_served(tmp_path: Path) -> None:
    blobs = DiskBlobStore(tmp_path)
    empty = await blobs.open((await blobs.save(in_pieces(b""))).key)
    assert (await ask(empty)).body == b""
    assert (await ask(empty)).headers["content-length"] == "0"
    assert (await ask(empty, Range="bytes=0-")).status == 416


class Failing:
    """A blob of which only so much can be had."""

    path = None
    size = SIZE

    def __init__(self, chunks: int, error: Exception) -> None:
        self._chunks = chunks
        self._error = error
        self.given = 0
        self.is_closed = False

    async def chunks(self, start: int = 0, stop: int | None = None) -> AsyncIterator[bytes]:
        del start, stop
        try:
            for _ in range(self._chunks):
                self.given += 1
                yield b"x" * 1000
            raise self._error
        finally:
            self.is_closed = True


async def test_what_cannot_be_had_at_all_is_an_error_in_its_shape() -> None:
    for error, status in ((OutputNotFound("gone"), 404), (StoreUnavailable("down"), 503)):
        reply = await ask(Failing(0, error))
        assert reply.status == status
        assert b'"code"' in reply.body


async def test_reply_that_breaks_off_is_never_taken_for_a_whole_one() -> None:
    reply = await ask(Failing(3, StoreUnavailable("down")))
    assert (reply.status, len(reply.body), reply.is_whole) == (200, 3000, False)


async def test_reading_stops_when_the_client_has_gone() -> None:
    blob = Failing(10_000_000, StoreUnavailable("never"))
    sent = 0
    is_gone = asyncio.Event()

    async def send(_message: Message) -> None:
        nonlocal sent
        sent += 1
        if sent == 20:
            is_gone.set()
        await asyncio.sleep(0)

    async def receive() -> Message:
        await is_gone.wait()
        return {"type": "http.disconnect"}

    scope = _scope("GET", {})
    response = file_response(
        Request(scope), blob, filename="a.png", content_type="image/png", sha256="a" * 64
    )
    await asyncio.wait_for(response(scope, receive, send), 10)
    assert blob.given < 100
    async with asyncio.timeout(10):
        while not blob.is_closed:  # noqa: ASYNC110 - a generator ends in the loop's own time
            await asyncio.sleep(0)
