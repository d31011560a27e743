"""The workers that a server takes up when it starts: the file's, and those it remembers."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from comfyrail.bootstrap.settings import load_settings
from comfyrail.bootstrap.workforce import Workforce, open_workforce
from comfyrail.errors import ConfigurationError
from comfyrail.ids import WorkerId
from comfyrail.jobs.workers import WorkerStatus
from comfyrail.store.interface import WorkerRecord
from comfyrail.usecases.workers import NewWorker
from tests.fleet.house import House, open_house, playing, succeed

ADDRESS = "http://127.0.0.1:9"
STUDIO = f"workers: {{studio: {{driver: static, config: {{url: '{ADDRESS}'}}}}}}"


@asynccontextmanager
async def workforce(
    folder: Path, file: str | None = None
) -> AsyncIterator[tuple[House, Workforce]]:
    path = folder / "fleet.yaml"
    if file is not None:
        path.write_text(file)
    async with open_house(folder) as house:
        settings = load_settings(data=folder, workers=0, fleet=path if file is not None else None)
        force = await open_workforce(
            settings, house.store, house.fleet, house.context.http, house.clock
        )
        try:
            yield house, force
        finally:
            await force.pools.close()


def workers_of(house: House) -> set[str]:
    return {view.id for view in house.fleet.views()}


async def test_worker_that_someone_named_like_the_servers_own_stays(tmp_path: Path) -> None:
    async with open_house(tmp_path) as house:
        now = house.clock.now()
        for name in ("local-5", "7"):
            record = WorkerRecord(WorkerId(name), "local", None, now, config={"nodes": []})
            await house.store.save_worker(record)
            await house.store.drain_worker(record.id, is_drained=True)
    async with workforce(tmp_path) as (house, force):
        await force.pools.look()
        assert workers_of(house) == {"local-5", "7"}
        assert house.fleet.view(WorkerId("local-5")).status is WorkerStatus.STOPPED
        assert {record.id for record in await house.store.list_workers()} >= {"local-5", "7"}


async def test_worker_that_is_no_longer_in_the_file_goes_away(tmp_path: Path) -> None:
    async with workforce(tmp_path, STUDIO) as (house, force), playing(succeed) as worker:
        await force.workers.add(NewWorker("static", {"url": worker.url}, "mine"))
        assert workers_of(house) == {"studio", "mine"}
    async with workforce(tmp_path, STUDIO.replace("studio", "atelier")) as (house, _):
        assert workers_of(house) == {"atelier", "mine"}, "its address is free for another name"
    async with workforce(tmp_path) as (house, _):
        assert workers_of(house) == {"mine"}
        assert {record.id for record in await house.store.list_workers()} == {"mine", "local-0"}


async def test_worker_that_a_driver_made_for_the_file_is_ended_with_its_entry(
    tmp_path: Path,
) -> None:
    async with workforce(tmp_path, "workers: {engine: {driver: local}}") as (house, _):
        await house.fleet.drain(WorkerId("engine"))
    async with workforce(tmp_path, "workers: {engine: {driver: local}}") as (house, _):
        await house.has_status(WorkerId("engine"), WorkerStatus.STOPPED)
    async with workforce(tmp_path, "pools: {}") as (house, force):
        assert workers_of(house) == set()
        await house.until(lambda: not force.pools.is_ending(WorkerId("engine")))
        assert {record.id for record in await house.store.list_workers()} == {"local-0"}


async def test_pool_whose_likeness_is_the_name_of_a_worker_is_refused(tmp_path: Path) -> None:
    async with open_house(tmp_path) as house:
        record = WorkerRecord(WorkerId("gpu-0"), "static", ADDRESS, house.clock.now())
        await house.store.save_worker(record)
    with pytest.raises(ConfigurationError, match=r"pool 'gpu'.*worker 'gpu-0'"):
        async with workforce(tmp_path, "pools: {gpu: {driver: local}}"):
            pass
    async with workforce(tmp_path) as (house, _):
        assert workers_of(house) == {"gpu-0"}


async def test_address_that_another_worker_has_already_is_refused_with_both_names(
    tmp_path: Path,
) -> None:
    async with open_house(tmp_path) as house:
        record = WorkerRecord(WorkerId("mine"), "static", ADDRESS, house.clock.now())
        await house.store.save_worker(record)
    with pytest.raises(ConfigurationError, match=r"'studio'.*'mine'"):
        async with workforce(tmp_path, STUDIO):
            pass


async def test_workers_of_the_file_may_change_places(tmp_path: Path) -> None:
    def file(first: int, second: int) -> str:
        workers = zip(("a", "b"), (first, second), strict=True)
        return "workers:\n" + "".join(
            f"  {name}: {{driver: static, config: {{url: 'http://127.0.0.1:{port}'}}}}\n"
            for name, port in workers
        )

    async with workforce(tmp_path, file(8, 9)):
        pass
    async with workforce(tmp_path, file(9, 8)) as (house, _):
        records = {record.id: record.endpoint for record in await house.store.list_workers()}
        assert records[WorkerId("a")] == "http://127.0.0.1:9"
        assert records[WorkerId("b")] == "http://127.0.0.1:8"
    with pytest.raises(ConfigurationError, match=r"'b'.*'a'"):
        async with workforce(tmp_path, file(9, 9)):
            pass
