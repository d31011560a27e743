"""What the suite of all drivers needs to try one of them.

A driver takes part by a module `<name>_setting.py` in this folder with

- `why_skipped() -> str | None`: what is missing on this machine, in a sentence for people;
- `open_setting(folder: Path) -> AbstractAsyncContextManager[Setting]`.
"""

import importlib
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType
from typing import Any

import aiohttp

from comfyrail.clock import SystemClock
from comfyrail.fleet.drivers.interface import HostContext, WorkerHost

SUFFIX = "_setting"


@dataclass(frozen=True, slots=True)
class Setting:
    """One driver, ready to start workers."""

    context: HostContext
    config: Mapping[str, Any]
    """Of the worker that most tests start."""
    other_config: Mapping[str, Any]
    """Of a second worker beside it; the same as `config` where that is possible."""
    kill: Callable[[WorkerHost, str], Awaitable[None]] | None
    """End a worker from outside, given its host and its URL, so that `start` must then make or
    find another one. None: the driver cannot know when its worker ends.
    """
    stop_ends_it: bool = True
    """Whether `stop` ends the worker: one that was there before us goes on."""
    released_lives_on: bool = False
    """Whether `release` leaves the worker running, for the next server to find."""
    has_logs: bool = True
    bad_configs: Sequence[tuple[str, Mapping[str, Any]]] = field(default=())
    """A field's name, and settings in which that one is wrong."""


def setting_names() -> list[str]:
    """Every driver that takes part."""
    found = Path(__file__).parent.glob(f"*{SUFFIX}.py")
    return sorted(path.stem.removesuffix(SUFFIX) for path in found)


def why_skipped(name: str) -> str | None:
    reason: str | None = _module(name).why_skipped()
    return reason


def open_setting(name: str, folder: Path) -> AbstractAsyncContextManager[Setting]:
    opened: AbstractAsyncContextManager[Setting] = _module(name).open_setting(folder)
    return opened


@asynccontextmanager
async def host_context(folder: Path, **parts: Any) -> AsyncIterator[HostContext]:
    """What a server would give, with a data folder of its own."""
    data = folder / "data"
    (data / "input").mkdir(parents=True, exist_ok=True)
    async with aiohttp.ClientSession() as http:
        yield HostContext(data=data, http=http, clock=SystemClock(), **parts)


def _module(name: str) -> ModuleType:
    return importlib.import_module(f"{__package__}.{name}{SUFFIX}")
