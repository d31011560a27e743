"""Assets of the official Comfy API v2, by hand against a real server [10.7]."""

import json
import uuid
from typing import Any
from urllib.request import Request, urlopen

import pytest
from blake3 import blake3

from tests.comfy_v2 import shapes
from tests.comfy_v2.pictures import png
from tests.comfy_v2.reading import ASSETS, JOBS, submit, until
from tests.graphs import picture
from tests.processes import Comfyrail

NOWHERE = "01890000-0000-7000-8000-000000000000"


def form(*fields: tuple[str, str], content: bytes | None) -> tuple[bytes, str]:
    """A form with the file last, and its content type."""
    boundary = uuid.uuid4().hex
    parts = [
        f'--{boundary}\r\nContent-Disposition: form-data; name="{name}"\r\n\r\n{value}\r\n'.encode()
        for name, value in fields
    ]
    if content is not None:
        head = 'Content-Disposition: form-data; name="file"; filename="x.png"'
        parts.append(f"--{boundary}\r\n{head}\r\n\r\n".encode() + content + b"\r\n")
    parts.append(f"--{boundary}--\r\n".encode())
    return b"".join(parts), f"multipart/form-data; boundary={boundary}"


def upload(
    server: Comfyrail, content: bytes, name: str, **fields: str
) -> tuple[int, dict[str, Any]]:
    given = {"content_type": "image/png", "file_path": name, **fields}
    body, kind = form(*given.items(), content=content)
    return server.call("POST", ASSETS, body, Content_Type=kind)


def kept(server: Comfyrail, content: bytes, name: str = "photo.png") -> dict[str, Any]:
    status, asset = upload(server, content, name)
    assert status in {200, 201}, asset
    return dict(shapes.check(asset, shapes.MINTED))


def test_uploaded_file_is_found_again_byte_for_byte(running_server: Comfyrail) -> None:
    content = png(1)
    status, asset = upload(running_server, content, "photo.png")
    assert status == 201
    shapes.check(asset, shapes.MINTED)
    assert asset["created_new"] is True
    assert asset["hash"] == f"blake3:{blake3(content).hexdigest()}"
    assert (asset["size_bytes"], asset["content_type"]) == (len(content), "image/png")
    assert (asset["file_path"], asset["job_id"]) == ("photo.png", None)
    status, shown = running_server.call("GET", f"{ASSETS}/{asset['id']}")
    assert status == 200
    assert shapes.check(shown, shapes.ASSET)["hash"] == asset["hash"]
    with urlopen(asset["url"], timeout=30) as reply:
        assert reply.read() == content


def test_same_bytes_again_are_a_further_asset_over_them(running_server: Comfyrail) -> None:
    first = kept(running_server, png(2), "a.png")
    status, second = upload(running_server, png(2), "b.png")
    assert (status, second["created_new"]) == (200, False)
    assert second["hash"] == first["hash"]
    assert second["id"] != first["id"]


def test_hash_finds_bytes_that_are_there_and_no_others(running_server: Comfyrail) -> None:
    asset = kept(running_server, png(3), "three.png")
    assert running_server.fetch("HEAD", f"{ASSETS}/by-hash/{asset['hash']}")[0] == 200
    for unknown in ("blake3:" + "0" * 64, "blake3:12", "sha256:" + "0" * 64, "%00", "x" * 500):
        assert running_server.fetch("HEAD", f"{ASSETS}/by-hash/{unknown}")[0] == 404
        status, body = running_server.call("POST", f"{ASSETS}/from-hash", {"hash": unknown})
        shapes.check_error(status, body, "blob_not_found", 404)


def test_asset_of_a_hash_and_name_that_is_there_is_that_asset(running_server: Comfyrail) -> None:
    asset = kept(running_server, png(4), "four.png")
    body = {"hash": asset["hash"], "file_path": "four.png"}
    status, again = running_server.call("POST", f"{ASSETS}/from-hash", body)
    assert (status, again["id"]) == (200, asset["id"])
    shapes.check(again, shapes.MINTED)
    body["file_path"] = "other.png"
    status, other = running_server.call("POST", f"{ASSETS}/from-hash", body)
    assert (status, other["created_new"], other["file_path"]) == (201, False, "other.png")
    assert other["id"] != asset["id"]
    body["expires_in"] = 3600
    status, brief = running_server.call("POST", f"{ASSETS}/from-hash", body)
    assert status == 201
    assert brief["expires_at"] is not None


def test_file_that_is_not_as_announced_is_not_kept(running_server: Comfyrail) -> None:
    content = png(5)
    other = f"blake3:{blake3(b'other').hexdigest()}"
    status, body = upload(running_server, content, "five.png", expected_hash=other)
    shapes.check_error(status, body, "hash_mismatch", 409)
    mine = f"blake3:{blake3(content).hexdigest()}"
    assert running_server.fetch("HEAD", f"{ASSETS}/by-hash/{mine}")[0] == 404
    status, _ = upload(running_server, content, "five.png", expected_hash=mine)
    assert status == 201


def test_deleted_asset_is_gone_and_the_bytes_of_others_stay(running_server: Comfyrail) -> None:
    first = kept(running_server, png(6), "six.png")
    second = kept(running_server, png(6), "sixth.png")
    assert running_server.call("DELETE", f"{ASSETS}/{first['id']}") == (204, None)
    for method, path in (("DELETE", ""), ("GET", ""), ("GET", "/content")):
        status, body = running_server.call(method, f"{ASSETS}/{first['id']}{path}")
        shapes.check_error(status, body, "not_found", 404)
    with urlopen(second["url"], timeout=30) as reply:
        assert reply.read() == png(6)


def test_output_is_an_asset_that_cannot_be_deleted(running_server: Comfyrail) -> None:
    job = until(running_server, submit(running_server, picture(301))["id"])
    (output,) = job["outputs"]
    status, asset = running_server.call("GET", f"{ASSETS}/{output['id']}")
    assert status == 200
    shapes.check(asset, shapes.ASSET)
    assert (asset["job_id"], asset["file_path"]) == (job["id"], output["name"])
    status, content, _ = running_server.fetch("GET", f"{ASSETS}/{output['id']}/content")
    assert status == 200
    assert len(content) == output["size_bytes"]
    assert f"blake3:{blake3(content).hexdigest()}" == output["hash"] == asset["hash"]
    status, body = running_server.call("DELETE", f"{ASSETS}/{output['id']}")
    shapes.check_error(status, body, "asset_in_use", 409)


def test_output_is_an_input_of_the_next_job_by_its_hash(running_server: Comfyrail) -> None:
    job = until(running_server, submit(running_server, picture(302))["id"])
    body = {"hash": job["outputs"][0]["hash"], "file_path": "next.png"}
    status, asset = running_server.call("POST", f"{ASSETS}/from-hash", body)
    assert (status, asset["created_new"]) == (201, False)


def test_part_of_the_bytes_can_be_had(running_server: Comfyrail) -> None:
    content = png(7)
    path = f"{ASSETS}/{kept(running_server, content)['id']}/content"
    status, part, headers = running_server.fetch("GET", path, Range="bytes=2-9")
    assert (status, part) == (206, content[2:10])
    assert headers["content-range"] == f"bytes 2-9/{len(content)}"
    status, body = running_server.call("GET", path, Range=f"bytes={len(content)}-")
    shapes.check_error(status, body, "range_not_satisfiable", 416)


def test_job_uses_an_asset_that_its_graph_refers_to(running_server: Comfyrail) -> None:
    asset = kept(running_server, png(8), "eight.png")
    graph = picture()
    reference = {"__type": "core/ASSET", "info": {"id": asset["id"], "hash": asset["hash"]}}
    graph["1"] = {"class_type": "LoadImage", "inputs": {"image": reference}}
    job = until(running_server, submit(running_server, graph)["id"])
    assert (job["status"], len(job["outputs"])) == ("succeeded", 1)
    graph["1"]["inputs"]["image"] = "eight.png"
    assert until(running_server, submit(running_server, graph)["id"])["status"] == "succeeded"


@pytest.mark.parametrize(
    "info",
    [{"id": NOWHERE}, {"id": 5}, {}, {"hash": "blake3:" + "0" * 64}, {"id": "../x"}],
)
def test_reference_to_an_asset_that_there_is_not_is_refused(
    running_server: Comfyrail, info: dict[str, Any]
) -> None:
    graph = picture()
    reference = {"__type": "core/ASSET", "info": info}
    graph["1"] = {"class_type": "LoadImage", "inputs": {"image": reference}}
    status, body = running_server.call("POST", JOBS, {"workflow": graph})
    shapes.check_error(status, body, "missing_asset", 422)


def test_asset_of_a_job_that_has_not_ended_cannot_be_deleted(running_server: Comfyrail) -> None:
    asset = kept(running_server, png(9), "nine.png")
    graph = picture()
    reference = {"__type": "core/ASSET", "info": {"id": asset["id"]}}
    graph["1"] = {"class_type": "LoadImage", "inputs": {"image": reference}}
    running_server.call("POST", "/v1/queue/pause", {})
    try:
        made = submit(running_server, graph)
        status, body = running_server.call("DELETE", f"{ASSETS}/{asset['id']}")
        shapes.check_error(status, body, "asset_in_use", 409)
    finally:
        running_server.call("POST", "/v1/queue/resume")
    until(running_server, made["id"])
    assert running_server.call("DELETE", f"{ASSETS}/{asset['id']}")[0] == 204


@pytest.mark.parametrize(
    ("fields", "content"),
    [
        ([("file_path", "x.png")], png(10)),
        ([("content_type", "image/png")], png(10)),
        ([("content_type", "image/png"), ("file_path", "../../x.png")], png(10)),
        ([("content_type", "image/png"), ("file_path", "/etc/passwd")], png(10)),
        ([("content_type", "image/png"), ("file_path", "x.png")], None),
        ([("content_type", "image/png"), ("file_path", "x.png")], b""),
        ([("content_type", "image/png"), ("file_path", "x.png")], b"<html></html>"),
        ([("content_type", "image/png"), ("file_path", "x.png"), ("expires_in", "5")], png(10)),
        ([("content_type", "image/png"), ("file_path", "x.png"), ("expires_in", "x")], png(10)),
    ],
)
def test_bad_uploads_are_refused(
    running_server: Comfyrail, fields: list[tuple[str, str]], content: bytes | None
) -> None:
    body, kind = form(*fields, content=content)
    status, reply = running_server.call("POST", ASSETS, body, Content_Type=kind)
    assert status == 422, reply
    shapes.check(reply["error"], shapes.ERROR)


def test_fields_behind_the_file_are_refused(running_server: Comfyrail) -> None:
    content = png(11)
    body, kind = form(("content_type", "image/png"), ("file_path", "x.png"), content=content)
    boundary = kind.rpartition("=")[2]
    late = f'--{boundary}\r\nContent-Disposition: form-data; name="expected_hash"\r\n\r\nx\r\n'
    end = f"--{boundary}--\r\n".encode()
    body = body.removesuffix(end) + late.encode() + end
    status, reply = running_server.call("POST", ASSETS, body, Content_Type=kind)
    shapes.check_error(status, reply, "invalid_request", 422)
    mine = f"blake3:{blake3(content).hexdigest()}"
    assert running_server.fetch("HEAD", f"{ASSETS}/by-hash/{mine}")[0] == 404


def test_forms_that_are_none_are_refused(running_server: Comfyrail) -> None:
    for body, kind in (
        (b"nothing", "multipart/form-data; boundary=abc"),
        (b"--abc\r\n", "multipart/form-data; boundary=abc"),
        (b"", "multipart/form-data"),
    ):
        status, reply = running_server.call("POST", ASSETS, body, Content_Type=kind)
        shapes.check_error(status, reply, "invalid_request", 422)
    status, reply = running_server.call("POST", ASSETS, json.dumps({}).encode())
    shapes.check_error(status, reply, "unsupported_media_type", 415)


def test_upload_under_a_key_is_answered_once(running_server: Comfyrail) -> None:
    body, kind = form(("content_type", "image/png"), ("file_path", "k.png"), content=png(12))
    headers = {"Content-Type": kind, "Idempotency-Key": f"upload-{running_server.url}"}
    ids = []
    for _ in range(2):
        request = Request(f"{running_server.url}{ASSETS}", body, headers, method="POST")
        with urlopen(request, timeout=30) as reply:
            ids.append(json.loads(reply.read())["id"])
    assert ids[0] == ids[1]
