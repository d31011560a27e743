"""A models folder to try things in."""

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import aiohttp
import msgspec

from comfyrail.clock import Instant, SystemClock
from comfyrail.fleet.model_files.download import DownloadLimits
from comfyrail.fleet.model_files.folder import HeldModels, ModelFiles
from comfyrail.fleet.model_files.manifest import ModelFile

QUICK = DownloadLimits(first_pause=0.001, longest_pause=0.01, read_seconds=10)


class SteppingClock(SystemClock):
    """A wall clock on which each look is a second later than the last: uses have an order."""

    def __init__(self) -> None:
        self._now = 1_000_000

    def now(self) -> Instant:
        self._now += 1000
        return Instant(self._now)


@dataclass(frozen=True)
class Models:
    folder: Path
    files: ModelFiles

    async def ensure(self, *lines: Mapping[str, Any]) -> HeldModels:
        return await self.files.ensure(msgspec.convert(lines, tuple[ModelFile, ...]))

    async def fetch(self, *lines: Mapping[str, Any]) -> None:
        """Ensure, and let go at once."""
        await (await self.ensure(*lines)).release()

    def read(self, name: str = "a.safetensors") -> bytes:
        return (self.folder / "checkpoints" / name).read_bytes()

    def names(self) -> set[str]:
        """Of the models and parts that are there."""
        return {path.name for path in (self.folder / "checkpoints").glob("*")}


@asynccontextmanager
async def models_folder(
    folder: Path, limits: DownloadLimits = QUICK, **options: Any
) -> AsyncIterator[Models]:
    async with aiohttp.ClientSession() as http:
        files = ModelFiles(folder, http, SteppingClock(), limits=limits, **options)
        yield Models(folder, files)
