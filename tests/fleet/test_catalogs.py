"""What the fleet can run: learned from workers, kept while they are away [1.5]."""

from pathlib import Path
from typing import Any

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
        assert house.fleet.model_sizes == {"a.safetensors": 5 << 30}
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
