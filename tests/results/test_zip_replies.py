"""ZIP files that are made while they are sent [8.3]: what cannot be had is said before the head, or
noticed by who takes it.
"""

import asyncio
import io
import zipfile
from collections.abc import AsyncIterator

import pytest
from starlette.types import Message, Scope

from comfyrail.api.files import ReadyStream
from comfyrail.clock import Instant
from comfyrail.errors import ComfyrailError, Gone, StoreUnavailable
from comfyrail.results.zip_stream import Member, TextBlob, zip_stream

SCOPE: Scope = {
    "type": "http",
    "method": "GET",
    "path": "/v1/outputs.zip",
    "query_string": b"",
    "headers": [],
    "asgi": {"spec_version": "2.4"},
}


async def reply_of(*members: Member | ComfyrailError) -> list[Message]:
    async def opened() -> AsyncIterator[Member]:
        for member in members:
            if isinstance(member, ComfyrailError):
                raise member
            yield member

    sent: list[Message] = []

    async def send(message: Message) -> None:
        sent.append(message)

    async def receive() -> Message:
        await asyncio.Event().wait()
        raise AssertionError

    await ReadyStream(zip_stream(opened()), "application/zip", {})(SCOPE, receive, send)
    return sent


def member(name: str) -> Member:
    return Member(name, Instant(1_700_000_000_000), TextBlob(name.encode()))


@pytest.mark.parametrize(
    ("error", "status"), [(StoreUnavailable("away"), 503), (Gone("all gone"), 410)]
)
async def test_what_cannot_be_had_at_all_has_its_own_status(
    error: ComfyrailError, status: int
) -> None:
    head, body = await reply_of(error)
    assert head["status"] == status
    assert error.message.encode() in body["body"]


async def test_reply_that_breaks_off_has_no_end() -> None:
    head, *parts = await reply_of(member("a.txt"), StoreUnavailable("away"))
    assert head["status"] == 200
    assert parts
    assert all(part["more_body"] for part in parts)


async def test_whole_reply_is_a_zip_file_with_names_of_their_own() -> None:
    head, *parts = await reply_of(member("a.txt"), member("a.txt"), member("b"))
    content = b"".join(part["body"] for part in parts)
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        assert archive.namelist() == ["a.txt", "a (2).txt", "b"]
    assert (head["status"], parts[-1]["more_body"]) == (200, False)


async def test_zip_file_without_members_is_one() -> None:
    _, *parts = await reply_of()
    with zipfile.ZipFile(io.BytesIO(b"".join(part["body"] for part in parts))) as archive:
        assert archive.namelist() == []
