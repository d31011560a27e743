"""A real engine worker behind an agent: a job outlives the line [5.7], [6.1]."""

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

from comfyrail.fleet.comfyui.client import ComfyClient
from tests.fleet.drivers.agent_parts import Wire, agent, house, picture_of, until
from tests.graphs import slow_picture
from tests.processes import Comfyrail, worker


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Comfyrail]:
    folder: Path = tmp_path_factory.mktemp("engine") / "worker"
    with worker(folder) as running:
        yield running


async def test_a_job_goes_on_while_the_line_is_cut_and_its_end_is_found(
    engine: Comfyrail,
) -> None:
    async with house() as there:
        wire = Wire(there.server_url)
        async with wire.laid() as url, agent(url, engine.url):
            client = ComfyClient(await there.lines.wait_connected("box", 10), there.http)
            line = there.lines.line("box")
            async with client.socket("me") as follow:
                await client.submit(slow_picture(0.4), "cut-1", "me")
                while "executing" not in (await follow.receive_str()):
                    pass
                wire.cut()
                while (await follow.receive(10)).type.name == "TEXT":
                    pass
            await until(lambda: there.lines.line("box") not in {None, line})
            async with asyncio.timeout(10):
                while await client.history("cut-1") is None:  # noqa: ASYNC110 - asked, not told
                    await asyncio.sleep(0.02)
            picture = await picture_of(there.http, client.endpoint, "cut-1")
            assert picture.startswith(b"\x89PNG")


async def test_ten_requests_at_once_share_the_line(engine: Comfyrail) -> None:
    async with house() as there, agent(there.server_url, engine.url):
        client = ComfyClient(await there.lines.wait_connected("box", 10), there.http)
        one = await client.object_info()
        many = await asyncio.gather(*(client.object_info() for _ in range(10)))
        assert many == [one] * 10
