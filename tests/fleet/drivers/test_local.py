"""Driver `local`: engine workers, and what they are started with."""

import asyncio
import os
import signal
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from comfyrail.errors import DriverRefused, WorkerError, WorkerUnreachable
from comfyrail.fleet.comfyui.client import ComfyClient
from comfyrail.fleet.drivers.interface import HostContext
from comfyrail.fleet.drivers.local import LocalHost
from comfyrail.fleet.drivers.registry import driver_named
from comfyrail.ids import WorkerId
from tests.fleet.drivers.setting import host_context

PACK = """
class Greeting:
    INPUT_TYPES = classmethod(lambda cls: {"required": {}})
    RETURN_TYPES = ("STRING",)
    FUNCTION = "greet"
    CATEGORY = "tests"

    def greet(self):
        return ("hello",)

NODE_CLASS_MAPPINGS = {"Greeting": Greeting}
"""


def make_host(context: HostContext, config: Mapping[str, Any]) -> LocalHost:
    driver = driver_named("local")
    host = driver.host(WorkerId("local-1"), driver.check(config), context)
    assert isinstance(host, LocalHost)
    return host


async def test_a_pack_of_nodes_is_loaded_and_the_log_is_kept(tmp_path: Path) -> None:
    pack = tmp_path / "greeting.py"
    pack.write_text(PACK)
    async with host_context(tmp_path) as context:
        host = make_host(context, {"nodes": [str(pack)]})
        assert host.shares_inputs
        assert host.place is None
        with pytest.raises(WorkerError, match="no log yet"):
            await host.logs(5)
        try:
            client = ComfyClient(await host.start(), context.http)
            assert b'"Greeting"' in await client.object_info()
            assert await host.logs(100)
        finally:
            await host.stop()


async def test_a_worker_that_cannot_start_says_why(tmp_path: Path) -> None:
    config = tmp_path / "engine.yaml"
    config.write_text("execution: [not, a, table]\n")
    async with host_context(tmp_path) as context:
        host = make_host(context, {"engine_config": str(config)})
        with pytest.raises(WorkerUnreachable, match=r"engine\.yaml"):
            await host.start()
        assert host.pid is None


async def test_a_python_without_comfyrail_is_reported(tmp_path: Path) -> None:
    python = tmp_path / "python"
    python.write_text("#!/bin/sh\necho no module named comfyrail >&2\nexit 1\n")
    async with host_context(tmp_path) as context:
        with pytest.raises(DriverRefused, match="Permission denied"):
            await make_host(context, {"python": str(python)}).start()
        python.chmod(0o755)
        with pytest.raises(WorkerUnreachable, match="no module named comfyrail"):
            await make_host(context, {"python": str(python)}).start()


async def test_a_worker_that_says_nothing_is_ended_after_the_limit(tmp_path: Path) -> None:
    python = tmp_path / "python"
    python.write_text(f"#!/bin/sh\necho $$ >{tmp_path}/pid\nexec sleep 600\n")
    python.chmod(0o755)
    async with host_context(tmp_path) as context:
        host = make_host(context, {"python": str(python), "start_limit": 0.3})
        with pytest.raises(WorkerUnreachable, match="did not start in"):
            await host.start()
    with pytest.raises(ProcessLookupError):
        os.kill(int((tmp_path / "pid").read_text()), 0)


async def test_a_start_that_is_cancelled_leaves_no_process(tmp_path: Path) -> None:
    python = tmp_path / "python"
    python.write_text(
        f"#!/bin/sh\necho $$ >{tmp_path}/pid.new\nmv {tmp_path}/pid.new "
        f"{tmp_path}/pid\nexec sleep 600\n"
    )
    python.chmod(0o755)
    async with host_context(tmp_path) as context:
        host = make_host(context, {"python": str(python)})
        starting = asyncio.create_task(host.start())
        async with asyncio.timeout(20):
            while not (tmp_path / "pid").exists():  # noqa: ASYNC110 - another process makes it
                await asyncio.sleep(0.01)
        starting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await starting
    with pytest.raises(ProcessLookupError):
        os.kill(int((tmp_path / "pid").read_text()), signal.SIGCONT)
