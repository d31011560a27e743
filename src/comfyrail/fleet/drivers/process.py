"""Driver `process`: starts a ComfyUI checkout on this machine. It ends with the server."""

import asyncio
import contextlib
import os
import signal
import socket
import sys
from asyncio.subprocess import PIPE, Process
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

import msgspec

from comfyrail.errors import DriverRefused, WorkerError, WorkerUnreachable
from comfyrail.fleet.drivers import keeper
from comfyrail.fleet.drivers.environment import environment_for_workers
from comfyrail.fleet.drivers.interface import HostContext
from comfyrail.fleet.drivers.log_files import LOG_NAME, last_lines
from comfyrail.fleet.drivers.readiness import wait_until_it_answers
from comfyrail.fleet.drivers.settings import (
    existing_path,
    plain_settings,
    read_settings,
    wrong_setting,
)
from comfyrail.fleet.drivers.worker_models import SettingsWithModels, WorkerModels, check_models
from comfyrail.fleet.model_files.locks import wait_for_lock
from comfyrail.fleet.model_files.paths_file import write_paths_file
from comfyrail.ids import WorkerId

HOST = "127.0.0.1"
LOCK_NAME = "process.lock"
KEEPER_SECONDS = 3.0
"""What a keeper needs beyond the time that it gives its program."""
LINES_IN_MESSAGES = 20
LONGEST_IN_MESSAGES = 2000
OWN_FLAGS = ("--port", "--listen")
PYTHONS_OF_A_CHECKOUT = (".venv/bin/python", "venv/bin/python")
NOT_INHERITED = frozenset(("PYTHONHOME", "PYTHONPATH", "VIRTUAL_ENV", "__PYVENV_LAUNCHER__"))


class ProcessSettings(SettingsWithModels, kw_only=True, frozen=True):
    folder: str
    """The checkout: the folder that has ComfyUI's main.py."""
    python: str | None = None
    """Default: that of a `.venv` or `venv` in the checkout, else the server's own."""
    arguments: tuple[str, ...] = ()
    """Further flags of main.py: `["--lowvram"]`."""
    port: Annotated[int, msgspec.Meta(ge=0, le=65535)] = 0
    """0 takes a free one at each start."""
    environment: dict[str, str] = msgspec.field(default_factory=dict)
    base_directory: str | None = None
    """Where ComfyUI keeps models, input, output and custom nodes (default: in the checkout)."""
    start_limit: Annotated[float, msgspec.Meta(gt=0, le=86400)] = 300.0
    """Seconds until it must answer; fetching models is not counted."""
    stop_grace: Annotated[float, msgspec.Meta(ge=0, le=600)] = 5.0
    """Seconds that it has to end by itself before it is killed."""


class ProcessDriver:
    name = "process"

    def check(self, config: Mapping[str, Any]) -> Mapping[str, Any]:
        settings = check_models(read_settings(ProcessSettings, config, self.name), self.name)
        folder = existing_path(self.name, "folder", settings.folder, folder=True)
        if not (Path(folder) / "main.py").is_file():
            raise wrong_setting(
                self.name, "folder", f"{folder} has no main.py. Give the folder of a ComfyUI."
            )
        for flag in settings.arguments:
            if flag.partition("=")[0] in OWN_FLAGS:
                raise wrong_setting(
                    self.name,
                    "arguments",
                    f"{flag} is set by the driver. The port is the setting 'port'; it listens on "
                    f"{HOST} only.",
                )
        for name, value in settings.environment.items():
            if not name or "=" in name or "\0" in name + value:
                raise wrong_setting(self.name, "environment", f"{name!r} cannot be set.")
        python, base = settings.python, settings.base_directory
        changed = {
            "folder": folder,
            "python": python and existing_path(self.name, "python", python, folder=False),
            "base_directory": base
            and existing_path(self.name, "base_directory", base, folder=True),
        }
        return plain_settings(msgspec.structs.replace(settings, **changed))

    def host(
        self, worker_id: WorkerId, config: Mapping[str, Any], context: HostContext
    ) -> "ProcessHost":
        settings = read_settings(ProcessSettings, config, self.name)
        return ProcessHost(context.worker_folder(worker_id), settings, context)


class ProcessHost:
    """One ComfyUI process with a keeper beside it, so that it ends with this process."""

    driver = "process"
    shares_inputs = False
    ends_with_server = True

    def __init__(self, folder: Path, settings: ProcessSettings, context: HostContext) -> None:
        self._folder = folder
        self._settings = settings
        self._context = context
        self._models = WorkerModels(settings, context)
        self._log_path = folder / LOG_NAME
        self._keeper: Process | None = None
        self.pid: int | None = None
        """Of ComfyUI itself, which is not a child of this process."""

    @property
    def place(self) -> str | None:
        port = self._settings.port
        return f"http://{HOST}:{port}" if port else None

    async def start(self) -> str:
        await self._end()
        flags = await self._fetch_models()
        await asyncio.to_thread(self._folder.mkdir, parents=True, exist_ok=True)
        await self._wait_for_the_last_one()
        port = self._settings.port or _free_port()
        self._check_port(port)
        url = f"http://{HOST}:{port}"
        try:
            self._keeper = await self._spawn(port, flags)
            await self._read_pid(self._keeper)
            limit = self._settings.start_limit
            await wait_until_it_answers(self._context.http, url, limit, self._cause_of_end)
        except WorkerUnreachable as error:
            await self._end()
            words = await self._last_words()
            raise WorkerUnreachable(f"{error.message} Its log ends with: {words}") from error
        except BaseException:
            await self._end()
            raise
        return url

    async def wait_ended(self) -> str:
        process = self._keeper
        if process is None:
            return "the worker's process was stopped"
        return _cause(await process.wait())

    async def stop(self) -> None:
        await self._end()
        await self._models.let_go()

    async def end_hung(self) -> bool:
        """Kill it, without asking; its keeper sees to the rest."""
        process, pid = self._keeper, self.pid
        if process is None or pid is None or process.returncode is not None:
            return False
        with contextlib.suppress(ProcessLookupError):
            os.killpg(pid, signal.SIGKILL)
        try:
            async with asyncio.timeout(KEEPER_SECONDS):
                await process.wait()
        except TimeoutError as error:
            raise WorkerUnreachable(f"The worker's process {pid} cannot be killed.") from error
        return True

    async def release(self) -> None:
        """It ends with the server: nobody would notice what it does then."""
        await self.stop()

    async def logs(self, lines: int) -> str:
        fetching = self._models.progress_text().splitlines()
        text = await asyncio.to_thread(self._log_lines, lines)
        if text is None and not fetching:
            raise WorkerError(
                f"The worker has written no log yet. It will be in {self._log_path}.",
                code="NO_WORKER_LOG",
            )
        return "\n".join([*(text or "").splitlines(), *fetching][-max(lines, 0) :])

    def _log_lines(self, lines: int) -> str | None:
        older = Path(f"{self._log_path}{keeper.OLDER}")
        if not self._log_path.exists() and not older.exists():
            return None
        text = last_lines(self._log_path, lines)
        missing = lines - len(text.splitlines())
        before = last_lines(older, missing) if missing > 0 else ""
        return "\n".join(part for part in (before, text) if part)

    async def _fetch_models(self) -> Sequence[str]:
        """The flags by which ComfyUI finds them."""
        if not await self._models.fetch():
            return []
        path = await asyncio.to_thread(
            write_paths_file, self._folder, self._models.folder, self._models.manifest
        )
        return ["--extra-model-paths-config", str(path)]

    async def _wait_for_the_last_one(self) -> None:
        """One that a killed server had started ends by itself, but not at once."""
        try:
            async with asyncio.timeout(keeper.LOCK_LIMIT_SECONDS):
                (await wait_for_lock(self._folder / LOCK_NAME)).release()
        except TimeoutError as error:
            raise WorkerUnreachable(
                "An earlier process of this worker has not ended. Does another server use the "
                f"same data folder? The lock is {self._folder / LOCK_NAME}."
            ) from error

    def _check_port(self, port: int) -> None:
        # What answers there would be taken for our own.
        try:
            socket.create_server((HOST, port)).close()
        except OSError as error:
            raise WorkerUnreachable(
                f"Port {port} on {HOST} cannot be used: {error.strerror}. Stop the program that "
                "has it, or choose another 'port' (0 takes a free one).",
                code="PORT_IN_USE",
            ) from error

    async def _spawn(self, port: int, flags: Sequence[str]) -> Process:
        settings = self._settings
        command = [self._python(), "main.py", *flags]
        command += ["--listen", HOST, "--port", str(port), "--disable-auto-launch"]
        if settings.base_directory is not None:
            command += ["--base-directory", settings.base_directory]
        command += settings.arguments
        own = [sys.executable, "-I", "-S", keeper.__file__]
        try:
            return await asyncio.create_subprocess_exec(
                *own,
                str(self._folder / LOCK_NAME),
                str(self._log_path),
                str(settings.stop_grace),
                *command,
                stdin=PIPE,
                stdout=PIPE,
                cwd=settings.folder,
                env=self._environment(),
                start_new_session=True,
            )
        except OSError as error:
            raise DriverRefused(
                f"The checkout {settings.folder} cannot be used: {error.strerror}."
            ) from error

    def _python(self) -> str:
        if self._settings.python is not None:
            return self._settings.python
        candidates = (Path(self._settings.folder) / each for each in PYTHONS_OF_A_CHECKOUT)
        return next((str(each) for each in candidates if each.is_file()), sys.executable)

    def _environment(self) -> dict[str, str]:
        kept = environment_for_workers(self._context.secrets.values(), NOT_INHERITED)
        return kept | {"PYTHONUNBUFFERED": "1"} | self._settings.environment

    async def _read_pid(self, process: Process) -> None:
        assert process.stdout is not None  # noqa: S101 - it was asked for above
        line = await process.stdout.readline()
        if line.strip().isdigit():
            self.pid = int(line)
            return
        code = await process.wait()
        if code == keeper.CANNOT_RUN:
            raise DriverRefused(f"ComfyUI cannot be started: {await self._last_words()}")
        raise WorkerUnreachable(f"ComfyUI was not started: {_cause(code)}.")

    async def _cause_of_end(self) -> str | None:
        code = None if self._keeper is None else self._keeper.returncode
        return None if code is None else f"{_cause(code)}."

    async def _end(self) -> None:
        process, self._keeper = self._keeper, None
        pid, self.pid = self.pid, None
        if process is None:
            return
        if process.stdin is not None:
            process.stdin.close()
        try:
            async with asyncio.timeout(self._settings.stop_grace + KEEPER_SECONDS):
                await process.wait()
        except TimeoutError:
            with contextlib.suppress(ProcessLookupError):
                process.kill()
            await process.wait()
        if pid is not None and process.returncode is not None and process.returncode < 0:
            # A keeper that was killed could not end what ComfyUI itself has started.
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(pid, signal.SIGKILL)

    async def _last_words(self) -> str:
        text = await asyncio.to_thread(self._log_lines, LINES_IN_MESSAGES)
        return (text or "")[-LONGEST_IN_MESSAGES:].strip() or f"nothing (log: {self._log_path})"


def _free_port() -> int:
    with socket.create_server((HOST, 0)) as listener:
        port: int = listener.getsockname()[1]
        return port


def _cause(code: int) -> str:
    number = -code if code < 0 else code - 128
    if number > 0:
        return f"the worker's process was ended by signal {number}"
    return f"the worker's process ended (exit code {code})"
