"""Looking at a workflow without running it [2.6, 3.5], and at node types [1.5]."""

import contextlib
import json
import time
from http.client import HTTPConnection
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from tests.graphs import picture
from tests.processes import Comfyrail, server, wait_until

VALIDATE = "/v1/workflows/validate"
PLAN = "/v1/workflows/plan"
EXECUTIONS = "/v1/workflows/executions?limit=1"


def status_of_huge_body(process: Comfyrail, size: int) -> int:
    """The server need not read it all before it answers."""
    connection = HTTPConnection(urlsplit(process.url).netloc, timeout=30)
    with contextlib.closing(connection):
        connection.putrequest("POST", VALIDATE)
        connection.putheader("Content-Type", "application/json")
        connection.putheader("Content-Length", str(size))
        connection.endheaders()
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):
            connection.send(b'{"workflow": "' + b"x" * (size - 16) + b'"}')
        return connection.getresponse().status


def codes(report: dict[str, Any]) -> list[str]:
    return [finding["error_code"] for finding in report["findings"]]


def misspelled() -> dict[str, Any]:
    graph = picture()
    graph["2"] = {
        "class_type": "ImageScale",
        "inputs": {
            "image": ["1", 0],
            "upscale_method": "bilinaer",
            "width": 32,
            "height": -1,
            "crop": "disabled",
        },
    }
    return graph


def test_report_says_that_all_is_well_and_who_can_run_it(running_server: Comfyrail) -> None:
    status, report = running_server.call("POST", VALIDATE, {"workflow": picture()})
    assert status == 200
    assert (report["valid"], report["errors"], report["findings"]) == (True, 0, [])
    assert report["workflow"] == picture()
    assert [(fit["worker_id"], fit["can_run"]) for fit in report["workers"]] == [("local-1", True)]


def test_report_has_all_findings_and_makes_no_job(running_server: Comfyrail) -> None:
    before = running_server.call("GET", EXECUTIONS)[1]
    graph = misspelled()
    graph["4"] = {"class_type": "SaveImge", "inputs": {"images": ["2", 0]}}
    status, report = running_server.call("POST", VALIDATE, {"workflow": graph})
    assert status == 200
    assert not report["valid"]
    assert codes(report) == [
        "SCHEMA_VALIDATION_ERROR",
        "SCHEMA_VALIDATION_ERROR",
        "UNKNOWN_NODE_TYPE",
    ]
    assert report["findings"][2]["details"]["nearest"][0] == "SaveImage"
    assert running_server.call("GET", EXECUTIONS)[1] == before


def test_refused_submission_has_the_findings_of_the_report(running_server: Comfyrail) -> None:
    body = {"workflow": misspelled()}
    report = running_server.call("POST", VALIDATE, body)[1]
    status, reply = running_server.call("POST", "/v1/workflows/execute", body)
    assert status == 422
    assert reply["error"]["details"]["findings"] == report["findings"]


def test_common_faults_are_mended_on_request_and_listed(running_server: Comfyrail) -> None:
    body = {"workflow": misspelled(), "auto_fix": True}
    report = running_server.call("POST", VALIDATE, body)[1]
    assert report["valid"]
    assert {fix["path"]: fix["after"] for fix in report["fixes"]} == {
        "2.inputs.upscale_method": "bilinear",
        "2.inputs.height": 0,
    }


def test_submission_with_auto_fix_runs_and_says_what_was_mended(running_server: Comfyrail) -> None:
    graph = misspelled()
    graph["2"]["inputs"]["height"] = 32
    status, reply = running_server.call(
        "POST", "/v1/workflows/execute", {"workflow": graph, "auto_fix": True}
    )
    assert status == 202
    assert [fix["after"] for fix in reply["fixes"]] == ["bilinear"]
    running_server.wait_for(reply["execution_id"], "completed")


def test_equal_nodes_are_merged_on_request(running_server: Comfyrail) -> None:
    graph = picture()
    graph["4"] = {"class_type": "ImageInvert", "inputs": {"image": ["1", 0]}}
    graph["5"] = {"class_type": "PreviewImage", "inputs": {"images": ["4", 0]}}
    graph["6"] = {"class_type": "ImageInvert", "inputs": {"image": ["4", 0]}}
    body = {"workflow": graph, "optimize": True}
    report = running_server.call("POST", VALIDATE, body)[1]
    assert {change["kind"] for change in report["optimizations"]} == {
        "merged_duplicate",
        "removed_dead_node",
    }
    assert set(report["workflow"]) == {"1", "2", "3", "5"}


def test_editor_format_is_taken_wherever_the_api_format_is(running_server: Comfyrail) -> None:
    editor = {
        "version": 0.4,
        "nodes": [
            {
                "id": 1,
                "type": "EmptyImage",
                "inputs": [],
                "outputs": [{"name": "IMAGE", "type": "IMAGE", "links": [1]}],
                "widgets_values": [48, 32, 1, 255],
            },
            {
                "id": 2,
                "type": "PreviewImage",
                "inputs": [{"name": "images", "type": "IMAGE", "link": 1}],
                "outputs": [],
                "widgets_values": [],
            },
            {"id": 3, "type": "MarkdownNote", "widgets_values": ["hello"]},
        ],
        "links": [[1, 1, 0, 2, 0, "IMAGE"]],
    }
    report = running_server.call("POST", VALIDATE, {"workflow": editor})[1]
    assert report["valid"], report
    assert report["workflow"]["1"]["inputs"]["width"] == 48
    job_id = running_server.submit(editor)
    assert len(running_server.wait_for(job_id, "completed")["result"]["outputs"]) == 1


def test_workflow_is_converted_both_ways(running_server: Comfyrail) -> None:
    status, there = running_server.call("POST", "/v1/workflows/convert?to=editor", picture())
    assert status == 200
    assert [node["type"] for node in there["workflow"]["nodes"]] == [
        "EmptyImage",
        "ImageInvert",
        "SaveImage",
    ]
    back = running_server.call("POST", "/v1/workflows/convert", there["workflow"])[1]
    assert back["workflow"] == picture()


def test_workflow_is_taken_out_of_a_picture_that_a_job_made(running_server: Comfyrail) -> None:
    job = running_server.wait_for(running_server.submit(picture()), "completed")
    content = running_server.fetch("GET", job["result"]["outputs"][0]["url"])[1]
    status, found, _ = running_server.fetch(
        "POST", "/v1/workflows/convert", content, Content_Type="image/png"
    )
    assert status == 200
    assert json.loads(found)["workflow"]["1"]["inputs"] == picture()["1"]["inputs"]
    status, reply, _ = running_server.fetch(
        "POST", "/v1/workflows/convert", b"\x89PNG\r\n\x1a\n", Content_Type="image/png"
    )
    assert status == 422
    assert b"SCHEMA_VALIDATION_ERROR" in reply


def test_schemas_are_served(running_server: Comfyrail) -> None:
    schema = running_server.call("GET", "/v1/schemas/workflow")[1]
    assert schema["$schema"].endswith("2020-12/schema")
    node = running_server.call("GET", "/v1/nodes/EmptyImage")[1]["schema"]
    assert node["properties"]["class_type"] == {"const": "EmptyImage"}


def test_plan_says_what_is_needed_and_who_could_do_it(running_server: Comfyrail) -> None:
    status, plan = running_server.call("POST", PLAN, {"workflow": picture()})
    assert status == 200
    assert plan["levels"] == [["1"], ["2"], ["3"]]
    assert plan["duration"]["seconds"] > 0
    assert plan["resources"]["memory"] > 0
    (worker,) = plan["workers"]
    assert (worker["worker_id"], worker["can_run"], worker["cost"]) == ("local-1", True, 0)
    other = running_server.call("POST", PLAN, {"workflow": picture(color=9)})[1]
    bigger = running_server.call("POST", PLAN, {"workflow": picture(width=640)})[1]
    assert other["signature"] == plan["signature"] != bigger["signature"]


def test_plan_of_what_cannot_run_is_refused_with_the_findings(running_server: Comfyrail) -> None:
    status, reply = running_server.call("POST", PLAN, {"workflow": misspelled()})
    assert status == 422
    assert len(reply["error"]["details"]["findings"]) == 2


def test_durations_are_learned_and_their_error_is_a_metric(tmp_path: Path) -> None:
    with server(tmp_path / "data") as process:
        process.wait_ready()
        first = process.submit(picture(color=0))
        assert process.execution(first)["estimated_duration"] == 30
        for color in range(1, 51):
            process.submit(picture(color=color))

        def plan() -> dict[str, Any]:
            duration: dict[str, Any] = process.call("POST", PLAN, {"workflow": picture()})[1][
                "duration"
            ]
            return duration

        learned = wait_until(lambda: (found := plan())["source"] == "history" and found, limit=60)
        assert learned

        def metrics() -> str:
            return process.fetch("GET", "/metrics")[1].decode()

        wait_until(lambda: 'median_error{method="model"}' in metrics(), limit=60)
        assert 'comfyrail_jobs{state="queued"}' in metrics()
        process.stop()
        process.start()
        process.wait_ready()
        # What was learned outlasts a restart.
        wait_until(lambda: plan()["source"] == "history")


def test_done_job_has_what_it_cost(tmp_path: Path) -> None:
    with server(tmp_path / "data", COMFYRAIL_GPU_RATES="cpu=0.5") as process:
        process.wait_ready()
        job = process.wait_for(process.submit(picture()), "completed")
        assert job["estimated_cost"] > 10  # 30 s by the rule of thumb
        assert 0 < job["cost"] < job["estimated_cost"]


def test_policy_of_the_settings_is_applied(tmp_path: Path) -> None:
    with server(
        tmp_path / "data", COMFYRAIL_MAX_NODES="2", COMFYRAIL_DENIED_NODE_TYPES="SaveImage"
    ) as process:
        process.wait_ready()
        report = process.call("POST", VALIDATE, {"workflow": picture()})[1]
        assert set(codes(report)) == {"LIMIT_EXCEEDED", "DANGEROUS_NODE"}


def test_refused_request_explains_itself(running_server: Comfyrail) -> None:
    for body in ({}, {"workflow": picture(), "workflow_id": "x"}, {"workflow": None}):
        status, reply = running_server.call("POST", VALIDATE, body)
        assert status == 400
        assert "workflow_id" in reply["error"]["message"]
    status, reply = running_server.call("POST", VALIDATE, {"workflow_id": "no-such"})
    assert status == 404
    text = b'{"workflow": {"1": {"class_type": "A", "inputs": {}}, "1": {"class_type": "B"}}}'
    status, answer, _ = running_server.fetch("POST", VALIDATE, text)
    assert status == 200
    assert b"twice" in answer


def test_parameter_that_is_given_twice_is_refused(running_server: Comfyrail) -> None:
    graph = json.dumps(picture()).encode()
    for parameters, said in (
        (b'{"1.width": 64, "1.width": 128}', b"twice"),
        (b'{"1.color": "\\ud800"}', b"half a character"),
        (b"[1]", b"is an object"),
        (json.dumps({f"1.{number}": 1 for number in range(10_001)}).encode(), b"10,000 at most"),
    ):
        body = b'{"workflow": ' + graph + b', "input_params": ' + parameters + b"}"
        status, answer, _ = running_server.fetch("POST", VALIDATE, body)
        assert status == 400
        assert said in answer


def test_errors_are_in_the_reply_however_many_warnings_there_are(
    running_server: Comfyrail,
) -> None:
    nodes = [{"id": number, "type": "Nobody knows"} for number in range(600)]
    report = running_server.call("POST", VALIDATE, {"workflow": {"nodes": nodes, "links": []}})[1]
    assert not report["valid"]
    assert {finding["severity"] for finding in report["findings"]} == {"error"}


def test_tenants_have_policies_of_their_own(tmp_path: Path) -> None:
    policy = tmp_path / "policy.yaml"
    policy.write_text("default: {max_nodes: 2}\ntenants:\n  local: {max_nodes: 50}\n")
    with server(tmp_path / "data", COMFYRAIL_POLICY=str(policy)) as process:
        process.wait_ready()
        report = process.call("POST", VALIDATE, {"workflow": picture()})[1]
        assert report["valid"], report


def test_unreadable_workflows_are_findings_within_bounds(running_server: Comfyrail) -> None:
    hostile = [
        b"[" * 10_000 + b"]" * 10_000,
        b'{"1": NaN}',
        b'{"1": {"class_type": "EmptyImage", "inputs": {"width": ' + b"9" * 5000 + b"}}}",
        b'{"1": {"class_type": "\\ud800", "inputs": {}}}',
        b'{"1": ' + b'{"a":' * 5000 + b"1" + b"}" * 5000 + b"}",
    ]
    for text in hostile:
        started = time.monotonic()
        status, answer, _ = running_server.fetch("POST", VALIDATE, b'{"workflow": ' + text + b"}")
        assert status in {200, 400}, answer
        assert b"INTERNAL" not in answer
        assert time.monotonic() - started < 20
    assert status_of_huge_body(running_server, 50 << 20) == 413


def test_many_nodes_are_refused_by_count(running_server: Comfyrail) -> None:
    graph = {str(number): picture()["1"] for number in range(20_000)}
    report = running_server.call("POST", VALIDATE, {"workflow": graph})[1]
    assert codes(report) == ["LIMIT_EXCEEDED"]


def test_node_types_are_listed_and_described(running_server: Comfyrail) -> None:
    found = running_server.call("GET", "/v1/nodes?search=emptyimage")[1]
    assert [node["name"] for node in found["nodes"]] == ["EmptyImage"]
    page = running_server.call("GET", "/v1/nodes?limit=2")[1]
    assert len(page["nodes"]) == 2
    after = running_server.call("GET", f"/v1/nodes?limit=2&cursor={page['next_cursor']}")[1]
    assert after["nodes"][0]["name"] > page["nodes"][-1]["name"]
    node = running_server.call("GET", "/v1/nodes/EmptyImage")[1]
    assert node["workers"] == ["local-1"]
    width = next(each for each in node["inputs"] if each["name"] == "width")
    assert (width["type"], width["minimum"], width["required"]) == ("INT", 1, True)
    status, reply = running_server.call("GET", "/v1/nodes/EmptyImige")
    assert status == 404
    assert "EmptyImage" in reply["error"]["message"]
