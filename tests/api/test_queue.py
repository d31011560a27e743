"""The queue over the API: places, priorities, pauses, times, keys [4.2]-[4.7]."""

import json
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from tests.graphs import picture, slow_picture
from tests.processes import Comfyrail, server, wait_until


@pytest.fixture
def paused(running_server: Comfyrail) -> Iterator[Comfyrail]:
    """The shared server with a queue that stands still."""
    status, body = running_server.call("POST", "/v1/queue/pause", {"reason": "a test"})
    assert (status, body["paused"], body["reason"]) == (200, True, "a test")
    yield running_server
    assert running_server.call("POST", "/v1/queue/resume")[1]["paused"] is False


def change(process: Comfyrail, job_id: str, body: Any) -> tuple[int, Any]:
    return process.call("PATCH", f"/v1/workflows/execution/{job_id}", body)


def test_paused_queue_takes_jobs_and_starts_none_until_it_is_resumed(paused: Comfyrail) -> None:
    job_id = paused.submit(picture(1))
    _, queue = paused.call("GET", "/v1/queue")
    assert (queue["paused"], queue["queued"], queue["processing"]) == (True, 1, 0)
    assert paused.execution(job_id)["status"] == "queued"
    paused.call("POST", "/v1/queue/resume")
    paused.wait_for(job_id, "completed")


def test_queued_job_knows_its_place_its_class_and_its_wait(paused: Comfyrail) -> None:
    first, second = paused.submit(picture(1)), paused.submit(picture(2))
    urgent = paused.submit(picture(3), priority=9)
    assert [paused.execution(job)["queue_position"] for job in (urgent, first, second)] == [1, 2, 3]
    job = paused.execution(second)
    assert (job["queue_class"], job["priority"]) == ("medium", 5)
    assert 5 <= job["effective_priority"] < 8
    assert job["predicted_wait"] is None, "nobody knows when the queue goes on"
    assert "a test" in job["waiting_for"]
    _, queue = paused.call("GET", "/v1/queue")
    waiting = {each["queue_class"]: each["queued"] for each in queue["classes"]}
    assert waiting == {"high": 1, "medium": 2, "low": 0, "batch": 0}
    paused.call("POST", f"/v1/workflows/execution/{second}/cancel")
    queued = paused.events(second)[0]
    assert queued["type"] == "execution.queued"
    assert queued["data"]["queue_position"] == 2
    assert queued["data"]["predicted_wait"] is None


def test_queued_job_gets_another_priority_and_place(paused: Comfyrail) -> None:
    first, second = paused.submit(picture(1)), paused.submit(picture(2))
    status, changed = change(paused, second, {"priority": 10})
    assert (status, changed["priority"], changed["queue_class"]) == (200, 10, "high")
    assert (changed["queue_position"], paused.execution(first)["queue_position"]) == (1, 2)
    for body, code in (
        ({"priority": 11}, "INVALID_PRIORITY"),
        ({"priority": "high"}, "MALFORMED_REQUEST"),
        ({}, "MALFORMED_REQUEST"),
        ({"priority": 3, "status": "completed"}, "MALFORMED_REQUEST"),
    ):
        status, reply = change(paused, second, body)
        assert (status, reply["error"]["code"]) == (400, code)


def test_job_of_the_class_batch_gets_a_place_among_others_with_a_priority(
    paused: Comfyrail,
) -> None:
    quiet = paused.submit(picture(1), queue_class="batch", priority=10)
    low = paused.submit(picture(2), priority=1)
    assert paused.execution(quiet)["queue_position"] == 2
    assert change(paused, quiet, {"priority": 8})[1]["queue_class"] == "high"
    assert [paused.execution(job)["queue_position"] for job in (quiet, low)] == [1, 2]


def test_job_that_runs_or_is_not_there_has_no_priority_to_change(
    running_server: Comfyrail,
) -> None:
    done = running_server.wait_for(running_server.submit(picture(4)), "completed")
    status, reply = change(running_server, done["execution_id"], {"priority": 9})
    assert (status, reply["error"]["code"]) == (409, "EXECUTION_NOT_QUEUED")
    status, reply = change(running_server, "nope", {"priority": 9})
    assert (status, reply["error"]["code"]) == (404, "EXECUTION_NOT_FOUND")


def test_job_for_later_starts_when_its_time_comes(running_server: Comfyrail) -> None:
    start = datetime.now(UTC) + timedelta(seconds=1.5)
    job_id = running_server.submit(picture(5), not_before=start.isoformat())
    job = running_server.execution(job_id)
    assert (job["status"], job["reason"], job["queue_position"]) == ("queued", "scheduled", None)
    job = running_server.wait_for(job_id, "completed")
    assert datetime.fromisoformat(job["started_at"]) >= start - timedelta(milliseconds=1)


def test_times_that_make_no_sense_are_refused(running_server: Comfyrail) -> None:
    for fields, code in (
        ({"not_before": "2026-01-31T08:00:00"}, "NO_TIME_ZONE"),
        ({"not_before": "3026-01-31T08:00:00Z"}, "INVALID_NOT_BEFORE"),
        ({"not_before": "tomorrow"}, "MALFORMED_REQUEST"),
        ({"queue_timeout": 0}, "INVALID_TIMEOUT"),
        ({"queue_timeout": -1}, "INVALID_TIMEOUT"),
        ({"queue_class": "high"}, "MALFORMED_REQUEST"),
        ({"labels": {"a": "b" * 200}}, "INVALID_LABELS"),
        ({"labels": {"a": 1}}, "MALFORMED_REQUEST"),
    ):
        body = {"workflow": picture(6), **fields}
        status, reply = running_server.call("POST", "/v1/workflows/execute", body)
        assert (status, reply["error"]["code"]) == (400, code), fields


def test_time_that_has_passed_is_no_time_to_wait_for(running_server: Comfyrail) -> None:
    for past in ("0001-01-01T00:00:00+14:00", "1969-12-31T23:59:59Z", "2020-01-01T00:00:00Z"):
        job_id = running_server.submit(picture(21), not_before=past)
        assert running_server.wait_for(job_id, "completed")["not_before"] is None
    assert running_server.call("GET", "/v1/workflows/executions")[0] == 200


def test_job_that_waits_too_long_fails_and_says_what_to_do(running_server: Comfyrail) -> None:
    job_id = running_server.submit(picture(7), queue_timeout=0.2, labels={"region": "mars"})
    job = running_server.wait_for(job_id, "failed")
    assert (job["error"]["category"], job["error"]["code"]) == ("timeout", "QUEUE_TIMEOUT")
    assert "0.2 s" in job["error"]["message"]
    assert job["attempts"] == 0


def test_job_for_a_label_that_no_worker_has_waits_and_lets_others_pass(
    running_server: Comfyrail,
) -> None:
    waiting = running_server.submit(picture(8), priority=10, labels={"region": "mars"})
    running_server.wait_for(running_server.submit(picture(9), priority=1), "completed")
    job = running_server.execution(waiting)
    assert (job["status"], job["predicted_wait"]) == ("queued", None)
    assert job["waiting_for"] == "No worker has the label region=mars."
    _, cancelled = running_server.call("POST", f"/v1/workflows/execution/{waiting}/cancel")
    assert cancelled["status"] == "cancelled"


def test_same_request_under_the_same_key_is_done_once(running_server: Comfyrail) -> None:
    key = {"Idempotency-Key": "order-17"}
    body = {"workflow": picture(10)}
    first = running_server.fetch("POST", "/v1/workflows/execute", body, **key)
    again = running_server.fetch("POST", "/v1/workflows/execute", body, **key)
    assert (first[0], again[0]) == (202, 202)
    assert "idempotent-replayed" not in first[2]
    assert again[2]["idempotent-replayed"] == "true"
    assert first[2]["location"] == again[2]["location"]
    assert first[1] == again[1]
    running_server.wait_for(json.loads(first[1])["execution_id"], "completed")
    later = running_server.fetch("POST", "/v1/workflows/execute", body, **key)
    assert later[1] == first[1], "the first answer, whatever has become of it"
    other = {"workflow": picture(11)}
    status, reply = running_server.call("POST", "/v1/workflows/execute", other, **key)
    assert (status, reply["error"]["code"]) == (422, "IDEMPOTENCY_KEY_REUSED")
    long_key = {"Idempotency-Key": "k" * 300}
    status, reply = running_server.call("POST", "/v1/workflows/execute", body, **long_key)
    assert (status, reply["error"]["code"]) == (400, "INVALID_IDEMPOTENCY_KEY")


def test_nodes_of_a_job_are_told_while_it_runs_and_after(running_server: Comfyrail) -> None:
    job_id = running_server.submit(slow_picture(30, 12))

    def running() -> list[dict[str, Any]]:
        _, body = running_server.call("GET", f"/v1/workflows/execution/{job_id}/nodes")
        return [node for node in body["nodes"] if node["status"] == "running"]

    (slow,) = wait_until(running)
    assert slow["started_at"] is not None
    running_server.call("POST", f"/v1/workflows/execution/{job_id}/cancel")
    running_server.wait_for(job_id, "cancelled")
    done = running_server.wait_for(running_server.submit(picture(13)), "completed")
    _, body = running_server.call("GET", f"/v1/workflows/execution/{done['execution_id']}/nodes")
    assert {node["status"] for node in body["nodes"]} <= {"completed", "cached"}
    assert {node["class_type"] for node in body["nodes"]} >= {"SaveImage"}
    assert running_server.call("GET", "/v1/workflows/execution/nope/nodes")[0] == 404


@pytest.mark.parametrize("path", ["/v1/workflows/execution", "/v2/workflows/executions"])
def test_job_without_a_preview_says_so_and_is_no_error(
    running_server: Comfyrail, path: str
) -> None:
    done = running_server.wait_for(running_server.submit(picture(14)), "completed")
    status, content, headers = running_server.fetch("GET", f"{path}/{done['execution_id']}/preview")
    assert (status, content) == (204, b"")
    assert headers["cache-control"] == "no-store"
    status, reply = running_server.call("GET", f"{path}/nope/preview")
    assert (status, reply["error"]["code"]) == (404, "EXECUTION_NOT_FOUND")


OPEN = "/v1/queue/executions"


def test_open_executions_are_listed_in_their_order_with_their_places(
    running_server: Comfyrail,
) -> None:
    running = running_server.submit(slow_picture(30, 61))
    running_server.wait_for(running, "processing")
    running_server.call("POST", "/v1/queue/pause", {"reason": "to look"})
    try:
        low, high = (running_server.submit(picture(62), priority=each) for each in (1, 10))
        later = running_server.submit(picture(63), not_before="2027-06-01T00:00:00Z")
        status, body = running_server.call("GET", OPEN)
        assert status == 200, body
        assert body["next_cursor"] is None
        found = body["executions"]
        assert [each["id"] for each in found] == [running, high, low, later]
        assert [each["status"] for each in found] == ["processing", *["queued"] * 3]
        assert found[0]["worker_id"] is not None
        assert found[0]["timing"]["estimated_remaining"] >= 5
        assert [each["queue"]["position"] for each in found] == [None, 1, 2, None]
        assert "to look" in found[1]["queue"]["waiting_for"]
        assert {each["attempts"] for each in found} == {None}
        _, shown = running_server.call("GET", f"/v2/workflows/executions/{high}")
        # While the queue is paused, the moment at which a job expires moves on.
        assert {**found[1], "timing": None} == {**shown, "attempts": None, "timing": None}
        pages = [running_server.call("GET", f"{OPEN}?limit=1")[1]]
        while pages[-1]["next_cursor"]:
            following = f"{OPEN}?limit=1&cursor={pages[-1]['next_cursor']}"
            pages.append(running_server.call("GET", following)[1])
        seen = [[each["id"] for each in page["executions"]] for page in pages]
        assert seen == [[running], [high], [low], [later]]
    finally:
        for job_id in (running, low, high, later):
            running_server.call("POST", f"/v1/workflows/execution/{job_id}/cancel")
        running_server.call("POST", "/v1/queue/resume")
    running_server.wait_for(running, "cancelled")
    assert running_server.call("GET", OPEN)[1]["executions"] == []


@pytest.mark.parametrize(
    "query",
    ["limit=0", "limit=201", "cursor=x", f"cursor={'A' * 44}", f"cursor={'A' * 99}"],
    ids=["none", "too-many", "no-cursor", "forged", "long"],
)
def test_list_of_open_executions_is_asked_rightly(running_server: Comfyrail, query: str) -> None:
    status, reply = running_server.call("GET", f"{OPEN}?{query}")
    assert status == 400, reply
    _, jobs = running_server.call("GET", "/v1/workflows/executions?limit=1")
    if jobs["next_cursor"]:
        foreign = f"{OPEN}?cursor={jobs['next_cursor']}"
        assert running_server.call("GET", foreign)[1]["error"]["code"] == "INVALID_CURSOR"


def test_pause_and_waiting_jobs_outlive_the_server(tmp_path: Path) -> None:
    with server(tmp_path / "data") as process:
        process.wait_ready()
        process.call("POST", "/v1/queue/pause", {})
        jobs = [process.submit(picture(number)) for number in range(3)]
        process.kill()
        process.start()
        process.wait_ready()
        assert [process.execution(job)["queue_position"] for job in jobs] == [1, 2, 3]
        assert process.call("GET", "/v1/queue")[1]["paused"] is True
        process.call("POST", "/v1/queue/resume")
        for job in jobs:
            process.wait_for(job, "completed")


def test_metrics_tell_of_the_queue_and_of_missed_targets(tmp_path: Path) -> None:
    with server(tmp_path / "data", COMFYRAIL_WAIT_MEDIUM="0.001") as process:
        process.wait_ready()
        process.wait_for(process.submit(picture(15)), "completed")
        _, content, _ = process.fetch("GET", "/metrics")
        text = content.decode()
        assert 'comfyrail_wait_targets_missed{queue_class="medium"} 1.0' in text
        assert 'comfyrail_pool_workers{figure="total",pool="all"} 1.0' in text
        _, queue = process.call("GET", "/v1/queue")
        (medium,) = (each for each in queue["classes"] if each["queue_class"] == "medium")
        assert (medium["started"], medium["targets_missed"]) == (1, 1)
