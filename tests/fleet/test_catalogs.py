"""What the fleet can run: learned from workers, kept while they are away [1.5]."""

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from comfyrail.clock import Instant
from comfyrail.errors import StoreUnavailable
from comfyrail.fleet.catalogs import FleetCatalog
from comfyrail.ids import WorkerId
from comfyrail.store.interface import WorkerRecord
from comfyrail.workflow.capabilities import WorkerCapabilities
from tests.fleet.house import House, open_house, playing, succeed
from tests.fleet.scripted_worker import OBJECT_INFO, ScriptedWorker


def loading(*names: str) -> dict[str, Any]:
    loader = {"input": {"required": {"ckpt_name": [list(names)]}}, "output": ["IMAGE"]}
    return {**OBJECT_INFO, "Load": loader}


def graph_with(model: str) -> dict[str, Any]:
    return {
        "1": {"class_type": "Load", "inputs": {"ckpt_name": model}},
        "2": {"class_type": "Keep", "inputs": {"image": ["1", 0]}},
    }


def capabilities(house: House, name: str = "w1") -> WorkerCapabilities:
    return next(each for each in house.fleet.capabilities if each.id == name)


async def add_and_wait(house: House, worker: ScriptedWorker, name: str = "w1") -> None:
    await house.add(worker, name)
    await house.until(lambda: any(each.id == name for each in house.fleet.capabilities))
    await house.until(lambda: capabilities(house, name).is_online)


async def test_models_are_known_with_their_sizes(tmp_path: Path) -> None:
    async with open_house(tmp_path) as house, playing(succeed) as worker:
        worker.models = {"checkpoints": {"a.safetensors": 5 << 30}}
        await add_and_wait(house, worker)
        await house.until(lambda: house.fleet.model_sizes)
        assert house.fleet.model_sizes["checkpoints/a.safetensors"] == 5 << 30
        assert capabilities(house).models == {"checkpoints": {"a.safetensors": 5 << 30}}
        assert capabilities(house).device == "cpu"


async def test_what_workers_can_do_is_known_while_they_are_away(tmp_path: Path) -> None:
    async with open_house(tmp_path) as house, playing(succeed) as worker:
        worker.models = {"checkpoints": {"a.safetensors": 7}}
        await add_and_wait(house, worker)
        await house.until(lambda: house.fleet.model_sizes)
    async with open_house(tmp_path) as again:
        known = capabilities(again)
        assert not known.is_online
        assert known.device == "cpu"
        assert known.models == {"checkpoints": {"a.safetensors": 7}}
        assert set(known.catalog.types) == {"Make", "Keep"}
        assert set(again.fleet.catalog.types) == {"Make", "Keep"}


async def test_workers_that_differ_are_merged_and_told_apart(tmp_path: Path) -> None:
    async with (
        open_house(tmp_path) as house,
        playing(succeed) as first,
        playing(succeed) as second,
    ):
        first.object_info = loading("a.ckpt")
        second.object_info = loading("b.ckpt")
        await add_and_wait(house, first, "w1")
        await add_and_wait(house, second, "w2")
        port = house.fleet.catalog.types["Load"].inputs["ckpt_name"]
        assert set(port.choices or ()) == {"a.ckpt", "b.ckpt"}
        own = capabilities(house, "w2").catalog.types["Load"].inputs["ckpt_name"]
        assert own.choices == ("b.ckpt",)
        assert [(each.node_type, each.kind) for each in house.fleet.differences] == [
            ("Load", "choices")
        ]
        # What is alike is one object.
        assert (
            capabilities(house, "w1").catalog.types["Keep"]
            is capabilities(house, "w2").catalog.types["Keep"]
        )


async def test_refresh_finds_a_model_that_was_just_added(tmp_path: Path) -> None:
    async with open_house(tmp_path) as house, playing(succeed) as worker:
        worker.object_info = loading("a.ckpt")
        await add_and_wait(house, worker)
        worker.object_info = loading("a.ckpt", "new.ckpt")
        assert await house.fleet.refresh()
        port = house.fleet.catalog.types["Load"].inputs["ckpt_name"]
        assert port.choices == ("a.ckpt", "new.ckpt")
        assert not await house.fleet.refresh(), "asked again at once: workers are left alone"


async def test_models_of_the_last_jobs_are_warm_as_far_as_memory_goes(tmp_path: Path) -> None:
    async with open_house(tmp_path) as house, playing(succeed) as worker:
        worker.object_info = loading("a.ckpt", "b.ckpt")
        worker.models = {"checkpoints": {"a.ckpt": 1, "b.ckpt": 1}}  # and room for one byte
        await add_and_wait(house, worker)
        await house.until(lambda: house.fleet.model_sizes)
        await house.ended(await house.submit(graph=graph_with("a.ckpt")))
        await house.until(lambda: capabilities(house).warm_models == {"a.ckpt"})
        await house.ended(await house.submit(graph=graph_with("b.ckpt")))
        await house.until(lambda: capabilities(house).warm_models == {"b.ckpt"})


async def test_worker_that_was_removed_does_not_come_back_through_a_refresh(
    tmp_path: Path,
) -> None:
    async with open_house(tmp_path) as house, playing(succeed) as worker:
        await add_and_wait(house, worker)
        worker.is_frozen = True
        refreshing = asyncio.create_task(house.fleet.refresh())
        await asyncio.sleep(0)
        removing = asyncio.create_task(house.fleet.remove(WorkerId("w1")))
        worker.object_info = loading("a.ckpt")
        worker.is_frozen = False
        await asyncio.gather(refreshing, removing)
        assert list(house.fleet.capabilities) == []
        assert not house.fleet.catalog


async def test_refused_at_once_all_profit_from_one_refresh(tmp_path: Path) -> None:
    async with open_house(tmp_path) as house, playing(succeed) as worker:
        worker.object_info = loading("a.ckpt")
        await add_and_wait(house, worker)
        worker.object_info = loading("a.ckpt", "new.ckpt")
        assert await asyncio.gather(*(house.fleet.refresh() for _ in range(5))) == [True] * 5


async def test_models_that_cannot_be_listed_now_are_as_they_were_known(tmp_path: Path) -> None:
    async with open_house(tmp_path) as house, playing(succeed) as worker:
        worker.models = {"checkpoints": {"a.ckpt": 5}, "loras": {"l.ckpt": 6}}
        await add_and_wait(house, worker)
        await house.until(lambda: "loras/l.ckpt" in house.fleet.model_sizes)
        worker.broken_folders = {"checkpoints"}
        worker.models["loras"] = {"l.ckpt": 7}
        await house.fleet.refresh()
        assert house.fleet.model_sizes["checkpoints/a.ckpt"] == 5
        assert house.fleet.model_sizes["loras/l.ckpt"] == 7


async def test_store_that_fails_once_does_not_hide_a_worker(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with open_house(tmp_path) as house:
        catalog = FleetCatalog(house.store)
        await house.store.save_worker(WorkerRecord(WorkerId("w"), "static", None, Instant(0)))
        content = json.dumps(OBJECT_INFO).encode()

        async def fail(*_: object) -> None:
            raise StoreUnavailable("the disk is full")

        with monkeypatch.context() as patched:
            patched.setattr(house.store, "save_catalog", fail)
            with pytest.raises(StoreUnavailable):
                await catalog.learn(WorkerId("w"), content)
        await catalog.learn(WorkerId("w"), content)
        assert set(catalog.merged.types) == set(OBJECT_INFO)
        assert len(await house.store.list_catalogs()) == 1


async def test_halves_of_characters_from_a_worker_do_no_harm(tmp_path: Path) -> None:
    async with open_house(tmp_path) as house, playing(succeed) as worker:
        worker.models = {"checkpoints": {"\ud800.safetensors": 5}}
        worker.object_info = {**OBJECT_INFO, "\ud800x": {"output": []}}
        await add_and_wait(house, worker)
        await house.until(lambda: house.fleet.model_sizes)
        assert "checkpoints/?.safetensors" in house.fleet.model_sizes
        assert "?x" in house.fleet.catalog


async def test_nothing_is_warm_on_a_worker_that_was_away(tmp_path: Path) -> None:
    async with open_house(tmp_path) as house, playing(succeed) as worker:
        worker.object_info = loading("a.ckpt")
        await add_and_wait(house, worker)
        await house.ended(await house.submit(graph=graph_with("a.ckpt")))
        await house.until(lambda: capabilities(house).warm_models == {"a.ckpt"})
        await worker.drop_sockets()
        await house.until(lambda: not capabilities(house).warm_models)


async def test_workers_that_are_alike_are_not_merged_again(tmp_path: Path) -> None:
    async with (
        open_house(tmp_path) as house,
        playing(succeed) as first,
        playing(succeed) as second,
        playing(succeed) as third,
    ):
        first.object_info = second.object_info = loading("a.ckpt")
        third.object_info = loading("b.ckpt")
        await add_and_wait(house, first, "w1")
        await add_and_wait(house, third, "w3")
        merged = house.fleet.catalog
        await add_and_wait(house, second, "w2")
        await house.fleet.remove(WorkerId("w2"))
        await house.store.remove_worker(WorkerId("w2"))
        assert set(house.fleet.catalog.types) == set(merged.types)
        await house.fleet.remove(WorkerId("w3"))
        port = house.fleet.catalog.types["Load"].inputs["ckpt_name"]
        assert port.choices == ("a.ckpt",), "what nobody has any more is forgotten"
        only = house.fleet.catalog
        await add_and_wait(house, second, "w4")
        assert house.fleet.catalog is only


async def test_models_that_a_returning_worker_cannot_list_are_as_they_were_known(
    tmp_path: Path,
) -> None:
    async with playing(succeed) as worker:
        worker.models = {"checkpoints": {"a.ckpt": 5}}
        async with open_house(tmp_path) as house:
            await add_and_wait(house, worker)
            await house.until(lambda: house.fleet.model_sizes)
        worker.broken_folders = {"checkpoints"}
        worker.calls.clear()
        async with open_house(tmp_path) as again:
            await add_and_wait(again, worker)
            await again.until(lambda: "GET /experiment/models/checkpoints" in worker.calls)
            assert again.fleet.model_sizes["checkpoints/a.ckpt"] == 5
            assert capabilities(again).models == {"checkpoints": {"a.ckpt": 5}}
