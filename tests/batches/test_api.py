"""Batches over HTTP, on a real server with a real worker [4.6]."""

from pathlib import Path
from typing import Any

import pytest

from tests.batches.parts import NUMBER
from tests.graphs import picture, slow_picture
from tests.processes import Comfyrail, server, wait_until

VALUES = {"1.value": {"minimum": 0, "maximum": 100}}


def submit(process: Comfyrail, **body: Any) -> dict[str, Any]:
    status, reply = process.call("POST", "/v1/batches", {"workflow": picture(), **body})
    assert status == 202, reply
    assert isinstance(reply, dict)
    return reply


def show(process: Comfyrail, batch_id: str) -> dict[str, Any]:
    status, reply = process.call("GET", f"/v1/batches/{batch_id}")
    assert status == 200, reply
    assert isinstance(reply, dict)
    return reply


def wait_end(process: Comfyrail, batch_id: str) -> dict[str, Any]:
    def look() -> dict[str, Any] | None:
        batch = show(process, batch_id)
        return None if batch["status"] == "running" else batch

    found = wait_until(look, limit=40)
    assert found is not None
    return found


def executions(process: Comfyrail, batch_id: str) -> list[dict[str, Any]]:
    path = f"/v1/batches/{batch_id}/executions?limit=2"
    found: list[dict[str, Any]] = []
    cursor: str | None = "-1"
    while cursor is not None:
        status, reply = process.call("GET", f"{path}&cursor={cursor}")
        assert status == 200, reply
        found += reply["executions"]
        cursor = reply["next_cursor"]
    return found


def test_grid_runs_and_reports_as_one(running_server: Comfyrail) -> None:
    grid = {"1.width": [8, 16], "1.height": [4, 5]}
    body = {"workflow": picture(), "name": "sizes", "grid": grid, "priority": 8}
    headers = {"Idempotency_Key": "sizes-of-a-picture"}
    status, reply = running_server.call("POST", "/v1/batches", body, **headers)
    assert (status, reply["jobs"], len(reply["executions"])) == (202, 4, 4)
    status, again, sent = running_server.fetch("POST", "/v1/batches", body, **headers)
    assert (status, sent["idempotent-replayed"]) == (202, "true")
    assert reply["batch_id"] in again.decode()
    status, other = running_server.call("POST", "/v1/batches", {**body, "name": "x"}, **headers)
    assert (status, other["error"]["code"]) == (422, "IDEMPOTENCY_KEY_REUSED")
    batch = wait_end(running_server, reply["batch_id"])
    assert (batch["status"], batch["progress"], batch["kind"]) == ("completed", 1.0, "grid")
    assert batch["counts"]["completed"] == 4
    assert batch["completed_at"] >= batch["started_at"] >= batch["submitted_at"]
    assert batch["cost"] is not None
    found = executions(running_server, reply["batch_id"])
    assert [each["execution_id"] for each in found] == reply["executions"]
    assert [tuple(each["parameters"].values()) for each in found] == [
        (8, 4),
        (8, 5),
        (16, 4),
        (16, 5),
    ]
    assert found[0]["name"] == "1.width=8, 1.height=4"
    job = running_server.execution(reply["executions"][2])
    assert (job["batch_id"], job["batch_index"]) == (reply["batch_id"], 2)
    listed = running_server.call("GET", "/v1/batches?limit=1")[1]
    assert listed["batches"][0]["batch_id"] == reply["batch_id"]


def test_list_of_batches_goes_on_at_its_cursor(running_server: Comfyrail) -> None:
    made = [
        submit(running_server, workflow=picture(), grid={"1.color": [n]})["batch_id"]
        for n in range(3)
    ]
    _, first = running_server.call("GET", "/v1/batches?limit=2")
    _, rest = running_server.call("GET", f"/v1/batches?limit=1&cursor={first['next_cursor']}")
    found = [each["batch_id"] for each in first["batches"] + rest["batches"]]
    assert found == made[::-1]


def test_cancel_ends_all_jobs_running_ones_too(running_server: Comfyrail) -> None:
    graph = slow_picture(60)
    reply = submit(running_server, workflow=graph, grid={"1.color": [1, 2, 3]}, priority=9)
    batch_id = reply["batch_id"]
    wait_until(lambda: show(running_server, batch_id)["counts"]["processing"])
    status, batch = running_server.call("POST", f"/v1/batches/{batch_id}/cancel")
    assert (status, batch["counts"]["queued"]) == (200, 0)
    batch = wait_end(running_server, batch_id)
    assert (batch["status"], batch["counts"]["cancelled"]) == ("cancelled", 3)


def test_first_failure_stops_the_batch(running_server: Comfyrail) -> None:
    reply = submit(
        running_server,
        workflow=slow_picture(60),
        items=[{"input_params": {"1.color": number}} for number in range(12)],
        timeout=0.2,
        stop_on_error=True,
        priority=9,
    )
    batch = wait_end(running_server, reply["batch_id"])
    assert batch["status"] == "failed"
    assert batch["counts"]["failed"] >= 1
    assert batch["counts"]["cancelled"] >= 6
    assert batch["stopped_at"] is not None
    failed = [each for each in executions(running_server, reply["batch_id"]) if each["error"]]
    assert failed[0]["error"]["category"] == "timeout"


def test_search_takes_its_scores_from_a_node(running_server: Comfyrail) -> None:
    search = {"parameters": VALUES, "trials": 12, "parallel": 3, "score": {"node": "2"}, "seed": 5}
    reply = submit(running_server, workflow=NUMBER, search=search, priority=9)
    assert (reply["jobs"], len(reply["executions"])) == (12, 3)
    batch = wait_end(running_server, reply["batch_id"])
    assert (batch["status"], batch["counts"]["completed"], batch["goal"]) == (
        "completed",
        12,
        "maximize",
    )
    found = executions(running_server, reply["batch_id"])
    assert [each["score"] for each in found] == [
        pytest.approx(each["parameters"]["1.value"]) for each in found
    ]
    assert batch["best"]["score"] == max(each["score"] for each in found)
    assert batch["warnings"] == []


def test_search_goes_on_after_the_server_was_killed(tmp_path: Path) -> None:
    search = {"parameters": VALUES, "trials": 6, "parallel": 2, "score": {"node": "2"}}
    with server(tmp_path / "data", COMFYRAIL_LEASE_SECONDS="1") as process:
        process.wait_ready()
        reply = submit(process, workflow=NUMBER, search=search, priority=9)
        batch_id = reply["batch_id"]
        wait_until(lambda: show(process, batch_id)["counts"]["completed"] >= 2)
        process.kill()
        process.start()
        process.wait_ready()
        batch = wait_end(process, batch_id)
        found = executions(process, batch_id)
    assert (batch["status"], batch["counts"]["completed"], len(found)) == ("completed", 6, 6)
    assert all(each["score"] is not None for each in found)
    assert len({each["execution_id"] for each in found}) == 6


@pytest.mark.parametrize(
    ("body", "status", "code", "said"),
    [
        ({"gird": {}}, 400, "MALFORMED_REQUEST", "Did you mean 'grid'?"),
        (
            {"items": [{"parameters": {}}]},
            400,
            "MALFORMED_REQUEST",
            "There are: input_params, name, priority.",
        ),
        ({"variants": {"a": {"input_parms": 1}}}, 400, "MALFORMED_REQUEST", "'input_params'?"),
        (
            {"search": {"parameters": {"1.width": {"min": 1, "max": 2}}, "trials": 1}},
            400,
            "MALFORMED_REQUEST",
            "There are: minimum, maximum, step",
        ),
        (
            {"search": {"parameters": {"1.width": [1]}, "trials": 1, "score": {"nodes": "1"}}},
            400,
            "MALFORMED_REQUEST",
            "Did you mean 'node'?",
        ),
        (
            {
                "search": {
                    "parameters": {"1.width": {"minimum": 0, "maximum": 1, "step": 5e-324}},
                    "trials": 1,
                }
            },
            422,
            "INVALID_BATCH",
            "larger step",
        ),
        ({}, 422, "INVALID_BATCH", "it has none of them"),
        ({"grid": {"1.width": [1]}, "items": [{}]}, 422, "INVALID_BATCH", "items and grid"),
        ({"grid": {"1.width": [1]}, "seeds": {"a": [1]}}, 422, "INVALID_BATCH", "variants only"),
        ({"items": [{"input_params": [1]}]}, 400, "MALFORMED_REQUEST", "items[0].input_params"),
        ({"grid": {"1.widht": [1]}}, 422, "UNKNOWN_PARAMETER", "Did you mean 'width'?"),
        ({"grid": {"1.width": [0]}}, 422, "SCHEMA_VALIDATION_ERROR", "Item 0 (1.width=0)"),
        (
            {"grid": {str(number): list(range(100)) for number in range(5)}},
            422,
            "BATCH_TOO_LARGE",
            "10,000,000,000 jobs; 10,000 at most",
        ),
        ({"items": [{}], "priority": 11}, 400, "INVALID_PRIORITY", "priority is 1"),
        ({"items": [{}], "not_before": "2030-01-01T00:00:00"}, 400, "NO_TIME_ZONE", "time zone"),
        ({"search": {"parameters": {"1.width": []}, "trials": 1}}, 422, "INVALID_BATCH", "choices"),
        (
            {"search": {"parameters": {"1.width": [1]}, "trials": 1, "method": "luck"}},
            400,
            "MALFORMED_REQUEST",
            "luck",
        ),
        ({"items": [{}], "workflow_id": "x"}, 404, "WORKFLOW_NOT_FOUND", "'x'"),
    ],
)
def test_what_is_wrong_is_said(
    running_server: Comfyrail, body: dict[str, Any], status: int, code: str, said: str
) -> None:
    found, reply = running_server.call("POST", "/v1/batches", {"workflow": picture(), **body})
    assert (found, reply["error"]["code"]) == (status, code), reply
    assert said in reply["error"]["message"]


def test_all_methods_of_a_path_are_named(running_server: Comfyrail) -> None:
    for path, methods in (
        ("/v1/batches", "GET, HEAD, POST"),
        ("/v1/batches/none", "GET, HEAD"),
        ("/v1/batches/none/cancel", "POST"),
    ):
        status, _, headers = running_server.fetch("DELETE", path)
        assert (status, headers["allow"]) == (405, methods)


def test_unknown_batch_is_not_found(running_server: Comfyrail) -> None:
    for method, path, body in (
        ("GET", "/v1/batches/none", None),
        ("GET", "/v1/batches/none/executions", None),
        ("POST", "/v1/batches/none/cancel", None),
        ("POST", "/v1/batches/none/scores", {"execution_id": "x", "score": 1}),
    ):
        status, reply = running_server.call(method, path, body)
        assert (status, reply["error"]["code"]) == (404, "BATCH_NOT_FOUND")
