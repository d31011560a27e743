"""Smaller versions of outputs and assets over HTTP, and conversion, through a real server [8.2]."""

import io
import json
import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

from tests.graphs import picture
from tests.media import makers
from tests.media.house import kill, media_processes
from tests.media.kinds import look_at_all
from tests.processes import Comfyrail, server, wait_until


def large_picture(colour: int) -> dict[str, Any]:
    return picture(colour, width=700, height=350)


def finished(process: Comfyrail, colour: int, **fields: Any) -> tuple[str, dict[str, Any]]:
    """The job and its only output."""
    job_id = process.submit(large_picture(colour), **fields)
    (output,) = process.wait_for(job_id, "completed")["result"]["outputs"]
    return job_id, output


def code_of(process: Comfyrail, path: str) -> tuple[int, str]:
    status, body = process.call("GET", path)
    return status, body["error"]["code"]


def upload(process: Comfyrail, name: str, content: bytes) -> dict[str, Any]:
    path = f"/v1/uploads?name={name}"
    kind = {"Content_Type": "application/octet-stream"}
    status, body = process.call("POST", path, content, **kind)
    assert status == 201, body
    asset = body["assets"][0]
    assert isinstance(asset, dict)
    return asset


def test_thumbnail_is_served_with_etag_and_ranges_for_ever(running_server: Comfyrail) -> None:
    job_id, _ = finished(running_server, 0xA1B2C3)
    output = look_at_all(running_server, job_id)["3"]
    assert set(output["variants"]) == {"thumb_256", "thumb_512", "embedded"}
    url = output["variants"]["thumb_256"]
    status, content, headers = running_server.fetch("GET", url)
    assert (status, headers["content-type"]) == (200, "image/webp")
    assert "immutable" in headers["cache-control"]
    with Image.open(io.BytesIO(content)) as thumbnail:
        assert thumbnail.size == (256, 128)
    again, nothing, _ = running_server.fetch("GET", url, If_None_Match=headers["etag"])
    assert (again, nothing) == (304, b"")
    part, some, _ = running_server.fetch("GET", url, Range="bytes=0-3")
    assert (part, some) == (206, b"RIFF")


def test_embedded_graph_is_served_as_json(running_server: Comfyrail) -> None:
    job_id, _ = finished(running_server, 0xA1B2C4)
    url = look_at_all(running_server, job_id)["3"]["variants"]["embedded"]
    status, content, headers = running_server.fetch("GET", url)
    assert (status, headers["content-type"]) == (200, "application/json")
    assert json.loads(content)["prompt"]["1"]["inputs"]["color"] == 0xA1B2C4


def test_variant_that_is_not_made_of_such_a_file_says_so(running_server: Comfyrail) -> None:
    job_id, output = finished(running_server, 0xA1B2C5)
    look_at_all(running_server, job_id)
    for name in ("poster", "thumb_1024", "nonsense", "..%2f..%2fx"):
        path = f"{output['url']}/variants/{name}"
        assert code_of(running_server, path)[0] == 404
    assert code_of(running_server, f"{output['url']}/variants/poster")[1] == "VARIANT_NOT_FOUND"


def test_status_has_another_etag_once_more_is_known(running_server: Comfyrail) -> None:
    job_id, _ = finished(running_server, 0xA1B2C6)
    look_at_all(running_server, job_id)
    path = f"/v1/workflows/execution/{job_id}"
    _, _, headers = running_server.fetch("GET", path)
    assert running_server.fetch("GET", path, If_None_Match=headers["etag"])[0] == 304


def test_asset_has_variants_too(running_server: Comfyrail) -> None:
    asset = upload(running_server, "photo.png", makers.png(900, 450))
    path = f"/v1/assets/{asset['asset_id']}"

    def look() -> Any:
        found = running_server.call("GET", path)[1]
        return found if found["media"] else None

    found = wait_until(look)
    assert (found["media"]["width"], found["media"]["height"]) == (900, 450)
    assert set(found["variants"]) == {"thumb_256", "thumb_512"}
    status, content, _ = running_server.fetch("GET", found["variants"]["thumb_512"])
    assert (status, content[8:12]) == (200, b"WEBP")


def test_broken_file_says_why_there_is_nothing_to_look_at(running_server: Comfyrail) -> None:
    asset = upload(running_server, "broken.png", makers.png(901, 450)[:1400])
    path = f"/v1/assets/{asset['asset_id']}"
    found = wait_until(lambda: running_server.call("GET", path)[1]["media"])
    assert found["error"] == "It is broken, or cannot be read here."
    status, body = running_server.call("GET", f"{path}/variants/thumb_256")
    assert (status, body["error"]["code"]) == (404, "MEDIA_FAILED")
    assert found["error"] in body["error"]["message"]


@pytest.fixture(scope="module")
def own_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Comfyrail]:
    with server(tmp_path_factory.mktemp("media") / "data") as process:
        yield process.wait_ready()


def test_job_completes_while_the_media_process_stands_still(own_server: Comfyrail) -> None:
    look_at_all(own_server, finished(own_server, 1)[0])
    (stopped,) = media_processes(own_server.process.pid)
    os.kill(stopped, signal.SIGSTOP)
    try:
        job_id, output = finished(own_server, 2)
        assert (output["media"], output["variants"]) == (None, {})
        url = f"{output['url']}/variants/thumb_256"
        status, body, headers = own_server.fetch("GET", url)
        assert (status, json.loads(body)["error"]["code"]) == (404, "VARIANT_NOT_READY")
        assert headers["retry-after"] == "2"
        finished(own_server, 3)
    finally:
        os.kill(stopped, signal.SIGCONT)
    look_at_all(own_server, job_id)
    assert own_server.fetch("GET", url)[0] == 200


def test_files_that_waited_when_the_server_was_killed_are_looked_at_by_the_next(
    tmp_path: Path,
) -> None:
    with server(tmp_path / "data") as process:
        process.wait_ready()
        look_at_all(process, finished(process, 1)[0])
        (stopped,) = media_processes(process.process.pid)
        os.kill(stopped, signal.SIGSTOP)
        job_id, _ = finished(process, 2)
        process.kill()
        kill(stopped)
        process.start()
        output = look_at_all(process, job_id)["3"]
        assert process.fetch("GET", output["variants"]["thumb_256"])[0] == 200


def test_media_process_ends_with_its_server(tmp_path: Path) -> None:
    with server(tmp_path / "data") as process:
        process.wait_ready()
        look_at_all(process, finished(process, 1)[0])
        (running,) = media_processes(process.process.pid)
        process.kill()
        wait_until(lambda: not Path(f"/proc/{running}").exists())


def test_server_without_media_looks_at_nothing_and_says_so_but_converts(tmp_path: Path) -> None:
    with server(tmp_path / "data", COMFYRAIL_MEDIA="off") as process:
        process.wait_ready()
        _, output = finished(process, 1)
        status, body = process.call("GET", f"{output['url']}/variants/thumb_256")
        assert (status, body["error"]["code"]) == (404, "VARIANT_NOT_FOUND")
        assert "media is off" in body["error"]["message"]
        _, output = finished(process, 2, output_config={"format": "webp"})
        assert output["content_type"] == "image/webp"
        # The picture that was converted is not kept beside what it was made into.
        blobs = tmp_path / "data" / "blobs"
        wait_until(lambda: len(list(blobs.glob("??/*"))) == 2, limit=40)


# Conversion


@pytest.mark.parametrize(
    ("wanted", "suffix"), [("webp", ".webp"), ("avif", ".avif"), ("jpeg", ".jpg")]
)
def test_pictures_of_a_job_are_converted_before_it_completes(
    running_server: Comfyrail, wanted: str, suffix: str
) -> None:
    job_id, output = finished(
        running_server, 0x336699, output_config={"format": wanted, "quality": 80}
    )
    assert output["content_type"] == f"image/{wanted}"
    assert output["filename"].endswith(f"_{suffix}")
    status, content, headers = running_server.fetch("GET", output["url"])
    assert (status, headers["content-type"]) == (200, f"image/{wanted}")
    assert len(content) == output["size"]
    with Image.open(io.BytesIO(content)) as made:
        assert made.size == (700, 350)
        assert "prompt:{" in str(made.getexif().get(0x0110))
    media = look_at_all(running_server, job_id)["3"]["media"]
    assert (media["format"], media["has_prompt"]) == (wanted, True)
    assert "execution.warning" not in {each["type"] for each in running_server.events(job_id)}


def test_temporary_pictures_are_converted_too(running_server: Comfyrail) -> None:
    graph = large_picture(0x336698)
    graph["3"] = {"class_type": "PreviewImage", "inputs": {"images": ["2", 0]}}
    job_id = running_server.submit(graph, output_config={"format": "webp"})
    (output,) = running_server.wait_for(job_id, "completed")["result"]["outputs"]
    assert (output["temporary"], output["content_type"]) == (True, "image/webp")


def test_pictures_that_came_over_the_socket_are_converted_too(running_server: Comfyrail) -> None:
    graph = large_picture(0x336697)
    graph["3"] = {"class_type": "SaveImageWebsocket", "inputs": {"images": ["2", 0]}}
    job_id = running_server.submit(graph, output_config={"format": "jpeg"})
    (output,) = running_server.wait_for(job_id, "completed")["result"]["outputs"]
    assert (output["content_type"], output["filename"]) == ("image/jpeg", "picture_00001.jpg")


def test_what_cannot_be_converted_stays_and_the_job_says_why(running_server: Comfyrail) -> None:
    graph = large_picture(0x336696)
    graph["4"] = {
        "class_type": "ImageBatch",
        "inputs": {"image1": ["1", 0], "image2": ["2", 0]},
    }
    graph["3"] = {
        "class_type": "SaveAnimatedWEBP",
        "inputs": {
            "images": ["4", 0],
            "filename_prefix": "moving",
            "fps": 6.0,
            "lossless": True,
            "quality": 80,
            "method": "fastest",
        },
    }
    job_id = running_server.submit(graph, output_config={"format": "jpeg"})
    (output,) = running_server.wait_for(job_id, "completed")["result"]["outputs"]
    assert output["content_type"] == "image/webp"
    (warning,) = [
        each["data"]
        for each in running_server.events(job_id)
        if each["type"] == "execution.warning"
    ]
    assert warning["code"] == "OUTPUT_NOT_CONVERTED"
    assert "a JPEG is one picture" in warning["message"]
