"""What is said when a command finds no server, or is not let in."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from comfyrail.client import ComfyrailClient
from tests.cli.ports import free_port
from tests.processes import comfyrail, server

ROOT = Path(__file__).parents[2]
HINT = "export COMFYRAIL_API_KEY"


def test_where_no_server_answers_it_is_said_how_to_name_one() -> None:
    ended = comfyrail("jobs", "list", "--server", f"http://127.0.0.1:{free_port()}")
    assert ended.returncode == 3
    assert "comfyrail serve, or name yours with --server or COMFYRAIL_SERVER." in ended.stderr


def test_the_client_takes_the_server_of_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("COMFYRAIL_SERVER", raising=False)
    assert ComfyrailClient().server == "http://127.0.0.1:8080"
    monkeypatch.setenv("COMFYRAIL_SERVER", "http://127.0.0.1:9100/")
    assert ComfyrailClient().server == "http://127.0.0.1:9100"
    assert ComfyrailClient("http://127.0.0.1:9200").server == "http://127.0.0.1:9200"


def test_where_keys_come_from_is_said_only_where_none_or_an_unknown_one_was_sent(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = tmp_path / "data"
    with server(data, workers=0, COMFYRAIL_ACCESS="on") as process:
        monkeypatch.setenv("COMFYRAIL_SERVER", process.url)
        monkeypatch.delenv("COMFYRAIL_API_KEY", raising=False)
        assert HINT in comfyrail("jobs", "list").stderr
        monkeypatch.setenv("COMFYRAIL_API_KEY", f"crk_{'a' * 12}_{'b' * 43}")
        assert HINT in comfyrail("jobs", "list").stderr
        monkeypatch.setenv("COMFYRAIL_API_KEY", (data / "admin.key").read_text())
        assert comfyrail("users", "add", "ada").returncode == 0
        key = comfyrail("keys", "create", "--user", "ada").stdout.strip()
        assert comfyrail("keys", "revoke", key.split("_")[1]).returncode == 0
        monkeypatch.setenv("COMFYRAIL_API_KEY", key)
        revoked = comfyrail("jobs", "list")
        assert "revoked" in revoked.stderr
        assert HINT not in revoked.stderr


def test_the_demo_says_how_commands_find_a_server_on_another_port(tmp_path: Path) -> None:
    port = str(free_port())
    environment = {
        **os.environ,
        "COMFYRAIL_PORT": port,
        "COMFYRAIL_DATA": str(tmp_path / "data"),
        "COMFYRAIL_SHUTDOWN_SECONDS": "0",
    }
    with subprocess.Popen(
        [sys.executable, str(ROOT / "scripts" / "demo.py")],
        cwd=tmp_path,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    ) as demo:
        assert demo.stdout is not None
        wanted = f"export COMFYRAIL_SERVER=http://127.0.0.1:{port}"
        try:
            assert any(wanted in line for line in demo.stdout)
        finally:
            demo.send_signal(signal.SIGTERM)
