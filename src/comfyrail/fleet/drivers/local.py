"""Driver `local`: engine workers as child processes of this server. The default."""

import asyncio
import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

import msgspec

from comfyrail.errors import DriverRefused, WorkerError, WorkerUnreachable
from comfyrail.fleet.drivers.environment import environment_for_workers
from comfyrail.fleet.drivers.interface import HostContext
from comfyrail.fleet.drivers.log_files import LOG_NAME, last_lines, open_log
from comfyrail.fleet.drivers.settings import (
    existing_path,
    plain_settings,
    read_settings,
    wrong_setting,
)
from comfyrail.fleet.drivers.worker_models import SettingsWithModels, WorkerModels, check_models
from comfyrail.fleet.drivers.worker_process import WorkerProcess, spawn_worker
from comfyrail.fleet.model_files.paths_file import write_paths_file
from comfyrail.ids import WorkerId

STOP_LIMIT_SECONDS = 5.0
KEPT_OUTPUTS = 1000
LINES_IN_MESSAGES = 20
LONGEST_IN_MESSAGES = 2000


class LocalSettings(SettingsWithModels, kw_only=True, frozen=True):
    engine_config: str | None = None
    """A file such as execution_engine.yaml (default: the server's own)."""
    comfyui: str | None = None
    """A ComfyUI checkout whose nodes are loaded into the worker."""
    comfyui_arguments: tuple[str, ...] = ()
    """Flags of its main.py."""
    nodes: tuple[str, ...] = ()
    """Packs of nodes to load: folders or .py files."""
    python: str | None = None
    """The Python to run it with (default: the server's own); it must have Comfyrail."""
    start_limit: Annotated[float, msgspec.Meta(gt=0, le=3600)] = 120.0
    """Seconds until it must listen; fetching models is not counted."""


class LocalDriver:
    name = "local"

    def check(self, config: Mapping[str, Any]) -> Mapping[str, Any]:
        settings = check_models(read_settings(LocalSettings, config, self.name), self.name)
        if settings.comfyui is None:
            for field in ("models", "comfyui_arguments"):
                if getattr(settings, field):
                    raise wrong_setting(self.name, field, "it needs 'comfyui', a checkout.")
        changed = {
            "engine_config": self._file(settings, "engine_config"),
            "python": self._file(settings, "python"),
            "comfyui": settings.comfyui and self._checkout(settings.comfyui),
            "nodes": tuple(self._pack(each) for each in settings.nodes),
        }
        return plain_settings(msgspec.structs.replace(settings, **changed))

    def host(
        self, worker_id: WorkerId, config: Mapping[str, Any], context: HostContext
    ) -> "LocalHost":
        settings = read_settings(LocalSettings, config, self.name)
        own_config = settings.engine_config and Path(settings.engine_config)
        return LocalHost(
            context.worker_folder(worker_id),
            context.input_folder,
            cache_folder=context.cache_folder,
            engine_config=own_config or context.engine_config,
            settings=settings,
            models=WorkerModels(settings, context),
            secrets=tuple(context.secrets.values()),
        )

    def _file(self, settings: LocalSettings, field: str) -> str | None:
        text: str | None = getattr(settings, field)
        return text and existing_path(self.name, field, text, folder=False)

    def _checkout(self, text: str) -> str:
        folder = existing_path(self.name, "comfyui", text, folder=True)
        existing_path(self.name, "comfyui", f"{folder}/main.py", folder=False)
        return folder

    def _pack(self, text: str) -> str:
        is_file = Path(text).suffix == ".py"
        return existing_path(self.name, "nodes", text, folder=not is_file)


class LocalHost:
    """One `comfyrail worker` process. It ends with this one: it holds the other end of a pipe."""

    driver = "local"
    shares_inputs = True
    ends_with_server = True
    place: str | None = None

    def __init__(
        self,
        folder: Path,
        input_folder: Path,
        cache_folder: Path | None = None,
        engine_config: Path | None = None,
        *,
        settings: LocalSettings | None = None,
        models: WorkerModels | None = None,
        secrets: Sequence[str] = (),
    ) -> None:
        """`secrets` are values that the worker must not find in its environment."""
        self._folder = folder
        self._input_folder = input_folder
        self._cache_folder = cache_folder
        self._engine_config = engine_config
        self._settings = settings or LocalSettings()
        self._models = models
        self._secrets = secrets
        self._log_path = folder / LOG_NAME
        self._process: WorkerProcess | None = None

    @property
    def pid(self) -> int | None:
        """Of the worker's process, while there is one."""
        return None if self._process is None else self._process.pid

    async def start(self) -> str:
        await self._end_process()
        flags = await self._fetch_models()
        self._process = await self._spawn(flags)
        limit = self._settings.start_limit
        try:
            async with asyncio.timeout(limit):
                url = await self._read_url(self._process)
        except TimeoutError as error:
            await self._end_process()
            raise WorkerUnreachable(
                f"A local worker did not start in {limit:g} s: {await self._last_words()}"
            ) from error
        except asyncio.CancelledError:
            await self._end_process()
            raise
        return url

    async def wait_ended(self) -> str:
        process = self._process
        if process is None:
            return "the worker's process was stopped"
        code = await process.wait()
        ending = f"signal {-code}" if code < 0 else f"exit code {code}"
        return f"the worker's process ended ({ending})"

    async def stop(self) -> None:
        await self._end_process()
        if self._models is not None:
            await self._models.let_go()

    async def end_hung(self) -> bool:
        """Kill it, without asking."""
        process = self._process
        if process is None:
            return False
        try:
            await process.kill(STOP_LIMIT_SECONDS)
        except TimeoutError as error:
            raise WorkerUnreachable(
                f"The worker's process {process.pid} cannot be killed."
            ) from error
        return True

    async def release(self) -> None:
        """It cannot outlive the server."""
        await self.stop()

    async def logs(self, lines: int) -> str:
        text = await asyncio.to_thread(last_lines, self._log_path, lines)
        fetching = self._models.progress_text() if self._models is not None else ""
        if not text and not fetching and not self._log_path.exists():
            raise WorkerError(
                f"The worker has written no log yet. It will be in {self._log_path}.",
                code="NO_WORKER_LOG",
            )
        return "\n".join([*text.splitlines(), *fetching.splitlines()][-max(lines, 0) :])

    async def _fetch_models(self) -> Sequence[str]:
        """The flags by which the worker finds them."""
        if self._models is None or not await self._models.fetch():
            return []
        path = await asyncio.to_thread(
            write_paths_file, self._folder, self._models.folder, self._models.manifest
        )
        return ["--extra-model-paths-config", str(path)]

    async def _spawn(self, flags: Sequence[str]) -> WorkerProcess:
        settings = self._settings
        command = [settings.python or sys.executable, "-m", "comfyrail", "worker", "--port", "0"]
        command += ["--data", str(self._folder), "--input", str(self._input_folder)]
        command += ["--announce", "--exit-with-parent", "--keep-outputs", str(KEPT_OUTPUTS)]
        # Several on one machine cannot have the usual port: the log says which one it is.
        command += ["--metrics-port", "0"]
        if self._cache_folder is not None:
            command += ["--cache", str(self._cache_folder)]
        if self._engine_config is not None:
            command += ["--config", str(self._engine_config)]
        for pack in settings.nodes:
            command += ["--nodes", pack]
        if settings.comfyui is not None:
            command += ["--comfyui", settings.comfyui, *flags]
            # With a checkout the folders are ComfyUI's: several workers must not share temp.
            command += ["--input-directory", str(self._input_folder)]
            command += ["--output-directory", str(self._folder / "output")]
            command += ["--temp-directory", str(self._folder), *settings.comfyui_arguments]
        environment = environment_for_workers(self._secrets)
        with await asyncio.to_thread(open_log, self._log_path) as log_file:
            try:
                return await spawn_worker(command, environment, log_file)
            except OSError as error:
                raise DriverRefused(
                    f"A local worker cannot be started: {command[0]}: {error.strerror}."
                ) from error

    async def _read_url(self, process: WorkerProcess) -> str:
        try:
            return str(json.loads(await process.first_line())["url"])
        except (ValueError, KeyError, TypeError) as error:
            await self._end_process()
            raise WorkerUnreachable(
                f"A local worker did not start: {await self._last_words()}"
            ) from error

    async def _end_process(self) -> None:
        process, self._process = self._process, None
        if process is not None:
            await process.end(STOP_LIMIT_SECONDS)

    async def _last_words(self) -> str:
        text = await asyncio.to_thread(last_lines, self._log_path, LINES_IN_MESSAGES)
        text = text[-LONGEST_IN_MESSAGES:].strip()
        return text or f"it said nothing (log: {self._log_path})"
