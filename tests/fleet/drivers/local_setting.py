"""Driver `local`: real engine workers."""

import os
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from comfyrail.fleet.drivers.interface import WorkerHost
from comfyrail.fleet.drivers.local import LocalHost
from tests.fleet.drivers.setting import Setting, host_context


def why_skipped() -> str | None:
    return None


@asynccontextmanager
async def open_setting(folder: Path) -> AsyncIterator[Setting]:
    async with host_context(folder) as context:
        yield Setting(
            context=context,
            config={},
            other_config={},
            kill=kill,
            bad_configs=[
                ("engine_config", {"engine_config": str(folder / "nothing.yaml")}),
                ("start_limit", {"start_limit": "soon"}),
                ("comfyui", {"comfyui": str(folder)}),
                ("nodes", {"nodes": [str(folder / "no-pack")]}),
                ("models", {"models": [{"name": "a.safetensors"}]}),
            ],
        )


async def kill(host: WorkerHost, _url: str) -> None:
    assert isinstance(host, LocalHost)
    assert host.pid is not None
    os.kill(host.pid, signal.SIGKILL)
