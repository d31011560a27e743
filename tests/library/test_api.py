"""The library over real HTTP, and running by name [1.3, 1.4]."""

import base64
import json
import struct
from typing import Any

import pytest

from comfyrail.client import ComfyrailClient, RequestFailed
from tests.api.test_executions import assert_error
from tests.graphs import picture
from tests.library.parts import INPUTS, png, zipped
from tests.processes import Comfyrail


def save(server: Comfyrail, name: str, **fields: Any) -> tuple[int, Any]:
    body = {"workflow": picture(), **fields}
    return server.call("PUT", f"/v1/workflows/{name}", body)


def damaged_bundle() -> bytes:
    """Its last record says that the list of files is near the end of 4 GiB."""
    content = bytearray(zipped({"a/workflow.json": b"{}"}))
    content[-6:-2] = struct.pack("<L", 0xFFFFFFF0)
    return bytes(content)


def width_of(server: Comfyrail, job_id: str) -> int:
    (output,) = server.wait_for(job_id, "completed")["result"]["outputs"]
    _, content, _ = server.fetch("GET", output["url"])
    return int.from_bytes(content[16:20])


def run(server: Comfyrail, workflow_id: str, **parameters: Any) -> str:
    body = {"workflow_id": workflow_id, "input_params": parameters}
    status, reply = server.call("POST", "/v1/workflows/execute", body)
    assert status == 202, reply
    return str(reply["execution_id"])


def test_workflow_is_saved_shown_listed_and_deleted(running_server: Comfyrail, name: str) -> None:
    path = f"/v1/workflows/{name}"
    preview = base64.b64encode(png()).decode()
    status, reply = save(
        running_server, name, description="# Blue\nA picture.", inputs=INPUTS, preview=preview
    )
    assert (status, reply) == (201, {"name": name, "version": 1, "added": [1]})
    status, reply = save(running_server, name)
    assert (status, reply["version"]) == (200, 2)

    status, shown = running_server.call("GET", path)
    assert status == 200
    assert (shown["name"], shown["version"], shown["versions"]) == (name, 2, [1, 2])
    assert shown["workflow"] == picture()
    assert shown["description"] == "# Blue\nA picture."
    assert [each["name"] for each in shown["inputs"]] == ["width", "prefix"]
    assert shown["inputs"][0]["targets"] == ["1.width"]
    assert running_server.fetch("GET", shown["preview"])[1] == png()

    found: dict[str, Any] = {}
    cursor: str | None = ""
    while cursor is not None:
        _, page = running_server.call("GET", f"/v1/workflows?limit=1&cursor={cursor}")
        found |= {each["name"]: each for each in page["workflows"]}
        cursor = page["next_cursor"]
    assert (found[name]["version"], found[name]["description"]) == (2, "Blue")
    assert list(found) == sorted(found)

    _, versions = running_server.call("GET", f"{path}/versions")
    assert [each["version"] for each in versions["versions"]] == [2, 1]
    assert running_server.fetch("DELETE", path)[0] == 204
    status, reply = running_server.call("GET", path)
    assert status == 404
    assert_error(reply, "WORKFLOW_NOT_FOUND")


def test_saved_reply_says_where_the_version_is(running_server: Comfyrail, name: str) -> None:
    body = {"workflow": picture()}
    _, _, headers = running_server.fetch("PUT", f"/v1/workflows/{name}", body)
    assert headers["location"] == f"/v1/workflows/{name}?version=1"
    assert running_server.call("GET", headers["location"])[1]["version"] == 1


def test_workflow_is_kept_as_it_was_given(running_server: Comfyrail, name: str) -> None:
    editor = b'{"nodes": [{"id": 1, "type": "EmptyImage"}], "links": [],  "version": 0.40}'
    status, _ = running_server.call("PUT", f"/v1/workflows/{name}", b'{"workflow":' + editor + b"}")
    assert status == 201
    _, content, _ = running_server.fetch("GET", f"/v1/workflows/{name}")
    assert editor in content
    kept = running_server.data / "workflows" / name / "workflow.json"
    assert kept.read_bytes() == editor


def test_older_version_runs_as_it_was(running_server: Comfyrail, name: str) -> None:
    for width in (11, 22):
        save(running_server, name, workflow=picture(width=width))
    assert width_of(running_server, run(running_server, name)) == 22
    assert width_of(running_server, run(running_server, f"{name}@1")) == 11


def test_declared_inputs_are_set_by_name(running_server: Comfyrail, name: str) -> None:
    save(running_server, name, inputs=INPUTS)
    job = running_server.wait_for(run(running_server, name, width="33"), "completed")
    (output,) = job["result"]["outputs"]
    assert output["filename"].startswith("kept_")
    assert width_of(running_server, job["execution_id"]) == 33


def test_folder_that_is_dropped_in_runs(running_server: Comfyrail, name: str) -> None:
    folder = running_server.data / "workflows" / name
    folder.mkdir()
    (folder / "workflow.json").write_text(json.dumps(picture(width=17)))
    (folder / "inputs.yaml").write_text(
        "height:\n  target: [1.height]\n  type: integer\n  default: 5\n"
    )
    _, shown = running_server.call("GET", f"/v1/workflows/{name}")
    assert shown["inputs"][0]["default"] == 5
    assert width_of(running_server, run(running_server, name)) == 17


def test_inputs_in_an_envelope_are_shown_and_set(running_server: Comfyrail, name: str) -> None:
    envelope = {"nodes": picture(), "inputs": {"size": {"target": "1.width", "type": "integer"}}}
    save(running_server, name, workflow=envelope)
    _, shown = running_server.call("GET", f"/v1/workflows/{name}")
    assert [each["name"] for each in shown["inputs"]] == ["size"]
    assert width_of(running_server, run(running_server, name, size=9)) == 9
    job = running_server.submit(envelope, input_params={"size": 10})
    assert width_of(running_server, job) == 10


@pytest.mark.parametrize(
    ("parameters", "code", "path"),
    [
        ({"width": 100}, "SCHEMA_VALIDATION_ERROR", "input_params.width"),
        ({"width": "wide"}, "SCHEMA_VALIDATION_ERROR", "input_params.width"),
        ({"widht": 1}, "UNKNOWN_PARAMETER", "input_params.widht"),
    ],
)
def test_wrong_value_of_a_declared_input_is_a_finding(
    running_server: Comfyrail, name: str, parameters: Any, code: str, path: str
) -> None:
    save(running_server, name, inputs=INPUTS)
    body = {"workflow_id": name, "input_params": parameters}
    status, reply = running_server.call("POST", "/v1/workflows/execute", body)
    assert status == 422
    error = assert_error(reply, code)
    assert [each["path"] for each in error["details"]["findings"]] == [path]


@pytest.mark.parametrize(
    ("body", "status", "code"),
    [
        ({"workflow_id": "no-such-workflow"}, 404, "WORKFLOW_NOT_FOUND"),
        ({"workflow_id": "../../etc/passwd"}, 404, "WORKFLOW_NOT_FOUND"),
        ({"workflow_id": "a@b"}, 400, "MALFORMED_REQUEST"),
        ({"workflow_id": "a", "workflow": picture()}, 400, "MALFORMED_REQUEST"),
        ({"workflow_id": 5}, 400, "MALFORMED_REQUEST"),
        ({"workflow_id": None}, 400, "MALFORMED_REQUEST"),
    ],
)
def test_run_of_what_is_not_there_is_explained(
    running_server: Comfyrail, body: Any, status: int, code: str
) -> None:
    got, reply = running_server.call("POST", "/v1/workflows/execute", body)
    assert got == status
    assert_error(reply, code)


def test_unknown_version_is_explained(running_server: Comfyrail, name: str) -> None:
    save(running_server, name)
    body = {"workflow_id": f"{name}@9"}
    status, reply = running_server.call("POST", "/v1/workflows/execute", body)
    assert status == 404
    assert_error(reply, "WORKFLOW_VERSION_NOT_FOUND")


@pytest.mark.parametrize(
    ("where", "body", "status", "code"),
    [
        ("NAME", {}, 400, "MALFORMED_REQUEST"),
        ("NAME", {"workflow": picture(), "what": 1}, 400, "MALFORMED_REQUEST"),
        ("NAME", {"workflow": 5}, 422, "SCHEMA_VALIDATION_ERROR"),
        ("NAME", {"workflow": {}}, 422, "SCHEMA_VALIDATION_ERROR"),
        ("NAME", {"workflow": {"1": 5}}, 422, "SCHEMA_VALIDATION_ERROR"),
        ("NAME", {"workflow": picture(), "preview": "?"}, 400, "MALFORMED_REQUEST"),
        ("NAME", {"workflow": picture(), "preview": "aGVsbG8="}, 422, "INVALID_PREVIEW"),
        ("NAME", {"workflow": picture(), "description": "x" * 70_000}, 413, "PAYLOAD_TOO_LARGE"),
        ("NAME", {"workflow": picture(), "inputs": 5}, 400, "MALFORMED_REQUEST"),
        ("NAME", {"workflow": picture(), "inputs": [5]}, 422, "SCHEMA_VALIDATION_ERROR"),
        ("NAME", {"workflow": picture(), "inputs": {"a": "7.x"}}, 422, "SCHEMA_VALIDATION_ERROR"),
        (
            "NAME",
            b'{"workflow":{"a":' + b"[" * 900 + b"]" * 900 + b"}}",
            422,
            "SCHEMA_VALIDATION_ERROR",
        ),
        ("execute%2Fx", {"workflow": picture()}, 404, "ROUTE_NOT_FOUND"),
        ("import", {"workflow": picture()}, 422, "INVALID_WORKFLOW_NAME"),
        ("executions", {"workflow": picture()}, 422, "INVALID_WORKFLOW_NAME"),
        ("Upper", {"workflow": picture()}, 422, "INVALID_WORKFLOW_NAME"),
        ("%2E%2E", {"workflow": picture()}, 422, "INVALID_WORKFLOW_NAME"),
    ],
)
def test_bad_save_says_what_to_mend_and_keeps_nothing(
    running_server: Comfyrail, name: str, where: str, body: Any, status: int, code: str
) -> None:
    path = f"/v1/workflows/{where.replace('NAME', name)}"
    got, reply = running_server.call("PUT", path, body)
    assert (got, reply["error"]["code"]) == (status, code), reply
    assert_error(reply, code)
    assert running_server.call("GET", f"/v1/workflows/{name}")[0] == 404


def test_kept_inputs_that_no_longer_lead_anywhere_are_said(
    running_server: Comfyrail, name: str
) -> None:
    save(running_server, name, inputs={"prefix": "Save.filename_prefix"})
    graph = picture()
    del graph["3"]["_meta"]
    status, reply = save(running_server, name, workflow=graph)
    assert status == 422
    assert "'prefix' leads nowhere" in assert_error(reply, "SCHEMA_VALIDATION_ERROR")["message"]
    assert save(running_server, name, workflow=graph, inputs=None)[0] == 200


def test_preview_has_an_etag_and_is_replaced(running_server: Comfyrail, name: str) -> None:
    path = f"/v1/workflows/{name}/preview"
    save(running_server, name)
    status, reply = running_server.call("GET", path)
    assert status == 404
    assert_error(reply, "PREVIEW_NOT_FOUND")
    for color in ("red", "blue"):
        status, _, _ = running_server.fetch("PUT", path, png(color), Content_Type="image/png")
        assert status == 204
        status, content, headers = running_server.fetch("GET", path)
        assert (status, content, headers["content-type"]) == (200, png(color), "image/png")
        assert running_server.fetch("GET", path, If_None_Match=headers["etag"])[0] == 304
    assert running_server.call("GET", f"/v1/workflows/{name}")[1]["versions"] == [1]
    status, reply = running_server.call("PUT", path, b"no", Content_Type="image/png")
    assert (status, reply["error"]["code"]) == (422, "INVALID_PREVIEW")
    assert running_server.call("PUT", path, png())[0] == 415
    status, reply = running_server.call(
        "PUT", "/v1/workflows/nobody/preview", png(), Content_Type="image/png"
    )
    assert status == 404


def test_bundle_goes_out_and_in(running_server: Comfyrail, name: str) -> None:
    for width in (11, 22):
        save(running_server, name, workflow=picture(width=width))
    status, content, headers = running_server.fetch("GET", f"/v1/workflows/{name}/bundle")
    assert (status, headers["content-type"]) == (200, "application/zip")
    assert f'filename="{name}.zip"' in headers["content-disposition"]
    zip_type = {"Content_Type": "application/zip"}
    status, reply = running_server.call("POST", "/v1/workflows/import", content, **zip_type)
    assert status == 409
    assert_error(reply, "WORKFLOW_EXISTS")
    status, reply = running_server.call(
        "POST", "/v1/workflows/import?replace=true", content, **zip_type
    )
    assert (status, reply) == (200, {"name": name, "version": 4, "added": [3, 4]})
    running_server.call("DELETE", f"/v1/workflows/{name}")
    status, reply = running_server.call("POST", "/v1/workflows/import", content, **zip_type)
    assert (status, reply["added"]) == (201, [1, 2])
    assert width_of(running_server, run(running_server, f"{name}@1")) == 11


@pytest.mark.parametrize(
    ("content", "status", "code"),
    [
        (b"no zip", 422, "INVALID_BUNDLE"),
        (damaged_bundle(), 422, "INVALID_BUNDLE"),
        (zipped({"a/workflow.json": b"{}"}), 422, "SCHEMA_VALIDATION_ERROR"),
        (zipped({"a/workflow.json": b"nope"}), 422, "SCHEMA_VALIDATION_ERROR"),
        (zipped({"B/workflow.json": b"{}"}), 422, "INVALID_WORKFLOW_NAME"),
    ],
)
def test_bad_bundle_is_explained(
    running_server: Comfyrail, content: bytes, status: int, code: str
) -> None:
    got, reply = running_server.call(
        "POST", "/v1/workflows/import", content, Content_Type="application/zip"
    )
    assert (got, reply["error"]["code"]) == (status, code), reply
    got, reply = running_server.call("POST", "/v1/workflows/import", content)
    assert got == 415


@pytest.mark.parametrize(
    ("path", "status", "code"),
    [
        ("/v1/workflows/nobody", 404, "WORKFLOW_NOT_FOUND"),
        ("/v1/workflows/nobody/versions", 404, "WORKFLOW_NOT_FOUND"),
        ("/v1/workflows/nobody/bundle", 404, "WORKFLOW_NOT_FOUND"),
        ("/v1/workflows/nobody/preview", 404, "WORKFLOW_NOT_FOUND"),
        ("/v1/workflows/%00", 404, "WORKFLOW_NOT_FOUND"),
        ("/v1/workflows/.incoming", 404, "WORKFLOW_NOT_FOUND"),
        ("/v1/workflows/nobody?version=x", 400, "MALFORMED_REQUEST"),
        ("/v1/workflows?limit=0", 400, "MALFORMED_REQUEST"),
        ("/v1/workflows/nobody/nothing", 404, "ROUTE_NOT_FOUND"),
    ],
)
def test_errors_have_one_shape(
    running_server: Comfyrail, path: str, status: int, code: str
) -> None:
    got, reply = running_server.call("GET", path)
    assert got == status
    assert_error(reply, code)


def test_damaged_folder_says_which_file_to_mend(running_server: Comfyrail, name: str) -> None:
    folder = running_server.data / "workflows" / name
    folder.mkdir()
    (folder / "workflow.json").write_text("{nope")
    status, reply = running_server.call("GET", f"/v1/workflows/{name}")
    assert status == 422
    error = assert_error(reply, "SCHEMA_VALIDATION_ERROR")
    assert "workflow.json is not JSON" in error["message"]
    (folder / "workflow.json").write_text(json.dumps(picture()))
    (folder / "inputs.yaml").write_text("a: &x [1]\nb: *x")
    status, reply = running_server.call("GET", f"/v1/workflows/{name}")
    assert (status, "inputs.yaml" in reply["error"]["message"]) == (422, True)


async def test_client_has_all_of_it(running_server: Comfyrail, name: str) -> None:
    async with ComfyrailClient(running_server.url) as client:
        library = client.library
        saved = await library.save(
            name, picture(width=12), description="Hello", inputs=INPUTS, preview=png()
        )
        assert (saved.name, saved.version) == (name, 1)
        await library.save(name, picture(width=13), inputs=None, description=None)
        shown = await library.show(name, 1)
        assert (shown.version, shown.description, shown.inputs[0].maximum) == (1, "Hello", 99)
        assert (await library.show(name)).inputs == []
        assert [each.version for each in await library.versions(name)] == [2, 1]
        names = [each.name async for each in library.workflows(page_size=1)]
        assert name in names
        assert await library.preview(name) == png()
        await library.save_preview(name, png("green"))
        assert await library.preview(name, 2) == png("green")
        job_id = await client.execute(f"{name}@1", {"width": 14})
        bundle = b"".join([chunk async for chunk in library.export_bundle(name)])
        with pytest.raises(RequestFailed, match="already"):
            await library.import_bundle(bundle)
        assert (await library.import_bundle(bundle, name=name, replace=True)).added == [3, 4]
        await library.delete(name)
        with pytest.raises(RequestFailed, match="There is no workflow"):
            await library.show(name)
    assert width_of(running_server, job_id) == 14
