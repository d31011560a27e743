"""Real server and worker processes for tests."""

import atexit
import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from functools import cache
from pathlib import Path
from types import TracebackType
from typing import Any, Self, TypeVar
from urllib.error import HTTPError, URLError
from urllib.request import Request, urlopen

from tests.ready_commands import ReadyCommands

Value = TypeVar("Value")

COMFYRAIL = [sys.executable, "-m", "comfyrail"]
PLAIN_OUTPUT = {"NO_COLOR": "1", "COLUMNS": "200"}
_ENVIRONMENT = dict(os.environ)
"""As it was before any test changed it."""


def wait_until(look: Callable[[], Value], limit: float = 20.0, pause: float = 0.02) -> Value:
    """The first true value that `look` gives; fails when there is none in time."""
    deadline = time.monotonic() + limit
    while True:
        value = look()
        if value:
            return value
        if time.monotonic() > deadline:
            raise AssertionError(f"nothing true came within {limit} s; last: {value!r}")
        time.sleep(pause)


class Comfyrail:
    """A `comfyrail serve` or `comfyrail worker` process that says where it listens."""

    def __init__(self, command: str, *arguments: str, data: Path, **environment: str) -> None:
        self._arguments = [command, "--data", str(data), "--announce", *arguments]
        self._environment = {**os.environ, **environment}
        self.data = data
        self.url = ""
        self._log_path = data.parent / f"{data.name}-{command}.log"

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.stop()

    def start(self) -> None:
        with self._log_path.open("ab") as log:
            self.process = subprocess.Popen(
                [*COMFYRAIL, *self._arguments],
                stdout=subprocess.PIPE,
                stderr=log,
                env=self._environment,
            )
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        assert line, f"it did not start: {self._log_path.read_text()[-3000:]}"
        self.url = json.loads(line)["url"]

    def kill(self) -> None:
        """kill -9, nothing less."""
        self.process.send_signal(signal.SIGKILL)
        self._reap()

    def stop(self) -> int:
        if self.process.poll() is None:
            self.process.terminate()
        try:
            return self._reap(timeout=15)
        except subprocess.TimeoutExpired:
            self.kill()
            raise

    def _reap(self, timeout: float | None = None) -> int:
        code = self.process.wait(timeout)
        if self.process.stdout is not None:
            self.process.stdout.close()
        return code

    @property
    def log(self) -> str:
        return self._log_path.read_text()

    # Talking to it

    def call(self, method: str, path: str, body: Any = None, **headers: str) -> tuple[int, Any]:
        """Status and JSON of a reply."""
        status, content, _ = self.fetch(method, path, body, **headers)
        return status, json.loads(content) if content else None

    def fetch(
        self, method: str, path: str, body: Any = None, **headers: str
    ) -> tuple[int, bytes, dict[str, str]]:
        sent = {name.replace("_", "-"): value for name, value in headers.items()}
        data = body if isinstance(body, bytes | None) else json.dumps(body).encode()
        if data is not None and "Content-Type" not in sent:
            sent["Content-Type"] = "application/json"
        request = Request(self.url + path, data, sent, method=method)
        try:
            with urlopen(request, timeout=30) as reply:
                return reply.status, reply.read(), dict(reply.headers)
        except HTTPError as error:
            with error:
                return error.code, error.read(), dict(error.headers)

    def wait_ready(self) -> Self:
        def look() -> bool:
            with contextlib.suppress(URLError, ConnectionError):
                return self.fetch("GET", "/ready")[0] == 200
            return False

        wait_until(look, limit=40)
        return self

    def submit(self, workflow: Any, **fields: Any) -> str:
        status, body = self.call("POST", "/v1/workflows/execute", {"workflow": workflow, **fields})
        assert status == 202, body
        return str(body["execution_id"])

    def execution(self, job_id: str) -> dict[str, Any]:
        status, body = self.call("GET", f"/v1/workflows/execution/{job_id}")
        assert status == 200, body
        assert isinstance(body, dict)
        return body

    def wait_for(self, job_id: str, *statuses: str, limit: float = 30) -> dict[str, Any]:
        wanted = statuses or ("completed", "failed", "cancelled")

        def look() -> dict[str, Any] | None:
            job = self.execution(job_id)
            assert job["status"] in wanted or not job["completed_at"], job
            return job if job["status"] in wanted else None

        found = wait_until(look, limit=limit)
        assert found is not None
        return found

    def end_all_jobs(self) -> None:
        """Cancel what has not ended, and wait: the next test must find no job but its own."""
        # One look at both: a job that goes from one to the other is in it.
        path = "/v1/workflows/executions?status=queued,processing&limit=500"
        open_jobs = [job["execution_id"] for job in self.call("GET", path)[1]["executions"]]
        for job_id in open_jobs:
            self.call("POST", f"/v1/workflows/execution/{job_id}/cancel")
        for job_id in open_jobs:
            self.wait_for(job_id, limit=40)

    def events(self, job_id: str, after: int | None = None) -> list[dict[str, Any]]:
        """Every event until the stream closes, over Server-Sent Events."""
        headers = {} if after is None else {"Last-Event-ID": str(after)}
        path = f"/v1/workflows/execution/{job_id}/events"
        request = Request(self.url + path, headers=headers)
        found = []
        with urlopen(request, timeout=60) as stream:
            for raw in stream:
                line = raw.decode().rstrip()
                if line.startswith("data: ") and line != "data: {}":
                    found.append(json.loads(line.removeprefix("data: ")))
        return found


def server(data: Path, *arguments: str, workers: int = 1, **environment: str) -> Comfyrail:
    """It gives running jobs no time when it is stopped, unless it is told to."""
    environment = {"COMFYRAIL_SHUTDOWN_SECONDS": "0", **environment}
    arguments = ("--port", "0", "--workers", str(workers), *arguments)
    return Comfyrail("serve", *arguments, data=data, **environment)


def worker(data: Path) -> Comfyrail:
    return Comfyrail("worker", "--port", "0", data=data)


def comfyrail(*arguments: str, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    """Run a command to its end."""
    environment = {**os.environ, **PLAIN_OUTPUT}
    ready = _ready_commands()
    if ready.suits(environment):
        return ready.run(arguments, cwd or Path.cwd(), environment, timeout=90)
    return subprocess.run(
        [*COMFYRAIL, *arguments],
        capture_output=True,
        text=True,
        timeout=90,
        cwd=cwd,
        env=environment,
        check=False,
    )


@cache
def _ready_commands() -> ReadyCommands:
    made = ReadyCommands({**_ENVIRONMENT, **PLAIN_OUTPUT})
    atexit.register(made.close)
    return made
