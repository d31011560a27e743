"""Driver `process`: a small program in the place of ComfyUI."""

import os
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from comfyrail.fleet.drivers.interface import WorkerHost
from comfyrail.fleet.drivers.process import ProcessHost
from tests.fleet.drivers.checkout import make_checkout
from tests.fleet.drivers.setting import Setting, host_context


def why_skipped() -> str | None:
    return None


@asynccontextmanager
async def open_setting(folder: Path) -> AsyncIterator[Setting]:
    config = {"folder": str(make_checkout(folder / "checkout"))}
    async with host_context(folder) as context:
        yield Setting(
            context=context,
            config=config,
            other_config=config,
            kill=kill,
            bad_configs=[
                ("folder", {}),
                ("folder", {"folder": str(folder)}),
                ("folder", {"folder": str(folder / "nowhere")}),
                ("port", {**config, "port": 70000}),
                ("arguments", {**config, "arguments": ["--port", "1"]}),
                ("arguments", {**config, "arguments": "--lowvram"}),
                ("environment", {**config, "environment": {"A=B": "c"}}),
                ("python", {**config, "python": "/no/such/python"}),
                ("base_directory", {**config, "base_directory": "/no/such/folder"}),
                ("model_limit", {**config, "model_limit": "much"}),
            ],
        )


async def kill(host: WorkerHost, _url: str) -> None:
    assert isinstance(host, ProcessHost)
    assert host.pid is not None
    os.kill(host.pid, signal.SIGKILL)
