"""Processes of the command line that have their imports behind them, which take most of a second.

Run as a program, this file imports the command line and then waits for orders on its standard
input. For each it forks: the child becomes `comfyrail ARGUMENTS` and ends as any program does.
Every command is a process of its own, with its own arguments, folder, environment and streams.
"""

import gc
import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Mapping, Sequence
from importlib import import_module
from pathlib import Path
from pkgutil import iter_modules
from typing import IO, TypedDict

IMPORTED_LATE = (
    "comfyrail.bootstrap.wiring",
    "comfyrail.engine.configuration",
    "typer._adapters",
    "typer.rich_utils",
)
"""What commands import when they run."""


class Order(TypedDict):
    arguments: Sequence[str]
    folder: str
    environment: dict[str, str]
    streams: Sequence[str]


class ReadyCommands:
    """Runs one command at a time, as `subprocess.run` would."""

    def __init__(self, environment: Mapping[str, str]) -> None:
        self._fixed = _fixed_part(environment)
        self._lock = threading.Lock()
        self._process = subprocess.Popen(
            # Without this folder among those that modules are looked for in.
            [sys.executable, "-P", __file__],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=environment,
        )

    def suits(self, environment: Mapping[str, str]) -> bool:
        """Whether nothing is different that Python and modules look at when they start."""
        return _fixed_part(environment) == self._fixed

    def run(
        self, arguments: Sequence[str], cwd: Path, environment: Mapping[str, str], timeout: float
    ) -> subprocess.CompletedProcess[str]:
        with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as errors, self._lock:
            order = Order(
                arguments=arguments,
                folder=str(cwd),
                environment=dict(environment),
                streams=[_path_of(out), _path_of(errors)],
            )
            pid = int(self._ask(json.dumps(order)))
            guard = threading.Timer(timeout, os.kill, (pid, signal.SIGKILL))
            guard.start()
            try:
                code = int(self._ask(""))
            finally:
                guard.cancel()
            assert code != -signal.SIGKILL, f"{arguments} did not end within {timeout} s"
            return subprocess.CompletedProcess(arguments, code, _text_of(out), _text_of(errors))

    def close(self) -> None:
        self._process.communicate()

    def _ask(self, line: str) -> str:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(f"{line}\n")
        self._process.stdin.flush()
        reply = self._process.stdout.readline()
        assert reply, "the process that makes commands has ended"
        return reply


def _fixed_part(environment: Mapping[str, str]) -> Mapping[str, str]:
    """Without what is read when a command runs, and what pytest changes all the time."""
    return {
        name: value
        for name, value in environment.items()
        if not name.startswith(("COMFYRAIL_", "PYTEST_"))
    }


def _path_of(file: IO[bytes]) -> str:
    return f"/proc/{os.getpid()}/fd/{file.fileno()}"


def _text_of(file: IO[bytes]) -> str:
    file.seek(0)
    return file.read().decode().replace("\r\n", "\n")


def _wait_for_orders() -> None:
    """Returns in a child that is to be the command; ends with the input."""
    while line := sys.stdin.readline():
        order = json.loads(line)
        pid = os.fork()
        if pid == 0:
            _become(order)
            return
        print(pid, flush=True)
        sys.stdin.readline()
        print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), flush=True)
    sys.exit()


def _become(order: Order) -> None:
    for number, path in enumerate((os.devnull, *order["streams"])):
        opened = os.open(path, os.O_RDWR)
        os.dup2(opened, number)
        os.close(opened)
    sys.stdin = open(0, closefd=False)  # noqa: SIM115 - what was read ahead is not for it
    os.chdir(order["folder"])
    os.environ.clear()
    os.environ.update(order["environment"])
    sys.argv = ["comfyrail", *order["arguments"]]


if __name__ == "__main__":
    import comfyrail.cli
    from comfyrail.cli.main import main

    modules = [f"comfyrail.cli.{each.name}" for each in iter_modules(comfyrail.cli.__path__)]
    for name in (*modules, *IMPORTED_LATE):
        import_module(name)
    gc.freeze()  # so that the children do not go through, and copy, all that was imported
    _wait_for_orders()
    main()
