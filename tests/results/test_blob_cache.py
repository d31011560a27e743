"""Files of blobs that are elsewhere [8.1]: bounded, checked, brought once."""

import asyncio
from pathlib import Path

import pytest

from comfyrail.errors import OutputNotFound
from comfyrail.results.blob_cache import BlobCache
from comfyrail.results.blob_store import OpenBlob
from comfyrail.results.disk_blobs import DiskBlobStore
from comfyrail.results.incoming import Receiver
from tests.results.parts import chunks, content_of, files_in

SIZE = 100_000


class Elsewhere:
    """Blobs of a store, and how often they were asked for."""

    def __init__(self, folder: Path) -> None:
        self.store = DiskBlobStore(folder)
        self.asked: list[str] = []

    async def add(self, seed: int, size: int = SIZE) -> str:
        return (await self.store.save(chunks(content_of(size, seed)))).key

    async def find(self, key: str) -> OpenBlob:
        self.asked.append(key)
        await asyncio.sleep(0.01)
        return await self.store.open(key)


@pytest.fixture
def elsewhere(tmp_path: Path) -> Elsewhere:
    return Elsewhere(tmp_path / "far")


def cache_in(folder: Path, files: float = 3, least_free: int = 0) -> BlobCache:
    receiver = Receiver(folder / "incoming", lambda: None)
    return BlobCache(folder, receiver, round(files * SIZE), least_free)


def size_of(folder: Path) -> int:
    return sum(path.stat().st_size for path in files_in(folder))


async def use(cache: BlobCache, elsewhere: Elsewhere, key: str) -> bytes:
    async with cache.borrow(key, elsewhere.find) as path:
        return await asyncio.to_thread(path.read_bytes)


async def settled(cache: BlobCache, folder: Path) -> None:
    """Files are removed in threads."""
    async with asyncio.timeout(10):
        while await asyncio.to_thread(size_of, folder) != cache.size:  # noqa: ASYNC110 - a disk
            await asyncio.sleep(0.01)


async def test_those_used_longest_ago_go_first(tmp_path: Path, elsewhere: Elsewhere) -> None:
    cache = cache_in(tmp_path / "near")
    keys = [await elsewhere.add(seed) for seed in range(4)]
    for key in (keys[0], keys[1], keys[2], keys[0], keys[3]):
        await use(cache, elsewhere, key)
    await settled(cache, tmp_path / "near")
    assert cache.size == 3 * SIZE
    elsewhere.asked.clear()
    for key in (keys[0], keys[2], keys[3]):
        await use(cache, elsewhere, key)
    assert elsewhere.asked == []
    await use(cache, elsewhere, keys[1])
    assert elsewhere.asked == [keys[1]]


async def test_each_is_brought_once_for_all_who_want_it(
    tmp_path: Path, elsewhere: Elsewhere
) -> None:
    cache = cache_in(tmp_path / "near")
    key = await elsewhere.add(1)
    found = await asyncio.gather(*(use(cache, elsewhere, key) for _ in range(30)))
    assert set(found) == {content_of(SIZE, 1)}
    assert elsewhere.asked == [key]


async def test_who_gives_up_waiting_does_not_take_it_from_the_others(
    tmp_path: Path, elsewhere: Elsewhere
) -> None:
    cache = cache_in(tmp_path / "near")
    key = await elsewhere.add(1)
    first = asyncio.create_task(use(cache, elsewhere, key))
    second = asyncio.create_task(use(cache, elsewhere, key))
    await asyncio.sleep(0)
    first.cancel()
    assert await second == content_of(SIZE, 1)
    assert elsewhere.asked == [key]


async def test_file_in_use_stays_whatever_else_comes(tmp_path: Path, elsewhere: Elsewhere) -> None:
    cache = cache_in(tmp_path / "near", files=1)
    key = await elsewhere.add(1)
    async with cache.borrow(key, elsewhere.find) as path:
        for seed in range(2, 5):
            await use(cache, elsewhere, await elsewhere.add(seed))
        await cache.drop(key)
        assert await asyncio.to_thread(path.read_bytes) == content_of(SIZE, 1)
    await settled(cache, tmp_path / "near")
    assert cache.size <= SIZE


async def test_blob_larger_than_the_cache_is_there_while_it_is_used(
    tmp_path: Path, elsewhere: Elsewhere
) -> None:
    cache = cache_in(tmp_path / "near", files=0.5)
    assert await use(cache, elsewhere, await elsewhere.add(1)) == content_of(SIZE, 1)
    await settled(cache, tmp_path / "near")
    assert cache.size == 0


async def test_file_that_somebody_has_changed_is_brought_anew(
    tmp_path: Path, elsewhere: Elsewhere
) -> None:
    cache = cache_in(tmp_path / "near")
    key = await elsewhere.add(1)
    async with cache.borrow(key, elsewhere.find) as path:
        pass
    await asyncio.to_thread(path.write_bytes, bytes(SIZE))
    assert await use(cache, elsewhere, key) == content_of(SIZE, 1)
    async with cache.borrow(key, elsewhere.find) as path:
        pass
    await asyncio.to_thread(path.unlink)
    assert await use(cache, elsewhere, key) == content_of(SIZE, 1)
    assert elsewhere.asked == [key] * 3


async def test_what_is_not_there_is_told_to_all_who_want_it(
    tmp_path: Path, elsewhere: Elsewhere
) -> None:
    cache = cache_in(tmp_path / "near")
    wanted = [use(cache, elsewhere, "ab/ab" + "0" * 62) for _ in range(3)]
    found = await asyncio.gather(*wanted, return_exceptions=True)
    assert [type(each) for each in found] == [OutputNotFound] * 3
    assert cache.size == 0


async def test_nothing_is_left_of_it_after_a_restart(tmp_path: Path, elsewhere: Elsewhere) -> None:
    cache = cache_in(tmp_path / "near")
    await use(cache, elsewhere, await elsewhere.add(1))
    assert files_in(tmp_path / "near")
    cache_in(tmp_path / "near")
    assert not files_in(tmp_path / "near")


async def test_cache_makes_room_on_a_disk_that_is_nearly_full(
    tmp_path: Path, elsewhere: Elsewhere
) -> None:
    cache = cache_in(tmp_path / "near", least_free=1 << 60)
    for seed in range(3):
        await use(cache, elsewhere, await elsewhere.add(seed))
    assert cache.size == SIZE
