"""Running an ended job once more, and reading what happened to one [10.1]."""

import json
from typing import Any

import pytest

from tests.api.errors import assert_error
from tests.graphs import picture, slow_picture
from tests.processes import Comfyrail, comfyrail

NOWHERE = "01890000-0000-7000-8000-000000000000"


def path(job_id: str, below: str) -> str:
    return f"/v1/workflows/execution/{job_id}/{below}"


def ended(process: Comfyrail, **options: Any) -> str:
    job_id = process.submit(picture(21), **options)
    process.wait_for(job_id, "completed")
    return job_id


def test_retry_is_a_new_execution_of_the_same_graph_and_options(running_server: Comfyrail) -> None:
    options = {"priority": 8, "timeout": 77, "max_retries": 1, "queue_class": "batch"}
    first = ended(running_server, input_params={"1.width": 9}, **options)
    status, content, headers = running_server.fetch("POST", path(first, "retry"))
    assert status == 202
    second = json.loads(content)["execution_id"]
    assert second != first
    assert headers["location"].endswith(second)
    job = running_server.wait_for(second, "completed")
    assert job["retry_of"] == first
    for field in ("priority", "timeout", "max_retries", "queue_class"):
        assert job[field] == options[field]
    before = running_server.execution(first)["result"]["outputs"][0]["sha256"]
    assert job["result"]["outputs"][0]["sha256"] == before


def test_retry_can_change_priority_timeout_and_retries(running_server: Comfyrail) -> None:
    changes = {"priority": 2, "timeout": 30, "max_retries": 0}
    _, reply = running_server.call("POST", path(ended(running_server), "retry"), changes)
    job = running_server.wait_for(reply["execution_id"], "completed")
    assert {name: job[name] for name in changes} == changes


def test_retry_keeps_the_engine_options_and_labels(running_server: Comfyrail) -> None:
    config = {"strategy": "parallel", "checkpoint": "mine"}
    job_id = ended(running_server, execution_config=config)
    status, reply = running_server.call("POST", path(job_id, "retry"))
    assert status == 202, reply
    running_server.wait_for(reply["execution_id"], "completed")
    wanted = running_server.submit(picture(22), labels={"moon": "full"})
    running_server.call("POST", path(wanted, "cancel"))
    _, reply = running_server.call("POST", path(wanted, "retry"))
    assert "moon" in running_server.execution(reply["execution_id"])["waiting_for"]


def test_job_that_has_not_ended_is_not_run_once_more(running_server: Comfyrail) -> None:
    job_id = running_server.submit(slow_picture(60))
    status, reply = running_server.call("POST", path(job_id, "retry"))
    assert status == 409
    assert_error(reply, "EXECUTION_NOT_ENDED")


@pytest.mark.parametrize(
    ("body", "code"),
    [
        ({"priority": 11}, "INVALID_PRIORITY"),
        ({"timeout": -1}, "INVALID_TIMEOUT"),
        ({"max_retries": 99}, "INVALID_RETRIES"),
        ({"workflow": {}}, "MALFORMED_REQUEST"),
        (b"{", "MALFORMED_REQUEST"),
    ],
)
def test_retry_refuses_what_it_cannot_change(
    running_server: Comfyrail, body: Any, code: str
) -> None:
    status, reply = running_server.call("POST", path(ended(running_server), "retry"), body)
    assert status == 400
    assert_error(reply, code)


def test_same_retry_under_one_key_is_done_once(running_server: Comfyrail) -> None:
    job_id = ended(running_server)
    replies = [
        running_server.call("POST", path(job_id, "retry"), Idempotency_Key="again")[1]
        for _ in range(2)
    ]
    assert replies[0] == replies[1]


def test_retry_may_wait_for_its_end(running_server: Comfyrail) -> None:
    status, body = running_server.call(
        "POST", path(ended(running_server), "retry"), Prefer="wait=20"
    )
    assert (status, body["status"]) == (200, "completed")


@pytest.mark.parametrize("below", ["retry", "logs"])
def test_unknown_job_is_404(running_server: Comfyrail, below: str) -> None:
    method = "POST" if below == "retry" else "GET"
    status, reply = running_server.call(method, path(NOWHERE, below))
    assert status == 404
    assert_error(reply, "EXECUTION_NOT_FOUND")


def test_log_tells_what_happened_as_json(running_server: Comfyrail) -> None:
    job_id = ended(running_server)
    status, body = running_server.call("GET", path(job_id, "logs"))
    assert (status, body["execution_id"], body["next_after"]) == (200, job_id, None)
    lines = body["lines"]
    assert [line["number"] for line in lines] == sorted(line["number"] for line in lines)
    assert "execution.progress" not in {line["event"] for line in lines}
    assert lines[0]["message"].startswith("The job is in the queue with priority 5")
    assert lines[1]["message"] == "Attempt 1 begins on local-1."
    assert lines[-1]["message"] == "The job is done, with 1 outputs."
    assert {line["level"] for line in lines} == {"info"}


def test_log_comes_in_pages(running_server: Comfyrail) -> None:
    job_id = ended(running_server)
    whole = running_server.call("GET", path(job_id, "logs"))[1]["lines"]
    found: list[Any] = []
    after: int | None = 0
    while after is not None:
        page = running_server.call("GET", path(job_id, f"logs?limit=2&after={after}"))[1]
        assert len(page["lines"]) <= 2
        found += page["lines"]
        after = page["next_after"]
    assert found == whole


def test_log_is_plain_text_for_those_who_ask_for_it(running_server: Comfyrail) -> None:
    job_id = ended(running_server)
    status, content, headers = running_server.fetch(
        "GET", path(job_id, "logs"), Accept="text/plain"
    )
    assert (status, headers["content-type"]) == (200, "text/plain; charset=utf-8")
    lines = content.decode().splitlines()
    assert lines[-1].endswith("info    The job is done, with 1 outputs.")
    _, _, headers = running_server.fetch(
        "GET", path(job_id, "logs?limit=1"), Accept="text/plain;q=0.9"
    )
    assert f'{path(job_id, "logs")}?after=1&limit=1>; rel="next"' in headers["link"]


def test_log_says_why_a_job_failed(running_server: Comfyrail) -> None:
    graph = picture()
    graph["1"] = {"class_type": "LoadImage", "inputs": {"image": "gone/no such file.png"}}
    job_id = running_server.submit(graph)
    running_server.wait_for(job_id, "failed")
    last = running_server.call("GET", path(job_id, "logs"))[1]["lines"][-1]
    assert last["level"] == "error"
    assert "INPUT_FILE_MISSING" in last["message"]
    assert "no such file.png" in last["message"]


def test_command_line_runs_a_job_once_more_and_shows_its_log(running_server: Comfyrail) -> None:
    job_id = ended(running_server)
    server = ("--server", running_server.url)
    ran = comfyrail("jobs", "retry", job_id, "--priority", "9", *server)
    assert ran.returncode == 0, ran.stderr
    second = ran.stdout.split(" as ")[1].strip().rstrip(".")
    assert running_server.wait_for(second, "completed")["priority"] == 9
    shown = comfyrail("jobs", "logs", second, *server)
    assert shown.returncode == 0, shown.stderr
    assert "Attempt 1 begins on local-1." in shown.stdout
    refused = comfyrail("jobs", "retry", NOWHERE, *server)
    assert refused.returncode != 0
    assert "There is no execution" in refused.stderr
