"""Processes of `comfyrail` that can be killed, stopped, paused and started again."""

import asyncio
import contextlib
import json
import os
import signal
import socket
import sys
from asyncio.subprocess import PIPE, Process
from collections.abc import Mapping, Sequence
from pathlib import Path

from comfyrail.errors import ConfigurationError

COMFYRAIL = (sys.executable, "-m", "comfyrail")
START_LIMIT_SECONDS = 60.0
STOP_LIMIT_SECONDS = 60.0
END_LIMIT_SECONDS = 30.0
TAIL_CHARACTERS = 500


class DidNotStart(ConfigurationError):
    """A process ended, or said nothing, before it listened."""


class Program:
    """One `comfyrail serve` or `comfyrail worker`, and those that come after it.

    `busy` is held by whoever is doing something to the process: faults pass over a busy one, and
    nobody else brings it back meanwhile.
    """

    def __init__(
        self, name: str, command: Sequence[str], log: Path, environment: Mapping[str, str]
    ) -> None:
        self.name = name
        self.log = log
        self.url = ""
        self.busy = asyncio.Lock()
        self._command = (*command, "--announce", "--exit-with-parent")
        self._environment = _clean_environment() | dict(environment)
        self._process: Process | None = None
        self._copying: asyncio.Task[None] | None = None

    @property
    def pid(self) -> int:
        if self._process is None:
            raise RuntimeError(f"{self.name} was never started")
        return self._process.pid

    @property
    def exit_code(self) -> int | None:
        """None while it runs."""
        return None if self._process is None else self._process.returncode

    async def start(self) -> None:
        """Start it and wait until it listens. Raises DidNotStart."""
        # A group of its own in our session: Ctrl-C is for us alone, and should we be killed the
        # system wakes and ends even a process that was paused.
        process = await asyncio.create_subprocess_exec(
            *self._command,
            stdin=PIPE,
            stdout=PIPE,
            stderr=PIPE,
            env=self._environment,
            process_group=0,
        )
        self._process = process
        self._copying = asyncio.create_task(_copy(process, self.log), name=f"log-{self.name}")
        try:
            self.url = await self._announced(process)
        except BaseException:
            await self.kill()
            raise

    async def kill(self) -> None:
        """SIGKILL, nothing less; returns when it is gone."""
        self.signal(signal.SIGKILL)
        await self._gone(END_LIMIT_SECONDS)

    async def stop(self, limit: float = STOP_LIMIT_SECONDS) -> bool:
        """SIGTERM; False where it did not end in time and was killed."""
        self.signal(signal.SIGTERM)
        try:
            await self._gone(limit)
        except TimeoutError:
            await self.kill()
            return False
        return True

    def signal(self, number: signal.Signals) -> None:
        if self._process is not None and self._process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                self._process.send_signal(number)

    async def _announced(self, process: Process) -> str:
        if process.stdout is None:
            raise RuntimeError("the process has no standard output")
        try:
            async with asyncio.timeout(START_LIMIT_SECONDS):
                line = await process.stdout.readline()
        except TimeoutError as error:
            raise self._did_not_start(f"in {START_LIMIT_SECONDS:g} s") from error
        if not line:
            raise self._did_not_start("before it ended")
        return str(json.loads(line)["url"])

    def _did_not_start(self, when: str) -> DidNotStart:
        said = self.log.read_text(errors="replace")[-TAIL_CHARACTERS:] if self.log.exists() else ""
        return DidNotStart(f"{self.name} did not listen {when}. It said last: {said.strip()}")

    async def _gone(self, limit: float) -> None:
        if self._process is None:
            return
        async with asyncio.timeout(limit):
            await self._process.wait()
        if self._process.stdin is not None:
            self._process.stdin.close()
        if self._copying is not None:
            # What it said last: children that outlive it for a moment hold the other end.
            await asyncio.wait({self._copying}, timeout=1.0)
            self._copying.cancel()
            await asyncio.wait({self._copying})
            self._copying = None


def free_port() -> int:
    """A port that nobody listens on now; whoever takes it must allow its reuse."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def children_of(pid: int) -> list[int]:
    """The processes that this one has started and that have not ended."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with contextlib.suppress(OSError):
                state, parent = (entry / "stat").read_text().rpartition(")")[2].split()[:2]
                if int(parent) == pid and state != "Z":
                    found.append(int(entry.name))
    return sorted(found)


def _clean_environment() -> dict[str, str]:
    """Ours without what would change how a server behaves."""
    return {name: text for name, text in os.environ.items() if not name.startswith("COMFYRAIL_")}


async def _copy(process: Process, log: Path) -> None:
    """Through us, and not straight into the file: a limit on the process's files spares its log."""
    if process.stderr is None:
        return
    with log.open("ab") as file:
        while content := await process.stderr.read(1 << 16):
            file.write(content)
            file.flush()
