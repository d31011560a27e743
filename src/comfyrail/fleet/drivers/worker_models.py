"""The model files of one worker whose disk is the server's own [5.8]."""

from pathlib import Path
from typing import TypeVar

import msgspec

from comfyrail.fleet.drivers.interface import HostContext
from comfyrail.fleet.drivers.settings import DriverSettings, byte_count, wrong_setting
from comfyrail.fleet.model_files.folder import HeldModels, ModelFiles
from comfyrail.fleet.model_files.manifest import ModelFile, find_fault

MODELS_FOLDER = "models"


class SettingsWithModels(DriverSettings, kw_only=True, frozen=True):
    """What drivers that own the worker's files can be told about models."""

    models: tuple[ModelFile, ...] = ()
    """Fetched before the worker starts, where they are missing."""
    models_folder: str | None = None
    """Where they are kept (default: `models` in the server's data folder); workers share it."""
    model_limit: int | str | None = None
    """Bytes that fetched files may take there together: `200g`."""


WithModels = TypeVar("WithModels", bound=SettingsWithModels)


def check_models(settings: WithModels, driver: str) -> WithModels:
    """The settings in one spelling. Raises WorkerRefused."""
    fault = find_fault(settings.models)
    if fault is not None:
        raise wrong_setting(driver, f"models{fault[0]}", fault[1])
    limit = settings.model_limit
    if limit is not None:
        limit = byte_count(driver, "model_limit", limit)
        needed = sum(file.size for file in settings.models)
        if needed > limit:
            raise wrong_setting(driver, "model_limit", f"the list needs {needed:,} bytes.")
    folder = settings.models_folder
    if folder is not None:
        folder = str(Path(folder).expanduser().absolute())
    return msgspec.structs.replace(settings, model_limit=limit, models_folder=folder)


class WorkerModels:
    """Fetches the models of one worker, and holds them while it lives."""

    def __init__(self, settings: SettingsWithModels, context: HostContext) -> None:
        self.manifest = settings.models
        limit = settings.model_limit
        self._files = ModelFiles(
            Path(settings.models_folder or context.data / MODELS_FOLDER),
            context.http,
            context.clock,
            limit_bytes=None if limit is None else int(limit),
            secrets=context.secrets,
        )
        self._held: HeldModels | None = None

    @property
    def folder(self) -> Path:
        return self._files.folder

    async def fetch(self) -> bool:
        """Return when all models are there; False where the worker has none.

        Raises DriverRefused and WorkerUnreachable as `ModelFiles.ensure` does.
        """
        if not self.manifest:
            return False
        held = await self._files.ensure(self.manifest)
        # Only now: between two holds another worker's models could push these out.
        await self.let_go()
        self._held = held
        return True

    async def let_go(self) -> None:
        held, self._held = self._held, None
        if held is not None:
            await held.release()

    def progress_text(self) -> str:
        """A line for each file that is on its way."""
        lines = [
            f"fetching {each.path}: {each.received:,} of {each.size:,} bytes"
            for each in self._files.progress()
        ]
        return "\n".join(lines)
