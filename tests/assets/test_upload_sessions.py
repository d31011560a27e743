"""Uploads in parts go on after a break of the line, of the client and of the server [10.8]."""

import asyncio
import errno
import hashlib
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from comfyrail.errors import (
    ComfyrailError,
    Conflict,
    MalformedRequest,
    NotFound,
    PayloadTooLarge,
    RequestError,
    StorageFull,
)
from comfyrail.usecases.upload_sessions import (
    CHUNK_BYTES,
    MOST_SESSIONS,
    SESSION_SECONDS,
    Span,
    UploadSession,
    UploadSessions,
)
from tests.assets.parts import ANN, BOB, Kit, asset_kit, chunks, huge_png, png

PICTURE = png(1, (200, 150))


async def begin(kit: Kit, size: int = len(PICTURE), name: str = "a.png", **more: Any) -> str:
    return (await kit.uploads.begin(ANN, name=name, size=size, **more)).record.id


async def send(
    kit: Kit, upload_id: str, start: int, content: bytes, total: int | None = len(PICTURE)
) -> UploadSession:
    span = Span(start, len(content), total)
    return await kit.uploads.write(ANN, upload_id, span, chunks(content))


async def refused(doing: Any) -> ComfyrailError:
    with pytest.raises(ComfyrailError) as caught:
        await doing
    return caught.value


def after_a_restart(kit: Kit) -> UploadSessions:
    return UploadSessions(kit.folder / "uploads", kit.assets, kit.clock)


async def test_the_parts_become_the_file(kit: Kit) -> None:
    upload_id = await begin(kit, sha256=hashlib.sha256(PICTURE).hexdigest())
    for start in range(0, len(PICTURE), 20_000):
        session = await send(kit, upload_id, start, PICTURE[start : start + 20_000])
        assert (await kit.uploads.get(ANN, upload_id)).record.offset == session.record.offset
    assert session.asset is not None
    assert await kit.bytes_of(session.asset) == PICTURE
    assert not (kit.folder / "uploads" / upload_id / "part").exists()


async def test_a_part_that_is_not_the_next_one_is_told_where_to_go_on(kit: Kit) -> None:
    upload_id = await begin(kit)
    await send(kit, upload_id, 0, PICTURE[:1000])
    for start in (0, 500, 1001, len(PICTURE) - 1):
        found = await refused(send(kit, upload_id, start, PICTURE[start : start + 100]))
        assert (type(found), found.code) == (Conflict, "UPLOAD_OFFSET")
        assert found.details["offset"] == 1000
    assert (await send(kit, upload_id, 1000, PICTURE[1000:])).asset is not None


async def test_the_last_part_may_be_sent_again(kit: Kit) -> None:
    upload_id = await begin(kit)
    first = await send(kit, upload_id, 0, PICTURE)
    again = await send(kit, upload_id, 0, PICTURE)
    assert first.asset is not None
    assert again.asset == first.asset
    assert len((await kit.assets.list(ANN, None, 10)).assets) == 1


async def test_an_upload_goes_on_after_a_restart_of_the_server(kit: Kit) -> None:
    upload_id = await begin(kit)
    await send(kit, upload_id, 0, PICTURE[:3000])
    # What a killed server had written and not yet counted.
    with (kit.folder / "uploads" / upload_id / "part").open("ab") as part:
        part.write(b"half of a part")
    kit.uploads = after_a_restart(kit)
    assert (await kit.uploads.get(ANN, upload_id)).record.offset == 3000
    session = await send(kit, upload_id, 3000, PICTURE[3000:])
    assert session.asset is not None
    assert await kit.bytes_of(session.asset) == PICTURE


async def test_a_server_that_ends_before_it_says_so_has_made_one_asset(
    kit: Kit, monkeypatch: pytest.MonkeyPatch
) -> None:
    upload_id = await begin(kit)

    def killed(*_: Any) -> None:
        raise OSError(errno.EIO, "killed")

    with monkeypatch.context() as patch:
        patch.setattr("comfyrail.results.upload_parts.UploadParts.finish", killed)
        await refused(send(kit, upload_id, 0, PICTURE))
    kit.uploads = after_a_restart(kit)
    assert (await kit.uploads.get(ANN, upload_id)).record.offset == len(PICTURE)
    done = await send(kit, upload_id, len(PICTURE), b"")
    assert done.asset is not None
    assert len((await kit.assets.list(ANN, None, 10)).assets) == 1


async def test_what_came_before_the_line_broke_is_kept(kit: Kit) -> None:
    large = PICTURE + bytes(5 << 20)
    upload_id = await begin(kit, len(large))

    async def large_breaking() -> AsyncIterator[bytes]:
        for start in range(0, 3 << 20, 1 << 20):
            yield large[start : start + (1 << 20)]
        raise MalformedRequest("broken off")

    span = Span(0, len(large), len(large))
    await refused(kit.uploads.write(ANN, upload_id, span, large_breaking()))
    assert (await kit.uploads.get(ANN, upload_id)).record.offset == 3 << 20
    done = await send(kit, upload_id, 3 << 20, large[3 << 20 :], len(large))
    assert done.asset is not None
    assert done.asset.sha256 == hashlib.sha256(large).hexdigest()


async def test_uploads_of_others_are_not_there(kit: Kit) -> None:
    upload_id = await begin(kit)
    for foreign in (
        kit.uploads.get(BOB, upload_id),
        kit.uploads.write(BOB, upload_id, Span(0), chunks(PICTURE)),
        kit.uploads.cancel(BOB, upload_id),
        kit.uploads.get(ANN, "../../etc"),
    ):
        found = await refused(foreign)
        assert (type(found), found.code) == (NotFound, "UPLOAD_NOT_FOUND")


async def test_too_much_is_refused_and_none_of_it_counts(kit: Kit) -> None:
    upload_id = await begin(kit, 20 << 20)
    content = PICTURE + bytes(CHUNK_BYTES)
    found = await refused(send(kit, upload_id, 0, content, 20 << 20))
    assert isinstance(found, PayloadTooLarge)
    found = await refused(kit.uploads.write(ANN, upload_id, Span(0, 1000), chunks(PICTURE)))
    assert isinstance(found, PayloadTooLarge)
    found = await refused(send(kit, upload_id, 0, PICTURE, 5))
    assert found.code == "INVALID_CONTENT_RANGE"
    assert (await kit.uploads.get(ANN, upload_id)).record.offset == 0


@pytest.mark.parametrize("length", [1000, len(PICTURE) - 1, len(PICTURE) + 1, 2 << 20])
async def test_part_that_is_not_as_long_as_its_range_says_does_not_count(
    kit: Kit, length: int
) -> None:
    upload_id = await begin(kit, 20 << 20)
    span = Span(0, length, 20 << 20)
    found = await refused(kit.uploads.write(ANN, upload_id, span, chunks(PICTURE)))
    assert (type(found), found.code) == (MalformedRequest, "INVALID_CONTENT_RANGE")
    assert (await kit.uploads.get(ANN, upload_id)).record.offset == 0


@pytest.mark.parametrize("sha256", ["", "x", "0" * 63, "0" * 65, "g" * 64, "md5:" + "0" * 64])
async def test_hash_that_is_none_is_refused_at_the_beginning(kit: Kit, sha256: str) -> None:
    found = await refused(begin(kit, sha256=sha256))
    assert (type(found), found.code) == (RequestError, "INVALID_SHA256")


async def test_hash_may_say_what_it_is_and_have_large_letters(kit: Kit) -> None:
    digest = hashlib.sha256(PICTURE).hexdigest()
    for number, text in enumerate((digest.upper(), f"sha256:{digest}")):
        upload_id = await begin(kit, name=f"{number}.png", sha256=text)
        assert (await send(kit, upload_id, 0, PICTURE)).asset is not None


class Stalled:
    """A part of which some has come, and nothing more comes."""

    def __init__(self, *sent: bytes) -> None:
        self._sent = sent
        self.is_waiting = asyncio.Event()
        self.is_closed = False

    async def chunks(self) -> AsyncIterator[bytes]:
        try:
            for each in self._sent:
                yield each
            self.is_waiting.set()
            await asyncio.Event().wait()
        finally:
            self.is_closed = True


async def stalled_part(
    kit: Kit, upload_id: str, size: int, *sent: bytes
) -> tuple[Stalled, asyncio.Task[ComfyrailError]]:
    body = Stalled(*sent)
    span = Span(0, size, size)
    writing = kit.uploads.write(ANN, upload_id, span, body.chunks())
    task = asyncio.create_task(refused(writing))
    await body.is_waiting.wait()
    return body, task


async def test_newer_part_takes_over_from_one_that_has_stalled(kit: Kit) -> None:
    upload_id = await begin(kit)
    body, older = await stalled_part(kit, upload_id, len(PICTURE), PICTURE[:5000])
    async with asyncio.timeout(5):
        done = await send(kit, upload_id, 0, PICTURE)
        found = await older
    assert done.asset is not None
    assert await kit.bytes_of(done.asset) == PICTURE
    assert (type(found), found.code) == (Conflict, "UPLOAD_TAKEN_OVER")
    assert body.is_closed


async def test_newer_part_goes_on_behind_what_a_stalled_one_has_written(kit: Kit) -> None:
    large = PICTURE + bytes(3 << 20)
    upload_id = await begin(kit, len(large))
    _, older = await stalled_part(
        kit, upload_id, len(large), large[: 1 << 20], large[1 << 20 : 2 << 20]
    )
    async with asyncio.timeout(5):
        done = await send(kit, upload_id, 2 << 20, large[2 << 20 :], len(large))
        assert (await older).code == "UPLOAD_TAKEN_OVER"
    assert done.asset is not None
    assert done.asset.sha256 == hashlib.sha256(large).hexdigest()


async def test_of_several_parts_the_newest_is_taken(kit: Kit) -> None:
    upload_id = await begin(kit)
    older = []
    for _ in range(3):
        _, task = await stalled_part(kit, upload_id, len(PICTURE), PICTURE[:5000])
        older.append(task)
    async with asyncio.timeout(5):
        assert (await send(kit, upload_id, 0, PICTURE)).asset is not None
        codes = [(await task).code for task in older]
    assert codes == ["UPLOAD_TAKEN_OVER"] * 3


async def test_part_that_could_not_be_taken_breaks_no_other_off(kit: Kit) -> None:
    upload_id = await begin(kit, 20 << 20)
    await kit.uploads.write(ANN, upload_id, Span(0), chunks(PICTURE))
    body = Stalled(b"more")
    span = Span(len(PICTURE))
    older = asyncio.create_task(refused(kit.uploads.write(ANN, upload_id, span, body.chunks())))
    await body.is_waiting.wait()
    for wrong in (Span(0, 5, 20 << 20), Span(len(PICTURE), 5, 21), Span(0, CHUNK_BYTES + 1)):
        await refused(kit.uploads.write(ANN, upload_id, wrong, chunks(b"12345")))
    assert not older.done()
    assert not body.is_closed
    await kit.uploads.cancel(ANN, upload_id)
    await older


async def test_upload_can_be_cancelled_while_a_part_has_stalled(kit: Kit) -> None:
    upload_id = await begin(kit)
    _, older = await stalled_part(kit, upload_id, len(PICTURE), PICTURE[:5000])
    async with asyncio.timeout(5):
        await kit.uploads.cancel(ANN, upload_id)
        assert (await older).code == "UPLOAD_TAKEN_OVER"
    assert isinstance(await refused(kit.uploads.get(ANN, upload_id)), NotFound)
    assert not list((kit.folder / "uploads").iterdir())


async def test_a_file_that_cannot_be_kept_need_not_come_to_its_end(kit: Kit) -> None:
    upload_id = await begin(kit, 20 << 20)
    found = await refused(send(kit, upload_id, 0, b"<html>" + b" " * (1 << 20), 20 << 20))
    assert found.code == "CONTENT_TYPE_REFUSED"
    assert isinstance(await refused(kit.uploads.get(ANN, upload_id)), NotFound)
    assert not list((kit.folder / "uploads").iterdir())


@pytest.mark.parametrize(
    ("content", "more", "code"),
    [
        (PICTURE, {"sha256": "0" * 64}, "HASH_MISMATCH"),
        (huge_png(60_000, 60_000), {}, "IMAGE_TOO_LARGE"),
        (PICTURE, {"content_type": "video/mp4"}, "CONTENT_TYPE_MISMATCH"),
    ],
)
async def test_a_whole_file_that_is_refused_leaves_nothing(
    kit: Kit, content: bytes, more: dict[str, Any], code: str
) -> None:
    upload_id = await begin(kit, len(content), **more)
    assert (await refused(send(kit, upload_id, 0, content, len(content)))).code == code
    assert isinstance(await refused(kit.uploads.get(ANN, upload_id)), NotFound)
    assert not list((kit.folder / "uploads").iterdir())


@pytest.mark.parametrize(
    ("name", "size", "code"),
    [
        ("a.png", 0, "EMPTY_FILE"),
        ("a.png", -5, "EMPTY_FILE"),
        ("a.png", (2 << 30) + 1, "FILE_TOO_LARGE"),
        ("../a.png", 5, "INVALID_FILE_NAME"),
    ],
)
async def test_what_could_never_be_kept_is_refused_at_the_beginning(
    kit: Kit, name: str, size: int, code: str
) -> None:
    assert (await refused(begin(kit, size, name))).code == code


async def test_a_disk_without_room_is_told_at_the_beginning(
    kit: Kit, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("comfyrail.results.upload_parts.UploadParts.free_bytes", lambda _: 100)
    assert isinstance(await refused(begin(kit, 51)), StorageFull)
    assert await begin(kit, 50)


async def test_only_so_many_uploads_are_open_at_once(kit: Kit) -> None:
    ids = [await begin(kit) for _ in range(MOST_SESSIONS)]
    assert (await refused(begin(kit))).code == "TOO_MANY_UPLOADS"
    await kit.uploads.begin(BOB, name="a.png", size=5)
    await send(kit, ids[0], 0, PICTURE)
    await kit.uploads.cancel(ANN, ids[1])
    assert await begin(kit)
    assert await begin(kit)
    assert (await refused(begin(kit))).code == "TOO_MANY_UPLOADS"


async def test_an_upload_that_nobody_goes_on_with_goes_after_a_day(kit: Kit) -> None:
    old = await begin(kit)
    kit.clock.move(SESSION_SECONDS / 2)
    new = await begin(kit)
    kit.clock.move(SESSION_SECONDS / 2)
    assert isinstance(await refused(kit.uploads.get(ANN, old)), NotFound)
    await kit.sweeper.sweep()
    assert [path.name for path in (kit.folder / "uploads").iterdir()] == [new]


async def test_rubbish_among_the_uploads_is_removed(tmp_path: Path) -> None:
    for name, content in (("a", b"no json"), ("b", b"{}")):
        (tmp_path / "uploads" / name).mkdir(parents=True)
        (tmp_path / "uploads" / name / "session.json").write_bytes(content)
    async with asset_kit(tmp_path) as kit:
        await begin(kit)
        assert len(list((tmp_path / "uploads").iterdir())) == 1
