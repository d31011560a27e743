"""Bringing outputs to their folder: each run its own, once, and given up after a while [10.4]."""

import asyncio
import hashlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest

from comfyrail.ids import JobId, OutputId, TenantId, WorkerId, new_job_id
from comfyrail.jobs.job import NewOutput, Origin, Output
from comfyrail.jobs.outcome import Completed
from comfyrail.results.blob_keys import key_of
from comfyrail.results.disk_blobs import DiskBlobStore
from comfyrail.store.interface import Store
from comfyrail.usecases import run_keeper
from comfyrail.usecases.run_fetch import OutputFetcher
from comfyrail.usecases.run_folders import RunFolders
from comfyrail.usecases.run_keeper import RunKeeper
from comfyrail.usecases.run_record import RunRecord, RunState
from comfyrail.usecases.run_states import RunStates
from tests.store.test_store import TENANT, ManualClock, clock, new_job, start, store

__all__ = ["clock", "store"]

CONTENT = b"the same bytes"
SHA256 = hashlib.sha256(CONTENT).hexdigest()


class Fleet:
    async def remove_outputs(self, worker_id: WorkerId, folder: str) -> bool:
        del worker_id, folder
        return True


class Place:
    """A folder for runs, and a store with runs that have ended."""

    def __init__(self, root: Path, store: Store, clock: ManualClock) -> None:
        self.out = root / "allowed" / "out"
        self.out.parent.mkdir()
        self.blobs = DiskBlobStore(root / "blobs")
        file = root / "blobs" / key_of(SHA256)
        file.parent.mkdir()
        file.write_bytes(CONTENT)
        self._store = store
        self._clock = clock
        self.states = RunStates(store, clock)
        self.fetcher: OutputFetcher = OutputFetcher(self.folders, self.blobs)

    @property
    def folders(self) -> RunFolders:
        return RunFolders([self.out.parent])

    async def ended_run(self, files: int = 1) -> JobId:
        record = RunRecord(worker="w", output_dir=str(self.out))
        origin = Origin("runs", "w", msgspec.json.encode(record), is_followed=True)
        job = new_job(self._clock, origin=origin)
        await self._store.add_job(job)
        attempt = await start(self._store, job)
        await self._store.finish_attempt(
            attempt.token, Completed(tuple(_file(f"{n}.png") for n in range(files)))
        )
        return job.id

    async def state(self, run_id: JobId) -> RunState:
        known = await self.states.find(TENANT, run_id)
        assert known is not None
        return known.state

    async def wait(self, run_id: JobId, word: str) -> RunState:
        async with asyncio.timeout(20):
            while True:
                known = await self.states.find(TENANT, run_id)
                if known is not None and known.state.fetch.state == word:
                    return known.state
                await asyncio.sleep(0.01)

    async def until_left(self) -> None:
        async with asyncio.timeout(20):
            while await self._store.followed_jobs("", 9):  # noqa: ASYNC110 - of another task
                await asyncio.sleep(0.01)

    @asynccontextmanager
    async def keeper(self, fetcher: OutputFetcher | None = None) -> AsyncIterator[None]:
        keeper = RunKeeper(self._store, self._clock, self.states, fetcher or self.fetcher, Fleet())
        running = asyncio.create_task(keeper.run())
        try:
            yield
        finally:
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)


def _file(name: str) -> NewOutput:
    return NewOutput(
        OutputId(new_job_id()),
        "3",
        "images",
        name,
        "",
        False,
        "image/png",
        len(CONTENT),
        SHA256,
        key_of(SHA256),
    )


@pytest.fixture
def place(
    tmp_path: Path, store: Store, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> Place:
    monkeypatch.setattr(run_keeper, "FIRST_PAUSE_SECONDS", 0.001)
    monkeypatch.setattr(run_keeper, "LONGEST_PAUSE_SECONDS", 0.002)
    return Place(tmp_path, store, clock)


async def test_fetching_is_given_up_after_a_while_and_can_be_asked_for_again(
    place: Place, store: Store
) -> None:
    run_id = await place.ended_run(2)
    place.out.write_text("in the way")
    async with place.keeper():
        given_up = await place.wait(run_id, "failed")
        assert given_up.status == "completed"
        assert given_up.fetch.error
        assert str(place.out) in given_up.fetch.error
        await place.until_left()
        place.out.unlink()
        await store.follow_job(TENANT, run_id)
        fetched = await place.wait(run_id, "done")
    assert fetched.fetch.error is None
    assert sorted(path.name for path in place.out.iterdir()) == ["0.png", "1.png"]


async def test_run_that_is_asked_for_again_while_it_is_given_up_is_not_forgotten(
    place: Place, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    run_id = await place.ended_run()
    place.out.write_text("in the way")
    leave = store.leave_job
    asked = asyncio.Event()

    async def leave_late(job_id: JobId) -> None:
        if not asked.is_set():
            asked.set()
            place.out.unlink()

            def wait(state: RunState | None) -> RunState:
                assert state is not None
                state.fetch.state = "waiting"
                return state

            await place.states.change(TENANT, run_id, wait)
            await store.follow_job(TENANT, run_id)
        await leave(job_id)

    monkeypatch.setattr(store, "leave_job", leave_late)
    async with place.keeper():
        await place.wait(run_id, "done")


class Killed(OutputFetcher):
    """A server that is killed when a file is there and nobody has heard of it."""

    async def bring(self, tenant: TenantId, folder: Path, output: Output, name: str) -> bool:
        if await super().bring(tenant, folder, output, name):
            raise asyncio.CancelledError
        return False


class KilledLater(OutputFetcher):
    """The same when it is written down."""

    async def settle(self, *_: Any) -> None:
        raise asyncio.CancelledError


@pytest.mark.parametrize("killed", [Killed, KilledLater])
async def test_every_run_has_a_file_of_its_own_also_when_the_server_is_killed(
    place: Place, killed: type[OutputFetcher]
) -> None:
    ids = [await place.ended_run() for _ in range(3)]
    dying = killed(place.folders, place.blobs)
    async with place.keeper(dying):
        async with asyncio.timeout(20):
            while len(list(place.out.parent.rglob("*.png"))) < len(ids):  # noqa: ASYNC110 - files
                await asyncio.sleep(0.01)
    names = set()
    async with place.keeper():
        for run_id in ids:
            (file,) = (await place.wait(run_id, "done")).fetch.files
            names.add(file.filename)
    assert names == {"0.png", "0 (1).png", "0 (2).png"}
    assert {path.name for path in place.out.iterdir()} == names
