"""A batch is accepted whole or not at all, whatever is killed in the middle [4.1, 4.6]."""

import subprocess
import sys
from pathlib import Path

import pytest

from comfyrail.errors import StoreUnavailable
from comfyrail.jobs.batches import Grid
from comfyrail.jobs.states import JobState
from comfyrail.store.interface import JobFilter
from comfyrail.store.sqlite import batch_operations
from tests.batches.parts import ALICE, CHUNK, Parts, open_parts

ROOT = Path(__file__).parents[2]
COUNT = 2 * CHUNK + 3


def die_while(stage: str, folder: Path) -> None:
    """kill -9 in the middle of storing a batch."""
    command = [sys.executable, "-m", "tests.batches.dying_process", str(folder), stage, str(COUNT)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, cwd=ROOT) as process:
        assert process.stdout is not None
        said = process.stdout.readline()
        process.kill()
    assert said == b"here\n"


async def startable(parts: Parts) -> int:
    return sum(len(lane.jobs) for lane in await parts.store.queue_lanes(10_000, 100))


async def test_batch_that_was_not_stored_whole_is_gone_after_a_crash(tmp_path: Path) -> None:
    die_while("filling", tmp_path)
    async with open_parts(tmp_path) as parts:
        assert (await parts.batches.page(ALICE, None, 10))[0] == []
        assert (await parts.store.count_jobs())[JobState.QUEUED] == 0
        assert (await parts.store.list_jobs(ALICE.tenant, JobFilter(), None, 10)).jobs == []
        assert await startable(parts) == 0


async def test_batch_that_was_stored_whole_is_in_the_queue_after_a_crash(tmp_path: Path) -> None:
    die_while("opening", tmp_path)
    async with open_parts(tmp_path) as parts:
        (status,), _ = await parts.batches.page(ALICE, None, 10)
        assert (status.batch.name, status.batch.counts.queued) == ("half", COUNT)
        assert 0 < await startable(parts) < COUNT
        await parts.searches.look()
        assert await parts.searches.look() == 0
        assert await startable(parts) == COUNT
        last = (await parts.batches.members(ALICE, status.batch.id, COUNT - 2, 10)).members[0]
        assert last.job_id is not None
        place = await parts.store.queue_place(last.job_id)
        assert place is not None
        assert place.position == COUNT


async def test_half_stored_batch_is_removed_when_the_disk_fails(
    parts: Parts, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise StoreUnavailable("The disk is full.")

    monkeypatch.setattr(batch_operations, "_open", refuse)
    with pytest.raises(StoreUnavailable):
        await parts.submit(Grid({"1.color": list(range(COUNT))}))
    assert (await parts.store.count_jobs())[JobState.QUEUED] == 0
    assert (await parts.batches.page(ALICE, None, 10))[0] == []
