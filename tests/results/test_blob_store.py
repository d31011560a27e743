"""What every blob store does, on disk, on a real S3 server and in tiers [8.1]."""

import asyncio
import hashlib
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from blake3 import blake3

from comfyrail.errors import OutputNotFound
from comfyrail.results.blob_store import BlobStore, StoredBlob, StoredFile
from comfyrail.results.incoming import WRITE_SIZE
from tests.results.parts import chunks, content_of, files_in, in_pieces, key_for, read

SIZES = [0, 5, WRITE_SIZE - 1, WRITE_SIZE, 3 * WRITE_SIZE + 7, 12 << 20]
STRANGE_KEYS = [
    "../x",
    "ab/../../x",
    "",
    "ab",
    "../../x",
    "ab/" + "0" * 64,
    "/etc/passwd",
    "a" * 67,
]


async def everything(blobs: BlobStore) -> list[StoredFile]:
    return [file async for files in blobs.files() for file in files]


@pytest.mark.parametrize("size", SIZES)
async def test_bytes_come_back_as_they_went_in(blobs: BlobStore, size: int) -> None:
    content = content_of(size)
    half = size // 2
    blob = await blobs.save(chunks(content[:half], content[half:]))
    assert (blob.size, blob.sha256) == (size, hashlib.sha256(content).hexdigest())
    assert (blob.key, blob.blake3) == (key_for(content), blake3(content).hexdigest())
    assert await read(blobs, blob.key) == content
    assert (await blobs.open(blob.key)).size == size
    async with blobs.local(blob.key) as path:
        assert await asyncio.to_thread(path.read_bytes) == content


async def test_any_range_of_the_bytes_can_be_had(blobs: BlobStore) -> None:
    content = content_of((5 << 20) + 3)
    blob = await blobs.save(in_pieces(content))
    for start, stop in [
        (0, 1),
        (7, 7),
        (1, 4 << 20),
        ((2 << 20) - 1, (2 << 20) + 1),
        (5, 99 << 20),
    ]:
        assert await read(blobs, blob.key, start, stop) == content[start:stop]
    assert await read(blobs, blob.key, 4 << 20) == content[4 << 20 :]
    assert await read(blobs, blob.key, 99 << 20) == b""


async def test_equal_content_is_kept_once(blobs: BlobStore) -> None:
    first = await blobs.save(chunks(b"same"))
    second = await blobs.save(chunks(b"sa", b"me"))
    assert first == second
    blobs.settle([first.key, second.key], are_kept=True)
    assert [file.key for file in await everything(blobs)] == [first.key]


async def test_many_at_the_same_time_do_not_hinder_each_other(blobs: BlobStore) -> None:
    contents = [content_of(300_000, seed % 5) for seed in range(20)]
    saved = await asyncio.gather(*(blobs.save(in_pieces(each, 100_000)) for each in contents))
    assert [blob.key for blob in saved] == [key_for(each) for each in contents]
    found = await asyncio.gather(*(read(blobs, blob.key) for blob in saved))
    assert found == contents


@pytest.mark.parametrize("before", [10, 2 * WRITE_SIZE])
async def test_source_that_breaks_off_leaves_nothing(
    blobs: BlobStore, tmp_path: Path, before: int
) -> None:
    async def broken() -> AsyncIterator[bytes]:
        yield b"x" * before
        raise ConnectionError("gone")

    with pytest.raises(ConnectionError):
        await blobs.save(broken())
    assert not await everything(blobs)
    assert files_in(tmp_path) == []


@pytest.mark.parametrize("key", STRANGE_KEYS)
async def test_keys_that_name_no_blob_lead_nowhere(
    blobs: BlobStore, tmp_path: Path, key: str
) -> None:
    (tmp_path.parent / "x").touch()
    with pytest.raises(OutputNotFound):
        await blobs.open(key)
    with pytest.raises(OutputNotFound):
        async with blobs.local(key):
            pass
    assert not await blobs.look_at([key])


async def test_blob_that_is_removed_is_gone(blobs: BlobStore) -> None:
    blob = await blobs.save(chunks(b"short-lived"))
    blobs.settle([blob.key], are_kept=False)
    assert list(blobs.take_doubtful()) == [blob.key]
    files = await blobs.look_at([blob.key])
    assert [(file.key, file.size) for file in files] == [(blob.key, 11)]
    reading = await blobs.open(blob.key)
    assert await blobs.remove(files) == 1
    for attempt in (blobs.open(blob.key), anext(aiter(reading.chunks()))):
        with pytest.raises(OutputNotFound):
            await attempt
    with pytest.raises(OutputNotFound):
        async with blobs.local(blob.key):
            pass
    assert await blobs.remove(files) == 0


async def test_what_is_in_hand_is_not_looked_at_and_not_removed(blobs: BlobStore) -> None:
    blob = await blobs.save(chunks(b"same"))
    blobs.settle([blob.key], are_kept=False)
    files = await blobs.look_at([blob.key])
    await blobs.save(chunks(b"same"))
    assert not await blobs.look_at([blob.key])
    assert not await everything(blobs)
    assert await blobs.remove(files) == 0
    assert await read(blobs, blob.key) == b"same"


async def test_content_that_is_saved_again_after_the_look_stays(blobs: BlobStore) -> None:
    """Between the look at a blob and its removal another attempt may save it, and end."""
    blob = await blobs.save(chunks(b"same"))
    blobs.settle([blob.key], are_kept=False)
    looked, listed = await blobs.look_at([blob.key]), await everything(blobs)
    assert await blobs.save(chunks(b"same")) == blob
    blobs.settle([blob.key], are_kept=True)
    assert (await blobs.remove(looked), await blobs.remove(listed)) == (0, 0)
    assert await read(blobs, blob.key) == b"same"


async def test_content_that_is_saved_and_removed_again_and_again_is_there_when_saved(
    blobs: BlobStore,
) -> None:
    async def save_again() -> None:
        for _ in range(25):
            blob = await blobs.save(chunks(b"same"))
            assert await read(blobs, blob.key) == b"same"
            blobs.settle([blob.key], are_kept=False)

    saving = asyncio.create_task(save_again())
    while not saving.done():
        await blobs.remove(await blobs.look_at([key_for(b"same")]))
        await asyncio.sleep(0)
    await saving


async def test_save_that_nobody_waits_for_leaves_nothing_in_hand(blobs: BlobStore) -> None:
    content = content_of(3 << 20)
    for pause in (0.0, 0.002, 0.01, 0.03):
        saving = asyncio.create_task(blobs.save(in_pieces(content)))
        await asyncio.sleep(pause)
        saving.cancel()
        (saved,) = await asyncio.gather(saving, return_exceptions=True)
        if isinstance(saved, StoredBlob):  # it was quicker
            blobs.settle([saved.key], are_kept=False)
    blob = await blobs.save(chunks(content))
    blobs.settle([blob.key], are_kept=True)
    async with asyncio.timeout(20):
        while not await blobs.look_at([blob.key]):  # noqa: ASYNC110 - threads have it in hand
            await asyncio.sleep(0.02)


async def test_blob_is_where_its_tier_is_and_can_be_had_all_the_time(blobs: BlobStore) -> None:
    content = content_of(3 << 20)
    blob = await blobs.save(in_pieces(content))
    blobs.settle([blob.key], are_kept=True)
    is_over = asyncio.Event()

    async def keep_reading() -> int:
        times = 0
        while not is_over.is_set():
            assert await read(blobs, blob.key) == content
            async with blobs.local(blob.key) as path:
                assert (await asyncio.to_thread(path.stat)).st_size == len(content)
            times += 1
        return times

    reading = asyncio.create_task(keep_reading())
    for tier in ("archive", "glacier", "archive", "archive", "standard", "immediate"):
        await blobs.move(blob.key, tier)
        assert len(await blobs.look_at([blob.key])) >= 1
    is_over.set()
    assert await reading
    await blobs.move(blob.key, "archive")
    files = await blobs.look_at([blob.key])
    assert len(files) == 1
    assert await blobs.remove(files) == 1
    with pytest.raises(OutputNotFound):
        await blobs.open(blob.key)
