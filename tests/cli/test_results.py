"""Where results go, and that they get there."""

import json
import os
import resource
import subprocess
from pathlib import Path

import pytest

from comfyrail.cli.results import results_folder
from tests.cli.foreign_server import foreign_server, job_with_outputs
from tests.graphs import picture, slow_picture
from tests.processes import COMFYRAIL, Comfyrail, comfyrail


@pytest.fixture
def workflow(tmp_path: Path) -> Path:
    path = tmp_path / "workflow.json"
    path.write_text(json.dumps(picture()))
    return path


def test_folder_that_takes_no_results_is_refused_before_the_work(
    running_server: Comfyrail, workflow: Path
) -> None:
    before = newest(running_server)
    ended = comfyrail("run", str(workflow), "--server", running_server.url, "-o", "/proc")
    assert ended.returncode == 2
    assert "Results cannot be put in /proc: " in ended.stderr
    assert "Traceback" not in ended.stderr
    assert newest(running_server) == before


@pytest.mark.parametrize("folder", ["workflow.json", "workflow.json/x", "new/" + "a" * 300])
def test_trying_a_folder_leaves_nothing_behind(workflow: Path, folder: str) -> None:
    with pytest.raises(OSError, match="Errno"), results_folder(workflow.parent / folder):
        pass
    assert list(workflow.parent.iterdir()) == [workflow]


def newest(process: Comfyrail) -> str | None:
    found = process.call("GET", "/v1/workflows/executions?limit=1")[1]["executions"]
    return found[0]["execution_id"] if found else None


def test_failed_job_leaves_no_folder_behind(running_server: Comfyrail, tmp_path: Path) -> None:
    path = tmp_path / "w.json"
    path.write_text(json.dumps(slow_picture(60)))
    at = ["--server", running_server.url, "-o", str(tmp_path / "new" / "deep")]
    assert comfyrail("run", str(path), *at, "--timeout", "0.2").returncode == 1
    assert list(tmp_path.iterdir()) == [path]


def test_full_disk_is_explained_and_leaves_no_half_a_file(
    running_server: Comfyrail, workflow: Path
) -> None:
    out = workflow.parent / "out"
    ended = subprocess.run(
        [*COMFYRAIL, "run", str(workflow), "--server", running_server.url, "-o", str(out)],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        env={**os.environ, "PYTHONDONTWRITEBYTECODE": "1", "COLUMNS": "200"},
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (20, 20)),
    )
    assert ended.returncode == 1
    assert "_.png cannot be saved: File too large" in ended.stderr
    assert "comfyrail jobs show" in ended.stderr
    assert "Traceback" not in ended.stderr
    assert not out.exists()


def test_results_stay_in_their_folder_whatever_the_server_calls_them(workflow: Path) -> None:
    out = workflow.parent / "out"
    out.mkdir()
    (out / "gone.png").symlink_to(workflow.parent / "elsewhere.png")
    names = ["../../a.png", "/etc/b.png", "..\\c.png", "..", ".", "", "gone.png", "d\n\x1b[2J.png"]
    names += ["e" * 400 + ".png", "e" * 400 + ".png", "ü" * 200, "a.png", "x." + "y" * 400]
    with foreign_server(job_with_outputs(*names)) as url:
        ended = comfyrail("run", str(workflow), "--server", url, "-o", str(out))
    assert ended.returncode == 0, ended.stderr
    assert {path.name for path in out.iterdir()} == {
        "a.png",
        "a (1).png",
        "b.png",
        "c.png",
        "d__[2J.png",
        "output",
        "output (1)",
        "output (2)",
        "gone.png",
        "gone (1).png",
        "e" * 251 + ".png",
        "e" * 247 + " (1).png",
        "ü" * 127,
        "x." + "y" * 253,
    }
    assert ended.stdout.splitlines()[0] == str(out / "a.png")
    assert {path.name for path in workflow.parent.iterdir()} == {"workflow.json", "out"}


def test_path_of_a_result_is_printed_byte_for_byte(
    running_server: Comfyrail, workflow: Path
) -> None:
    out = os.fsencode(workflow.parent) + b"/\xff"
    arguments = ["run", str(workflow), "--server", running_server.url, "-o", os.fsdecode(out)]
    command = [*COMFYRAIL, *arguments]
    ended = subprocess.run(command, capture_output=True, timeout=60, check=False)
    assert ended.returncode == 0, ended.stderr
    (saved,) = Path(os.fsdecode(out)).iterdir()
    assert ended.stdout == os.fsencode(saved) + b"\n"
