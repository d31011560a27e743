"""A program on this machine that says in one line that it is ready, and ends with this process.

It is in a session of its own: Ctrl-C goes to the server, which then ends its workers. Its pipes
are not asyncio's: with those nobody would see its end while a process that it has started holds
the other end of one.
"""

import asyncio
import contextlib
import os
import signal
from asyncio.subprocess import Process
from collections.abc import Mapping, Sequence
from typing import IO

LONGEST_LINE = 1 << 16


class WorkerProcess:
    """Made by `spawn_worker`."""

    def __init__(
        self, process: Process, keeps_alive: int, output: asyncio.ReadTransport, line: "_FirstLine"
    ) -> None:
        self.pid = process.pid
        self._process = process
        self._keeps_alive: int | None = keeps_alive
        self._output = output
        self._line = line
        self._ending = asyncio.create_task(self._watch(), name=f"worker-{self.pid}")

    async def first_line(self) -> bytes:
        """What it prints first; what it prints later goes nowhere. Empty when it printed none."""
        return await asyncio.shield(self._line.found)

    async def wait(self) -> int:
        """Its exit code, or less than 0 for a signal; what it has started has ended then too."""
        return await asyncio.shield(self._ending)

    async def end(self, grace: float) -> None:
        """Ask it to end, and kill it after so many seconds."""
        self._let_go()
        if not self._ending.done():
            with contextlib.suppress(ProcessLookupError):
                self._process.terminate()
        try:
            async with asyncio.timeout(grace):
                await self.wait()
        except TimeoutError:
            with contextlib.suppress(ProcessLookupError):
                self._process.kill()
            await self.wait()

    async def kill(self, limit: float) -> None:
        """End it at once, also one that is stopped. Raises TimeoutError when it has not ended after
        so many seconds: something in the kernel holds it.
        """
        with contextlib.suppress(ProcessLookupError):
            self._process.kill()
        async with asyncio.timeout(limit):
            await self.wait()

    async def _watch(self) -> int:
        code = await self._process.wait()
        _end_group(self.pid)
        self._let_go()
        self._output.close()
        return code

    def _let_go(self) -> None:
        """It ends when its standard input does."""
        if self._keeps_alive is not None:
            os.close(self._keeps_alive)
            self._keeps_alive = None


async def spawn_worker(
    command: Sequence[str], environment: Mapping[str, str], errors: IO[bytes]
) -> WorkerProcess:
    """Start it; `errors` is its standard error. Raises OSError."""
    loop = asyncio.get_running_loop()
    with contextlib.ExitStack() as theirs, contextlib.ExitStack() as ours:
        for_input, keeps_alive = os.pipe()
        theirs.callback(os.close, for_input)
        ours.callback(os.close, keeps_alive)
        printed, for_output = os.pipe()
        theirs.callback(os.close, for_output)
        file = ours.enter_context(os.fdopen(printed, "rb", buffering=0))
        line = _FirstLine(loop.create_future())
        process = await asyncio.create_subprocess_exec(
            *command,
            stdin=for_input,
            stdout=for_output,
            stderr=errors,
            env=environment,
            start_new_session=True,
        )
        try:
            output, _ = await loop.connect_read_pipe(lambda: line, file)
        except BaseException:  # whoever wanted it has gone: nobody else knows of it
            with contextlib.suppress(ProcessLookupError):
                process.kill()
            raise
        ours.pop_all()
        return WorkerProcess(process, keeps_alive, output, line)


class _FirstLine(asyncio.Protocol):
    """Everything is read, whatever nodes print: a full pipe would stop them."""

    def __init__(self, found: "asyncio.Future[bytes]") -> None:
        self.found = found
        self._read = bytearray()

    def data_received(self, data: bytes) -> None:
        if not self.found.done():
            self._read += data
            if b"\n" in data or len(self._read) > LONGEST_LINE:
                self._settle()

    def connection_lost(self, _: Exception | None) -> None:
        if not self.found.done():
            self._settle()

    def _settle(self) -> None:
        self.found.set_result(bytes(self._read).partition(b"\n")[0])


def _end_group(pid: int) -> None:
    """Kill what a process that has ended has left in its group, as far as there is anything."""
    with contextlib.suppress(ProcessLookupError):
        # A number that a living process has was given anew, which happens to none whose group
        # has members.
        os.kill(pid, 0)
        return
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(pid, signal.SIGKILL)
