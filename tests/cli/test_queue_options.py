"""What `comfyrail run` can say about the queue, and what it says of a job that waits."""

import json
import os
import signal
import subprocess
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from tests.graphs import picture
from tests.processes import COMFYRAIL, Comfyrail, comfyrail, wait_until


@pytest.fixture
def workflow(tmp_path: Path) -> Path:
    path = tmp_path / "w.json"
    path.write_text(json.dumps(picture()))
    return path


@pytest.fixture
def paused_server(running_server: Comfyrail) -> Iterator[Comfyrail]:
    running_server.call("POST", "/v1/queue/pause", {"reason": "moving house"})
    yield running_server
    running_server.call("POST", "/v1/queue/resume")


def start_run(server: Comfyrail, workflow: Path, *options: str) -> subprocess.Popen[str]:
    out = ["-o", str(workflow.parent / "out"), "--server", server.url]
    return subprocess.Popen(
        [*COMFYRAIL, "run", str(workflow), *out, *options],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "NO_COLOR": "1", "COLUMNS": "200"},
    )


def line_of(process: subprocess.Popen[str]) -> str:
    assert process.stderr is not None
    return process.stderr.readline().rstrip()


def queued_job(server: Comfyrail) -> str:
    def look() -> str | None:
        found = server.call("GET", "/v1/workflows/executions?status=queued")[1]["executions"]
        return found[0]["execution_id"] if found else None

    return wait_until(look) or ""


def test_run_says_that_the_queue_is_paused_and_goes_on_when_it_is_resumed(
    paused_server: Comfyrail, workflow: Path
) -> None:
    with start_run(paused_server, workflow) as process:
        said = line_of(process)
        assert said.startswith("Waiting: The queue is paused: moving house.")
        assert "comfyrail queue resume" in said
        shown = comfyrail("jobs", "show", queued_job(paused_server), "--server", paused_server.url)
        assert f"Waiting   {said.removeprefix('Waiting: ')}" in shown.stdout
        paused_server.call("POST", "/v1/queue/resume")
        process.communicate(timeout=30)
    assert process.returncode == 0


def test_run_asks_for_labels_class_and_patience(running_server: Comfyrail, workflow: Path) -> None:
    options = ["--label", "zone=nowhere", "--batch", "--queue-timeout", "77"]
    with start_run(running_server, workflow, *options) as process:
        assert line_of(process) == "Waiting: No worker has the label zone=nowhere."
        job = running_server.execution(queued_job(running_server))
        assert job["queue_class"] == "batch"
        assert job["expires_at"] is not None
        listed = comfyrail("jobs", "--server", running_server.url, "--limit", "1").stdout
        header, row = (each.split() for each in listed.splitlines())
        assert row[header.index("Class")] == "batch"
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=20)
    assert process.returncode == 130


def test_run_waits_for_its_time(running_server: Comfyrail, workflow: Path) -> None:
    moment = "2126-01-31T08:00:00+01:00"
    refused = comfyrail(
        "run", str(workflow), "--not-before", moment, "--server", running_server.url
    )
    assert (refused.returncode, "more than a year ahead" in refused.stderr) == (2, True)
    soon = datetime.now(UTC) + timedelta(minutes=5)
    with start_run(running_server, workflow, "--not-before", soon.isoformat()) as process:
        assert line_of(process).startswith("Waiting: It is not to start before ")
        job = running_server.execution(queued_job(running_server))
        assert datetime.fromisoformat(job["not_before"]) - soon < timedelta(milliseconds=2)
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=20)
    assert process.returncode == 130


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--label", "zone"], "Write it like --label NAME=VALUE, not 'zone'."),
        (["--label", "a=1", "--label", "a=2"], "--label a is given twice"),
        (["--not-before", "2026-01-31T08:00"], "has no time zone: add Z"),
        (["--not-before", "soon"], "--not-before takes a time such as"),
        (["--not-before", "0001-01-01T00:00:00+23:00"], "--not-before takes a time such as"),
        (["--queue-timeout", "nan"], "it takes seconds, more than 0"),
        (["--queue-timeout", "0"], "it takes seconds, more than 0"),
        (["--priority", "11"], "priority is 1 (lowest) to 10 (highest), not 11."),
    ],
)
def test_wrong_option_is_explained(workflow: Path, options: list[str], said: str) -> None:
    for command in (["run"], ["batches", "submit"]):
        ended = comfyrail(*command, str(workflow), *options)
        assert ended.returncode == 2
        assert said in ended.stderr, ended.stderr
        assert "Traceback" not in ended.stderr


def test_priority_out_of_range_is_explained() -> None:
    ended = comfyrail("jobs", "prioritize", "x", "11")
    assert ended.returncode == 2
    assert "priority is 1 (lowest) to 10 (highest), not 11." in ended.stderr


def test_name_that_is_neither_file_nor_workflow_is_explained(
    running_server: Comfyrail, tmp_path: Path
) -> None:
    ended = comfyrail("run", "nothere", "--server", running_server.url, cwd=tmp_path)
    assert ended.returncode == 2
    said = f"There is no file 'nothere', and no workflow of that name on {running_server.url}."
    assert said in ended.stderr


def test_agent_that_dials_the_api_is_told_that_it_is_not_the_listener(
    running_server: Comfyrail,
) -> None:
    port = running_server.url.rpartition(":")[2]
    at = ["--server", f"ws://127.0.0.1:{port}", "--comfyui", "http://127.0.0.1:9"]
    ended = comfyrail("agent", *at, "--token", "a-token-that-nobody-guesses")
    assert ended.returncode == 3
    assert "Is it the address of the agents' listener (agent_host, agent_port)" in ended.stderr
    assert "does not accept the token" not in ended.stderr
