"""Files that come are looked at, whatever happens to whoever looks [8.1] [8.2]."""

import asyncio
from pathlib import Path

import pytest

from comfyrail.results import media_keeper
from comfyrail.results.media_keeper import MediaKeeper
from comfyrail.results.sweeper import BlobSweeper
from comfyrail.store.media import MediaFile
from tests.media import makers
from tests.media.house import TENANT, MediaHouse, kill, media_house, stopped_process


async def state_of(house: MediaHouse, key: str) -> str | None:
    known = await house.known(key)
    return None if known is None else known.state


async def until_looked_at(house: MediaHouse, key: str) -> None:
    async with asyncio.timeout(30):
        while await state_of(house, key) == "waiting":  # noqa: ASYNC110 - the state of a store
            await asyncio.sleep(0.02)


async def test_file_that_comes_is_looked_at_and_its_variants_are_kept(tmp_path: Path) -> None:
    async with media_house(tmp_path) as house:
        keeping = asyncio.create_task(house.keeper.run())
        _, key = await house.give("a.png", makers.png(600, 300), "image/png")
        await until_looked_at(house, key)
        known = await house.known(key)
        assert known is not None
        assert known.facts is not None
        assert (known.state, known.facts.width) == ("ready", 600)
        assert set(known.variants) == {"thumb_256", "thumb_512"}
        thumbnail = known.variants["thumb_256"]
        assert (thumbnail.width, thumbnail.height) == (256, 128)
        blob = await house.blobs.open(thumbnail.blob_key)
        assert blob.size == thumbnail.size
        assert not house.blobs.has_in_hand
        keeping.cancel()
        await asyncio.gather(keeping, return_exceptions=True)


async def test_equal_files_are_looked_at_once(tmp_path: Path) -> None:
    async with media_house(tmp_path) as house:
        _, first = await house.give("a.png", makers.png(300, 300), "image/png")
        _, second = await house.give("b.png", makers.png(300, 300), "image/png")
        assert first == second
        assert len(await house.store.waiting_media(10, 10)) == 1
        assert await house.keeper.look_at_some() == 1
        assert await house.keeper.look_at_some() == 0


@pytest.mark.parametrize("content_type", ["application/json", "application/octet-stream"])
async def test_file_of_which_there_is_nothing_to_learn_is_left_alone(
    tmp_path: Path, content_type: str
) -> None:
    async with media_house(tmp_path) as house:
        _, key = await house.give("a.bin", b"{}", content_type)
        assert await house.known(key, content_type) is None
        assert not await house.store.waiting_media(1, 1)


async def test_newest_and_oldest_take_turns(tmp_path: Path) -> None:
    async with media_house(tmp_path) as house:
        keys = []
        for number in range(8):
            keys.append((await house.give(f"{number}.txt", b"%d" % number, "text/plain"))[1])
            await asyncio.sleep(0.002)
        waiting = [each.file.blob_key for each in await house.store.waiting_media(3, 2)]
        assert waiting == [keys[7], keys[0], keys[6], keys[1], keys[5]]


async def test_file_that_ended_its_process_waits_behind_all_others(tmp_path: Path) -> None:
    async with media_house(tmp_path) as house:
        keys = []
        for number in range(3):
            keys.append((await house.give(f"{number}.txt", b"%d" % number, "text/plain"))[1])
            await asyncio.sleep(0.002)
        for ill in (keys[0], keys[2]):
            await house.store.count_media_attempt(MediaFile(ill, "text/plain"))
        waiting = [each.file.blob_key for each in await house.store.waiting_media(1, 1)]
        assert waiting == [keys[1]]


async def test_equal_bytes_of_another_type_are_looked_at_as_that_type(tmp_path: Path) -> None:
    async with media_house(tmp_path) as house:
        _, first = await house.give("a.png", b"", "image/png")
        _, second = await house.give("a.stl", b"", "model/stl")
        assert first == second
        assert await house.keeper.look_at_some() == 2
        picture, model = [await house.known(first, kind) for kind in ("image/png", "model/stl")]
        assert picture is not None
        assert picture.facts is not None
        assert (picture.state, picture.facts.kind) == ("failed", "image")
        assert model is not None
        assert model.facts is not None
        assert (model.state, model.facts.kind) == ("ready", "model3d")


async def test_work_that_was_cut_off_begins_anew(tmp_path: Path) -> None:
    async with media_house(tmp_path) as house, stopped_process(house.processes, tmp_path):
        _, key = await house.give("a.png", makers.png(300, 300), "image/png")
        keeping = asyncio.create_task(house.keeper.run())
        await asyncio.sleep(0.1)
        keeping.cancel()
        await asyncio.gather(keeping, return_exceptions=True)
    async with media_house(tmp_path) as house:
        assert await state_of(house, key) == "waiting"
        await house.keeper.look_at_some()
        assert await state_of(house, key) == "ready"


async def test_file_is_looked_at_again_when_the_process_was_killed(tmp_path: Path) -> None:
    async with media_house(tmp_path) as house:
        _, key = await house.give("a.png", makers.png(300, 300), "image/png")
        async with stopped_process(house.processes, tmp_path) as stopped:
            looking = asyncio.create_task(house.keeper.look_at_some())
            await asyncio.sleep(0.1)
            kill(stopped)
            await looking
        (waiting,) = await house.store.waiting_media(1, 1)
        assert (waiting.file.blob_key, waiting.attempts) == (key, 1)
        await house.keeper.look_at_some()
        assert await state_of(house, key) == "ready"


async def test_file_that_ends_the_process_three_times_is_given_up(tmp_path: Path) -> None:
    async with media_house(tmp_path, task_seconds=0.0002) as house:
        _, key = await house.give("a.png", makers.png(300, 300), "image/png")
        for _ in range(3):
            assert await state_of(house, key) == "waiting"
            await house.keeper.look_at_some()
        known = await house.known(key)
        assert known is not None
        assert known.facts is not None
        assert (known.state, known.facts.kind) == ("failed", "image")
        assert "3 times" in str(known.facts.error)
        assert await house.keeper.look_at_some() == 0


async def test_file_that_is_gone_is_not_asked_for_for_ever(tmp_path: Path) -> None:
    async with media_house(tmp_path) as house:
        _, key = await house.give("a.png", makers.png(300, 300), "image/png")
        (house.folder / "blobs" / key).unlink()
        await house.keeper.look_at_some()
        assert await state_of(house, key) == "failed"


async def test_full_disk_is_tried_again_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(media_keeper, "PAUSE_SECONDS", 0.05)
    async with media_house(tmp_path) as house:
        _, key = await house.give("a.png", makers.png(300, 300), "image/png")
        incoming = house.folder / "blobs" / "incoming"
        incoming.rmdir()
        incoming.write_text("in the way")
        keeping = asyncio.create_task(house.keeper.run())
        await asyncio.sleep(0.8)
        assert await state_of(house, key) == "waiting"
        incoming.unlink()
        incoming.mkdir()
        await until_looked_at(house, key)
        assert await state_of(house, key) == "ready"
        assert not house.blobs.has_in_hand
        keeping.cancel()
        await asyncio.gather(keeping, return_exceptions=True)


async def test_variants_go_with_the_last_file_that_they_are_of(tmp_path: Path) -> None:
    async with media_house(tmp_path) as house:
        first, key = await house.give("a.png", makers.png(300, 300), "image/png")
        second, _ = await house.give("b.png", makers.png(300, 300), "image/png")
        await house.keeper.look_at_some()
        known = await house.known(key)
        assert known is not None
        thumbnail = known.variants["thumb_256"].blob_key
        sweeper = BlobSweeper(house.blobs, house.store)

        await house.store.delete_asset(TENANT, first)
        await house.keeper.tidy()
        await sweeper.sweep()
        assert await house.store.referenced_blobs([key, thumbnail]) == {key, thumbnail}
        await house.blobs.open(thumbnail)

        await house.give("other.txt", b"so that there is something", "text/plain")
        await house.store.delete_asset(TENANT, second)
        assert await house.store.referenced_blobs([key, thumbnail]) == frozenset()
        await house.keeper.tidy()
        assert await house.known(key) is None
        await sweeper.look()
        assert not (house.folder / "blobs" / thumbnail).exists()


async def test_variants_of_a_file_that_went_meanwhile_are_not_kept(tmp_path: Path) -> None:
    async with media_house(tmp_path) as house:
        asset, key = await house.give("a.png", makers.png(300, 300), "image/png")
        slow = _DeletingStore(house, asset)
        keeper = MediaKeeper(slow, house.store.signals, house.blobs, house.processes)  # type: ignore[arg-type]
        await keeper.look_at_some()
        assert await house.known(key) is None
        assert len(house.blobs.take_doubtful()) == 1
        assert not house.blobs.has_in_hand


class _DeletingStore:
    """Between the look and the writing down, somebody deletes the file."""

    def __init__(self, house: MediaHouse, asset: object) -> None:
        self._house = house
        self._asset = asset
        self.waiting_media = house.store.waiting_media

    async def save_media(self, looked_at: list[object]) -> object:
        await self._house.store.delete_asset(TENANT, self._asset)  # type: ignore[arg-type]
        await self._house.store.forget_media("", 100)
        return await self._house.store.save_media(looked_at)  # type: ignore[arg-type]
