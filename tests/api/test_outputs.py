"""Outputs of all jobs: search, links, zip files, what is gone [8.1-8.4]."""

import base64
import hashlib
import io
import json
import threading
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlsplit

import pytest

from tests.graphs import picture
from tests.processes import Comfyrail, server, wait_until
from tests.processes import comfyrail as run_cli


def titled_picture(color: int, prefix: str, note: str) -> dict[str, Any]:
    """A picture whose graph has a text in it."""
    graph: dict[str, Any] = json.loads(json.dumps(picture(color)))
    for node in graph.values():
        if node["class_type"] == "SaveImage":
            node["inputs"]["filename_prefix"] = prefix
    graph["note"] = {"class_type": "PrimitiveString", "inputs": {"value": note}}
    graph["shown"] = {"class_type": "PreviewAny", "inputs": {"source": ["note", 0]}}
    return graph


def made(server: Comfyrail, graph: Any, **fields: Any) -> tuple[str, list[dict[str, Any]]]:
    """A finished job, and its outputs."""
    job_id = server.submit(graph, **fields)
    server.wait_for(job_id, "completed")
    return job_id, server.call("GET", f"/v1/workflows/execution/{job_id}/outputs")[1]["outputs"]


def search(server: Comfyrail, **query: str) -> list[dict[str, Any]]:
    words = "&".join(f"{name}={quote(value)}" for name, value in query.items())
    status, body = server.call("GET", f"/v1/outputs?{words}")
    assert status == 200, body
    return list(body["outputs"])


def test_outputs_are_found_by_the_texts_of_their_graph(running_server: Comfyrail) -> None:
    job_id, _ = made(running_server, titled_picture(31, "fox", "A Crimson Fox, leaping"))
    other, _ = made(running_server, titled_picture(32, "owl", "a grey owl at night"))

    def jobs(text: str) -> set[str]:
        return {each["execution_id"] for each in search(running_server, text=text)}

    wait_until(lambda: jobs("crimson leap") == {job_id})
    wait_until(lambda: jobs("OWL night") == {other})
    assert jobs("crimson owl") == set()
    assert job_id in jobs("fox_000")
    for odd in ('"', "* OR text:", "crimson AND NOT leaping", "tenant : x", "(", "\\"):
        jobs(odd)


def test_outputs_are_filtered_by_kind_node_time_and_job(running_server: Comfyrail) -> None:
    before = wait_until(lambda: search(running_server, limit="1") or [{"output": None}])
    job_id, outputs = made(running_server, titled_picture(33, "kinds", "some words"))
    kinds = {each["kind"] for each in outputs}
    assert kinds == {"images", "text"}
    images = search(running_server, kind="image", execution_id=job_id)
    assert [each["output"]["content_type"] for each in images] == ["image/png"]
    texts = search(running_server, kind="text", execution_id=job_id)
    assert [each["output"]["kind"] for each in texts] == ["text"]
    both = search(running_server, kind="text,image/png", execution_id=job_id)
    assert len(both) == 2
    (shown,) = search(running_server, node_id="shown", execution_id=job_id)
    assert shown["output"]["output_id"] == texts[0]["output"]["output_id"]
    assert search(running_server, created_before="2001-01-01T00:00:00Z") == []
    assert search(running_server, created_from="2001-01-01T00:00:00Z", execution_id=job_id)
    assert search(running_server, execution_id=job_id)[0] != before[0]


def test_pages_of_a_search_have_every_output_once(running_server: Comfyrail) -> None:
    for color in range(34, 39):
        made(running_server, picture(color))
    seen: list[str] = []
    cursor = ""
    while True:
        after = f"&cursor={cursor}" if cursor else ""
        _, body = running_server.call("GET", f"/v1/outputs?limit=2{after}")
        seen += [each["output"]["output_id"] for each in body["outputs"]]
        cursor = body["next_cursor"]
        if not cursor or len(seen) > 400:
            break
    assert len(seen) == len(set(seen)) >= 5
    assert seen == sorted(seen, reverse=True)


def test_outputs_of_a_workflow_of_the_library(running_server: Comfyrail) -> None:
    running_server.call("PUT", "/v1/workflows/output-poster", {"workflow": picture(41)})
    status, body = running_server.call(
        "POST", "/v1/workflows/execute", {"workflow_id": "output-poster"}
    )
    assert status == 202
    running_server.wait_for(body["execution_id"], "completed")
    for wanted in ("output-poster", "output-poster@1"):
        found = search(running_server, workflow_id=wanted)
        assert {each["workflow_id"] for each in found} == {"output-poster@1"}
    assert search(running_server, workflow_id="output-poste") == []
    assert search(running_server, workflow_id="output-*") == []


def test_link_opens_the_file_for_anybody(running_server: Comfyrail) -> None:
    _, (output, *_) = made(running_server, picture(42))
    path = f"/v1/outputs/{output['output_id']}/link"
    status, link = running_server.call("POST", path, {"expires_in": 60, "download": True})
    assert (status, link["direct"]) == (200, False)
    assert link["url"].startswith(running_server.url + "/v1/files/")
    parts = urlsplit(link["url"])
    status, content, headers = running_server.fetch("GET", parts.path)
    assert status == 200
    assert hashlib.sha256(content).hexdigest() == output["sha256"]
    names = {name.lower(): value for name, value in headers.items()}
    assert names["content-disposition"].startswith("attachment")
    status, part, _ = running_server.fetch("GET", parts.path, Range="bytes=1-3")
    assert (status, part) == (206, content[1:4])


@pytest.mark.parametrize("change", ["signature", "content", "cut", "odd"])
def test_link_that_was_changed_opens_nothing(running_server: Comfyrail, change: str) -> None:
    _, (output, *_) = made(running_server, picture(43))
    _, link = running_server.call("POST", f"/v1/outputs/{output['output_id']}/link")
    _, _, _, token, name = urlsplit(link["url"]).path.split("/")
    content, _, signature = token.partition(".")
    raw = bytearray(base64.urlsafe_b64decode(content + "=" * (-len(content) % 4)))
    raw[5] ^= 1
    changed = {
        "signature": f"{content}.{signature[:-2]}AA",
        "content": f"{base64.urlsafe_b64encode(raw).rstrip(b'=').decode()}.{signature}",
        "cut": token[:-3],
        "odd": "%F0%9F%98%80.~",
    }[change]
    status, body = running_server.call("GET", f"/v1/files/{changed}/{name}")
    assert (status, body["error"]["code"]) == (403, "INVALID_LINK")


def test_link_time_is_within_bounds_and_ends(running_server: Comfyrail) -> None:
    _, (output, *_) = made(running_server, picture(44))
    path = f"/v1/outputs/{output['output_id']}/link"
    for odd in (0, -5, 1e9):
        status, body = running_server.call("POST", path, {"expires_in": odd})
        assert (status, body["error"]["code"]) == (400, "INVALID_LINK_TIME")
    _, link = running_server.call("POST", path, {"expires_in": 1})
    target = urlsplit(link["url"]).path

    def has_ended() -> bool:
        status, content, _ = running_server.fetch("GET", target)
        return status == 403 and json.loads(content)["error"]["code"] == "LINK_EXPIRED"

    wait_until(has_ended)


def test_zip_has_all_outputs_under_names_of_their_own(running_server: Comfyrail) -> None:
    graph = picture(45)
    job_id, outputs = made(running_server, graph)
    status, content, headers = running_server.fetch(
        "GET", f"/v1/workflows/execution/{job_id}/outputs.zip"
    )
    assert status == 200
    assert {name.lower(): value for name, value in headers.items()}["content-type"] == (
        "application/zip"
    )
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        assert archive.testzip() is None
        assert sorted(archive.namelist()) == sorted(each["filename"] for each in outputs)
        for each in outputs:
            assert hashlib.sha256(archive.read(each["filename"])).hexdigest() == each["sha256"]
    made(running_server, titled_picture(46, "zipped", "zebra one"))
    made(running_server, titled_picture(47, "zipped", "zebra two"))
    wait_until(lambda: len(search(running_server, text="zebra", kind="image")) == 2)
    _, content, _ = running_server.fetch("GET", "/v1/outputs.zip?text=zebra&kind=image")
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        assert len(set(archive.namelist())) == 2


def test_outputs_can_come_inside_the_reply(running_server: Comfyrail) -> None:
    job_id, outputs = made(running_server, picture(48))
    path = f"/v1/workflows/execution/{job_id}/outputs"
    _, body = running_server.call("GET", f"{path}?inline=true")
    for plain, inline in zip(outputs, body["outputs"], strict=True):
        assert "data" not in plain
        content = base64.b64decode(inline["data"])
        assert hashlib.sha256(content).hexdigest() == plain["sha256"]


def test_deleted_output_is_gone_and_says_so_everywhere(running_server: Comfyrail) -> None:
    graph = picture(49)
    graph["3"]["inputs"]["filename_prefix"] = "deleted-one"  # no other test makes such a file
    job_id, (output, *_) = made(running_server, graph)
    own = f"/v1/outputs/{output['output_id']}"
    _, link = running_server.call("POST", f"{own}/link")
    assert running_server.fetch("DELETE", own)[0] == 204
    assert running_server.fetch("DELETE", own)[0] == 204
    for path in (f"{own}/content", output["url"], urlsplit(link["url"]).path):
        status, body = running_server.call("GET", path)
        assert (status, body["error"]["code"]) == (410, "OUTPUT_GONE")
        assert body["error"]["details"]["reason"] == "deleted"
    status, body = running_server.call("POST", f"{own}/link")
    assert status == 410
    status, shown = running_server.call("GET", own)
    assert (status, shown["output"]["gone_reason"]) == (200, "deleted")
    assert search(running_server, execution_id=job_id) == []
    assert len(search(running_server, execution_id=job_id, gone="true")) == 1
    assert shown["expires_at"] is None
    status, body = running_server.call("GET", f"{output['url'].rpartition('/')[0]}.zip")
    assert (status, body["error"]["code"]) == (410, "OUTPUT_GONE")
    for where in ("", f"&subfolder={job_id}"):
        path = f"/view?filename={output['filename']}&type=output{where}"
        status, content, _ = running_server.fetch("GET", path)
        assert status == 404
        assert b"is gone since" in content


def test_output_whose_file_is_lost_is_left_out_and_named(running_server: Comfyrail) -> None:
    job_id, outputs = made(running_server, titled_picture(0x4905, "lost", "a lost picture"))
    lost, kept = sorted(outputs, key=lambda each: str(each["kind"]))
    data = running_server.data / "blobs" / lost["sha256"][:2] / lost["sha256"]
    data.unlink()
    path = f"/v1/workflows/execution/{job_id}/outputs"
    status, body = running_server.call("GET", f"{path}?inline=true")
    contents = {each["output_id"]: each["data"] for each in body["outputs"]}
    assert (status, contents[lost["output_id"]]) == (200, None)
    assert contents[kept["output_id"]]
    status, content, _ = running_server.fetch("GET", f"{path}.zip")
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        assert sorted(archive.namelist()) == sorted([kept["filename"], "MISSING.txt"])
        assert lost["filename"] in archive.read("MISSING.txt").decode()
    running_server.fetch("DELETE", f"/v1/outputs/{lost['output_id']}")


def test_zip_heeds_the_filters_of_the_search(running_server: Comfyrail) -> None:
    job_id, outputs = made(running_server, titled_picture(0x4906, "heeded", "filters"))
    made(running_server, titled_picture(0x4907, "unheeded", "filters"))
    _, content, _ = running_server.fetch("GET", f"/v1/outputs.zip?execution_id={job_id}")
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        assert sorted(archive.namelist()) == sorted(each["filename"] for each in outputs)
    found = f"/v1/outputs.zip?execution_id={job_id}&node_id=shown"
    with zipfile.ZipFile(io.BytesIO(running_server.fetch("GET", found)[1])) as archive:
        assert len(archive.namelist()) == 1


def test_outputs_are_chosen_by_their_ids(running_server: Comfyrail) -> None:
    _, first = made(running_server, titled_picture(0x4908, "chosen", "by ids"))
    _, second = made(running_server, titled_picture(0x4909, "chosen-too", "by ids"))
    wanted = [first[0]["output_id"], second[1]["output_id"]]
    found = search(running_server, output_id=",".join(wanted))
    assert [each["output"]["output_id"] for each in found] == sorted(wanted, reverse=True)
    repeated = f"/v1/outputs.zip?output_id={wanted[0]}&output_id={wanted[1]}"
    with zipfile.ZipFile(io.BytesIO(running_server.fetch("GET", repeated)[1])) as archive:
        assert sorted(archive.namelist()) == sorted([first[0]["filename"], second[1]["filename"]])


@pytest.mark.parametrize(
    "ids",
    ["", "a,,b", "x" * 65, ",".join(str(number) for number in range(201))],
    ids=["empty", "empty-among-others", "too-long", "too-many"],
)
def test_ids_that_none_can_be_are_refused(running_server: Comfyrail, ids: str) -> None:
    status, body = running_server.call("GET", f"/v1/outputs?output_id={ids}")
    assert status == 400, body
    assert "output_id" in body["error"]["message"]


def test_followers_of_a_link_keep_its_file_no_longer_than_it_is_good(
    running_server: Comfyrail,
) -> None:
    _, (output, *_) = made(running_server, picture(0x4908))
    ages = []
    for seconds in (100, 86_400):
        path = f"/v1/outputs/{output['output_id']}/link"
        _, link = running_server.call("POST", path, {"expires_in": seconds})
        _, _, headers = running_server.fetch("GET", urlsplit(link["url"]).path)
        names = {name.lower(): value for name, value in headers.items()}
        who, _, age = names["cache-control"].partition(", max-age=")
        ages.append((who, int(age)))
    assert {who for who, _ in ages} == {"private"}
    assert 0 < ages[0][1] <= 100
    assert ages[1][1] == 3600


def test_retention_of_a_job_is_heeded(running_server: Comfyrail) -> None:
    job_id, _ = made(running_server, picture(50), output_config={"retention": "immediate"})
    (found,) = search(running_server, execution_id=job_id)
    status, job = running_server.call("GET", f"/v1/workflows/execution/{job_id}")
    assert status == 200
    assert found["output"]["tier"] == "immediate"
    assert found["expires_at"][:10] != job["completed_at"][:10]
    status, body = running_server.call(
        "POST",
        "/v1/workflows/execute",
        {"workflow": picture(51), "output_config": {"retention": "for ever"}},
    )
    assert status == 400
    assert "retention" in body["error"]["message"]


def test_quota_of_the_server_removes_the_oldest(tmp_path: Path) -> None:
    with server(tmp_path / "data", COMFYRAIL_OUTPUT_QUOTA_BYTES="1") as process:
        process.wait_ready()
        # The keeper goes around once a minute, first at the start.
        _, (output, *_) = made(process, picture(52))
        assert process.stop() == 0
    with server(tmp_path / "data", COMFYRAIL_OUTPUT_QUOTA_BYTES="1") as process:
        wait_until(lambda: process.fetch("GET", output["url"])[0] == 410)
        _, body = process.call("GET", output["url"])
        assert body["error"]["details"]["reason"] == "quota"
        blob = tmp_path / "data" / "blobs" / output["sha256"][:2] / output["sha256"]
        wait_until(lambda: not blob.exists(), limit=30)


def test_command_line_finds_downloads_shares_and_removes(
    running_server: Comfyrail, tmp_path: Path
) -> None:
    job_id, _ = made(running_server, titled_picture(53, "cli", "walrus on ice"))
    wait_until(lambda: search(running_server, text="walrus", kind="image"))
    at = ("--server", running_server.url)
    listed = run_cli("outputs", "list", "--text", "walrus", "--kind", "image", *at)
    assert job_id in listed.stdout
    output_id = search(running_server, text="walrus", kind="image")[0]["output"]["output_id"]
    assert "image/png" in run_cli("outputs", "show", output_id, *at).stdout
    got = run_cli("outputs", "get", output_id, "-o", str(tmp_path), *at)
    assert Path(got.stdout.strip()).read_bytes().startswith(b"\x89PNG")
    archive = tmp_path / "all.zip"
    run_cli("outputs", "zip", str(archive), "--job", job_id, *at)
    with zipfile.ZipFile(archive) as file:
        assert len(file.namelist()) == 2
    assert "/v1/files/" in run_cli("outputs", "link", output_id, *at).stdout
    run_cli("outputs", "remove", output_id, *at)
    assert "gone (deleted)" in run_cli("outputs", "list", "--gone", "--job", job_id, *at).stdout


def test_zip_that_cannot_be_had_is_explained_and_leaves_no_file(
    running_server: Comfyrail, tmp_path: Path
) -> None:
    at = ("--server", running_server.url)
    archive = tmp_path / "all.zip"
    ended = run_cli("outputs", "zip", str(archive), "--job", "no-such-job", *at)
    assert ended.returncode == 2
    assert "Traceback" not in ended.stderr
    assert not archive.exists()
    archive.write_bytes(b"mine")
    ended = run_cli("outputs", "zip", str(archive), *at)
    assert "is there already" in ended.stderr
    assert archive.read_bytes() == b"mine"


def test_zip_that_breaks_off_leaves_no_half_a_file(tmp_path: Path) -> None:
    with breaking_server() as url:
        ended = run_cli("outputs", "zip", str(tmp_path / "all.zip"), "--server", url)
    assert ended.returncode != 0
    assert "Traceback" not in ended.stderr
    assert "Error:" in ended.stderr
    assert list(tmp_path.iterdir()) == []


@contextmanager
def breaking_server() -> Iterator[str]:
    """It begins a reply, and then hangs up."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            self.send_response(200)
            self.send_header("Transfer-Encoding", "chunked")
            self.end_headers()
            self.wfile.write(b"5\r\nPK123\r\n")
            self.wfile.flush()
            self.close_connection = True

        def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - its own name
            del format, args

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as breaking:
        thread = threading.Thread(target=breaking.serve_forever, args=(0.01,))
        thread.start()
        try:
            yield f"http://127.0.0.1:{breaking.server_address[1]}"
        finally:
            breaking.shutdown()
            thread.join()


def test_search_that_finds_nothing_makes_no_zip(running_server: Comfyrail, tmp_path: Path) -> None:
    status, body = running_server.call("GET", "/v1/outputs.zip?text=qqqqqqqq")
    assert (status, body["error"]["code"]) == (404, "OUTPUT_NOT_FOUND")
    archive = tmp_path / "none.zip"
    at = ("--server", running_server.url)
    ended = run_cli("outputs", "zip", str(archive), "--text", "qqqqqqqq", *at)
    assert ended.returncode != 0
    assert not archive.exists()
