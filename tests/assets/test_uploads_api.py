"""The routes of uploads and assets [10.8]."""

import base64
import hashlib
import http.client
import json
import time
from typing import Any
from urllib.parse import quote, urlsplit

import pytest

from tests.assets.parts import form, huge_png, load_and_save, png
from tests.processes import Comfyrail


def upload(process: Comfyrail, name: str, content: bytes, **headers: str) -> tuple[int, Any]:
    headers = {"Content_Type": "application/octet-stream", **headers}
    return process.call("POST", f"/v1/uploads?name={quote(name)}", content, **headers)


def give(process: Comfyrail, name: str, content: bytes) -> dict[str, Any]:
    status, body = upload(process, name, content)
    assert status == 201, body
    (asset,) = body["assets"]
    assert isinstance(asset, dict)
    return asset


def code(reply: tuple[int, Any]) -> tuple[int, str]:
    return reply[0], reply[1]["error"]["code"]


def test_a_body_is_a_file(running_server: Comfyrail) -> None:
    asset = give(running_server, "faces/grüße.png", png(10))
    assert asset["name"] == "faces/grüße.png"
    assert asset["content_type"] == "image/png"
    assert asset["sha256"] == hashlib.sha256(png(10)).hexdigest()
    assert asset["input_name"] == f"uploads/{asset['sha256'][:32]}/grüße.png"
    assert running_server.call("GET", f"/v1/assets/{asset['asset_id']}") == (200, asset)


def test_a_form_has_several_files_or_none_is_kept(running_server: Comfyrail) -> None:
    body, kind = form(
        ("expires_in", None, b"600"),
        ("file", "first.png", png(11)),
        ("file", "sub/second.png", png(12)),
    )
    status, reply = running_server.call("POST", "/v1/uploads", body, Content_Type=kind)
    assert status == 201, reply
    assert [each["name"] for each in reply["assets"]] == ["first.png", "sub/second.png"]
    assert all(each["expires_at"] for each in reply["assets"])
    before = running_server.call("GET", "/v1/assets")[1]
    body, kind = form(("file", "third.png", png(13)), ("file", "bad.png", b"<html>"))
    refused = running_server.call("POST", "/v1/uploads", body, Content_Type=kind)
    assert code(refused) == (415, "CONTENT_TYPE_REFUSED")
    assert running_server.call("GET", "/v1/assets")[1] == before


@pytest.mark.parametrize(
    ("body", "kind"),
    [
        form(),
        form(("name", None, b"x.png")),
        form(("other", "x.png", png())),
        form(("unknown", None, b"1"), ("file", "x.png", png())),
        form(("same_name", None, b"whatever"), ("file", "x.png", png())),
        form(("file", "../x.png", png())),
        form(("name", None, b"a" * 70_000), ("file", "x.png", png())),
        (form(("file", "x.png", png()))[0][:-30], "multipart/form-data; boundary=edge"),
        (form(("file", "x.png", png()))[0], "multipart/form-data; boundary=other"),
        (form(("file", "x.png", png()))[0], "multipart/form-data"),
        (b"--edge\r\n" + b"X: y\r\n" * 100_000, "multipart/form-data; boundary=edge"),
        (b"rubbish" * 1000, "multipart/form-data; boundary=edge"),
    ],
)
def test_forms_that_make_no_sense_are_refused(
    running_server: Comfyrail, body: bytes, kind: str
) -> None:
    status, reply = running_server.call("POST", "/v1/uploads", body, Content_Type=kind)
    assert status in {400, 413}, reply


def test_json_says_where_a_file_is(running_server: Comfyrail) -> None:
    text = base64.b64encode(png(14)).decode()
    status, reply = running_server.call(
        "POST", "/v1/uploads", {"base64": f"data:image/png;base64,{text}", "name": "b.png"}
    )
    assert status == 201, reply
    known = reply["assets"][0]["blake3"]
    status, reply = running_server.call("POST", "/v1/uploads", {"blake3": known, "name": "c.png"})
    assert (status, reply["assets"][0]["size"]) == (201, len(png(14)))
    for wrong in (
        {},
        {"url": "https://example.com", "base64": text},
        {"base64": text},
        {"blake3": known},
        {"base64": text, "name": "x.png", "what": 1},
    ):
        assert running_server.call("POST", "/v1/uploads", wrong)[0] == 400
    refused = running_server.call("POST", "/v1/uploads", {"url": "http://169.254.169.254/x"})
    assert code(refused) == (422, "UNAUTHORIZED_DOMAIN")
    refused = running_server.call(
        "POST", "/v1/uploads", {"output": {"execution_id": "x", "output_id": "y"}}
    )
    assert refused[0] == 404


@pytest.mark.parametrize(
    ("name", "content", "expected"),
    [
        ("a\0b.png", png(), (400, "INVALID_FILE_NAME")),
        ("../../x", png(), (400, "INVALID_FILE_NAME")),
        ("C:\\x", png(), (400, "INVALID_FILE_NAME")),
        ("x" * 300, png(), (400, "INVALID_FILE_NAME")),
        ("x.png", b"", (400, "EMPTY_FILE")),
        ("x.png", b"PK\x03\x04" + bytes(100), (415, "CONTENT_TYPE_REFUSED")),
        ("x.mp4", png(), (415, "CONTENT_TYPE_MISMATCH")),
        ("x.png", huge_png(100_000, 100_000), (413, "IMAGE_TOO_LARGE")),
    ],
)
def test_what_cannot_be_kept_is_refused(
    running_server: Comfyrail, name: str, content: bytes, expected: tuple[int, str]
) -> None:
    assert code(upload(running_server, name, content)) == expected


def test_a_content_type_that_lies_is_refused(running_server: Comfyrail) -> None:
    reply = upload(running_server, "x", png(), Content_Type="video/mp4")
    assert code(reply) == (415, "CONTENT_TYPE_MISMATCH")
    assert running_server.call("POST", "/v1/uploads", png(), Content_Type="image/png")[0] == 400


def test_a_file_comes_back_as_it_was(running_server: Comfyrail) -> None:
    asset = give(running_server, "photo.png", png(15))
    status, content, headers = running_server.fetch("GET", asset["url"])
    assert (status, content) == (200, png(15))
    assert headers["content-type"] == "image/png"
    assert headers["content-disposition"] == 'inline; filename="photo.png"'
    part = running_server.fetch("GET", asset["url"], Range="bytes=5-9")
    assert part[:2] == (206, png(15)[5:10])
    again = running_server.fetch("GET", asset["url"], If_None_Match=headers["etag"])
    assert again[:2] == (304, b"")
    assert running_server.fetch("GET", asset["url"], Range="bytes=999999-")[0] == 416
    head = running_server.fetch("HEAD", asset["url"])
    assert (head[0], head[1], head[2]["content-length"]) == (200, b"", str(len(png(15))))


def test_what_a_browser_could_run_is_a_download(running_server: Comfyrail) -> None:
    asset = give(running_server, "note.txt", b"hello <script>alert(1)</script>")
    _, _, headers = running_server.fetch("GET", asset["url"])
    assert headers["content-type"] == "application/octet-stream"
    assert headers["content-disposition"].startswith("attachment")
    assert headers["x-content-type-options"] == "nosniff"


def test_a_list_goes_on_and_a_deleted_file_is_gone(running_server: Comfyrail) -> None:
    given = [give(running_server, f"list-{number}.png", png(16)) for number in range(3)]
    _, page = running_server.call("GET", "/v1/assets?limit=2")
    assert [each["asset_id"] for each in page["assets"]] == [
        given[2]["asset_id"],
        given[1]["asset_id"],
    ]
    _, rest = running_server.call("GET", f"/v1/assets?limit=1&cursor={page['next_cursor']}")
    assert rest["assets"][0]["asset_id"] == given[0]["asset_id"]
    path = f"/v1/assets/{given[0]['asset_id']}"
    assert running_server.call("DELETE", path) == (204, None)
    for method, gone in (("GET", path), ("DELETE", path), ("GET", path + "/content")):
        assert code(running_server.call(method, gone)) == (404, "ASSET_NOT_FOUND")


def test_parts_are_sent_by_range_or_by_offset(running_server: Comfyrail) -> None:
    content = png(17, (300, 200))
    body = {"name": "parts.png", "size": len(content)}
    status, session = running_server.call("POST", "/v1/uploads/sessions", body)
    assert (status, session["offset"], session["chunk_size"]) == (201, 0, 8 << 20)
    path = f"/v1/uploads/sessions/{session['upload_id']}"
    half = len(content) // 2
    kind = {"Content_Type": "application/octet-stream"}
    said = f"bytes 0-{half - 1}/{len(content)}"
    status, reply = running_server.call("PUT", path, content[:half], Content_Range=said, **kind)
    assert (status, reply["offset"], reply["asset"]) == (200, half, None)
    assert code(running_server.call("PUT", path, content[:half], Content_Range=said, **kind)) == (
        409,
        "UPLOAD_OFFSET",
    )
    status, reply = running_server.call("GET", path)
    assert (status, reply["offset"]) == (200, half)
    for wrong in ("bytes 5-1/100", "bytes */100", "0-5", "bytes 0-5/*", "bytes 0-99999999999/9"):
        refused = running_server.call("PUT", path, b"x", Content_Range=wrong, **kind)
        assert code(refused) == (400, "INVALID_CONTENT_RANGE")
    assert running_server.call("PUT", path, b"x", **kind)[0] == 400
    rest = content[half:]
    status, reply = running_server.call("PUT", path, rest, Upload_Offset=str(half), **kind)
    assert (status, reply["status"]) == (201, "done")
    assert running_server.fetch("GET", reply["asset"]["url"])[1] == content
    assert running_server.call("DELETE", path) == (204, None)
    assert code(running_server.call("GET", path)) == (404, "UPLOAD_NOT_FOUND")


def test_range_that_disagrees_with_the_body_is_refused(running_server: Comfyrail) -> None:
    content = png(21)
    size = len(content)
    body = {"name": "range.png", "size": size}
    _, session = running_server.call("POST", "/v1/uploads/sessions", body)
    path = f"/v1/uploads/sessions/{session['upload_id']}"
    for said in (f"bytes 0-{size - 2}/{size}", f"bytes 0-{size - 1}/{size + 1}"):
        refused = running_server.call(
            "PUT", path, content, Content_Range=said, Content_Type="application/octet-stream"
        )
        assert code(refused) == (400, "INVALID_CONTENT_RANGE")
    short = running_server.call(
        "PUT",
        path,
        content[:-1],
        Content_Range=f"bytes 0-{size - 1}/{size}",
        Content_Type="application/octet-stream",
    )
    assert code(short) == (400, "INVALID_CONTENT_RANGE")
    assert running_server.call("GET", path)[1]["offset"] == 0


def test_hash_that_is_none_is_refused_at_once(running_server: Comfyrail) -> None:
    for sha256 in ("", "x"):
        body = {"name": "hash.png", "size": 5, "sha256": sha256}
        refused = running_server.call("POST", "/v1/uploads/sessions", body)
        assert code(refused) == (422, "INVALID_SHA256")


def test_upload_goes_on_at_once_after_a_part_has_stalled(running_server: Comfyrail) -> None:
    content = png(22, (200, 150))
    body = {"name": "stalled.png", "size": len(content)}
    _, session = running_server.call("POST", "/v1/uploads/sessions", body)
    path = f"/v1/uploads/sessions/{session['upload_id']}"
    connection = http.client.HTTPConnection(urlsplit(running_server.url).netloc, timeout=10)
    connection.putrequest("PUT", path)
    connection.putheader("Content-Length", str(len(content)))
    connection.putheader("Upload-Offset", "0")
    connection.putheader("Content-Type", "application/octet-stream")
    connection.endheaders()
    connection.send(content[:1000])
    began = time.monotonic()
    status, reply = running_server.call(
        "PUT", path, content, Upload_Offset="0", Content_Type="application/octet-stream"
    )
    assert (status, reply["status"]) == (201, "done")
    assert time.monotonic() - began < 10
    older = connection.getresponse()
    assert older.status == 409 or json.load(older)["status"] == "done"
    connection.close()
    assert running_server.fetch("GET", reply["asset"]["url"])[1] == content


def test_an_upload_whose_client_is_gone_leaves_nothing(running_server: Comfyrail) -> None:
    before = running_server.call("GET", "/v1/assets")[1]
    connection = http.client.HTTPConnection(urlsplit(running_server.url).netloc, timeout=10)
    connection.putrequest("POST", "/v1/uploads?name=x.png")
    connection.putheader("Content-Length", "100000")
    connection.putheader("Content-Type", "image/png")
    connection.endheaders()
    connection.send(png())
    connection.close()
    assert running_server.call("GET", "/v1/assets")[1] == before
    assert "request_failed" not in running_server.log


def test_a_post_with_a_key_is_done_once(running_server: Comfyrail) -> None:
    first = upload(running_server, "once.png", png(18), Idempotency_Key="upload-once")
    again = upload(running_server, "once.png", png(18), Idempotency_Key="upload-once")
    assert again == first


def test_a_file_is_in_use_until_its_job_has_ended(running_server: Comfyrail) -> None:
    asset = give(running_server, "used.png", png(19))
    graph = load_and_save("used.png")
    graph["9"] = {"class_type": "Delay", "inputs": {"value": ["1", 0], "seconds": 60}}
    graph["2"]["inputs"]["images"] = ["9", 0]
    job_id = running_server.submit(graph)
    path = f"/v1/assets/{asset['asset_id']}"
    refused = running_server.call("DELETE", path)
    assert code(refused) == (409, "ASSET_IN_USE")
    assert refused[1]["error"]["details"]["execution_id"] == job_id
    running_server.call("POST", f"/v1/workflows/execution/{job_id}/cancel")
    running_server.wait_for(job_id, "cancelled")
    assert running_server.call("DELETE", path) == (204, None)


def test_validating_and_planning_find_files_and_put_none_anywhere(
    running_server: Comfyrail,
) -> None:
    asset = give(running_server, "looked-at.png", png(20))
    reference = {"__type": "core/ASSET", "info": {"id": asset["asset_id"]}}
    for graph in (load_and_save("looked-at.png"), load_and_save(reference)):
        status, report = running_server.call("POST", "/v1/workflows/validate", {"workflow": graph})
        assert (status, report["valid"]) == (200, True), json.dumps(report)
        assert running_server.call("POST", "/v1/workflows/plan", {"workflow": graph})[0] == 200
    assert not (running_server.data / "input" / asset["input_name"]).exists()
    reference["info"] = {"id": "0199aaaa-0000-7000-8000-000000000000"}
    graph = load_and_save(reference)
    refused = running_server.call("POST", "/v1/workflows/execute", {"workflow": graph})
    assert code(refused) == (422, "MISSING_ASSET")
    (finding,) = refused[1]["error"]["details"]["findings"]
    assert (finding["node_id"], finding["path"]) == ("1", "1.inputs.image")
