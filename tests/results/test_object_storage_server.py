"""A whole server whose blobs are on a real S3 server [8.1]."""

import asyncio
import base64
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from comfyrail.faultlab.proxy import proxy_to
from tests.assets.parts import png
from tests.graphs import picture
from tests.processes import Comfyrail, server, wait_until
from tests.results.parts import Bucket, files_in


@pytest.fixture
def house(tmp_path: Path, bucket: Bucket) -> Iterator[Comfyrail]:
    with server(tmp_path / "data", COMFYRAIL_BLOB_URL=bucket.url) as process:
        yield process.wait_ready()


def test_outputs_are_in_the_bucket_and_come_from_it(house: Comfyrail, bucket: Bucket) -> None:
    job = house.wait_for(house.submit(picture(7)), "completed")
    (output,) = job["result"]["outputs"]
    _, content, headers = house.fetch("GET", output["url"])
    assert content.startswith(b"\x89PNG")
    assert content in {bucket.get(name) for name in bucket.names()}
    assert not (house.data / "blobs").exists()
    assert house.fetch("GET", output["url"], Range="bytes=1-3")[:2] == (206, b"PNG")
    assert house.fetch("GET", output["url"], Range="bytes=-4")[1] == content[-4:]
    assert house.fetch("GET", output["url"], Range="bytes=999999-")[0] == 416
    assert house.fetch("GET", output["url"], If_None_Match=headers["etag"])[0] == 304
    status, body, head = house.fetch("HEAD", output["url"])
    assert (status, body, head["content-length"]) == (200, b"", str(len(content)))
    found = house.fetch("GET", f"/view?filename={output['filename']}&preview=webp;50")
    assert (found[0], found[1][:4]) == (200, b"RIFF")


def test_file_of_a_user_goes_from_the_bucket_to_a_worker(house: Comfyrail) -> None:
    body = {"base64": base64.b64encode(png(3)).decode(), "name": "mine.png"}
    status, reply = house.call("POST", "/v1/uploads", body)
    assert status == 201, reply
    (asset,) = reply["assets"]
    graph = picture()
    graph["1"] = {"class_type": "LoadImage", "inputs": {"image": "mine.png"}}
    for _ in range(2):
        job = house.wait_for(house.submit(graph))
        assert job["status"] == "completed", job
    status, content, _ = house.fetch("GET", f"/v1/assets/{asset['asset_id']}/content")
    assert (status, content) == (200, png(3))


async def test_kill_during_an_upload_costs_nothing(tmp_path: Path, bucket: Bucket) -> None:
    port = urlsplit(bucket.endpoint).port
    assert port is not None
    async with proxy_to(port) as line:

        def house() -> Comfyrail:
            return server(
                tmp_path / "data", COMFYRAIL_BLOB_URL=bucket.url, AWS_ENDPOINT_URL=line.url
            )

        def until_it_is_killed() -> str:
            with house() as process:
                process.wait_ready()
                line.fall_silent()
                job_id = process.submit(picture(9))
                wait_until(lambda: files_in(tmp_path / "data" / "blobs-cache"))
                process.kill()
            return job_id

        def after_that(job_id: str) -> bytes:
            with house() as process:
                process.wait_ready()
                job = process.wait_for(job_id, "completed", limit=60)
                (output,) = job["result"]["outputs"]
                return process.fetch("GET", output["url"])[1]

        job_id = await asyncio.to_thread(until_it_is_killed)
        assert bucket.names() == set()
        line.speak_again()
        content = await asyncio.to_thread(after_that, job_id)
    assert content.startswith(b"\x89PNG")
    assert content in [bucket.get(name) for name in bucket.names()]


def test_server_says_at_the_start_when_its_bucket_cannot_be_used(
    tmp_path: Path, bucket: Bucket, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:1")
    monkeypatch.setenv("COMFYRAIL_BLOB_URL", bucket.url)
    command = [sys.executable, "-m", "comfyrail", "serve", "--data", str(tmp_path), "--port", "0"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode != 0
    assert "cannot be written and read" in done.stderr
    assert "Traceback" not in done.stderr
