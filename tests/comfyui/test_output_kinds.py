"""Outputs of every kind survive a run on a real ComfyUI: `make test-comfyui`."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.comfyui_peer.install import installed_peer
from tests.comfyui_peer.server import ComfyUIServer
from tests.media.kinds import EXPECTED, GRAPH, check_all_kinds, look_at_all
from tests.processes import Comfyrail, server

pytestmark = pytest.mark.comfyui


@pytest.fixture(scope="module")
def house(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Comfyrail]:
    """A server whose only worker is the real ComfyUI."""
    peer = installed_peer()
    if peer is None:
        pytest.skip("no ComfyUI is installed for tests: run `make test-comfyui`")
    folder = tmp_path_factory.mktemp("kinds") / "data"
    with ComfyUIServer(peer) as comfyui, server(folder, workers=0) as process:
        status, body = process.call("POST", "/v1/workers", {"url": comfyui.url})
        assert status == 201, body
        yield process.wait_ready()


def test_outputs_of_every_kind_survive_a_run_on_comfyui(house: Comfyrail) -> None:
    check_all_kinds(house)


def test_engine_gives_outputs_of_the_same_names_and_sorts(house: Comfyrail, tmp_path: Path) -> None:
    def described(process: Comfyrail) -> dict[str, tuple[str, str, str]]:
        job_id = process.submit(GRAPH)
        process.wait_for(job_id, "completed", limit=90)
        return {
            node_id: (
                output["kind"],
                output["filename"].rpartition("_")[2],
                output["media"].get("video_codec") or output["media"].get("audio_codec") or "",
            )
            for node_id, output in look_at_all(process, job_id).items()
        }

    with server(tmp_path / "own", workers=1) as own:
        own.wait_ready()
        assert described(own) == described(house)
    assert set(EXPECTED) <= set(GRAPH)


def test_pictures_of_comfyui_are_converted(house: Comfyrail) -> None:
    graph = {name: GRAPH[name] for name in ("image", "png")}
    job_id = house.submit(graph, output_config={"format": "webp", "quality": 80})
    outputs = house.wait_for(job_id, "completed", limit=60)["result"]["outputs"]
    assert {output["content_type"] for output in outputs} == {"image/webp"}
    assert all(output["filename"].endswith(".webp") for output in outputs)
    assert look_at_all(house, job_id)["png"]["media"]["has_prompt"]
