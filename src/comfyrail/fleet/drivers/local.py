"""Driver `local`: engine workers as child processes of this server. The default."""

import asyncio
import contextlib
import json
import sys
from asyncio.subprocess import PIPE, Process
from pathlib import Path
from typing import IO

from comfyrail.errors import WorkerUnreachable

START_LIMIT_SECONDS = 30.0
STOP_LIMIT_SECONDS = 5.0
KEPT_OUTPUTS = 1000
LOG_TAIL_BYTES = 2000
LOG_LIMIT_BYTES = 1 << 20


class LocalHost:
    """One `comfyrail worker` process. It ends with this one: it holds the other end of a pipe."""

    driver = "local"

    def __init__(
        self,
        folder: Path,
        input_folder: Path,
        cache_folder: Path | None = None,
        engine_config: Path | None = None,
    ) -> None:
        self._folder = folder
        self._input_folder = input_folder
        self._cache_folder = cache_folder
        self._engine_config = engine_config
        self._log_path = folder / "worker.log"
        self._process: Process | None = None
        self._drain: asyncio.Task[None] | None = None

    async def start(self) -> str:
        await self.stop()
        self._process = await self._spawn()
        try:
            async with asyncio.timeout(START_LIMIT_SECONDS):
                url = await self._read_url(self._process)
        except TimeoutError as error:
            await self.stop()
            raise WorkerUnreachable(
                f"A local worker did not start in {START_LIMIT_SECONDS:g} s: {self._log_tail()}"
            ) from error
        self._drain = asyncio.create_task(_drain(self._process), name="worker-stdout")
        return url

    async def wait_ended(self) -> str:
        process = self._process
        if process is None:
            return "the worker's process was stopped"
        code = await process.wait()
        ending = f"signal {-code}" if code < 0 else f"exit code {code}"
        return f"the worker's process ended ({ending})"

    async def stop(self) -> None:
        process, self._process = self._process, None
        if process is None:
            return
        if process.stdin is not None:
            process.stdin.close()
        with contextlib.suppress(ProcessLookupError):
            process.terminate()
        try:
            async with asyncio.timeout(STOP_LIMIT_SECONDS):
                await process.wait()
        except TimeoutError:
            process.kill()
            await process.wait()
        if self._drain is not None:
            await self._drain

    async def _spawn(self) -> Process:
        command = [sys.executable, "-m", "comfyrail", "worker", "--port", "0"]
        command += ["--data", str(self._folder), "--input", str(self._input_folder)]
        command += ["--announce", "--exit-with-parent", "--keep-outputs", str(KEPT_OUTPUTS)]
        # Several on one machine cannot have the usual port: the log says which one it is.
        command += ["--metrics-port", "0"]
        if self._cache_folder is not None:
            command += ["--cache", str(self._cache_folder)]
        if self._engine_config is not None:
            command += ["--config", str(self._engine_config)]
        await asyncio.to_thread(self._folder.mkdir, parents=True, exist_ok=True)
        with await asyncio.to_thread(self._open_log) as log_file:
            # In a session of its own: Ctrl-C goes to the server, which then ends its workers.
            return await asyncio.create_subprocess_exec(
                *command, stdin=PIPE, stdout=PIPE, stderr=log_file, start_new_session=True
            )

    async def _read_url(self, process: Process) -> str:
        assert process.stdout is not None  # noqa: S101 - it was asked for above
        line = await process.stdout.readline()
        try:
            return str(json.loads(line)["url"])
        except (ValueError, KeyError, TypeError) as error:
            await process.wait()
            raise WorkerUnreachable(f"A local worker did not start: {self._log_tail()}") from error

    def _open_log(self) -> IO[bytes]:
        """Go on in the log of the last life, which may say why it ended, unless it is long."""
        is_long = self._log_path.exists() and self._log_path.stat().st_size > LOG_LIMIT_BYTES
        return self._log_path.open("wb" if is_long else "ab")

    def _log_tail(self) -> str:
        try:
            content = self._log_path.read_bytes()
        except OSError:
            content = b""
        text = content[-LOG_TAIL_BYTES:].decode(errors="replace").strip()
        return text or f"it said nothing (log: {self._log_path})"


async def _drain(process: Process) -> None:
    """Keep the worker's standard output flowing, whatever its nodes print."""
    while process.stdout is not None and await process.stdout.read(1 << 16):
        continue
