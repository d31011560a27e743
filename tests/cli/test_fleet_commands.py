"""`comfyrail workers`, `comfyrail queue`, and what `comfyrail jobs` can change."""

from pathlib import Path
from typing import Any

import pytest

from tests.graphs import picture
from tests.processes import Comfyrail, comfyrail, server, wait_until


@pytest.fixture
def address(running_server: Comfyrail) -> tuple[str, str]:
    return ("--server", running_server.url)


def test_queue_is_shown_paused_and_resumed(address: tuple[str, str]) -> None:
    paused = comfyrail("queue", "pause", "--reason", "moving house", *address)
    assert paused.returncode == 0, paused.stderr
    assert "moving house" in paused.stdout
    shown = comfyrail("queue", *address)
    assert "Paused" in shown.stdout
    for name in ("high", "medium", "low", "batch", "30 s", "600 s"):
        assert name in shown.stdout
    resumed = comfyrail("queue", "resume", *address)
    assert "Paused" not in resumed.stdout


def test_queued_job_gets_another_priority(
    running_server: Comfyrail, address: tuple[str, str]
) -> None:
    comfyrail("queue", "pause", *address)
    job_id = running_server.submit(picture(1))
    changed = comfyrail("jobs", "prioritize", job_id, "9", *address)
    assert "priority 9 now and position 1" in changed.stdout
    shown = comfyrail("jobs", "show", job_id, *address)
    assert "9 (high" in shown.stdout
    assert comfyrail("jobs", "prioritize", job_id, "11", *address).returncode == 2
    comfyrail("queue", "resume", *address)
    running_server.wait_for(job_id, "completed")
    late = comfyrail("jobs", "prioritize", job_id, "9", *address)
    assert (late.returncode, "only a queued job" in late.stderr) == (2, True)


def test_nodes_of_a_job_are_listed(running_server: Comfyrail, address: tuple[str, str]) -> None:
    job_id = running_server.submit(picture(2))
    running_server.wait_for(job_id, "completed")
    shown = comfyrail("jobs", "nodes", job_id, *address)
    assert "SaveImage" in shown.stdout


def test_worker_of_a_driver_is_added_drained_resumed_and_removed(tmp_path: Path) -> None:
    with server(tmp_path / "data", workers=0) as process:
        address = ("--server", process.url)
        added = comfyrail(
            *("workers", "add", "--driver", "local", "--name", "mine"),
            *("--label", "region=attic", *address),
        )
        assert (added.returncode, "as mine" in added.stdout) == (0, True), added.stderr
        process.wait_ready()
        job_id = process.submit(picture(3), labels={"region": "attic"})
        assert process.wait_for(job_id, "completed")["worker_id"] == "mine"
        assert "mine" in comfyrail("workers", *address).stdout
        logs = comfyrail("workers", "logs", "mine", "--lines", "5", *address)
        assert logs.returncode == 0, logs.stderr

        assert comfyrail("workers", "drain", "mine", *address).returncode == 0

        def status() -> str:
            return str(process.call("GET", "/v1/workers/mine")[1]["status"])

        wait_until(lambda: status() == "stopped")
        assert comfyrail("workers", "resume", "mine", *address).returncode == 0
        process.wait_ready()
        assert "(cordoned)" in comfyrail("workers", "cordon", "mine", *address).stdout
        waiting = process.submit(picture(4))
        process.kill()
        process.start()
        address = ("--server", process.url)
        wait_until(lambda: status() == "idle")
        assert process.execution(waiting)["status"] == "queued", "a cordon outlives the server"
        comfyrail("workers", "resume", "mine", *address)
        process.wait_for(waiting, "completed")
        assert comfyrail("workers", "remove", "mine", *address).returncode == 0
        assert process.call("GET", "/v1/workers")[1] == {"workers": []}


def test_wrong_use_is_explained(address: tuple[str, str]) -> None:
    for arguments, said in (
        (("workers", "add"), "Give either"),
        (("workers", "add", "http://127.0.0.1:1", "--driver", "ssh"), "Give either"),
        (("workers", "add", "http://127.0.0.1:1", "--set", "a=b"), "for a --driver"),
        (("workers", "add", "--driver", "dokcer"), "docker"),
        (("workers", "add", "--driver", "ssh", "--set", "host"), "NAME=VALUE"),
        (("workers", "add", "--driver", "local", "--name", "Bad Name"), "small letters"),
        (("workers", "add", "--driver", "local", "--config", "/no/such"), "cannot be read"),
        (("workers", "drain", "nobody"), "no worker 'nobody'"),
        (("workers", "logs", "nobody"), "no worker 'nobody'"),
        (("workers", "remove", "local-1"), "--workers"),
    ):
        done = comfyrail(*arguments, *address)
        assert done.returncode == 2, (arguments, done.stdout, done.stderr)
        assert said in done.stderr, (arguments, done.stderr)


def test_pool_whose_driver_fails_says_why_everywhere(tmp_path: Path) -> None:
    file = tmp_path / "fleet.yaml"
    file.write_text("pools: {bad: {driver: local, maximum: 3, config: {python: /bin/false}}}")
    with server(tmp_path / "data", "--fleet", str(file), workers=0) as process:

        def trouble() -> dict[str, Any]:
            pools = process.call("GET", "/v1/fleet")[1]["pools"]
            return next((pool for pool in pools if pool["error"]), {})

        pool = wait_until(trouble)
        assert (pool["pool"], pool["driver"]) == ("bad", "local")
        assert (pool["minimum"], pool["maximum"], pool["total"]) == (0, 3, 0)
        assert pool["rests_until"] is not None
        shown = comfyrail("workers", "--server", process.url).stdout
        assert f"pool bad: {pool['error'].splitlines()[0]}" in shown
        assert "Tried again in" in shown
        status, reply = process.call("GET", "/ready")
        assert (status, set(reply["error"]["details"]["pools"])) == (503, {"bad"})
