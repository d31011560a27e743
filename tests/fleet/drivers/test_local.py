"""Driver `local`: engine workers, and what they are started with."""

import asyncio
import json
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
from tests.engine.test_engine_stuck_nodes import PACK as STUCK_PACK
from tests.fleet.drivers.process_state import is_running
from tests.fleet.drivers.setting import host_context
from tests.processes import wait_until

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
    pid = int((tmp_path / "pid").read_text())
    async with asyncio.timeout(20):
        while is_running(pid):  # noqa: ASYNC110 - the kernel's
            await asyncio.sleep(0.01)


# Nodes that start programs

ENDINGS = ("killed", "stopped", "released")


async def start_program(host: LocalHost, context: HostContext, node_type: str, mark: Path) -> int:
    """A node whose program holds the worker's standard output; the program's number."""
    client = ComfyClient(await host.start(), context.http)
    graph = {
        "1": {"class_type": node_type, "inputs": {"mark": str(mark), "seconds": 60.0}},
        "2": {"class_type": "Show", "inputs": {"value": ["1", 0]}},
    }
    await client.submit(graph, "a", "c")
    await asyncio.to_thread(wait_until, mark.exists)
    program = int((await asyncio.to_thread(mark.read_text)).split()[0])
    assert is_running(program)
    return program


@pytest.mark.parametrize("ending", ENDINGS)
async def test_a_nodes_program_ends_with_the_worker_however_that_ends(
    tmp_path: Path, ending: str
) -> None:
    async with host_context(tmp_path) as context:
        host = make_host(context, {"nodes": [str(STUCK_PACK)]})
        program = await start_program(host, context, "WaitForProgram", tmp_path / "mark")
        async with asyncio.timeout(20):
            if ending == "killed":
                assert host.pid is not None
                os.kill(host.pid, signal.SIGKILL)
                assert "signal 9" in await host.wait_ended()
                wait_until(lambda: not is_running(program))
            await (host.release() if ending == "released" else host.stop())
        wait_until(lambda: not is_running(program))
        assert host.pid is None


async def test_a_program_that_outlives_the_worker_and_holds_its_output_hinders_nobody(
    tmp_path: Path,
) -> None:
    async with host_context(tmp_path) as context:
        host = make_host(context, {"nodes": [str(STUCK_PACK)]})
        program = await start_program(host, context, "OwnSession", tmp_path / "mark")
        try:
            assert host.pid is not None
            os.kill(host.pid, signal.SIGKILL)
            async with asyncio.timeout(20):
                assert "signal 9" in await host.wait_ended()
                # In a session of its own it is not found any more.
                assert is_running(program)
                assert await ComfyClient(await host.start(), context.http).system_stats()
                await host.stop()
        finally:
            os.killpg(program, signal.SIGKILL)


async def test_neither_a_worker_nor_its_nodes_get_the_secrets_of_the_server(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COMFYRAIL_SECRET_NOVITA_API_KEY", "a-key")
    monkeypatch.setenv("COMFYRAIL_AGENT_TOKEN", "a-token")
    monkeypatch.setenv("COMFYRAIL_DATABASE_URL", "with-a-password")
    monkeypatch.setenv("MY_TOKEN", "a-token")
    monkeypatch.setenv("MY_KEY", "a-key")
    monkeypatch.setenv("ANOTHER", "given-in-another-way")
    monkeypatch.setenv("COLOUR", "red")
    seen_path = tmp_path / "seen.json"
    pack = tmp_path / "curious.py"
    pack.write_text(
        f"import json, os\njson.dump(dict(os.environ), open({str(seen_path)!r}, 'w'))\n{PACK}"
    )
    secrets = {"novita_api_key": "a-key", "other": "given-in-another-way"}
    async with host_context(tmp_path, secrets=secrets) as context:
        host = make_host(context, {"nodes": [str(pack)]})
        try:
            await host.start()
            given = await asyncio.to_thread(Path(f"/proc/{host.pid}/environ").read_text)
        finally:
            await host.stop()
    seen = json.loads(seen_path.read_text())
    assert seen["COLOUR"] == "red"
    told = f"{given}{seen}"
    for secret in ("a-key", "a-token", "with-a-password", "given-in-another-way", "COMFYRAIL_"):
        assert secret not in told
