"""How `comfyrail run` ends by a signal, and goes on without its server."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.ports import free_port
from tests.graphs import slow_picture
from tests.processes import COMFYRAIL, Comfyrail, server, wait_until


@pytest.fixture(scope="module")
def frail_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Comfyrail]:
    """A server for the tests that do harm to one; it comes back on the same port."""
    data = tmp_path_factory.mktemp("frail") / "data"
    with server(data, "--port", free_port()) as process:
        yield process


@pytest.fixture
def lost_server(frail_server: Comfyrail) -> Iterator[Comfyrail]:
    """Ready at the start, and without jobs at the end."""
    yield frail_server.wait_ready()
    frail_server.process.send_signal(signal.SIGCONT)
    if frail_server.process.poll() is not None:
        frail_server.start()
    frail_server.end_all_jobs()


@pytest.fixture
def slow_workflow(tmp_path: Path) -> Path:
    path = tmp_path / "w.json"
    path.write_text(json.dumps(slow_picture(60)))
    return path


def start(*arguments: str, **environment: str) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [*COMFYRAIL, "run", *arguments],
        stderr=subprocess.PIPE,
        env={**os.environ, "COLUMNS": "200", **environment},
    )


def newest_running(process: Comfyrail) -> str | None:
    path = "/v1/workflows/executions?status=processing"
    found = process.call("GET", path)[1]["executions"]
    return found[0]["execution_id"] if found else None


@pytest.mark.parametrize(
    ("number", "awaited"),
    [(signal.SIGTERM, "comfyrail.db"), (signal.SIGHUP, "server.log")],
)
def test_signal_ends_the_private_server_and_leaves_nothing(
    slow_workflow: Path, number: signal.Signals, awaited: str
) -> None:
    temporary = slow_workflow.parent / "tmp"
    temporary.mkdir()
    out = slow_workflow.parent / "out"
    with start(str(slow_workflow), "-o", str(out), TMPDIR=str(temporary)) as process:
        wait_until(lambda: list(temporary.glob(f"comfyrail-run-*/{awaited}")))
        process.send_signal(number)
        said = process.communicate(timeout=20)[1]
    assert process.returncode == 128 + number
    assert b"Traceback" not in said
    assert list(temporary.iterdir()) == []
    assert not out.exists()


def test_signal_cancels_the_job_on_a_given_server(
    running_server: Comfyrail, slow_workflow: Path
) -> None:
    out = slow_workflow.parent / "out"
    with start(str(slow_workflow), "--server", running_server.url, "-o", str(out)) as process:
        job_id = wait_until(lambda: newest_running(running_server)) or ""
        process.terminate()
        process.communicate(timeout=20)
    assert process.returncode == 143
    running_server.wait_for(job_id, "cancelled", limit=5)
    assert not out.exists()


def test_second_interrupt_leaves_a_frozen_server_at_once(
    lost_server: Comfyrail, slow_workflow: Path
) -> None:
    at = ["--server", lost_server.url, "-o", str(slow_workflow.parent / "out")]
    with start(str(slow_workflow), *at) as process:
        assert process.stderr is not None
        job_id = wait_until(lambda: newest_running(lost_server)) or ""
        lost_server.process.send_signal(signal.SIGSTOP)
        process.send_signal(signal.SIGINT)
        assert b"Ctrl-C again" in process.stderr.readline()
        began = time.monotonic()
        process.send_signal(signal.SIGINT)
        said = process.stderr.read().decode()
        assert process.wait(20) == 130
        assert time.monotonic() - began < 2
    assert f"comfyrail jobs show {job_id} --server {lost_server.url}" in said
    assert "Traceback" not in said


def test_interrupt_during_the_imports_is_quiet(tmp_path: Path) -> None:
    slow_import = "import time; print('importing', flush=True); time.sleep(60)"
    (tmp_path / "typer.py").write_text(slow_import)
    with subprocess.Popen(
        [*COMFYRAIL, "jobs"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": str(tmp_path)},
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"importing\n"
        process.send_signal(signal.SIGINT)
        assert process.communicate(timeout=20) == (b"", b"")
    assert process.returncode == 130


def test_run_gives_up_on_a_server_that_stays_away_and_says_how_to_go_on(
    lost_server: Comfyrail, slow_workflow: Path
) -> None:
    impatient = (
        "import comfyrail.client.client as client; client.PATIENCE_SECONDS = 0.5;"
        "from comfyrail.cli.main import main; main()"
    )
    at = ["--server", lost_server.url, "-o", str(slow_workflow.parent / "out")]
    with subprocess.Popen(
        [sys.executable, "-c", impatient, "run", str(slow_workflow), *at],
        stderr=subprocess.PIPE,
        env={**os.environ, "COLUMNS": "200"},
    ) as process:
        job_id = wait_until(lambda: newest_running(lost_server)) or ""
        lost_server.kill()
        said = process.communicate(timeout=20)[1].decode()
    assert process.returncode == 3
    assert f"comfyrail jobs show {job_id} --server {lost_server.url}" in said
    assert "Traceback" not in said


def test_run_goes_on_when_its_server_comes_back(lost_server: Comfyrail, tmp_path: Path) -> None:
    path = tmp_path / "w.json"
    path.write_text(json.dumps(slow_picture(1.0, 0xC3)))
    with start(str(path), "--server", lost_server.url, "-o", str(tmp_path / "out")) as process:
        wait_until(lambda: newest_running(lost_server))
        lost_server.kill()
        lost_server.start()
        said = process.communicate(timeout=40)[1]
    assert process.returncode == 0, said
    assert len(list((tmp_path / "out").iterdir())) == 1
