import json
import os
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from comfyrail.clock import Instant
from comfyrail.engine.folders import Folders
from comfyrail.engine.retention import OutputRetention
from comfyrail.engine.server.run import WorkerSettings, prepare_folders, run_worker
from comfyrail.errors import ConfigurationError
from comfyrail.process import listen

LIMIT_SECONDS = 10.0
SCRIPT = (
    "import sys; from pathlib import Path; "
    "from comfyrail.engine.server import WorkerSettings, run_worker; "
    "run_worker(WorkerSettings(Path(sys.argv[1]), port=0, announce=True, exit_with_parent=True))"
)


@pytest.fixture
def process(tmp_path: Path) -> Iterator[subprocess.Popen[bytes]]:
    started = subprocess.Popen(
        [sys.executable, "-c", SCRIPT, str(tmp_path / "data")],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    yield started
    if started.poll() is None:
        started.kill()
    for pipe in (started.stdin, started.stdout):
        if pipe is not None:
            pipe.close()
    started.wait(LIMIT_SECONDS)


def announced(process: subprocess.Popen[bytes]) -> dict[str, Any]:
    assert process.stdout is not None
    line: dict[str, Any] = json.loads(process.stdout.readline())
    return line


def post(url: str, path: str, body: Any) -> Any:
    request = urllib.request.Request(url + path, json.dumps(body).encode())
    with urllib.request.urlopen(request, timeout=LIMIT_SECONDS) as reply:
        return reply.read()


def test_a_worker_announces_itself_serves_and_ends_at_sigterm(
    process: subprocess.Popen[bytes],
) -> None:
    line = announced(process)
    assert line["event"] == "listening"
    assert line["url"].startswith("http://127.0.0.1:")
    with urllib.request.urlopen(line["url"] + "/system_stats", timeout=LIMIT_SECONDS) as reply:
        assert reply.status == 200
    process.send_signal(signal.SIGTERM)
    assert process.wait(LIMIT_SECONDS) == 0
    assert process.stdout is not None
    assert process.stdout.read() == b""


def test_a_worker_ends_with_the_one_that_started_it(process: subprocess.Popen[bytes]) -> None:
    announced(process)
    assert process.stdin is not None
    process.stdin.close()
    assert process.wait(LIMIT_SECONDS) == 0


def test_a_worker_ends_though_a_prompt_is_running(process: subprocess.Popen[bytes]) -> None:
    url = announced(process)["url"]
    image = {"width": 8, "height": 8, "batch_size": 1, "color": 0}
    prompt = {
        "1": {"class_type": "EmptyImage", "inputs": image},
        "2": {"class_type": "Delay", "inputs": {"value": ["1", 0], "seconds": 600}},
        "3": {"class_type": "PreviewImage", "inputs": {"images": ["2", 0]}},
    }
    post(url, "/prompt", {"prompt": prompt})
    process.send_signal(signal.SIGINT)
    started = time.monotonic()
    assert process.wait(LIMIT_SECONDS) == 0
    assert time.monotonic() - started < 3


def test_a_port_in_use_is_named_with_what_to_do(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(ConfigurationError, match=f"Port {port} .* choose another"):
            run_worker(WorkerSettings(tmp_path, port=port))


def test_a_port_that_is_none_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="99999"):
        listen("127.0.0.1", 99999)


def test_a_data_folder_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(ConfigurationError, match=r"data folder .* cannot be written"):
        run_worker(WorkerSettings(tmp_path / "file", port=0))


def test_the_temp_folder_is_emptied_at_the_start_and_the_others_are_not(tmp_path: Path) -> None:
    folders = prepare_folders(tmp_path)
    for folder in (folders.input, folders.output, folders.temp):
        (folder / "x").write_bytes(b"")
    prepare_folders(tmp_path)
    assert (folders.input / "x").exists()
    assert (folders.output / "x").exists()
    assert not (folders.temp / "x").exists()


def test_inputs_may_be_elsewhere(tmp_path: Path) -> None:
    folders = prepare_folders(tmp_path / "data", tmp_path / "inputs")
    assert folders.input == tmp_path / "inputs"
    assert folders.input.is_dir()


class SetClock:
    """A clock that stands until it is set."""

    seconds = 0.0

    def now(self) -> Instant:
        return Instant(round(self.seconds * 1000))

    def monotonic(self) -> float:
        return self.seconds


def shown(name: str, kind: str = "output") -> dict[str, Any]:
    return {"images": [{"filename": name, "subfolder": "", "type": kind}]}


def test_only_the_newest_files_are_kept(folders: Folders) -> None:
    clock = SetClock()
    for number in range(3):
        path = folders.output / f"old{number}.png"
        path.write_bytes(b"")
        os.utime(path, (number, number))
    retention = OutputRetention(folders, keep=2, clock=clock)
    clock.seconds = 1000
    (folders.temp / "new.png").write_bytes(b"")
    retention.note(shown("new.png", "temp"))
    retention.enforce()
    assert [path.name for path in folders.output.iterdir()] == ["old2.png"]
    assert (folders.temp / "new.png").exists()


def test_files_of_the_last_minute_are_spared(folders: Folders) -> None:
    clock = SetClock()
    clock.seconds = 1000
    retention = OutputRetention(folders, keep=1, clock=clock)
    for number in range(4):
        (folders.output / f"{number}.png").write_bytes(b"")
        retention.note(shown(f"{number}.png"))
    retention.enforce()
    assert len(list(folders.output.iterdir())) == 4
    clock.seconds += 61
    retention.note(shown("0.png"))
    retention.enforce()
    assert [path.name for path in folders.output.iterdir()] == ["0.png"]
