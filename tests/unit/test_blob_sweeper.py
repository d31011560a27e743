"""Blobs that nothing refers to are removed, and no others [8.4]."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

from comfyrail.clock import SystemClock
from comfyrail.errors import StoreUnavailable
from comfyrail.ids import WorkerId, new_attempt_token, new_job_id, new_output_id
from comfyrail.jobs.job import Attempt, NewJob, NewOutput
from comfyrail.jobs.needs import job_needs
from comfyrail.jobs.outcome import Completed
from comfyrail.jobs.priority import standing_of
from comfyrail.results.blob_store import StoredBlob
from comfyrail.results.disk_blobs import DiskBlobStore
from comfyrail.results.sweeper import BlobSweeper
from comfyrail.store.interface import Assignment
from comfyrail.store.sqlite.database import connect
from comfyrail.store.sqlite.queries import QUERIES
from comfyrail.store.sqlite.store import SqliteStore, open_sqlite_store
from tests.fleet.house import TENANT

CLOCK = SystemClock()


async def content(text: str) -> AsyncIterator[bytes]:
    yield text.encode()


@dataclass(frozen=True, slots=True)
class Shop:
    folder: Path
    store: SqliteStore
    blobs: DiskBlobStore
    sweeper: BlobSweeper

    async def save(self, text: str) -> StoredBlob:
        return await self.blobs.save(content(text))

    async def begin(self) -> Attempt:
        job = NewJob(
            id=new_job_id(),
            tenant=TENANT,
            prompt=b"{}",
            node_count=1,
            needs=job_needs((), ()),
            priority=5,
            standing=standing_of(5),
            timeout_seconds=60,
            expected_seconds=1,
            submitted_at=CLOCK.now(),
        )
        await self.store.add_job(job)
        assignment = Assignment(job.id, WorkerId("w"), new_attempt_token())
        (attempt,) = await self.store.start_attempts([assignment], "me", 60)
        return attempt

    async def finish(self, attempt: Attempt, *blobs: StoredBlob) -> None:
        outputs = tuple(
            NewOutput(
                id=new_output_id(),
                node_id="1",
                kind="images",
                filename="a.png",
                subfolder="",
                is_temporary=False,
                content_type="image/png",
                size=blob.size,
                sha256=blob.sha256,
                blob_key=blob.key,
            )
            for blob in blobs
        )
        await self.store.finish_attempt(attempt.token, Completed(outputs))

    def kept(self) -> set[str]:
        found = self.folder.rglob("*")
        return {str(path.relative_to(self.folder)) for path in found if path.is_file()}


@pytest.fixture
async def shop(tmp_path: Path) -> AsyncIterator[Shop]:
    store = await open_sqlite_store(tmp_path, CLOCK)
    blobs = DiskBlobStore(tmp_path / "blobs")
    yield Shop(tmp_path / "blobs", store, blobs, BlobSweeper(blobs, store))
    await store.close()


async def test_blobs_without_an_output_go_and_all_others_stay(shop: Shop) -> None:
    attempt = await shop.begin()
    told = [await shop.save(f"told {number}") for number in range(60)]
    await shop.finish(attempt, *told)
    orphans = [await shop.save(f"orphan {number}") for number in range(60)]
    shop.blobs.settle([each.key for each in (*told, *orphans)], are_kept=True)
    in_hand = await shop.save("in hand")
    assert await shop.sweeper.sweep() == 60
    assert shop.kept() == {each.key for each in (*told, in_hand)}


async def test_what_an_earlier_process_has_saved_in_vain_goes_at_the_start(shop: Shop) -> None:
    attempt = await shop.begin()
    told = await shop.save("told")
    await shop.finish(attempt, told)
    await shop.save("in vain")
    next_process = DiskBlobStore(shop.folder)
    assert await BlobSweeper(next_process, shop.store).sweep() == 1
    assert shop.kept() == {told.key}


async def test_what_was_saved_in_vain_goes_soon_unless_something_else_refers_to_it(
    shop: Shop,
) -> None:
    attempt = await shop.begin()
    shared, alone = await shop.save("shared"), await shop.save("alone")
    await shop.finish(attempt, shared)
    shop.blobs.settle([shared.key, alone.key], are_kept=False)
    assert await shop.sweeper.look() == 1
    assert shop.kept() == {shared.key}
    assert await shop.sweeper.look() == 0


async def test_what_two_have_saved_stays_until_both_have_settled_it(shop: Shop) -> None:
    blob = await shop.save("same")
    await shop.save("same")
    shop.blobs.settle([blob.key], are_kept=False)
    assert (await shop.sweeper.look(), await shop.sweeper.sweep()) == (0, 0)
    shop.blobs.settle([blob.key], are_kept=False)
    assert await shop.sweeper.look() == 1


async def test_content_that_is_saved_again_after_the_look_stays(shop: Shop) -> None:
    """Between the look at a blob and its removal another attempt may save it, and end."""
    blob = await shop.save("same")
    shop.blobs.settle([blob.key], are_kept=False)
    (files,) = [files async for files in shop.blobs.files()]
    assert [file.key for file in files] == [blob.key]
    assert await shop.save("same") == blob
    shop.blobs.settle([blob.key], are_kept=True)
    assert await shop.blobs.remove(files) == 0
    assert shop.kept() == {blob.key}


async def test_content_that_is_saved_again_and_again_while_it_is_swept_is_always_there(
    shop: Shop,
) -> None:
    async def save_again() -> None:
        for _ in range(200):
            blob = await shop.save("same")
            assert (await shop.blobs.open(blob.key)).size == 4
            shop.blobs.settle([blob.key], are_kept=False)

    saving = asyncio.create_task(save_again())
    while not saving.done():
        await shop.sweeper.sweep()
        await shop.sweeper.look()
    await saving


async def test_output_that_is_written_down_during_a_sweep_stays(shop: Shop) -> None:
    """The sweeper looks at it while it is in hand, and the job ends before it is removed."""
    first, second = await shop.begin(), await shop.begin()
    await shop.finish(first, await shop.save("another"))
    blob = await shop.save("told in time")

    class Meanwhile:
        async def referenced_blobs(self, keys: Sequence[str]) -> frozenset[str]:
            answer = await shop.store.referenced_blobs(keys)
            if not shop.blobs.has_in_hand:
                return answer
            await shop.finish(second, blob)
            shop.blobs.settle([blob.key], are_kept=True)
            return answer

        async def has_outputs(self) -> bool:
            return True

    await BlobSweeper(shop.blobs, Meanwhile()).sweep()
    assert blob.key in shop.kept()


async def test_outputs_are_all_there_after_sweeps_beside_jobs_that_end(shop: Shop) -> None:
    saved: list[StoredBlob] = []

    async def work() -> None:
        for number in range(150):
            attempt = await shop.begin()
            blob = await shop.save(f"work {number}")
            await shop.finish(attempt, blob)
            shop.blobs.settle([blob.key], are_kept=True)
            saved.append(blob)

    working = asyncio.create_task(work())
    while not working.done():
        await shop.sweeper.sweep()
    await working
    assert {blob.key for blob in saved} <= shop.kept()


async def test_folder_with_odd_things_in_it_is_swept_all_the_same(shop: Shop) -> None:
    attempt = await shop.begin()
    told, orphan = await shop.save("told"), await shop.save("orphan")
    await shop.finish(attempt, told)
    shop.blobs.settle([told.key, orphan.key], are_kept=True)
    (shop.folder / "00").touch()
    odd = shop.folder / "11" / ("11" + "0" * 62)
    odd.mkdir(parents=True)
    (shop.folder / "22").mkdir()
    (shop.folder / "22" / ("22" + "0" * 62)).symlink_to(shop.folder / told.key)
    assert await shop.sweeper.sweep() == 1
    assert not (shop.folder / orphan.key).exists()
    assert (shop.folder / told.key).exists()


async def test_new_database_does_not_cost_the_outputs_of_a_lost_one(shop: Shop) -> None:
    blob = await shop.save("wanted when the backup is restored")
    next_process = DiskBlobStore(shop.folder)
    assert await BlobSweeper(next_process, shop.store).sweep() == 0
    assert shop.kept() == {blob.key}


async def test_blob_whose_name_did_not_reach_the_disk_is_not_kept_in_hand(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    await shop.save("makes the folder")

    def fail(_folder: Path) -> None:
        raise OSError(5, "Input/output error")

    monkeypatch.setattr("comfyrail.results.disk_blobs.sync_folder", fail)
    with pytest.raises(StoreUnavailable):
        await shop.save("makes the folder")
    monkeypatch.undo()
    shop.blobs.settle(shop.kept(), are_kept=False)
    assert not shop.blobs.has_in_hand


@pytest.mark.parametrize("size", [10, 3 << 20])
async def test_save_that_nobody_waits_for_leaves_nothing_behind(shop: Shop, size: int) -> None:
    for _ in range(20):
        saving = asyncio.create_task(shop.blobs.save(content("u" * size)))
        await asyncio.sleep(0)
        saving.cancel()
        await asyncio.gather(saving, return_exceptions=True)
    async with asyncio.timeout(10):
        while shop.kept() or shop.blobs.has_in_hand:
            await shop.sweeper.look()
            await asyncio.sleep(0.01)


async def test_store_that_fails_is_asked_again(shop: Shop) -> None:
    class Broken:
        async def referenced_blobs(self, keys: Sequence[str]) -> frozenset[str]:
            raise StoreUnavailable(f"no answer about {len(keys)}")

        async def has_outputs(self) -> bool:
            return True

    blob = await shop.save("in vain")
    shop.blobs.settle([blob.key], are_kept=False)
    with pytest.raises(StoreUnavailable):
        await BlobSweeper(shop.blobs, Broken()).look()
    assert await shop.sweeper.look() == 1


async def test_what_is_no_blob_is_left_alone(shop: Shop) -> None:
    for name in ("ab/notes.txt", "other/" + "0" * 64, "ab" * 32):
        path = shop.folder / name
        path.parent.mkdir(exist_ok=True)
        path.touch()
    await shop.sweeper.sweep()
    assert len(shop.kept()) == 3


async def test_the_store_is_asked_by_an_index(shop: Shop) -> None:
    connection = connect(shop.folder.parent)
    question = f"EXPLAIN QUERY PLAN {QUERIES['referenced_blobs']}"
    plan = connection.execute(question, {"keys": "[]"}).fetchall()
    steps = [row["detail"] for row in plan if "outputs" in row["detail"]]
    assert steps == ["SEARCH outputs USING COVERING INDEX outputs_kept (blob_key=?)"]
    connection.close()
