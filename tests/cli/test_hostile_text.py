"""What users, servers and files say is shown, never obeyed."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.cli.foreign_server import JOB_ID, foreign_server, job_with_outputs
from tests.cli.test_commands import on_terminal
from tests.graphs import slow_picture
from tests.processes import Comfyrail, comfyrail

HOSTILE = "[/x] [red]a[/red] :smile: \x1b[2J\x1b]0;owned\x07\x9b31m\u202eb"
SHOWN = "[/x] [red]a[/red] :smile: b"


def hostile_worker() -> dict[str, Any]:
    return {
        "worker_id": "static-1",
        "driver": "static",
        "endpoint": "http://[::1]:8188",
        "status": "[/idle]",
        "current_jobs": ["[/j]"],
        "node_types": 3,
        "device": HOSTILE,
        "error": HOSTILE,
    }


def test_workers_are_listed_whatever_their_device_is_called() -> None:
    counts = ("total", "available", "allocated", "idle", "running", "starting", "failed")
    fleet = {**dict.fromkeys(counts, 1), "utilization": 0.5, "pools": []}
    replies = {"/v1/workers": {"workers": [hostile_worker()]}, "/v1/fleet": fleet}
    with foreign_server(replies) as url:
        ended = comfyrail("workers", "--server", url)
    assert ended.returncode == 0, ended.stderr
    assert ended.stdout.count(SHOWN) == 2
    assert "\x1b" not in ended.stdout
    assert "[/idle]" in ended.stdout


def test_doctor_shows_folders_and_workers_whatever_they_are_called(tmp_path: Path) -> None:
    replies = {"/health": {}, "/ready": {}, "/v1/workers": {"workers": [hostile_worker()]}}
    with foreign_server(replies) as url:
        ended = comfyrail("doctor", "--data", str(tmp_path / "[" / "x]"), "--server", url)
    assert (ended.returncode, ended.stderr) == (1, "")
    assert "[/x]" in ended.stdout
    assert SHOWN in ended.stdout
    assert "\x1b" not in ended.stdout


def test_jobs_are_shown_whatever_their_files_are_called() -> None:
    with foreign_server(job_with_outputs("[red]x_00001_.png")) as url:
        ended = comfyrail("jobs", "show", JOB_ID, "--server", url)
    assert ended.returncode == 0, ended.stderr
    assert "Output    [red]x_00001_.png  http" in ended.stdout
    assert "last on [/x]\n" in ended.stdout


def test_run_goes_on_whatever_a_node_is_called(running_server: Comfyrail, tmp_path: Path) -> None:
    graph = slow_picture(0.4, 0xA1)
    graph["9"]["_meta"] = {"title": HOSTILE}
    path = tmp_path / "w.json"
    path.write_text(json.dumps(graph))
    screen = on_terminal(["run", str(path), "--server", running_server.url, "-o", str(tmp_path)])
    assert SHOWN in screen
    assert "Traceback" not in screen
    assert "owned" not in screen
    assert len(list(tmp_path.glob("*.png"))) == 1


@pytest.mark.parametrize("name", ["foo\\[/x].json", "\x1b[2J[/x].json"])
def test_errors_name_files_whatever_they_are_called(name: str) -> None:
    ended = comfyrail("run", name)
    assert ended.returncode == 2
    assert f"Error: {name.removeprefix(chr(27) + '[2J')} cannot be read" in ended.stderr


def test_character_that_the_terminal_lacks_ends_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONIOENCODING", "ascii")
    with foreign_server(job_with_outputs("ü_00001_.png")) as url:
        ended = comfyrail("jobs", "show", JOB_ID, "--server", url)
    assert ended.returncode == 0, ended.stderr
    assert "\\xfc_00001_.png" in ended.stdout
