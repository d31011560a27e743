"""Driver `process`: a checkout as a process that ends with the server, and only with it."""

import asyncio
import json
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from comfyrail.errors import DriverRefused, WorkerError, WorkerUnreachable
from comfyrail.fleet.comfyui.client import ComfyClient
from comfyrail.fleet.drivers import keeper
from comfyrail.fleet.drivers.interface import HostContext
from comfyrail.fleet.drivers.process import ProcessHost
from comfyrail.fleet.drivers.registry import driver_named
from comfyrail.ids import WorkerId
from tests.comfyui_peer.install import installed_peer, prepare_base_directory
from tests.fleet.drivers.checkout import ENGINE_MAIN, make_checkout
from tests.fleet.drivers.process_state import children_of, is_running, parent_of
from tests.fleet.drivers.setting import host_context
from tests.processes import wait_until
from tests.services.ports import free_ports

SERVER = """
import asyncio, sys
from pathlib import Path
import aiohttp
from comfyrail.clock import SystemClock
from comfyrail.fleet.drivers.interface import HostContext
from comfyrail.fleet.drivers.registry import driver_named

async def main():
    async with aiohttp.ClientSession() as http:
        context = HostContext(Path(sys.argv[1]), http, SystemClock())
        driver = driver_named("process")
        config = driver.check({"folder": sys.argv[2], "arguments": sys.argv[3:]})
        host = driver.host("w1", config, context)
        await host.start()
        print(host.pid, flush=True)
        await host.wait_ended()
        await host.stop()
        print("stopped", flush=True)

asyncio.run(main())
"""


def make_host(context: HostContext, config: Mapping[str, Any]) -> ProcessHost:
    driver = driver_named("process")
    host = driver.host(WorkerId("w1"), driver.check(config), context)
    assert isinstance(host, ProcessHost)
    return host


@asynccontextmanager
async def process_host(folder: Path, **settings: Any) -> AsyncIterator[ProcessHost]:
    checkout = make_checkout(folder / "checkout")
    async with host_context(folder, secrets={"token": "a-secret"}) as context:
        host = make_host(context, {"folder": str(checkout), **settings})
        try:
            yield host
        finally:
            await host.stop()


async def described(url: str) -> dict[str, int]:
    async with aiohttp.ClientSession() as http:
        stats = await ComfyClient(url, http).system_stats()
    return dict(stats["system"])


async def test_the_child_processes_of_a_comfyui_end_with_it(tmp_path: Path) -> None:
    async with process_host(tmp_path) as host:
        found = await described(await host.start())
        assert is_running(found["child"])
        await host.stop()
        wait_until(lambda: not is_running(found["child"]))
        assert not is_running(found["pid"])


async def test_one_that_does_not_heed_the_signal_is_killed(tmp_path: Path) -> None:
    async with process_host(tmp_path, arguments=["--deaf"], stop_grace=0.2) as host:
        found = await described(await host.start())
        await host.stop()
        assert not is_running(found["pid"])


@pytest.mark.parametrize("victim", ["server", "keeper"])
def test_a_comfyui_does_not_outlive_a_killed_server_or_keeper(tmp_path: Path, victim: str) -> None:
    checkout = make_checkout(tmp_path / "checkout")
    server = subprocess.Popen(
        [sys.executable, "-c", SERVER, str(tmp_path / "data"), str(checkout)],
        stdout=subprocess.PIPE,
    )
    assert server.stdout is not None
    with server, server.stdout:
        pid = int(server.stdout.readline())
        family = [pid, *children_of(pid)]
        assert len(family) == 2
        os.kill(server.pid if victim == "server" else parent_of(pid), signal.SIGKILL)
        wait_until(lambda: not any(is_running(each) for each in family))


async def test_the_next_server_waits_until_the_one_of_a_killed_server_has_ended(
    tmp_path: Path,
) -> None:
    checkout = make_checkout(tmp_path / "checkout")
    command = [sys.executable, "-c", SERVER, str(tmp_path / "data"), str(checkout)]
    server = await asyncio.create_subprocess_exec(*command, stdout=subprocess.PIPE)
    assert server.stdout is not None
    first = int(await server.stdout.readline())
    # It ends only when it is allowed to go on.
    os.kill(first, signal.SIGSTOP)
    server.kill()
    await server.wait()
    async with process_host(tmp_path) as host:
        await host.start()
        assert not is_running(first)


async def test_one_that_ends_at_once_is_explained_by_its_own_words(tmp_path: Path) -> None:
    async with process_host(tmp_path, arguments=["--fail"]) as host:
        with pytest.raises(WorkerUnreachable, match="no weights anywhere"):
            await host.start()
        assert "no weights anywhere" in await host.logs(10)


async def test_one_that_never_answers_is_ended_after_the_limit(tmp_path: Path) -> None:
    folder = make_checkout(tmp_path / "silent", "import time\ntime.sleep(600)\n")
    async with host_context(tmp_path) as context:
        host = make_host(context, {"folder": str(folder), "start_limit": 0.3})
        with pytest.raises(WorkerUnreachable, match="does not answer"):
            await host.start()
        assert host.pid is None


async def test_a_python_that_cannot_run_is_for_a_person_to_mend(tmp_path: Path) -> None:
    not_a_program = tmp_path / "python"
    not_a_program.write_text("no program")
    async with process_host(tmp_path, python=str(not_a_program)) as host:
        with pytest.raises(DriverRefused, match="Permission denied"):
            await host.start()


async def test_a_port_that_another_program_has_is_not_taken_for_ours(tmp_path: Path) -> None:
    async with process_host(tmp_path / "a", port=0) as first:
        port = int((await first.start()).rpartition(":")[2])
        async with process_host(tmp_path / "b", port=port) as second:
            assert second.place == f"http://127.0.0.1:{port}"
            with pytest.raises(WorkerUnreachable, match=f"Port {port}"):
                await second.start()
    assert first.place is None


async def test_a_chosen_port_is_used_again_after_a_restart(tmp_path: Path) -> None:
    port = free_ports(1)[0]
    async with process_host(tmp_path, port=port) as host:
        assert await host.start() == f"http://127.0.0.1:{port}"
        assert await host.start() == f"http://127.0.0.1:{port}"


async def test_it_gets_its_flags_and_variables_and_no_secrets_of_the_server(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COMFYRAIL_ADMIN_KEY", "k")
    monkeypatch.setenv("SOME_TOKEN", "a-secret")
    monkeypatch.setenv("PYTHONPATH", "/nowhere")
    base = tmp_path / "base"
    base.mkdir()
    async with process_host(
        tmp_path, environment={"COLOUR": "red"}, base_directory=str(base)
    ) as host:
        await host.start()
        log = await host.logs(10)
    flags = json.loads(log.partition("flags ")[2].splitlines()[0])
    environment = json.loads(log.partition("environment ")[2].splitlines()[0])
    assert flags["base_directory"] == str(base)
    assert flags["listen"] == "127.0.0.1"
    assert environment["COLOUR"] == "red"
    assert not {"COMFYRAIL_ADMIN_KEY", "SOME_TOKEN", "PYTHONPATH"} & set(environment)


async def test_the_log_stays_within_bounds_and_is_read_across_its_two_files(
    tmp_path: Path,
) -> None:
    async with process_host(tmp_path, arguments=["--chatty", "6000"]) as host:
        await host.start()
        files = list((tmp_path / "data" / "workers" / "w1").glob("worker.log*"))
        assert len(files) == 2
        assert sum(file.stat().st_size for file in files) < 2.5 * keeper.LOG_LIMIT_BYTES
        lines = (await host.logs(10_000)).splitlines()
        assert lines[-3].startswith("line 5999")
        assert (await host.logs(1)).startswith("environment")


async def test_before_the_first_start_there_is_no_log(tmp_path: Path) -> None:
    async with process_host(tmp_path) as host:
        with pytest.raises(WorkerError, match="no log yet"):
            await host.logs(5)


async def test_the_checkouts_own_python_is_taken(tmp_path: Path) -> None:
    python = tmp_path / "checkout" / "venv" / "bin" / "python"
    python.parent.mkdir(parents=True)
    python.write_text(f'#!/bin/sh\necho "its own python"\nexec {sys.executable} "$@"\n')
    python.chmod(0o755)
    async with process_host(tmp_path) as host:
        await host.start()
        assert "its own python" in await host.logs(10)


async def test_a_checkout_that_starts_an_engine_worker_is_a_whole_worker(tmp_path: Path) -> None:
    folder = make_checkout(tmp_path / "checkout", ENGINE_MAIN)
    data = str(tmp_path / "engine")
    async with host_context(tmp_path) as context:
        host = make_host(context, {"folder": str(folder), "environment": {"WORKER_DATA": data}})
        try:
            client = ComfyClient(await host.start(), context.http)
            assert b'"SaveImage"' in await client.object_info()
        finally:
            await host.stop()


@pytest.mark.comfyui
async def test_a_real_comfyui_is_started_gives_its_log_and_ends(tmp_path: Path) -> None:
    peer = installed_peer()
    if peer is None:
        pytest.skip("NO COMFYUI: run `make test-comfyui`")
    base = tmp_path / "base"
    prepare_base_directory(base)
    flags = ["--cpu", "--disable-api-nodes", "--front-end-root", str(base / "front_end")]
    flags += ["--database-url", f"sqlite:///{base / 'user' / 'comfyui.db'}"]
    async with host_context(tmp_path) as context:
        host = make_host(
            context,
            {
                "folder": str(peer.checkout),
                "python": str(peer.python),
                "base_directory": str(base),
                "arguments": flags,
                "environment": {"OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1"},
            },
        )
        try:
            client = ComfyClient(await host.start(), context.http)
            assert b'"KSampler"' in await client.object_info()
            assert await host.logs(5)
            pid = host.pid
        finally:
            await host.stop()
    assert pid is not None
    assert not is_running(pid)
