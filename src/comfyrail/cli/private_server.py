"""A server for one run: its own folder, a free port, gone when the run is over."""

import asyncio
import contextlib
import json
import os
import sys
import tempfile
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncIterator
from pathlib import Path

from comfyrail.client import ComfyrailClient
from comfyrail.errors import ConfigurationError

START_LIMIT_SECONDS = 30.0
STOP_LIMIT_SECONDS = 10.0
READY_POLL_SECONDS = 0.05


@contextlib.asynccontextmanager
async def private_server(workers: int = 1) -> AsyncIterator[str]:
    """Start a server and wait until it can run a job; its URL."""
    # A worker that was killed with its server may still write as the folder goes.
    with tempfile.TemporaryDirectory(prefix="comfyrail-run-", ignore_cleanup_errors=True) as folder:
        log_path = Path(folder) / "server.log"
        with log_path.open("wb") as log_file:
            # fmt: off
            process = await asyncio.create_subprocess_exec(
                sys.executable, "-m", "comfyrail", "serve", "--port", "0", "--data", folder,
                "--workers", str(workers), "--announce", "--exit-with-parent",
                stdin=PIPE, stdout=PIPE, stderr=log_file, start_new_session=True,
                env=_environment(),
            )
            # fmt: on
        try:
            yield await _wait_ready(process, log_path)
        finally:
            await _stop(process)


def _environment() -> dict[str, str]:
    """A server for its caller alone, however other servers here are set up."""
    own = {
        "COMFYRAIL_SHUTDOWN_SECONDS": "0",
        "COMFYRAIL_ACCESS": "off",
        "COMFYRAIL_HOST": "127.0.0.1",
    }
    return {**os.environ, **own}


async def _wait_ready(process: Process, log_path: Path) -> str:
    try:
        async with asyncio.timeout(START_LIMIT_SECONDS):
            line = await process.stdout.readline() if process.stdout else b""
            if not line:
                raise ConfigurationError(f"The private server did not start: {_tail(log_path)}")
            url = str(json.loads(line)["url"])
            async with ComfyrailClient(url) as client:
                while not await client.is_ready():  # noqa: ASYNC110 - another process's state
                    await asyncio.sleep(READY_POLL_SECONDS)
    except TimeoutError as error:
        raise ConfigurationError(
            f"The private server was not ready in {START_LIMIT_SECONDS:g} s: {_tail(log_path)}"
        ) from error
    return url


async def _stop(process: Process) -> None:
    """In order if there is time; at once when the run itself is cancelled meanwhile."""
    with contextlib.suppress(ProcessLookupError):
        process.terminate()
    try:
        async with asyncio.timeout(STOP_LIMIT_SECONDS):
            await process.communicate()
    except TimeoutError:
        await _kill(process)
    except asyncio.CancelledError:
        await _kill(process)
        raise


async def _kill(process: Process) -> None:
    with contextlib.suppress(ProcessLookupError):
        process.kill()
    await process.wait()


def _tail(path: Path) -> str:
    text = path.read_bytes()[-2000:].decode(errors="replace").strip()
    return text or "it said nothing"
