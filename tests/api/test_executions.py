"""API v1 over real HTTP, against a real server and its worker [10.1, 10.6]."""

import hashlib
import json
import re
from typing import Any

import pytest

from tests.graphs import Graph, picture, slow_picture
from tests.processes import Comfyrail, wait_until

NOWHERE = "01890000-0000-7000-8000-000000000000"


def assert_error(body: Any, code: str, category: str = "validation") -> dict[str, Any]:
    """The one shape of all errors [7.1]."""
    error = body["error"]
    assert set(error) == {
        "category",
        "code",
        "message",
        "details",
        "retry_after",
        "timestamp",
        "request_id",
    }
    assert (error["category"], error["code"]) == (category, code), error
    assert error["message"]
    assert error["request_id"]
    assert isinstance(error, dict)
    return error


def test_workflow_goes_in_and_a_picture_comes_out(running_server: Comfyrail) -> None:
    status, body = running_server.call("POST", "/v1/workflows/execute", {"workflow": picture(7)})
    assert status == 202
    assert set(body) == {
        "execution_id",
        "status",
        "submitted_at",
        "estimated_duration",
        "queue_position",
        "predicted_wait",
    }
    assert body["status"] == "queued"
    assert body["estimated_duration"] > 0
    job = running_server.wait_for(body["execution_id"], "completed")
    assert (job["progress"], job["completed_nodes"], job["attempts"]) == (1.0, 3, 1)
    assert job["started_at"] <= job["completed_at"]
    (output,) = job["result"]["outputs"]
    assert (output["node_id"], output["kind"], output["content_type"]) == (
        "3",
        "images",
        "image/png",
    )
    status, content, headers = running_server.fetch("GET", output["url"])
    assert status == 200
    assert content.startswith(b"\x89PNG")
    assert hashlib.sha256(content).hexdigest() == output["sha256"]
    assert headers["content-type"] == "image/png"
    assert headers["x-content-type-options"] == "nosniff"


def test_head_gives_headers_only(running_server: Comfyrail) -> None:
    job = running_server.wait_for(running_server.submit(picture(8)), "completed")
    (output,) = job["result"]["outputs"]
    for path, kind in ((output["url"], "image/png"), ("/health", "application/json")):
        status, content, headers = running_server.fetch("HEAD", path)
        assert (status, content, headers["content-type"]) == (200, b"", kind)
        assert int(headers["content-length"]) > 0


def test_output_is_served_in_ranges_and_not_again_when_known(running_server: Comfyrail) -> None:
    job = running_server.wait_for(running_server.submit(picture(8)), "completed")
    (output,) = job["result"]["outputs"]
    status, part, headers = running_server.fetch("GET", output["url"], Range="bytes=1-3")
    assert (status, part) == (206, b"PNG")
    status, whole, _ = running_server.fetch("GET", output["url"], Range="bytes=abc")
    assert (status, len(whole)) == (200, output["size"]), "what is not understood is passed over"
    status, reply = running_server.call("GET", output["url"], Range="bytes=99999999-")
    assert status == 416
    assert reply["error"]["message"]
    status, _, _ = running_server.fetch("GET", output["url"], If_None_Match=headers["etag"])
    assert status == 304


def test_parameters_change_the_picture(running_server: Comfyrail) -> None:
    job_id = running_server.submit(
        picture(), input_params={"1.width": 9, "Save.filename_prefix": "p"}
    )
    job = running_server.wait_for(job_id, "completed")
    (output,) = job["result"]["outputs"]
    assert output["filename"].startswith("p_")
    _, content, _ = running_server.fetch("GET", output["url"])
    assert int.from_bytes(content[16:20]) == 9


def change(graph: Graph, node: str, **inputs: Any) -> Graph:
    graph[node]["inputs"].update(inputs)
    return graph


def without_output() -> Graph:
    graph = picture()
    del graph["3"]
    return graph


def without_width() -> Graph:
    graph = picture()
    del graph["1"]["inputs"]["width"]
    return graph


@pytest.mark.parametrize(
    ("body", "status", "code", "said"),
    [
        (b"{nope", 400, "MALFORMED_REQUEST", "not JSON"),
        (b"", 400, "MALFORMED_REQUEST", "not JSON"),
        (b"\xff\xfe", 400, "MALFORMED_REQUEST", "not JSON"),
        (b'{"workflow":' + b'{"a":' * 100_000, 400, "MALFORMED_REQUEST", "JSON|deep"),
        ([], 400, "MALFORMED_REQUEST", "Expected `object`"),
        ({}, 400, "MALFORMED_REQUEST", "workflow"),
        ({"workflow": "x"}, 422, "SCHEMA_VALIDATION_ERROR", "not a string"),
        ({"workflow": picture(), "what": 1}, 400, "MALFORMED_REQUEST", "what"),
        ({"workflow": picture(), "priority": 11}, 400, "INVALID_PRIORITY", "1 .lowest. to 10"),
        ({"workflow": picture(), "priority": "high"}, 400, "MALFORMED_REQUEST", "priority"),
        ({"workflow": picture(), "timeout": 0}, 400, "INVALID_TIMEOUT", "86400"),
        ({"workflow": picture(), "timeout": 1e9}, 400, "INVALID_TIMEOUT", "86400"),
        (
            {"workflow": picture(), "execution_config": {"strategy": "magic"}},
            400,
            "INVALID_EXECUTION_CONFIG",
            "none of sequential",
        ),
        (
            {"workflow": picture(), "execution_config": {"on_error": {"1": "pray"}}},
            400,
            "INVALID_EXECUTION_CONFIG",
            "no policy 'pray'",
        ),
        ({"workflow": {}}, 422, "SCHEMA_VALIDATION_ERROR", "no nodes"),
        ({"workflow": {"1": 5}}, 422, "SCHEMA_VALIDATION_ERROR", "Node '1' is a number"),
        ({"workflow": {"nodes": [], "links": []}}, 422, "SCHEMA_VALIDATION_ERROR", "no nodes"),
        (
            {"workflow": {"1": {"class_type": "SaveImag", "inputs": {}}}},
            422,
            "UNKNOWN_NODE_TYPE",
            "Did you mean 'SaveImage'",
        ),
        ({"workflow": without_width()}, 422, "MISSING_REQUIRED_INPUT", "needs the input 'width'"),
        ({"workflow": change(picture(), "3", images=["77", 0])}, 422, "BAD_LINK", "no node '77'"),
        (
            {"workflow": change(picture(), "3", images=["1", 4])},
            422,
            "BAD_LINK",
            "no output number 4",
        ),
        ({"workflow": change(picture(), "3", images=["1"])}, 422, "BAD_LINK", "a link is"),
        (
            {"workflow": change(picture(), "2", image=["2", 0])},
            422,
            "CIRCULAR_DEPENDENCY",
            "2 → 2",
        ),
        ({"workflow": without_output()}, 422, "NO_OUTPUT_NODE", "Add one, such as SaveImage"),
        (
            {"workflow": change(picture(), "1", width=0)},
            422,
            "SCHEMA_VALIDATION_ERROR",
            "smaller than the minimum",
        ),
        *(
            (
                b'{"workflow":{"1":{"class_type":"EmptyImage","inputs":{"width":'
                + b"[" * depth
                + b"]" * depth
                + b"}}}}",
                422 if depth < 800 else (400, 422),
                None,
                "",
            )
            for depth in (500, 940, 955, 959, 965, 980, 5000)
        ),
        (
            {"workflow": picture(), "input_params": {"1.widht": 1}},
            422,
            "UNKNOWN_PARAMETER",
            "Did you mean 'width'",
        ),
    ],
)
def test_bad_submission_says_what_to_mend_and_leaves_no_job(
    running_server: Comfyrail, body: Any, status: int | tuple[int, ...], code: str | None, said: str
) -> None:
    before = running_server.call("GET", "/v1/workflows/executions?limit=1")[1]
    got, reply = running_server.call("POST", "/v1/workflows/execute", body)
    assert got in (status if isinstance(status, tuple) else (status,)), reply
    error = assert_error(reply, code or reply["error"]["code"])
    assert re.search(said, error["message"]), error["message"]
    after = running_server.call("GET", "/v1/workflows/executions?limit=1")[1]
    assert [each["execution_id"] for each in before["executions"]] == [
        each["execution_id"] for each in after["executions"]
    ]


def test_all_faults_are_in_the_refusal(running_server: Comfyrail) -> None:
    graph = change(picture(), "1", width=0, height="x")
    _, reply = running_server.call("POST", "/v1/workflows/execute", {"workflow": graph})
    findings = assert_error(reply, "SCHEMA_VALIDATION_ERROR")["details"]["findings"]
    assert [finding["path"] for finding in findings] == ["1.inputs.width", "1.inputs.height"]
    assert set(findings[0]) == {
        "stage",
        "severity",
        "error_code",
        "message",
        "node_id",
        "path",
        "details",
    }


def test_large_body_is_refused_unread(running_server: Comfyrail) -> None:
    body = b'{"workflow": {"x": "' + b"a" * (11 << 20) + b'"}}'
    try:
        status, reply = running_server.call("POST", "/v1/workflows/execute", body)
    except OSError:
        return  # the server closed the line while the body was still being sent
    assert status == 413
    assert_error(reply, "PAYLOAD_TOO_LARGE")


def test_other_content_types_are_refused(running_server: Comfyrail) -> None:
    content = json.dumps({"workflow": picture()}).encode()
    status, reply = running_server.call(
        "POST", "/v1/workflows/execute", content, Content_Type="text/plain"
    )
    assert status == 415
    assert_error(reply, "UNSUPPORTED_MEDIA_TYPE")


@pytest.mark.parametrize(
    ("method", "path", "status", "code"),
    [
        ("GET", f"/v1/workflows/execution/{NOWHERE}", 404, "EXECUTION_NOT_FOUND"),
        ("GET", "/v1/workflows/execution/%00..", 404, "EXECUTION_NOT_FOUND"),
        ("GET", "/v1/workflows/execution/%00..%2f", 404, "ROUTE_NOT_FOUND"),
        ("DELETE", "/v1/workflows/execution/x", 405, "METHOD_NOT_ALLOWED"),
        ("GET", f"/v1/workflows/execution/{NOWHERE}/outputs", 404, "EXECUTION_NOT_FOUND"),
        ("GET", f"/v1/workflows/execution/{NOWHERE}/outputs/x", 404, "EXECUTION_NOT_FOUND"),
        ("GET", f"/v1/workflows/execution/{NOWHERE}/events", 404, "EXECUTION_NOT_FOUND"),
        ("POST", f"/v1/workflows/execution/{NOWHERE}/cancel", 404, "EXECUTION_NOT_FOUND"),
        ("GET", "/nothing", 404, "ROUTE_NOT_FOUND"),
        ("DELETE", "/v1/workflows/execute", 405, "METHOD_NOT_ALLOWED"),
        ("GET", "/v1/workflows/executions?limit=0", 400, "MALFORMED_REQUEST"),
        ("GET", "/v1/workflows/executions?status=odd", 400, "MALFORMED_REQUEST"),
        ("DELETE", "/v1/workers/nobody", 404, "WORKER_NOT_FOUND"),
        ("DELETE", "/v1/workers/local-1", 409, "WORKER_IN_POOL"),
    ],
)
def test_errors_have_one_shape_everywhere(
    running_server: Comfyrail, method: str, path: str, status: int, code: str
) -> None:
    got, reply = running_server.call(method, path)
    assert got == status
    assert_error(reply, code)


def test_request_id_is_taken_over_when_it_is_harmless(running_server: Comfyrail) -> None:
    _, _, headers = running_server.fetch("GET", "/health", X_Request_ID="abc-1")
    assert headers["x-request-id"] == "abc-1"
    _, _, headers = running_server.fetch("GET", "/health", X_Request_ID="a b<script>")
    assert headers["x-request-id"] != "a b<script>"


def test_pages_of_other_sites_and_other_host_names_are_refused(running_server: Comfyrail) -> None:
    status, reply = running_server.call("GET", "/v1/workers", Origin="https://evil.example")
    assert status == 403
    assert_error(reply, "FORBIDDEN_ORIGIN")
    for host in ("evil.example", "[", "127.0.0.1.evil.example", "10.0.0.1"):
        status, reply = running_server.call("GET", "/v1/workers", Host=host)
        assert status == 403
        assert_error(reply, "FORBIDDEN_HOST")
    status, _ = running_server.call("GET", "/v1/workers", Origin=running_server.url)
    assert status == 200


def test_list_is_newest_first_by_pages_and_by_status(running_server: Comfyrail) -> None:
    made = [running_server.submit(picture(color)) for color in range(3)]
    for job_id in made:
        running_server.wait_for(job_id, "completed")
    _, first = running_server.call("GET", "/v1/workflows/executions?limit=2&status=completed")
    ids = [each["execution_id"] for each in first["executions"]]
    assert ids == sorted(ids, reverse=True)
    assert ids == made[:0:-1]
    _, second = running_server.call(
        "GET", f"/v1/workflows/executions?limit=2&cursor={first['next_cursor']}"
    )
    assert second["executions"][0]["execution_id"] == made[0]


def test_running_job_is_cancelled_and_its_worker_stops(running_server: Comfyrail) -> None:
    job_id = running_server.submit(slow_picture(60))
    running_server.wait_for(job_id, "processing")
    wait_until(lambda: running_server.execution(job_id)["progress"] > 0)
    status, body = running_server.call("POST", f"/v1/workflows/execution/{job_id}/cancel")
    assert (status, body["cancel_requested"]) == (200, True)
    running_server.wait_for(job_id, "cancelled", limit=5)
    quick = running_server.wait_for(running_server.submit(picture(99)), "completed", limit=5)
    assert quick["attempts"] == 1


def test_queued_job_is_cancelled_at_once(running_server: Comfyrail) -> None:
    running_server.call("POST", "/v1/queue/pause", {})
    waiting = running_server.submit(picture())
    assert running_server.execution(waiting)["queue_position"] == 1
    _, body = running_server.call("POST", f"/v1/workflows/execution/{waiting}/cancel")
    assert (body["status"], body["attempts"]) == ("cancelled", 0)
    running_server.call("POST", "/v1/queue/resume")


def test_job_that_waits_on_a_busy_worker_is_cancelled_soon(running_server: Comfyrail) -> None:
    blocking = running_server.submit(slow_picture(60))
    running_server.wait_for(blocking, "processing")
    waiting = running_server.submit(picture())
    running_server.call("POST", f"/v1/workflows/execution/{waiting}/cancel")
    assert running_server.wait_for(waiting, "cancelled", limit=5)["result"] is None
    assert running_server.execution(blocking)["status"] == "processing"
    running_server.call("POST", f"/v1/workflows/execution/{blocking}/cancel")
    running_server.wait_for(blocking, "cancelled")


def test_options_of_the_engine_reach_the_worker(running_server: Comfyrail) -> None:
    graph = picture()
    vanishing = {"image": ["1", 0], "upscale_method": "bilinear", "scale_by": 0.01}
    graph["2"] = {"class_type": "ImageScaleBy", "inputs": vanishing}
    graph["9"] = {"class_type": "PreviewImage", "inputs": {"images": ["8", 0]}}
    graph["8"] = picture(77)["1"]
    config = {"strategy": "parallel", "on_error": {"2": "skip"}}
    job_id = running_server.submit(graph, execution_config=config)
    job = running_server.wait_for(job_id, "completed")
    assert [output["node_id"] for output in job["result"]["outputs"]] == ["9"]
    warnings = [event for event in running_server.events(job_id) if "warning" in event["type"]]
    assert warnings[0]["data"]["node_id"] == "2"
    assert "(skip)" in warnings[0]["data"]["message"]


def test_ended_job_cannot_be_cancelled(running_server: Comfyrail) -> None:
    job_id = running_server.submit(picture())
    running_server.wait_for(job_id, "completed")
    status, reply = running_server.call("POST", f"/v1/workflows/execution/{job_id}/cancel")
    assert status == 409
    assert_error(reply, "EXECUTION_ENDED")


def test_higher_priority_runs_first(running_server: Comfyrail) -> None:
    running_server.call("POST", "/v1/queue/pause", {})
    low = running_server.submit(slow_picture(0.3, 1), priority=1)
    high = running_server.submit(slow_picture(0.3, 2), priority=10)
    running_server.call("POST", "/v1/queue/resume")
    ended = [running_server.wait_for(job_id, "completed") for job_id in (low, high)]
    assert ended[1]["completed_at"] < ended[0]["completed_at"]


def test_job_past_its_timeout_is_stopped(running_server: Comfyrail) -> None:
    job_id = running_server.submit(slow_picture(60), timeout=0.5, max_retries=0)
    job = running_server.wait_for(job_id, "failed", limit=10)
    assert (job["error"]["category"], job["error"]["code"]) == ("timeout", "EXECUTION_TIMEOUT")


def test_failed_job_names_the_node(running_server: Comfyrail) -> None:
    graph = picture()
    graph["1"] = {"class_type": "LoadImage", "inputs": {"image": "gone/no such file.png"}}
    job = running_server.wait_for(running_server.submit(graph), "failed")
    assert job["error"]["code"] == "INPUT_FILE_MISSING"
    assert "no such file.png" in job["error"]["message"]
    assert job["error"]["details"]["suggested_action"]
    (attempt,) = job["attempt_history"]
    assert (attempt["status"], attempt["error"]["code"]) == ("failed", "INPUT_FILE_MISSING")


def test_health_and_readiness_tell_the_truth(running_server: Comfyrail) -> None:
    assert running_server.call("GET", "/health")[1]["status"] == "ok"
    status, body = running_server.call("GET", "/ready")
    assert (status, body["status"]) == (200, "ready")


def test_openapi_names_every_route_of_the_api(running_server: Comfyrail) -> None:
    status, document = running_server.call("GET", "/openapi.json")
    assert status == 200
    execute = document["paths"]["/v1/workflows/execute"]["post"]
    assert execute["requestBody"]["content"]["application/json"]["schema"] == {
        "$ref": "#/components/schemas/ExecuteRequest"
    }
    assert "/v1/workflows/execution/{execution_id}" in document["paths"]
    text = json.dumps(document)
    for name in {part.split('"')[0] for part in text.split("#/components/schemas/")[1:]}:
        assert name in document["components"]["schemas"]


def test_openapi_names_what_a_disk_that_is_full_and_a_database_that_fails_give(
    running_server: Comfyrail,
) -> None:
    paths = running_server.call("GET", "/openapi.json")[1]["paths"]
    operations = {
        (method, path): set(operation["responses"])
        for path, methods in paths.items()
        for method, operation in methods.items()
    }
    assert [key for key, statuses in operations.items() if "503" not in statuses] == []
    reading = {
        ("post", "/v1/workflows/validate"),
        ("post", "/v1/workflows/plan"),
        ("post", "/v1/workflows/convert"),
        ("post", "/v1/workflows/form"),
        ("post", "/v1/outputs/{output_id}/link"),
    }
    without = {key for key, statuses in operations.items() if "507" not in statuses}
    assert {key for key in without if key[0] not in {"get", "head"}} == reading
    assert ("get", "/ready") not in without


def test_start_page_is_html_without_outside_requests(running_server: Comfyrail) -> None:
    status, content, headers = running_server.fetch("GET", "/")
    assert (status, headers["content-type"]) == (200, "text/html; charset=utf-8")
    assert not re.search(rb"""(?:href|src|action)=["']?(?:https?:)?//""", content)
    assert b'rel="icon" href="/favicon.ico"' in content
    assert running_server.fetch("GET", "/favicon.ico")[2]["content-type"] == "image/svg+xml"
