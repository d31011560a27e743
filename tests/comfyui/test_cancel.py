"""Attempts on a real ComfyUI: cancel at the next step, previews, pictures over the socket, inputs.

`make test-comfyui`.
"""

import io
import json
import subprocess
from collections.abc import AsyncIterator, Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

from comfyrail.fleet.comfyui.messages import Message, ProgressChanged
from comfyrail.fleet.connection import Listener, PictureTaker, WorkerConnection
from comfyrail.fleet.inputs import WorkerInputs
from comfyrail.fleet.session import SessionTimes
from comfyrail.jobs.states import JobState
from comfyrail.workflow.catalog import parse_object_info
from tests.comfyui.test_sampling_parity import NAME, text_to_image
from tests.comfyui_peer import random_checkpoint
from tests.comfyui_peer.install import installed_peer
from tests.comfyui_peer.server import ComfyUIServer
from tests.fleet.bench import TENANT, Bench, open_bench

pytestmark = pytest.mark.comfyui

STEPS = 300
SAMPLER = "5"


@pytest.fixture(scope="module")
def comfyui(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ComfyUIServer]:
    peer = installed_peer()
    if peer is None:
        pytest.skip("no ComfyUI is installed for tests: run `make test-comfyui`")
    checkpoint = tmp_path_factory.mktemp("models") / NAME
    subprocess.run(
        [str(peer.python), random_checkpoint.__file__, str(checkpoint)],
        cwd=peer.checkout,
        env=peer.environment(),
        check=True,
        timeout=110,
    )
    running = ComfyUIServer(peer, preview_method="latent2rgb")
    folder = running.base_directory / "models" / "checkpoints"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / NAME).symlink_to(checkpoint)
    pack = Path("custom_nodes") / "websocket_image_save.py"
    (running.base_directory / pack).symlink_to(peer.checkout / pack)
    with running:
        yield running


@pytest.fixture
async def bench(tmp_path: Path) -> AsyncIterator[Bench]:
    async with open_bench(tmp_path) as opened:
        opened.times = SessionTimes()
        yield opened


def sampling(seed: int) -> dict[str, Any]:
    graph = text_to_image(seed, "euler", "a long way", steps=STEPS)
    graph["4"]["inputs"] |= {"width": 192, "height": 192, "batch_size": 1}
    return graph


def overhear(connection: WorkerConnection, monkeypatch: pytest.MonkeyPatch) -> list[Message]:
    """All messages that come over the connection from here on."""
    heard: list[Message] = []
    listening = connection.listening

    def listen(
        prompt_id: str, listener: Listener, pictures: PictureTaker | None = None
    ) -> AbstractContextManager[None]:
        def both(message: Message | None) -> None:
            if message is not None:
                heard.append(message)
            listener(message)

        return listening(prompt_id, both, pictures)

    monkeypatch.setattr(connection, "listening", listen)
    return heard


def step_of(heard: list[Message]) -> int:
    """How far the sampler has come."""
    steps = [
        change.value
        for message in heard
        if isinstance(message, ProgressChanged)
        for change in message.nodes
        if change.node == SAMPLER and change.maximum == STEPS
    ]
    return int(max(steps, default=0))


async def test_cancel_during_sampling_stops_at_the_next_step(
    bench: Bench, comfyui: ComfyUIServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    connection = await bench.connect(comfyui)
    heard = overhear(connection, monkeypatch)
    run = await bench.begin(connection, graph=sampling(1), timeout=300)
    await bench.until(lambda: step_of(heard) >= 3, 60)
    at_cancel = step_of(heard)
    await bench.store.request_cancel(TENANT, run.job_id)
    job = await bench.end(run)
    assert job.state is JobState.CANCELLED
    # One that was under way when the interrupt came, and what was heard of meanwhile.
    assert step_of(heard) <= at_cancel + 3
    assert await connection.client.presence(run.attempt.prompt_id) == "absent"


async def test_previews_come_while_it_samples(bench: Bench, comfyui: ComfyUIServer) -> None:
    run = await bench.begin(await bench.connect(comfyui), graph=sampling(2), timeout=300)
    await bench.until(lambda: bench.previews.latest(run.job_id), 60)
    preview = bench.previews.latest(run.job_id)
    assert preview is not None
    assert preview.node_id == SAMPLER
    with Image.open(io.BytesIO(preview.image)) as image:
        assert image.size[0] > 0
    await bench.store.request_cancel(TENANT, run.job_id)
    assert (await bench.end(run)).state is JobState.CANCELLED
    assert bench.previews.latest(run.job_id) is None


async def test_pictures_over_the_socket_and_inputs_by_content(
    bench: Bench, comfyui: ComfyUIServer, tmp_path: Path
) -> None:
    folder = tmp_path / "input"
    folder.mkdir()
    Image.new("RGB", (16, 16), (10, 20, 30)).save(folder / "mine.png")
    connection = await bench.connect(comfyui)
    catalog = parse_object_info(json.loads(await connection.client.object_info()))
    bench.inputs = WorkerInputs(folder, lambda: catalog)
    graph = {
        "1": {"class_type": "LoadImage", "inputs": {"image": "mine.png"}},
        "2": {"class_type": "SaveImageWebsocket", "inputs": {"images": ["1", 0]}},
    }
    run = await bench.begin(connection, graph=graph, timeout=60)
    job = await bench.end(run)
    assert job.state is JobState.COMPLETED, job.fault
    ((output, content),) = await bench.outputs(run.job_id)
    assert (output.file.node_id, output.file.content_type) == ("2", "image/png")
    with Image.open(io.BytesIO(content)) as image:
        assert image.convert("RGB").getpixel((3, 3)) == (10, 20, 30)
