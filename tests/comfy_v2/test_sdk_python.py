"""The official Python SDK, unchanged, against a real server: what its quick start does [10.7]."""

import json
from pathlib import Path

import pytest
from comfy_sdk import (
    AsyncComfy,
    Comfy,
    IdempotencyKeyReuse,
    InvalidWorkflow,
    JobFailed,
    MissingAsset,
    NotFound,
    OutputReady,
    Progress,
    StatusChange,
)
from PIL import Image

from tests.comfy_v2.pictures import png
from tests.graphs import Graph, picture, slow_picture
from tests.processes import Comfyrail

SIZE = 24


@pytest.fixture
def target(running_server: Comfyrail, monkeypatch: pytest.MonkeyPatch) -> Comfyrail:
    """The one thing that is set: where the server is."""
    monkeypatch.setenv("COMFY_BASE_URL", running_server.url)
    return running_server


def inverting() -> Graph:
    """Node 10 loads a picture, node 9 saves it inverted."""
    return {
        "10": {"class_type": "LoadImage", "inputs": {"image": ""}},
        "2": {"class_type": "ImageInvert", "inputs": {"image": ["10", 0]}},
        "9": {"class_type": "SaveImage", "inputs": {"images": ["2", 0], "filename_prefix": "sdk"}},
    }


def files(folder: Path, number: int) -> tuple[Path, Path]:
    """A workflow and a picture."""
    workflow, photo = folder / "workflow_api.json", folder / "photo.png"
    workflow.write_text(json.dumps(inverting()))
    photo.write_bytes(png(number, SIZE))
    return workflow, photo


def assert_inverted(given: Path, made: Path) -> None:
    with Image.open(given) as before, Image.open(made) as after:
        assert before.size == after.size
        pixel, inverted = before.convert("RGB").getpixel((3, 3)), after.getpixel((3, 3))
    assert isinstance(pixel, tuple)
    assert isinstance(inverted, tuple)
    # Floats in between, and cut off as ComfyUI does.
    assert all(254 <= one + other <= 255 for one, other in zip(pixel, inverted, strict=True))


def test_quick_start_works_unchanged(target: Comfyrail, tmp_path: Path) -> None:
    del target
    workflow, photo = files(tmp_path, 51)
    with Comfy() as client:
        wf = client.workflows.from_file(str(workflow))
        asset = client.assets.from_file(photo)
        wf.set_input("10", "image", asset)
        job = client.run(wf)
        outputs = job.get_outputs("9")
        for output in outputs:
            output.to_file(tmp_path / output.name)
    assert len(outputs) == 1
    assert_inverted(photo, tmp_path / outputs[0].name)


async def test_quick_start_of_the_async_client_works_unchanged(
    target: Comfyrail, tmp_path: Path
) -> None:
    del target
    workflow, photo = files(tmp_path, 52)
    async with AsyncComfy() as client:
        wf = client.workflows.from_file(str(workflow))
        wf.set_input("10", "image", client.assets.from_file(photo))
        job = await client.run(wf)
        made = await job.outputs[0].to_file(tmp_path / "out.png")
        assert_inverted(photo, made)
        head = await job.outputs[0].to_bytes(range=(0, 7))
        assert head == b"\x89PNG\r\n\x1a\n"


def test_second_handle_on_the_same_bytes_is_the_same_asset(
    target: Comfyrail, tmp_path: Path
) -> None:
    del target
    _, photo = files(tmp_path, 53)
    with Comfy() as client:
        first = client.assets.from_file(photo)
        first.commit()
        again = client.assets.from_bytes(photo.read_bytes(), filename="photo.png")
        assert again.commit() == first.id
        assert (first.created_new, again.created_new) == (True, False)
        assert client.assets.get(str(first.id)).hash == first.hash
        first.delete()
        with pytest.raises(NotFound):
            client.assets.delete(str(again.id))


def test_events_are_typed_and_end_with_the_job(target: Comfyrail, tmp_path: Path) -> None:
    del target
    with Comfy() as client:
        job = client.submit(client.workflows.from_json(slow_picture(1.0, color=54)))
        events = list(job.events())
        assert isinstance(events[-1], StatusChange)
        assert events[-1].status == "succeeded"
        assert any(isinstance(event, Progress) and event.steps for event in events)
        (ready,) = [event for event in events if isinstance(event, OutputReady)]
        assert isinstance(ready, OutputReady)
        assert job.refresh().outputs[0].id == ready.output.id
        link = job.outputs[0].get_download_url()
        assert link.expires_at is None
        assert job.get_workflow().format == "api"
        found = client.jobs.get(job.id)
        assert found.status == "succeeded"
        assert found.outputs[0].job_id == job.id
        found.outputs[0].to_file(tmp_path / "found.png")


def test_list_finds_jobs_by_their_labels(target: Comfyrail) -> None:
    labels = {"client": f"acme-{target.url}"}
    with Comfy() as client:
        jobs = [
            client.submit(client.workflows.from_json(picture(58 + number)), metadata=labels)
            for number in range(3)
        ]
        found = list(client.list_jobs(metadata=labels, limit=2))
        assert [each.id for each in found] == [job.id for job in reversed(jobs)]
        assert found[0].metadata == labels
        assert found[0].create_time is not None
        assert client.jobs.get(jobs[0].id).metadata == labels


def test_cancel_ends_the_job(target: Comfyrail) -> None:
    del target
    with Comfy() as client:
        job = client.submit(client.workflows.from_json(slow_picture(30, color=55)))
        job.cancel()
        job.wait(timeout=20)
        assert job.status == "canceled"
        with pytest.raises(JobFailed):
            job.result()
        assert job.cancel().status == "canceled"


def test_errors_come_as_the_types_of_the_sdk(target: Comfyrail) -> None:
    del target
    with Comfy() as client:
        with pytest.raises(InvalidWorkflow) as refused:
            client.run(client.workflows.from_json({"1": {"class_type": "Nowhere", "inputs": {}}}))
        assert refused.value.details is not None
        assert "1" in refused.value.details["node_errors"]
        graph = inverting()
        graph["10"]["inputs"]["image"] = {"__type": "core/ASSET", "info": {"id": "nowhere"}}
        with pytest.raises(MissingAsset):
            client.run(client.workflows.from_json(graph))


def test_resend_under_one_key_finds_the_first_job(target: Comfyrail) -> None:
    """The SDK would take a refusal; it gets the job."""
    key = f"sdk-{target.url}"
    with Comfy() as client:
        first = client.submit(client.workflows.from_json(picture(56)), idempotency_key=key)
        again = client.submit(client.workflows.from_json(picture(56)), idempotency_key=key)
        assert again.id == first.id
        with pytest.raises(IdempotencyKeyReuse):
            client.submit(client.workflows.from_json(picture(57)), idempotency_key=key)
