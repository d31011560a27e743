"""Run `comfyrail worker --comfyui` on the installed ComfyUI's nodes."""

from __future__ import annotations

import json
import subprocess
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self
from urllib.request import Request, urlopen

from .comfyrail_python import comfyrail_peer_python
from .install import prepare_base_directory

if TYPE_CHECKING:
    from collections.abc import Sequence
    from types import TracebackType

    from .install import Peer

TERMINATION_LIMIT_SECONDS = 15.0
LOG_TAIL_CHARACTERS = 6000


class ComfyrailWorker:
    """A worker process with its own base directory, or with another one's.

    As a context manager it is ready on entry, and has ended on exit. Custom nodes can be put into
    the base directory before that.
    """

    def __init__(
        self,
        peer: Peer,
        *,
        base_directory: Path | None = None,
        extra_arguments: Sequence[str] = (),
    ) -> None:
        """Choose the folders; nothing is started."""
        self._peer = peer
        self._folder = tempfile.TemporaryDirectory(
            prefix="comfyrail-worker-", ignore_cleanup_errors=True
        )
        self.base_directory = base_directory or Path(self._folder.name) / "base"
        self.log_path = Path(self._folder.name) / "worker.log"
        prepare_base_directory(self.base_directory)
        self._arguments = extra_arguments
        self.url = ""

    def __enter__(self) -> Self:
        """Start the worker and wait until it says where it listens."""
        flags = ["--cpu", "--disable-api-nodes", "--base-directory", str(self.base_directory)]
        flags += ["--temp-directory", self._folder.name]
        own = ["--comfyui", str(self._peer.checkout), "--port", "0", "--announce"]
        python = str(comfyrail_peer_python(self._peer))
        with self.log_path.open("ab") as log:
            self.process = subprocess.Popen(
                [python, "-m", "comfyrail", "worker", *own, *flags, *self._arguments],
                cwd=self._folder.name,
                env=self._peer.environment(),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=log,
            )
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        try:
            self.url = json.loads(line)["url"]
        except ValueError:
            said = line.decode(errors="replace") + self.log()
            self.__exit__(None, None, None)
            raise AssertionError(f"the worker did not start: {said}") from None
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """End the process; its folders are gone after that."""
        self.process.terminate()
        try:
            self.process.wait(TERMINATION_LIMIT_SECONDS)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        if self.process.stdout is not None:
            self.process.stdout.close()
        self._folder.cleanup()

    def log(self) -> str:
        """Return the end of what it wrote to standard error."""
        text = self.log_path.read_text(encoding="utf-8", errors="replace")
        return text[-LOG_TAIL_CHARACTERS:]


def fetch_json(url: str, body: Any = None) -> Any:
    """Return the JSON that a GET gives, or a POST of this body."""
    data = None if body is None else json.dumps(body).encode()
    with urlopen(Request(url, data), timeout=60) as reply:
        return json.loads(reply.read())
