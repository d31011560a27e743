"""What a ComfyUI of the fleet gets and sends, seen through the Comfy API v2 [10.7]."""

import asyncio
import base64
import json
import struct
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.comfy_v2.reading import Frame, stream, submit, until
from tests.fleet.scripted_worker import GRAPH, ScriptedWorker
from tests.processes import Comfyrail, server

JPEG = b"\xff\xd8\xff and so on"
SECRET = "comfyui-partner-key"


class Sampling(ScriptedWorker):
    """Sends a preview, and ends when somebody has seen it."""

    def __init__(self) -> None:
        super().__init__(Sampling.play)
        self.was_seen = asyncio.Event()

    @staticmethod
    async def play(worker: ScriptedWorker, prompt_id: str) -> None:
        assert isinstance(worker, Sampling)
        await worker.say("executing", node="1", prompt_id=prompt_id)
        said = {"prompt_id": prompt_id, "node_id": "1", "image_type": "image/jpeg"}
        words = json.dumps(said).encode()
        await worker.send_frame(struct.pack(">II", 4, len(words)) + words + JPEG)
        await worker.was_seen.wait()
        worker.succeed(prompt_id, "a.png")
        await worker.say("executing", node=None, prompt_id=prompt_id)


@pytest.fixture
async def worker() -> AsyncIterator[Sampling]:
    found = Sampling()
    await found.start()
    yield found
    await found.stop()


@pytest.fixture
async def house(worker: Sampling, tmp_path: Path) -> AsyncIterator[Comfyrail]:
    process = server(tmp_path / "data", workers=0)
    await asyncio.to_thread(process.start)
    try:
        body = {"url": worker.url}
        status, reply = await asyncio.to_thread(process.call, "POST", "/v1/workers", body)
        assert status == 201, reply
        yield await asyncio.to_thread(process.wait_ready)
    finally:
        await asyncio.to_thread(process.stop)


async def test_key_for_partner_nodes_reaches_the_worker_and_its_job_only(
    house: Comfyrail, worker: Sampling
) -> None:
    worker.was_seen.set()
    extra = {"api_key_comfy_org": SECRET}
    first = await asyncio.to_thread(lambda: submit(house, GRAPH, extra_data=extra))
    await asyncio.to_thread(until, house, first["id"])
    second = await asyncio.to_thread(submit, house, GRAPH)
    await asyncio.to_thread(until, house, second["id"])
    given = [worker.prompts[each]["extra_data"] for each in worker.submitted]
    assert [each.get("api_key_comfy_org") for each in given] == [SECRET, None]
    await asyncio.to_thread(house.stop)
    assert SECRET not in house.log
    files = [path for path in house.data.rglob("*") if path.is_file()]
    assert not [path for path in files if SECRET.encode() in path.read_bytes()]


async def test_previews_are_in_the_stream(house: Comfyrail, worker: Sampling) -> None:
    loop = asyncio.get_running_loop()

    def told(frame: Frame) -> None:
        if frame[0] == "preview":
            loop.call_soon_threadsafe(worker.was_seen.set)

    made = await asyncio.to_thread(submit, house, GRAPH)
    frames = await asyncio.to_thread(lambda: stream(house, made["id"], told=told))
    (preview,) = [data for name, _, data in frames if name == "preview"]
    assert base64.b64decode(preview["data_base64"]) == JPEG
    assert (preview["node_id"], preview["content_type"]) == ("1", "image/jpeg")
    assert frames[-1][2]["status"] == "succeeded"
