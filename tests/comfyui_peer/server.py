"""Run the installed ComfyUI as a server on the loopback interface."""

from __future__ import annotations

import http.client
import signal
import socket
import subprocess
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Literal, Self

from .install import prepare_base_directory

if TYPE_CHECKING:
    from collections.abc import Sequence
    from types import TracebackType

    from .install import Peer

PreviewMethod = Literal["none", "auto", "latent2rgb", "taesd"]

HOST = "127.0.0.1"
POLL_SECONDS = 0.05
ANSWER_LIMIT_SECONDS = 5.0
TERMINATION_LIMIT_SECONDS = 5.0
LOG_TAIL_LINES = 40


class ComfyUIStartError(Exception):
    """ComfyUI did not come up; the message ends with the tail of its log."""

    def __init__(self, reason: str, log_tail: str) -> None:
        """Keep the reason and the last lines that ComfyUI printed."""
        self.reason = reason
        self.log_tail = log_tail
        super().__init__(f"{reason}; its log ends with:\n{log_tail}")


class ComfyUIServer:
    """A ComfyUI process of its own, with its own base directory and loopback port.

    As a context manager it is ready on entry; on exit the process has ended, and the base
    directory and the log are gone. The base directory exists from construction on, so that custom
    nodes, models and inputs can be put there before the start. ``stop`` and ``start`` may be
    called in turn: the port, the base directory and the log stay the same.
    """

    def __init__(
        self,
        peer: Peer,
        *,
        extra_arguments: Sequence[str] = (),
        with_test_nodes: bool = False,
        preview_method: PreviewMethod | None = None,
        start_limit_seconds: float = 120.0,
    ) -> None:
        """Reserve a port and a base directory; nothing is started.

        ``with_test_nodes`` adds the nodes of ComfyUI's own execution tests (lazy inputs, loops,
        asynchronous nodes, blockers, sleeps). ``extra_arguments`` go to ComfyUI as they are.
        """
        self._peer = peer
        self._start_limit_seconds = start_limit_seconds
        self._folder = tempfile.TemporaryDirectory(
            prefix="comfyui-server-", ignore_cleanup_errors=True
        )
        self.base_directory = Path(self._folder.name) / "base"
        self.log_path = Path(self._folder.name) / "comfyui.log"
        prepare_base_directory(self.base_directory)
        self._reservation = _reserve_port()
        self.port: int = self._reservation.getsockname()[1]
        self.url = f"http://{HOST}:{self.port}"
        self._arguments = ["--listen", HOST, "--port", str(self.port), *extra_arguments]
        if preview_method is not None:
            self._arguments += ["--preview-method", preview_method]
        if with_test_nodes:
            paths = peer.checkout / "tests" / "execution" / "extra_model_paths.yaml"
            self._arguments += ["--extra-model-paths-config", str(paths)]
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def process(self) -> subprocess.Popen[bytes]:
        """The process started last; it may have ended since. Before any start: RuntimeError."""
        if self._process is None:
            raise RuntimeError("ComfyUI was not started")
        return self._process

    def start(self) -> None:
        """Start ComfyUI and return once it answers; the caller sees to it that none is running.

        Raises ``ComfyUIStartError``, with no process left behind, as soon as the process ends or
        when it does not answer within ``start_limit_seconds``.
        """
        with self.log_path.open("ab") as log:
            self._process = subprocess.Popen(
                [*self._peer.command(self.base_directory), *self._arguments],
                cwd=self._peer.checkout,
                env=self._peer.environment(),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
            )
        try:
            self._wait_until_ready(self._process)
        except BaseException:
            self.stop()
            raise

    def stop(self) -> None:
        """End the process started last, and no other; nothing happens if it has ended already."""
        process = self._process
        if process is None or process.poll() is not None:
            return
        process.terminate()
        # A test may have suspended it, and a suspended process does not see the termination.
        process.send_signal(signal.SIGCONT)
        try:
            process.wait(TERMINATION_LIMIT_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()

    def close(self) -> None:
        """Stop, remove the base directory and the log, and give the port back."""
        self.stop()
        self._reservation.close()
        self._folder.cleanup()

    def log_tail(self) -> str:
        """Return the last lines that ComfyUI printed."""
        lines = self.log_path.read_text(encoding="utf-8", errors="replace").splitlines()
        return "\n".join(lines[-LOG_TAIL_LINES:])

    def __enter__(self) -> Self:
        """Start ComfyUI; when that fails, nothing is left behind."""
        try:
            self.start()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(
        self,
        exception_type: type[BaseException] | None,
        exception: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Close, whatever happened inside."""
        self.close()

    def _wait_until_ready(self, process: subprocess.Popen[bytes]) -> None:
        deadline = time.monotonic() + self._start_limit_seconds
        while not self._answers():
            status = process.poll()
            if status is not None:
                raise ComfyUIStartError(f"ComfyUI ended with status {status}", self.log_tail())
            if time.monotonic() > deadline:
                limit = f"{self._start_limit_seconds:.0f} s"
                raise ComfyUIStartError(f"ComfyUI did not answer in {limit}", self.log_tail())
            time.sleep(POLL_SECONDS)

    def _answers(self) -> bool:
        connection = http.client.HTTPConnection(HOST, self.port, timeout=ANSWER_LIMIT_SECONDS)
        try:
            connection.request("GET", "/system_stats")
            return connection.getresponse().status == http.client.OK
        except (OSError, http.client.HTTPException):
            return False
        finally:
            connection.close()


def _reserve_port() -> socket.socket:
    """Return a socket that keeps a free port from being handed out to anyone else.

    It never listens. ComfyUI can still listen on that port, because both sockets set
    SO_REUSEADDR; so no other program gets in between the choice of the port and its use, nor
    between a stop and the next start.
    """
    reservation = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    reservation.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    reservation.bind((HOST, 0))
    return reservation
