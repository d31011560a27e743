"""The commands as a user types them [15.4]."""

import json
import os
import pty
import re
import select
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest
from PIL import Image

from tests.graphs import picture, slow_picture
from tests.processes import COMFYRAIL, Comfyrail, comfyrail, server, wait_until, worker

EXAMPLES = sorted((Path(__file__).parents[2] / "workflows").iterdir())


@pytest.fixture
def workflow(tmp_path: Path) -> Path:
    path = tmp_path / "workflow.json"
    path.write_text(json.dumps(picture()))
    return path


def test_run_without_a_server_starts_a_private_one_and_leaves_nothing(
    workflow: Path, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    before = set(Path("/tmp").glob("comfyrail-run-*/comfyrail.db"))
    ended = comfyrail("run", str(workflow), "-o", str(out), "--set", "1.width=20")
    assert ended.returncode == 0, ended.stderr
    assert ended.stdout.strip() == str(out / "test_00001_.png")
    with Image.open(out / "test_00001_.png") as image:
        assert image.size == (20, 48)
        assert image.getpixel((0, 0)) == (0xCC, 0x99, 0x65)  # truncated, as ComfyUI does
    assert "100%" in ended.stderr
    assert set(Path("/tmp").glob("comfyrail-run-*/comfyrail.db")) <= before


def test_examples_run_and_look_like_their_preview(
    running_server: Comfyrail, tmp_path: Path
) -> None:
    for example in EXAMPLES:
        assert (example / "description.md").read_text().startswith("# ")
        with Image.open(example / "preview.png") as preview:
            preview.verify()
        out = tmp_path / example.name
        ended = comfyrail(
            "run", str(example / "workflow.json"), "--server", running_server.url, "-o", str(out)
        )
        assert ended.returncode == 0, ended.stderr
        assert list(out.iterdir())


def test_results_never_overwrite_what_is_there(running_server: Comfyrail, tmp_path: Path) -> None:
    path = tmp_path / "workflow.json"
    path.write_text(json.dumps(picture(77)))
    for _ in range(2):
        ended = comfyrail("run", str(path), "--server", running_server.url, "-o", str(tmp_path))
        assert ended.returncode == 0
    assert len(list(tmp_path.glob("*.png"))) == 2


@pytest.mark.parametrize(
    ("content", "arguments", "said"),
    [
        ("{nope", [], "is not JSON"),
        ("[1]", [], "must be a JSON object"),
        ("{}", [], "no nodes"),
        (json.dumps({"1": {"class_type": "Nope", "inputs": {}}}), [], "node type 'Nope'"),
        (json.dumps(picture()), ["--set", "width"], "--set takes NODE.INPUT=VALUE"),
        (json.dumps(picture()), ["--set", "1.widht=3"], "Did you mean 'width'"),
        (json.dumps(picture()), ["--priority", "11"], "--priority"),
    ],
)
def test_bad_input_is_explained_with_exit_code_2(
    running_server: Comfyrail, tmp_path: Path, content: str, arguments: list[str], said: str
) -> None:
    path = tmp_path / "w.json"
    path.write_text(content)
    ended = comfyrail(
        "run", str(path), "--server", running_server.url, "-o", str(tmp_path / "o"), *arguments
    )
    assert ended.returncode == 2
    assert said in re.sub(r"\s+", " ", ended.stderr), ended.stderr
    assert "Traceback" not in ended.stderr
    assert not (tmp_path / "o").exists()


def test_tables_cut_nothing_on_a_narrow_terminal(running_server: Comfyrail) -> None:
    job_id = running_server.submit(picture(55))
    running_server.wait_for(job_id, "completed")
    environment = {**os.environ, "COLUMNS": "40"}
    for command, shown in ((["jobs"], job_id), (["workers"], "http://127.0.0.1:")):
        ended = subprocess.run(
            [*COMFYRAIL, *command, "--server", running_server.url],
            capture_output=True,
            text=True,
            env=environment,
            check=True,
            timeout=60,
        )
        assert shown in ended.stdout
        assert "…" not in ended.stdout


def test_every_fault_of_a_workflow_is_printed(running_server: Comfyrail, tmp_path: Path) -> None:
    graph = picture()
    graph["1"]["inputs"].update(width=0, height="x")
    path = tmp_path / "w.json"
    path.write_text(json.dumps(graph))
    ended = comfyrail("run", str(path), "--server", running_server.url)
    assert ended.returncode == 2
    assert "'width': 0 is smaller" in ended.stderr
    assert "'height': expected INT" in ended.stderr


def test_missing_file_is_explained(tmp_path: Path) -> None:
    ended = comfyrail("run", str(tmp_path / "nothing.json"))
    assert ended.returncode == 2
    assert "cannot be read" in ended.stderr


def test_server_that_does_not_answer_is_explained(workflow: Path) -> None:
    nobody = "http://127.0.0.1:1"
    for command in (
        ["run", str(workflow), "--server", nobody],
        ["jobs", "--server", nobody],
        ["workers", "--server", nobody],
    ):
        ended = comfyrail(*command, cwd=workflow.parent)
        assert ended.returncode == 3
        assert "comfyrail serve" in ended.stderr


def test_job_that_fails_gives_exit_code_1_and_the_reason(
    running_server: Comfyrail, tmp_path: Path
) -> None:
    path = tmp_path / "w.json"
    path.write_text(json.dumps(slow_picture(60)))
    ended = comfyrail(
        "run", str(path), "--server", running_server.url, "-o", str(tmp_path), "--timeout", "0.5"
    )
    assert ended.returncode == 1
    assert "longer than its timeout of 0.5 s" in re.sub(r"\s+", " ", ended.stderr)


def test_interrupted_run_cancels_its_job(running_server: Comfyrail, tmp_path: Path) -> None:
    path = tmp_path / "w.json"
    path.write_text(json.dumps(slow_picture(60)))
    command = [*COMFYRAIL, "run", str(path), "--server", running_server.url, "-o", str(tmp_path)]
    with subprocess.Popen(command, stderr=subprocess.PIPE) as process:
        job_id = wait_until(lambda: newest_in(running_server, "processing")) or ""
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=20)
        assert process.returncode == 130
    running_server.wait_for(job_id, "cancelled", limit=20)


def newest_in(process: Comfyrail, status: str) -> str | None:
    found = process.call("GET", f"/v1/workflows/executions?status={status}")[1]["executions"]
    return found[0]["execution_id"] if found else None


def test_progress_bar_moves_on_a_terminal(running_server: Comfyrail, tmp_path: Path) -> None:
    path = tmp_path / "w.json"
    path.write_text(json.dumps(slow_picture(1.0)))
    screen = on_terminal(
        ["run", str(path), "--server", running_server.url, "-o", str(tmp_path / "o")]
    )
    shares = [int(share) for share in re.findall(r"(\d+)%", screen)]
    assert len(set(shares)) >= 4, shares
    assert shares[-1] == 100
    assert "Delay" in screen


def on_terminal(arguments: list[str]) -> str:
    """Run a command on a pseudo terminal; everything that it showed."""
    pid, terminal = pty.fork()
    if pid == 0:
        os.environ.update(TERM="xterm", COLUMNS="100")
        os.execv(COMFYRAIL[0], [*COMFYRAIL, *arguments])
    shown = b""
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        if select.select([terminal], [], [], 1)[0]:
            try:
                part = os.read(terminal, 65536)
            except OSError:
                break
            if not part:
                break
            shown += part
    os.close(terminal)
    assert os.waitpid(pid, 0)[1] == 0, shown.decode(errors="replace")
    return shown.decode(errors="replace")


def test_jobs_are_listed_shown_and_cancelled(running_server: Comfyrail) -> None:
    job_id = running_server.submit(slow_picture(60))
    running_server.wait_for(job_id, "processing")
    at = ["--server", running_server.url]
    assert job_id in comfyrail("jobs", *at, "--status", "processing").stdout
    shown = comfyrail("jobs", *at, "show", job_id)
    assert "processing" in shown.stdout
    assert comfyrail("jobs", *at, "cancel", job_id).returncode == 0
    running_server.wait_for(job_id, "cancelled", limit=20)
    assert job_id in comfyrail("jobs", "list", *at, "--limit", "500").stdout
    unknown = comfyrail("jobs", "show", "nobody", *at)
    assert unknown.returncode == 2
    assert "no execution nobody" in unknown.stderr


def test_workers_are_added_listed_and_removed(tmp_path: Path) -> None:
    with server(tmp_path / "data", workers=0) as process, worker(tmp_path / "w") as remote:
        at = ["--server", process.url]
        added = comfyrail("workers", "add", remote.url, *at)
        assert (added.returncode, "static-1" in added.stdout) == (0, True)
        process.wait_ready()
        listed = comfyrail("workers", *at, "list")
        assert "idle" in listed.stdout
        refused = comfyrail("workers", *at, "add", "http://127.0.0.1:1")
        assert refused.returncode == 2
        assert "does not answer" in refused.stderr
        assert comfyrail("workers", *at, "remove", "static-1").returncode == 0


def test_port_in_use_is_explained_and_leaves_no_data_folder(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        for command in ("serve", "worker"):
            ended = comfyrail(command, "--port", port, "--data", str(tmp_path / "new"))
            assert ended.returncode == 3
            assert f"Port {port} on 127.0.0.1 is in use" in re.sub(r"\s+", " ", ended.stderr)
            assert "Traceback" not in ended.stderr
            assert not (tmp_path / "new").exists()


def test_unwritable_data_folder_is_explained(tmp_path: Path) -> None:
    file = tmp_path / "a file"
    file.touch()
    for command in ("serve", "worker"):
        ended = comfyrail(command, "--port", "0", "--data", str(file / "data"))
        assert ended.returncode == 3
        assert "data folder" in ended.stderr
        assert "Traceback" not in ended.stderr


def test_second_server_on_the_same_folder_is_refused(running_server: Comfyrail) -> None:
    ended = comfyrail("serve", "--port", "0", "--data", str(running_server.data))
    assert ended.returncode == 3
    said = re.sub(r"\s+", " ", ended.stderr)
    assert f"in use by another Comfyrail server (process {running_server.process.pid})" in said


def test_server_without_access_control_stays_on_loopback(tmp_path: Path) -> None:
    ended = comfyrail("serve", "--host", "0.0.0.0", "--data", str(tmp_path / "data"))
    assert ended.returncode == 3
    assert "--access on" in re.sub(r"\s+", " ", ended.stderr)


def test_wrong_setting_in_the_environment_is_named(tmp_path: Path) -> None:
    environment = {**os.environ, "COMFYRAIL_LEASE_SECONDS": "soon"}
    ended = subprocess.run(
        [*COMFYRAIL, "serve", "--data", str(tmp_path)],
        capture_output=True,
        text=True,
        env=environment,
        check=False,
        timeout=60,
    )
    assert ended.returncode == 3
    assert "lease_seconds" in ended.stderr


def test_doctor_finds_nothing_wrong_here_and_sees_the_server(
    running_server: Comfyrail, tmp_path: Path
) -> None:
    ended = comfyrail("doctor", "--data", str(tmp_path), "--server", running_server.url)
    assert ended.returncode == 0, ended.stdout
    assert "Worker local-1: idle" in ended.stdout
    assert "BAD" not in ended.stdout


def test_doctor_says_what_is_wrong(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.touch()
    nobody = "http://127.0.0.1:1"
    ended = comfyrail("doctor", "--data", str(file / "data"), "--server", nobody)
    assert ended.returncode == 1
    assert "BAD" in ended.stdout
    assert f"none answers at {nobody}" in ended.stdout


def test_server_stops_in_order_on_sigterm_with_a_stream_open(tmp_path: Path) -> None:
    with server(tmp_path / "data") as process:
        process.wait_ready()
        job_id = process.submit(slow_picture(60))
        process.wait_for(job_id, "processing")
        with socket.create_connection(("127.0.0.1", int(process.url.rpartition(":")[2]))) as line:
            path = f"/v1/workflows/execution/{job_id}/events"
            line.sendall(f"GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
            assert line.recv(100).startswith(b"HTTP/1.1 200")
            began = time.monotonic()
            process.stop()
            assert time.monotonic() - began < 10
        assert "Traceback" not in process.log


def test_doctor_tells_a_stranger_from_nobody(tmp_path: Path) -> None:
    with subprocess.Popen(
        [sys.executable, "-u", "-m", "http.server", "0", "--bind", "127.0.0.1"],
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    ) as stranger:
        assert stranger.stdout is not None
        port = re.findall(r"port (\d+)", stranger.stdout.readline())[0]
        ended = comfyrail("doctor", "--data", str(tmp_path), "--server", f"http://127.0.0.1:{port}")
        stranger.terminate()
    assert ended.returncode == 1
    assert "does not answer like a Comfyrail server" in ended.stdout
