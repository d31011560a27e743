"""Requests that wait: runsync, `Prefer: wait`, and long polls of the status [10.6]."""

import json
import socket
import threading
import time
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlsplit

import pytest

from tests.api.errors import assert_error
from tests.graphs import picture, slow_picture
from tests.processes import Comfyrail, server, wait_until

EXECUTE = "/v1/workflows/execute"
RUNSYNC = "/v1/workflows/runsync"
CONFLICT = 409


def status_path(job_id: str, query: str = "") -> str:
    return f"/v1/workflows/execution/{job_id}{query}"


def test_runsync_answers_with_the_whole_execution_when_it_has_ended(
    running_server: Comfyrail,
) -> None:
    status, content, headers = running_server.fetch("POST", RUNSYNC, {"workflow": picture(11)})
    body = json.loads(content)
    assert (status, body["status"]) == (200, "completed")
    assert body["result"]["outputs"]
    assert headers["location"] == status_path(body["execution_id"])


def test_runsync_answers_200_for_a_job_that_fails(running_server: Comfyrail) -> None:
    graph = picture()
    graph["1"] = {"class_type": "LoadImage", "inputs": {"image": "gone/not there.png"}}
    status, body = running_server.call("POST", RUNSYNC, {"workflow": graph})
    assert (status, body["status"]) == (200, "failed")
    assert body["error"]["code"] == "INPUT_FILE_MISSING"


@pytest.mark.parametrize("way", ["query", "prefer"])
def test_runsync_answers_202_when_the_time_is_up(running_server: Comfyrail, way: str) -> None:
    query, headers = ("?timeout=1", {}) if way == "query" else ("", {"Prefer": "wait=1"})
    body = {"workflow": slow_picture(60)}
    status, reply = running_server.call("POST", RUNSYNC + query, body, **headers)
    assert (status, reply["status"]) == (202, "queued")
    assert running_server.execution(reply["execution_id"])["status"] == "processing"


@pytest.mark.parametrize("seconds", ["301", "-1", "x", "1.5"])
def test_runsync_refuses_a_limit_that_is_none(running_server: Comfyrail, seconds: str) -> None:
    body = {"workflow": picture()}
    status, reply = running_server.call("POST", f"{RUNSYNC}?timeout={seconds}", body)
    assert status == 400
    assert_error(reply, "MALFORMED_REQUEST")


def test_prefer_wait_is_heeded_and_said(running_server: Comfyrail) -> None:
    status, content, headers = running_server.fetch(
        "POST", EXECUTE, {"workflow": picture(12)}, Prefer="handling=strict, wait=20; foo"
    )
    body = json.loads(content)
    found = running_server.execution(body["execution_id"])
    assert (status, body["status"]) == (200, "completed"), found
    assert headers["preference-applied"] == "wait=20"


@pytest.mark.parametrize("preference", ["respond-async", "wait=soon", "nothing; wait=5", ""])
def test_other_preferences_are_passed_over(running_server: Comfyrail, preference: str) -> None:
    status, _, headers = running_server.fetch(
        "POST", EXECUTE, {"workflow": slow_picture(60)}, Prefer=preference
    )
    assert status == 202
    assert "preference-applied" not in headers


def test_nobody_waits_longer_than_the_limit(running_server: Comfyrail) -> None:
    _, _, headers = running_server.fetch(
        "POST", EXECUTE, {"workflow": picture(13)}, Prefer="wait=99999"
    )
    assert headers["preference-applied"] == "wait=300"


@pytest.mark.parametrize(
    ("path", "more", "ended"),
    [
        (RUNSYNC + "?timeout=300", {}, "completed"),
        (EXECUTE, {"Prefer": "wait=300"}, "completed"),
        ("/v2/workflows/runsync?timeout=300", {}, "completed"),
        ("/runsync?wait=300000", {}, "COMPLETED"),
    ],
)
def test_client_that_goes_away_cancels_not_its_job_and_finds_it_again_at_its_end(
    running_server: Comfyrail, path: str, more: dict[str, str], ended: str
) -> None:
    graph = slow_picture(0.5, 0x123456 + len(path))
    content = {"input": {"workflow": graph}} if path.startswith("/runsync") else {"workflow": graph}
    body = json.dumps(content).encode()
    where = urlsplit(running_server.url)
    key = f"gone-away-{path}"
    head = (
        f"POST {path} HTTP/1.1\r\nHost: {where.netloc}\r\n"
        f"Content-Type: application/json\r\nIdempotency-Key: {key}\r\n"
        + "".join(f"{name}: {value}\r\n" for name, value in more.items())
        + f"Content-Length: {len(body)}\r\n\r\n"
    ).encode()
    before = newest(running_server)
    with socket.create_connection((where.hostname, where.port)) as line:
        line.sendall(head + body)
        job_id = wait_until(lambda: newest(running_server) != before and newest(running_server))
    # As soon as nobody waits for its answer, the same request finds the same job and waits for it.
    replies: list[Any] = []

    def has_answered() -> bool:
        replies.append(running_server.call("POST", path, body, Idempotency_Key=key, **more))
        return bool(replies[-1][0] != CONFLICT)

    wait_until(has_answered)
    status, reply = replies[-1]
    found = reply.get("execution_id") or reply.get("id") or reply["execution"]["id"]
    assert (status, found) == (200, job_id), reply
    assert ended in json.dumps(reply)
    again = running_server.call("POST", path, body, Idempotency_Key=key, **more)
    assert again == (200, reply)


@pytest.mark.parametrize("path", [RUNSYNC + "?timeout=0", "/runsync?wait=0"])
def test_answer_that_came_before_the_end_is_not_the_one_that_is_kept(
    running_server: Comfyrail, path: str
) -> None:
    graph = slow_picture(0.4, 0x223456)
    body = {"input": {"workflow": graph}} if path.startswith("/runsync") else {"workflow": graph}
    first = running_server.call("POST", path, body, Idempotency_Key=f"early-{path}")[1]
    job_id = first.get("execution_id") or first["id"]
    assert first["status"] in {"queued", "IN_QUEUE", "IN_PROGRESS"}
    running_server.wait_for(job_id, "completed")
    status, again = running_server.call("POST", path, body, Idempotency_Key=f"early-{path}")
    assert (status, again.get("execution_id") or again["id"]) == (200, job_id)
    assert again["status"].lower() == "completed"


def newest(process: Comfyrail) -> str | None:
    found = process.call("GET", "/v1/workflows/executions?limit=1")[1]["executions"]
    return found[0]["execution_id"] if found else None


def test_status_has_a_tag_that_changes_with_the_job(running_server: Comfyrail) -> None:
    running_server.call("POST", "/v1/queue/pause", {})
    try:
        job_id = running_server.submit(picture(14))
        _, _, headers = running_server.fetch("GET", status_path(job_id))
        tag = headers["etag"]
        assert tag.startswith('"')
        for known in (tag, f'W/{tag}, "other"', "*"):
            status, content, headers = running_server.fetch(
                "GET", status_path(job_id), If_None_Match=known
            )
            assert (status, content, headers["etag"]) == (304, b"", tag)
        ahead = running_server.submit(picture(15), priority=10)
        status, content, _ = running_server.fetch("GET", status_path(job_id), If_None_Match=tag)
        assert (status, json.loads(content)["queue_position"]) == (200, 2), ahead
    finally:
        running_server.call("POST", "/v1/queue/resume")
    running_server.wait_for(job_id, "completed")
    assert running_server.fetch("GET", status_path(job_id), If_None_Match=tag)[0] == 200


def test_long_poll_answers_at_the_next_change(running_server: Comfyrail) -> None:
    running_server.call("POST", "/v1/queue/pause", {})
    job_id = running_server.submit(slow_picture(60))
    tag = running_server.fetch("GET", status_path(job_id))[2]["etag"]
    found: list[tuple[int, bytes, dict[str, str]]] = []
    poll = threading.Thread(
        target=lambda: found.append(
            running_server.fetch("GET", status_path(job_id, "?wait=25"), If_None_Match=tag)
        )
    )
    poll.start()
    running_server.call("POST", "/v1/queue/resume")
    poll.join(timeout=20)
    ((status, _, headers),) = found
    assert status == 200
    assert headers["etag"] != tag


def test_poll_after_an_event_answers_with_the_next(running_server: Comfyrail) -> None:
    job_id = running_server.submit(slow_picture(0.5))
    seen = [0]
    while seen[-1] < 4:
        path = status_path(job_id, f"?wait=20&after={seen[-1]}")
        seen.append(running_server.call("GET", path)[1]["last_event"])
    assert seen == sorted(set(seen))


def test_long_poll_answers_304_when_nothing_has_changed(running_server: Comfyrail) -> None:
    job_id = running_server.submit(picture(16), not_before="2027-06-01T00:00:00Z")
    _, content, headers = running_server.fetch("GET", status_path(job_id))
    tag = headers["etag"]
    began = time.monotonic()
    status, _, _ = running_server.fetch("GET", status_path(job_id, "?wait=1"), If_None_Match=tag)
    assert status == 304
    assert time.monotonic() - began >= 0.9
    last = json.loads(content)["last_event"]
    status, body = running_server.call("GET", status_path(job_id, f"?wait=1&after={last}"))
    assert (status, body["last_event"]) == (200, last)


def test_poll_for_what_has_happened_already_does_not_wait(running_server: Comfyrail) -> None:
    job_id = running_server.submit(picture(17), not_before="2027-06-01T00:00:00Z")
    assert running_server.call("GET", status_path(job_id, "?wait=60&after=0"))[0] == 200
    known = {"If_None_Match": '"something else"'}
    assert running_server.call("GET", status_path(job_id, "?wait=60"), **known)[0] == 200


@pytest.mark.parametrize(
    "query", ["?wait=61", "?wait=x", "?wait=-1", "?after=x", "?wait=1&after=²"]
)
def test_poll_refuses_what_is_no_number(running_server: Comfyrail, query: str) -> None:
    job_id = running_server.submit(picture(18))
    status, reply = running_server.call("GET", status_path(job_id, quote(query, safe="?=&")))
    assert status == 400
    assert_error(reply, "MALFORMED_REQUEST")


def test_server_that_stops_answers_those_who_wait(tmp_path: Path) -> None:
    with server(tmp_path / "data") as process:
        process.wait_ready()
        found: list[tuple[int, Any]] = []
        waiting = threading.Thread(
            target=lambda: found.append(
                process.call("POST", RUNSYNC + "?timeout=300", {"workflow": slow_picture(60)})
            )
        )
        waiting.start()
        wait_until(lambda: newest(process) is not None)
        process.stop()
        waiting.join(timeout=10)
        ((status, body),) = found
        assert (status, body["status"]) == (202, "queued")
