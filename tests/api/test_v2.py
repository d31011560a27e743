"""API v2: its own shape, the same jobs; versions in and out [10.2]."""

import contextlib
import json
from datetime import UTC, datetime
from typing import Any

import pytest
from websocket import create_connection

from comfyrail.api.contract import Execution
from comfyrail.api.v2.contract import V2Execution
from comfyrail.api.v2.words import STATUS_OF, V2_OF_V1
from comfyrail.api.versions import V1_DEPRECATED_SINCE, successor_of
from comfyrail.jobs.states import JobState
from tests.api.errors import assert_error
from tests.graphs import picture, slow_picture
from tests.processes import Comfyrail

EXECUTE = "/v2/workflows/execute"
EXECUTIONS = "/v2/workflows/executions"
NOWHERE = "01890000-0000-7000-8000-000000000000"


def submit(process: Comfyrail, workflow: Any, **config: Any) -> dict[str, Any]:
    status, body = process.call("POST", EXECUTE, {"workflow": workflow, "execution_config": config})
    assert status == 202, body
    assert isinstance(body, dict)
    return body


def test_job_goes_in_and_is_followed_by_its_links(running_server: Comfyrail) -> None:
    accepted = submit(running_server, picture(41), priority=7, timeout=99, max_retries=1)
    assert set(accepted) == {"id", "status", "timing", "queue", "fixes", "links"}
    running_server.wait_for(accepted["id"], "completed")
    links = accepted["links"]
    _, job = running_server.call("GET", links["self"])
    assert (job["id"], job["status"], job["progress"]["fraction"]) == (
        accepted["id"],
        "completed",
        1.0,
    )
    assert (job["queue"]["priority"], job["timing"]["timeout"]) == (7, 99)
    assert job["retries"] == {"attempts": 1, "used": 0, "max": 1}
    assert job["attempts"][0]["status"] == "completed"
    assert job["origin"] == {
        "surface": "v2",
        "retry_of": None,
        "batch_id": None,
        "batch_index": None,
        "workflow_id": None,
    }
    (output,) = job["result"]["outputs"]
    assert running_server.call("GET", links["outputs"])[1]["outputs"] == [output]
    status, content, headers = running_server.fetch("GET", output["url"])
    assert (status, content[:4], headers["content-type"]) == (200, b"\x89PNG", "image/png")
    nodes = running_server.call("GET", links["nodes"])[1]["nodes"]
    assert {node["status"] for node in nodes} == {"completed"}
    assert running_server.call("GET", links["logs"])[1]["lines"]
    status, stream, _ = running_server.fetch("GET", links["events"])
    assert status == 200
    assert stream.rstrip().endswith(b"event: close\r\ndata: {}")
    assert running_server.call("POST", links["cancel"])[0] == 409
    status, again = running_server.call("POST", links["retry"])
    assert status == 202
    running_server.wait_for(again["id"], "completed")
    _, second = running_server.call("GET", again["links"]["self"])
    assert second["origin"]["retry_of"] == accepted["id"]


def test_every_field_of_v1_has_its_place_in_v2(running_server: Comfyrail) -> None:
    fields = set(Execution.__struct_fields__)
    assert set(V2_OF_V1) == fields
    assert set(STATUS_OF) == set(JobState)
    accepted = submit(running_server, picture(42))
    first = running_server.wait_for(accepted["id"], "completed")
    _, second = running_server.call("GET", accepted["links"]["self"])
    same = fields - {"result", "attempt_history", "error", "cover", "outputs"}
    for field in same:
        found = second
        for part in V2_OF_V1[field].split("."):
            found = found[part]
        assert found == first[field], field
    assert {place.partition(".")[0] for place in V2_OF_V1.values()} | {"links"} == set(
        V2Execution.__struct_fields__
    )


def test_all_options_of_v1_are_there(running_server: Comfyrail) -> None:
    accepted = submit(
        running_server,
        picture(43),
        queue_class="batch",
        queue_timeout=500,
        not_before="2027-06-01T00:00:00Z",
        labels={"moon": "full"},
        auto_fix=True,
        optimize=True,
        engine={"strategy": "parallel"},
    )
    _, job = running_server.call("GET", accepted["links"]["self"])
    assert (job["status"], job["reason"], job["queue"]["queue_class"]) == (
        "queued",
        "scheduled",
        "batch",
    )
    assert job["timing"]["not_before"] == "2027-06-01T00:00:00Z"
    assert job["timing"]["expires_at"] == "2027-06-01T00:08:20Z"


@pytest.mark.parametrize(
    ("body", "status", "code"),
    [
        ({"priority": 5}, 400, "MALFORMED_REQUEST"),
        ({"execution_config": {"priority": 0}}, 400, "INVALID_PRIORITY"),
        ({"execution_config": {"engine": {"strategy": "x"}}}, 400, "INVALID_EXECUTION_CONFIG"),
        ({"execution_config": {"not_before": "2027-06-01T00:00:00"}}, 400, "NO_TIME_ZONE"),
        ({"webhook_config": {"url": "http://127.0.0.1/"}}, 422, "INVALID_WEBHOOK"),
        ({"webhook_config": {"url": "https://x.example", "timeout": 0}}, 400, "MALFORMED_REQUEST"),
        ({"output_config": {"format": "gif"}}, 400, "MALFORMED_REQUEST"),
        ({"workflow": {}}, 422, "SCHEMA_VALIDATION_ERROR"),
    ],
)
def test_bad_request_is_refused_in_the_shape_of_all_errors(
    running_server: Comfyrail, body: dict[str, Any], status: int, code: str
) -> None:
    got, reply = running_server.call("POST", EXECUTE, {"workflow": picture(), **body})
    assert got == status, reply
    assert_error(reply, code)


def test_runsync_prefer_tags_and_polls_are_those_of_v1(running_server: Comfyrail) -> None:
    status, job = running_server.call("POST", "/v2/workflows/runsync", {"workflow": picture(44)})
    assert (status, job["status"]) == (200, "completed")
    status, _, headers = running_server.fetch(
        "POST", EXECUTE, {"workflow": slow_picture(60)}, Prefer="wait=1"
    )
    assert (status, headers["preference-applied"]) == (202, "wait=1")
    _, _, headers = running_server.fetch("GET", job["links"]["self"])
    status, _, _ = running_server.fetch("GET", job["links"]["self"], If_None_Match=headers["etag"])
    assert status == 304
    path = f"{job['links']['self']}?wait=60&after=0"
    assert running_server.call("GET", path)[0] == 200


def test_queued_job_is_given_another_priority_and_cancelled(running_server: Comfyrail) -> None:
    links = submit(running_server, picture(45), not_before="2027-06-01T00:00:00Z")["links"]
    status, job = running_server.call("PATCH", links["self"], {"priority": 9})
    assert (status, job["queue"]["priority"]) == (200, 9)
    status, job = running_server.call("POST", links["cancel"])
    assert (status, job["status"]) == (200, "cancelled")


def test_list_shows_jobs_of_all_surfaces_in_pages(running_server: Comfyrail) -> None:
    old = running_server.submit(picture(46), not_before="2027-06-01T00:00:00Z")
    new = submit(running_server, picture(47), not_before="2027-06-01T00:00:00Z")["id"]
    _, first = running_server.call("GET", f"{EXECUTIONS}?status=queued&limit=1")
    assert [each["id"] for each in first["executions"]] == [new]
    assert first["executions"][0]["attempts"] is None
    _, second = running_server.call(
        "GET", f"{EXECUTIONS}?status=queued&limit=1&cursor={first['next_cursor']}"
    )
    assert [each["id"] for each in second["executions"]] == [old]


def test_socket_sends_the_state_in_the_shape_of_v2(running_server: Comfyrail) -> None:
    accepted = submit(running_server, picture(48))
    running_server.wait_for(accepted["id"], "completed")
    where = running_server.url.replace("http", "ws") + accepted["links"]["self"] + "/ws"
    with contextlib.closing(create_connection(where, timeout=10)) as line:
        state = json.loads(line.recv())
    assert (state["type"], state["data"]["id"]) == ("state", accepted["id"])


@pytest.mark.parametrize(
    "below", ["", "/outputs", "/outputs/x", "/nodes", "/logs", "/events", "/preview"]
)
def test_unknown_job_is_404(running_server: Comfyrail, below: str) -> None:
    status, reply = running_server.call("GET", f"{EXECUTIONS}/{NOWHERE}{below}")
    assert status == 404
    assert_error(reply, "EXECUTION_NOT_FOUND")


# Versions


@pytest.mark.parametrize(
    ("path", "asked", "status", "code"),
    [
        ("/v1/workers", "1", 200, None),
        ("/v1/workers", " 1.0 ", 200, None),
        (EXECUTIONS, "2.0", 200, None),
        ("/v1/workers", "2", 400, "API_VERSION_MISMATCH"),
        (EXECUTIONS, "1", 400, "API_VERSION_MISMATCH"),
        (EXECUTIONS, "3", 400, "UNSUPPORTED_API_VERSION"),
        ("/v1/workers", "latest", 400, "UNSUPPORTED_API_VERSION"),
        ("/health", "latest", 200, None),
    ],
)
def test_version_in_the_header_must_be_that_of_the_path(
    running_server: Comfyrail, path: str, asked: str, status: int, code: str | None
) -> None:
    got, reply = running_server.call("GET", path, X_API_Version=asked)
    assert got == status
    if code is not None:
        assert_error(reply, code)


@pytest.mark.parametrize(
    ("path", "version"),
    [
        ("/v1/workers", "1"),
        ("/v1/nothing/here", "1"),
        (f"/v1/workflows/execution/{NOWHERE}", "1"),
        (EXECUTIONS, "2"),
        ("/v2/nothing", "2"),
        ("/health", None),
    ],
)
def test_every_reply_of_a_version_says_it(
    running_server: Comfyrail, path: str, version: str | None
) -> None:
    for headers in ({}, {"Host": "evil.example"}, {"X_API_Version": "9"}):
        assert running_server.fetch("GET", path, **headers)[2].get("x-api-version") == version


def test_v1_says_since_when_it_is_deprecated_and_what_comes_after(
    running_server: Comfyrail,
) -> None:
    assert datetime.fromtimestamp(V1_DEPRECATED_SINCE, UTC).isoformat() == (
        "2026-11-16T00:00:00+00:00"
    )
    _, _, headers = running_server.fetch("GET", "/v1/workflows/executions")
    assert headers["deprecation"] == f"@{V1_DEPRECATED_SINCE}"
    assert headers["link"] == f'<{EXECUTIONS}>; rel="successor-version"'
    for path in ("/v1/workers", "/v1/workflows", EXECUTIONS, "/v1/queue"):
        _, _, headers = running_server.fetch("GET", path)
        assert "deprecation" not in headers
        assert "link" not in headers


@pytest.mark.parametrize(
    ("path", "successor"),
    [
        ("/v1/workflows/execute", EXECUTE),
        ("/v1/workflows/runsync", "/v2/workflows/runsync"),
        ("/v1/workflows/execution/a-1", f"{EXECUTIONS}/a-1"),
        ("/v1/workflows/execution/a/outputs/b", f"{EXECUTIONS}/a/outputs/b"),
        ("/v1/workflows/execution/a>,<b", None),
        ("/v1/workflows/execution/" + "a" * 65, None),
        ("/v1/workflows/executor", None),
        ("/v1/workflows/poster", None),
    ],
)
def test_only_routes_with_a_successor_name_one(path: str, successor: str | None) -> None:
    assert successor_of(path) == successor


def test_successor_answers(running_server: Comfyrail) -> None:
    job_id = running_server.submit(picture(49))
    for below in ("", "/outputs", "/nodes", "/logs"):
        _, _, headers = running_server.fetch("GET", f"/v1/workflows/execution/{job_id}{below}")
        link = headers["link"].partition(">")[0].removeprefix("<")
        assert running_server.fetch("GET", link)[0] == 200
