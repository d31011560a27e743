"""A real ComfyUI as a worker: `make test-comfyui`."""

import json
import os
import signal
from collections.abc import Iterator
from io import BytesIO
from pathlib import Path

import pytest
from PIL import Image

from tests.comfyui_peer.install import installed_peer
from tests.comfyui_peer.server import ComfyUIServer
from tests.graphs import picture
from tests.processes import Comfyrail, server, wait_until, worker

pytestmark = pytest.mark.comfyui

PALETTE = Path(__file__).parents[2] / "workflows" / "palette" / "workflow.json"


@pytest.fixture(scope="module")
def comfyui() -> Iterator[ComfyUIServer]:
    peer = installed_peer()
    if peer is None:
        pytest.skip("no ComfyUI is installed for tests: run `make test-comfyui`")
    with ComfyUIServer(peer) as running:
        yield running


@pytest.fixture
def house(comfyui: ComfyUIServer, tmp_path: Path) -> Iterator[Comfyrail]:
    """A server whose only worker is the real ComfyUI."""
    with server(tmp_path / "data", workers=0) as process:
        status, body = process.call("POST", "/v1/workers", {"url": comfyui.url})
        assert status == 201, body
        yield process.wait_ready()


def pixels(process: Comfyrail, job_id: str) -> list[bytes]:
    job = process.wait_for(job_id, "completed", limit=60)
    found = []
    for output in job["result"]["outputs"]:
        _, content, _ = process.fetch("GET", output["url"])
        with Image.open(BytesIO(content)) as image:
            found.append(image.convert("RGB").tobytes())
    return found


def test_example_runs_on_comfyui_with_progress_and_its_outputs_arrive(
    house: Comfyrail, tmp_path: Path
) -> None:
    palette = json.loads(PALETTE.read_text())
    job_id = house.submit(palette)
    events = house.events(job_id)
    assert [event["number"] for event in events] == list(range(1, len(events) + 1))
    completed = {
        event["data"]["node_id"] for event in events if event["type"] == "execution.node_completed"
    }
    assert completed == set(palette)
    shares = [event["data"]["progress"] for event in events if event["type"].endswith("progress")]
    assert shares == sorted(shares)
    real = pixels(house, job_id)
    assert len(real) == 6
    with server(tmp_path / "own", workers=1) as own:
        own.wait_ready()
        assert pixels(own, own.submit(palette)) == real


def test_repeated_job_is_cached_by_comfyui_and_still_has_its_output(house: Comfyrail) -> None:
    first = pixels(house, house.submit(picture(0x112233)))
    second = house.submit(picture(0x112233))
    assert pixels(house, second) == first
    nodes = [event for event in house.events(second) if "node_completed" in event["type"]]
    assert all(event["data"]["cached"] for event in nodes)


def test_comfyuis_own_refusal_reaches_the_caller(house: Comfyrail) -> None:
    graph = picture()
    graph["1"] = {"class_type": "LoadImage", "inputs": {"image": "gone/nope.png"}}
    job = house.wait_for(house.submit(graph), "failed")
    assert job["error"]["code"] == "INPUT_FILE_MISSING"
    assert "Invalid image file: gone/nope.png" in job["error"]["message"]


def test_node_types_of_both_are_known_and_jobs_go_where_they_can_run(
    house: Comfyrail, tmp_path: Path
) -> None:
    with worker(tmp_path / "engine") as engine:
        house.call("POST", "/v1/workers", {"url": engine.url})
        wait_until(lambda: len(idle(house)) == 2)
        generated = {
            "1": {
                "class_type": "CheckerboardImage",
                "inputs": {
                    "width": 32,
                    "height": 32,
                    "cell": 8,
                    "color1": "#000000",
                    "color2": "#ffffff",
                },
            },
            "2": {"class_type": "PreviewImage", "inputs": {"images": ["1", 0]}},
        }
        assert house.wait_for(house.submit(generated), "completed")["worker_id"] == "static-2"
        masked = {
            "1": {"class_type": "SolidMask", "inputs": {"value": 1.0, "width": 8, "height": 8}},
            "2": {"class_type": "MaskToImage", "inputs": {"mask": ["1", 0]}},
            "3": {"class_type": "PreviewImage", "inputs": {"images": ["2", 0]}},
        }
        # Node types that only ComfyUI has, for as long as the engine has them not.
        jobs = [house.wait_for(house.submit(masked), "completed") for _ in range(3)]
        assert {job["worker_id"] for job in jobs} <= {"static-1", "static-2"}


def idle(process: Comfyrail) -> list[str]:
    workers = process.call("GET", "/v1/workers")[1]["workers"]
    return [each["worker_id"] for each in workers if each["status"] == "idle"]


def test_job_of_a_killed_comfyui_ends_on_another_worker(tmp_path: Path) -> None:
    peer = installed_peer()
    if peer is None:
        pytest.skip("no ComfyUI is installed for tests: run `make test-comfyui`")
    with (
        ComfyUIServer(peer) as doomed,
        server(tmp_path / "data", workers=0, COMFYRAIL_LEASE_SECONDS="2") as process,
    ):
        process.call("POST", "/v1/workers", {"url": doomed.url})
        process.wait_ready()
        job_id = process.submit(picture(5, width=4096, height=4096))
        process.wait_for(job_id, "processing")
        assert doomed.process is not None
        os.kill(doomed.process.pid, signal.SIGKILL)
        with worker(tmp_path / "engine") as engine:
            process.call("POST", "/v1/workers", {"url": engine.url})
            job = process.wait_for(job_id, "completed", limit=60)
            assert (job["worker_id"], job["attempts"]) == ("static-2", 2)
