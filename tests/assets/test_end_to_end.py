"""Uploaded files in jobs, through real servers and workers [10.8]."""

import hashlib
import random
import socket
from collections.abc import Iterator
from typing import Any
from urllib.parse import quote, urlsplit

import pytest

from tests.access.gate_parts import bearer, gated_server, new_user
from tests.assets.parts import load_and_save, picture, pixels, png
from tests.processes import Comfyrail, server, wait_until, worker

CHUNK = 8 << 20


def give(process: Comfyrail, name: str, content: bytes, **headers: str) -> dict[str, Any]:
    headers = {"Content_Type": "application/octet-stream", **headers}
    status, body = process.call("POST", f"/v1/uploads?name={quote(name)}", content, **headers)
    assert status == 201, body
    asset = body["assets"][0]
    assert isinstance(asset, dict)
    return asset


def result_of(process: Comfyrail, job_id: str, **headers: str) -> bytes:
    """The pixels of the one picture that a job has made."""

    def look() -> Any:
        _, job = process.call("GET", f"/v1/workflows/execution/{job_id}", **headers)
        return job if job["completed_at"] else None

    job = wait_until(look, limit=40)
    assert job["status"] == "completed", job
    (output,) = job["result"]["outputs"]
    return pixels(process.fetch("GET", output["url"], **headers)[1])


@pytest.mark.parametrize("kind", ["PNG", "BMP", "GIF"])
def test_a_job_runs_with_an_uploaded_image(running_server: Comfyrail, kind: str) -> None:
    content = png(30, (64, 48)) if kind == "PNG" else picture(kind, (64, 48))
    name = f"to load ü.{kind.lower()}"
    asset = give(running_server, name, content)
    job_id = running_server.submit(load_and_save(name))
    assert result_of(running_server, job_id) == pixels(content)
    placed = running_server.data / "input" / asset["input_name"]
    assert placed.read_bytes() == content


def test_a_result_is_the_next_jobs_input(running_server: Comfyrail) -> None:
    give(running_server, "chain.png", png(31, (64, 48)))
    first = running_server.submit(load_and_save("chain.png"))
    job = running_server.wait_for(first, "completed")
    (output,) = job["result"]["outputs"]
    second = running_server.submit(load_and_save(f"{first}/{output['filename']} [output]"))
    assert result_of(running_server, second) == pixels(png(31, (64, 48)))
    source = {"execution_id": first, "output_id": output["output_id"]}
    status, reply = running_server.call("POST", "/v1/uploads", {"output": source})
    assert status == 201
    reference = {"__type": "core/ASSET", "info": {"id": reply["assets"][0]["asset_id"]}}
    third = running_server.submit(load_and_save(reference))
    assert result_of(running_server, third) == pixels(png(31, (64, 48)))


def test_a_worker_elsewhere_is_sent_the_file(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    folder = tmp_path_factory.mktemp("elsewhere")
    with server(folder / "data", workers=0) as process, worker(folder / "worker") as other:
        status, body = process.call("POST", "/v1/workers", {"url": other.url})
        assert status == 201, body
        process.wait_ready()
        give(process, "photo.png", png(32, (64, 48)))
        job_id = process.submit(load_and_save("photo.png"))
        assert result_of(process, job_id) == pixels(png(32, (64, 48)))
        digest = hashlib.sha256(png(32, (64, 48))).hexdigest()
        assert (folder / "worker" / "input" / "comfyrail" / f"{digest[:32]}.png").is_file()


def test_an_upload_goes_on_after_kill_9_of_the_server(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    """40 MiB; the server is killed while a part is half there, and again before the last one."""
    content = picture("BMP", (64, 48)) + random.Random(1).randbytes(40 << 20)
    digest = hashlib.sha256(content).hexdigest()
    process = server(tmp_path_factory.mktemp("killed") / "data", workers=0)
    process.start()
    try:
        body = {"name": "large.bmp", "size": len(content), "sha256": digest}
        _, session = process.call("POST", "/v1/uploads/sessions", body)
        path = f"/v1/uploads/sessions/{session['upload_id']}"
        asset = _send_all(process, path, content)
        assert asset["sha256"] == digest
        assert process.fetch("GET", asset["url"])[1] == content
        _, listed = process.call("GET", "/v1/assets")
        assert len(listed["assets"]) == 1
    finally:
        process.stop()


def _send_all(process: Comfyrail, path: str, content: bytes) -> dict[str, Any]:
    kills = {2: "half a part", 4: "between parts"}
    sent = 0
    while True:
        _, session = process.call("GET", path)
        offset = session["offset"]
        if session["asset"]:
            asset = session["asset"]
            assert isinstance(asset, dict)
            return asset
        how = kills.pop(sent, None)
        if how is not None:
            if how == "half a part":
                _send_half(process, path, content, offset)
            process.kill()
            process.start()
            continue
        part = content[offset : offset + CHUNK]
        said = f"bytes {offset}-{offset + len(part) - 1}/{len(content)}"
        kind = "application/octet-stream"
        status, reply = process.call("PUT", path, part, Content_Range=said, Content_Type=kind)
        assert status in {200, 201}, reply
        sent += 1


def _send_half(process: Comfyrail, path: str, content: bytes, offset: int) -> None:
    """As a client does that is killed too."""
    address = urlsplit(process.url)
    assert address.hostname
    head = (
        f"PUT {path} HTTP/1.1\r\nHost: {address.netloc}\r\nContent-Length: {CHUNK}\r\n"
        f"Content-Range: bytes {offset}-{offset + CHUNK - 1}/{len(content)}\r\n\r\n"
    )
    with socket.create_connection((address.hostname, address.port or 80)) as line:
        line.sendall(head.encode() + content[offset : offset + CHUNK // 2])
        folder = process.data / "uploads" / path.rpartition("/")[2]
        wait_until(lambda: (folder / "part").stat().st_size > offset)


@pytest.fixture(scope="module")
def shared_by_tenants(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Comfyrail]:
    folder = tmp_path_factory.mktemp("tenants")
    with gated_server(folder / "data", workers="1") as process:
        yield process.wait_ready()


def test_tenants_run_jobs_with_their_own_files_alone(shared_by_tenants: Comfyrail) -> None:
    process = shared_by_tenants
    ann, bob = bearer(new_user("ann")), bearer(new_user("bob"))
    hers = give(process, "photo.png", png(40, (64, 48)), **ann)
    give(process, "photo.png", png(41, (64, 48)), **bob)
    made = {}
    for who, headers, seed in (("ann", ann, 40), ("bob", bob, 41)):
        body = {"workflow": load_and_save("photo.png")}
        status, reply = process.call("POST", "/v1/workflows/execute", body, **headers)
        assert status == 202, reply
        made[who] = reply["execution_id"]
        found = result_of(process, reply["execution_id"], **headers)
        assert found == pixels(png(seed, (64, 48)))
    (process.data / "input" / "shared.png").write_bytes(png(42))
    _, job = process.call("GET", f"/v1/workflows/execution/{made['ann']}", **ann)
    filename = job["result"]["outputs"][0]["filename"]
    for name in (
        hers["input_name"],
        hers["asset_id"],
        "shared.png",
        f"{filename} [output]",
        f"{made['ann']}/{filename} [output]",
        f"{hers['input_name']} [input]",
    ):
        body = {"workflow": load_and_save(name)}
        for route in ("execute", "plan"):
            status, reply = process.call("POST", f"/v1/workflows/{route}", body, **bob)
            assert (status, reply["error"]["code"]) == (422, "MISSING_INPUT_FILE"), name
        _, report = process.call("POST", "/v1/workflows/validate", body, **bob)
        assert not report["valid"]
    reference = {"__type": "core/ASSET", "info": {"id": hers["asset_id"]}}
    body = {"workflow": load_and_save(reference)}
    status, reply = process.call("POST", "/v1/workflows/execute", body, **bob)
    assert (status, reply["error"]["code"]) == (422, "MISSING_ASSET")
    for path in (f"/v1/assets/{hers['asset_id']}", hers["url"]):
        assert process.call("GET", path, **bob)[0] == 404
    assert process.call("GET", "/v1/assets")[0] == 401


def test_batches_find_files_of_their_owner(shared_by_tenants: Comfyrail) -> None:
    process, ann = shared_by_tenants, bearer(new_user("ann"))
    for number in (1, 2):
        give(process, f"{number}.png", png(50 + number, (64, 48)), **ann)
    items = [{"input_params": {"1.image": f"{number}.png"}} for number in (1, 2)]
    body = {"workflow": load_and_save("1.png"), "items": items}
    status, reply = process.call("POST", "/v1/batches", body, **ann)
    assert status == 202, reply
    path = f"/v1/batches/{reply['batch_id']}/executions"
    _, listed = process.call("GET", path, **ann)
    found = [result_of(process, each["execution_id"], **ann) for each in listed["executions"]]
    assert found == [pixels(png(50 + number, (64, 48))) for number in (1, 2)]
    items.append({"input_params": {"1.image": "3.png"}})
    status, reply = process.call("POST", "/v1/batches", body, **ann)
    assert (status, reply["error"]["code"]) == (422, "MISSING_INPUT_FILE")


def test_a_server_without_room_takes_no_file(tmp_path_factory: pytest.TempPathFactory) -> None:
    data = tmp_path_factory.mktemp("full") / "data"
    with server(data, workers=0, COMFYRAIL_MIN_FREE_BYTES=str(1 << 60)) as process:
        kind = "application/octet-stream"
        status, body = process.call("POST", "/v1/uploads?name=a.png", png(), Content_Type=kind)
        assert (status, body["error"]["code"]) == (507, "STORAGE_FULL")
        status, body = process.call("POST", "/v1/uploads/sessions", {"name": "a.png", "size": 1000})
        assert (status, body["error"]["code"]) == (507, "STORAGE_FULL")


def test_settings_say_what_may_be_uploaded(tmp_path_factory: pytest.TempPathFactory) -> None:
    settings = {
        "COMFYRAIL_MAX_UPLOAD_BYTES": "2000",
        "COMFYRAIL_ALLOWED_UPLOAD_TYPES": "application/zip, image/gif",
        "COMFYRAIL_ASSET_RETENTION_SECONDS": "3600",
    }
    data = tmp_path_factory.mktemp("settings") / "data"
    with server(data, workers=0, **settings) as process:
        asset = give(process, "a.zip", b"PK\x03\x04" + bytes(100))
        assert asset["expires_at"] is not None
        kind = "application/octet-stream"
        for content, expected in ((png(), 415), (b"PK\x03\x04" + bytes(2000), 413)):
            path = "/v1/uploads?name=x"
            assert process.call("POST", path, content, Content_Type=kind)[0] == expected
