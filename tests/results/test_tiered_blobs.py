"""Blobs by the tier of their life cycle [8.4]."""

import asyncio
from contextlib import AsyncExitStack
from pathlib import Path

import pytest

from comfyrail.bootstrap.blobs import describe_blobs, open_blobs, watched_folders
from comfyrail.bootstrap.settings import load_settings
from comfyrail.errors import ConfigurationError, OutputNotFound, StoreUnavailable
from comfyrail.results.disk_blobs import DiskBlobStore
from comfyrail.results.tiered_blobs import TieredBlobStore
from tests.results.parts import Bucket, chunks, content_of, files_in, in_pieces, key_for, read


class Warehouse:
    def __init__(self, folder: Path) -> None:
        self.folders = {name: folder / name for name in ("main", "archive", "glacier")}
        stores = {name: DiskBlobStore(path) for name, path in self.folders.items()}
        self.blobs = TieredBlobStore(stores.pop("main"), stores)

    def places(self, key: str) -> list[str]:
        return [name for name, path in self.folders.items() if (path / key).exists()]

    async def keep(self, content: bytes) -> str:
        blob = await self.blobs.save(chunks(content))
        self.blobs.settle([blob.key], are_kept=True)
        return blob.key


@pytest.fixture
def warehouse(tmp_path: Path) -> Warehouse:
    return Warehouse(tmp_path)


async def test_blob_goes_down_the_tiers_and_is_in_one_place(warehouse: Warehouse) -> None:
    key = await warehouse.keep(b"old")
    for tier, place in [
        ("immediate", "main"),
        ("standard", "main"),
        ("archive", "archive"),
        ("glacier", "glacier"),
        ("glacier", "glacier"),
        ("standard", "main"),
    ]:
        await warehouse.blobs.move(key, tier)
        assert warehouse.places(key) == [place]
        assert await read(warehouse.blobs, key) == b"old"


async def test_content_that_is_saved_anew_is_among_the_hot_ones(warehouse: Warehouse) -> None:
    key = await warehouse.keep(b"wanted again")
    await warehouse.blobs.move(key, "glacier")
    await warehouse.keep(b"wanted again")
    assert warehouse.places(key) == ["main", "glacier"]
    files = await warehouse.blobs.look_at([key])
    assert await warehouse.blobs.remove(files) == 2
    assert warehouse.places(key) == []


async def test_what_is_saved_again_during_a_move_stays(warehouse: Warehouse) -> None:
    content = content_of(8 << 20)
    key = await warehouse.keep(content)
    moving = asyncio.create_task(warehouse.blobs.move(key, "archive"))
    await asyncio.sleep(0.005)
    assert not moving.done()
    saved = await warehouse.blobs.save(in_pieces(content))
    await moving
    assert "main" in warehouse.places(saved.key)


async def test_move_waits_a_moment_for_those_who_use_the_file(warehouse: Warehouse) -> None:
    key = await warehouse.keep(b"in use")
    async with warehouse.blobs.local(key) as path:
        moving = asyncio.create_task(warehouse.blobs.move(key, "archive"))
        async with asyncio.timeout(10):
            while "archive" not in warehouse.places(key):  # noqa: ASYNC110 - a disk
                await asyncio.sleep(0.005)
        assert await asyncio.to_thread(path.read_bytes) == b"in use"
    await moving
    assert warehouse.places(key) == ["archive"]


async def test_reading_goes_on_when_the_blob_is_moved_meanwhile(warehouse: Warehouse) -> None:
    key = await warehouse.keep(b"on its way")
    opened = await warehouse.blobs.open(key)
    await warehouse.blobs.move(key, "archive")
    assert [chunk async for chunk in opened.chunks(3)] == [b"its way"]


async def test_damaged_file_is_not_moved(warehouse: Warehouse) -> None:
    key = await warehouse.keep(b"sound")
    (warehouse.folders["main"] / key).write_bytes(b"rotten")
    with pytest.raises(StoreUnavailable, match="damaged"):
        await warehouse.blobs.move(key, "archive")
    assert warehouse.places(key) == ["main"]
    doubtful = warehouse.blobs.take_doubtful()
    assert list(doubtful) == [key_for(b"rotten")]
    assert await warehouse.blobs.remove(await warehouse.blobs.look_at(doubtful)) == 1
    assert files_in(warehouse.folders["archive"]) == []


async def test_blob_that_is_nowhere_cannot_be_moved(warehouse: Warehouse) -> None:
    for key in (key_for(b"nothing"), "../../x"):
        with pytest.raises(OutputNotFound):
            await warehouse.blobs.move(key, "archive")


async def test_old_look_does_not_cost_a_blob_that_has_come_back(warehouse: Warehouse) -> None:
    """A leftover in the archive that the sweeper has looked at is where a later move puts it."""
    key = await warehouse.keep(b"again")
    await warehouse.blobs.move(key, "archive")
    looked = await warehouse.blobs.look_at([key])
    await warehouse.keep(b"again")
    await warehouse.blobs.move(key, "archive")
    await warehouse.blobs.remove(looked)
    assert await read(warehouse.blobs, key) == b"again"


# By the settings


async def test_settings_name_the_places(tmp_path: Path, bucket: Bucket) -> None:
    settings = load_settings(
        data=tmp_path / "data",
        blob_url=f"file://{tmp_path}/disk",
        archive_url=bucket.url,
    )
    assert watched_folders(settings) == [tmp_path / "data", tmp_path / "disk"]
    assert describe_blobs(settings) == f"file://{tmp_path}/disk; archive: {bucket.url}"
    async with AsyncExitStack() as stack:
        blobs = await open_blobs(settings, stack, lambda: None)
        blob = await blobs.save(chunks(b"here"))
        blobs.settle([blob.key], are_kept=True)
        assert (tmp_path / "disk" / blob.key).exists()
        for tier in ("archive", "glacier"):  # which has no place of its own
            await blobs.move(blob.key, tier)
            assert bucket.names() == {blob.key}
            assert not (tmp_path / "disk" / blob.key).exists()
        url = await blobs.signed_url(
            blob.key, 60, filename="a", content_type="text/plain", is_inline=False
        )
        assert url is not None
        assert "X-Amz-Signature" in url


async def test_without_settings_blobs_are_in_the_data_folder(tmp_path: Path) -> None:
    settings = load_settings(data=tmp_path)
    assert watched_folders(settings) == [tmp_path, tmp_path / "blobs"]
    async with AsyncExitStack() as stack:
        blobs = await open_blobs(settings, stack, lambda: None)
        blob = await blobs.save(chunks(b"here"))
        assert (tmp_path / "blobs" / blob.key).exists()


@pytest.mark.parametrize("url", ["file://host/x", "file:x", "nothing", "s3://"])
async def test_place_that_makes_no_sense_is_refused(tmp_path: Path, url: str) -> None:
    async with AsyncExitStack() as stack:
        with pytest.raises(ConfigurationError, match="COMFYRAIL_GLACIER_URL"):
            await open_blobs(load_settings(data=tmp_path, glacier_url=url), stack, lambda: None)
