"""Models that drivers bring to the workers whose disk is the server's own [5.8]."""

import asyncio
import json
import os
from pathlib import Path
from typing import Any

import pytest
import yaml

from comfyrail.errors import DriverRefused, WorkerRefused, WorkerUnreachable
from comfyrail.fleet.drivers.interface import HostContext, WorkerHost
from comfyrail.fleet.drivers.registry import driver_named
from comfyrail.ids import WorkerId
from tests.comfyui_peer.comfyrail_python import comfyrail_peer_python
from tests.comfyui_peer.install import installed_peer, prepare_base_directory
from tests.fleet.drivers import podman
from tests.fleet.drivers.checkout import make_checkout
from tests.fleet.drivers.docker_setting import worker_config
from tests.fleet.drivers.setting import host_context
from tests.fleet.model_files.file_server import FileServer, serving

CONTENT = os.urandom(5000)


def make_host(
    name: str, context: HostContext, config: dict[str, Any], worker_id: str = "m1"
) -> WorkerHost:
    driver = driver_named(name)
    return driver.host(WorkerId(worker_id), driver.check(config), context)


async def test_a_process_finds_the_models_that_were_fetched_for_it(tmp_path: Path) -> None:
    checkout = {"folder": str(make_checkout(tmp_path / "checkout"))}
    async with serving(FileServer(CONTENT)) as server, host_context(tmp_path) as context:
        host = make_host("process", context, {**checkout, "models": [server.model()]})
        try:
            await host.start()
            log = await host.logs(20)
        finally:
            await host.stop()
    flags = json.loads(log.partition("flags ")[2].splitlines()[0])
    written = tmp_path / "data" / "workers" / "m1" / "model_paths.yaml"
    assert flags["extra_model_paths_config"] == [str(written)]
    paths = yaml.safe_load(written.read_text())["comfyrail"]
    fetched = Path(paths["base_path"]) / paths["checkpoints"] / "a.safetensors"
    assert fetched.read_bytes() == CONTENT
    assert fetched.is_relative_to(tmp_path / "data" / "models")


async def test_a_running_workers_models_are_not_pushed_out_by_anothers(tmp_path: Path) -> None:
    checkout = {"folder": str(make_checkout(tmp_path / "checkout")), "model_limit": 6000}
    async with serving(FileServer(CONTENT)) as server, host_context(tmp_path) as context:
        one = {**checkout, "models": [server.model("one")]}
        two = {**checkout, "models": [server.model("two")]}
        first = make_host("process", context, one)
        second = make_host("process", context, two, "m2")
        try:
            await first.start()
            with pytest.raises(WorkerUnreachable, match="in use"):
                await second.start()
            await first.stop()
            await second.start()
        finally:
            await first.stop()
            await second.stop()
    assert [path.name for path in (tmp_path / "data/models/checkpoints").iterdir()] == ["two"]


async def test_a_worker_whose_model_cannot_be_had_is_not_started(tmp_path: Path) -> None:
    checkout = {"folder": str(make_checkout(tmp_path / "checkout"))}
    server = FileServer(CONTENT, replies=[(404, {})])
    async with serving(server), host_context(tmp_path) as context:
        host = make_host("process", context, {**checkout, "models": [server.model()]})
        with pytest.raises(DriverRefused, match="answers 404"):
            await host.start()
    assert not (tmp_path / "data" / "workers" / "m1" / "worker.log").exists()


async def test_the_log_of_a_worker_that_waits_for_its_models_says_how_far_they_are(
    tmp_path: Path,
) -> None:
    checkout = {"folder": str(make_checkout(tmp_path / "checkout"))}
    server = FileServer(CONTENT, gate=asyncio.Event())
    async with serving(server), host_context(tmp_path) as context:
        host = make_host("process", context, {**checkout, "models": [server.model()]})
        starting = asyncio.create_task(host.start())
        async with asyncio.timeout(20):
            while not server.requests:  # noqa: ASYNC110 - the server's own state
                await asyncio.sleep(0.005)
        assert await host.logs(5) == "fetching checkpoints/a.safetensors: 0 of 5,000 bytes"
        starting.cancel()
        await asyncio.gather(starting, return_exceptions=True)
        await host.stop()


def test_a_limit_below_the_list_and_models_without_comfyui_are_refused(tmp_path: Path) -> None:
    line = FileServer(CONTENT).model(url="http://127.0.0.1/a")
    folder = str(make_checkout(tmp_path))
    with pytest.raises(WorkerRefused, match="model_limit"):
        driver_named("process").check({"folder": folder, "models": [line], "model_limit": 10})
    with pytest.raises(WorkerRefused, match="needs 'comfyui'"):
        driver_named("local").check({"models": [line]})


@pytest.mark.skipif(podman.why_no_engine() is not None, reason=podman.why_no_engine() or "")
async def test_a_container_sees_the_models_and_cannot_change_them(tmp_path: Path) -> None:
    look = "import os; print(open('/models/checkpoints/a.safetensors','rb').read() == "
    look += f"bytes.fromhex('{CONTENT.hex()}'), os.access('/models', os.W_OK))"
    async with serving(FileServer(CONTENT)) as server, host_context(tmp_path) as context:
        config = worker_config(tmp_path)
        main = tmp_path / "worker" / "main.py"
        main.write_text(f"{look}\n{main.read_text()}")
        config |= {"models": [server.model()], "models_path": "/models"}
        host = make_host("docker", context, config)
        try:
            await host.start()
            assert "True False" in await host.logs(20)
        finally:
            await host.stop()


@pytest.mark.comfyui
@pytest.mark.parametrize("name", ["process", "local"])
async def test_a_real_comfyui_lists_the_models_that_were_fetched_for_it(
    tmp_path: Path, name: str
) -> None:
    peer = installed_peer()
    if peer is None:
        pytest.skip("NO COMFYUI: run `make test-comfyui`")
    base = tmp_path / "base"
    prepare_base_directory(base)
    flags = ["--cpu", "--disable-api-nodes"]
    config: dict[str, Any]
    if name == "process":
        flags += ["--front-end-root", str(base / "front_end")]
        flags += ["--database-url", f"sqlite:///{base / 'user' / 'comfyui.db'}"]
        config = {"folder": str(peer.checkout), "python": str(peer.python), "arguments": flags}
        config |= {"base_directory": str(base)}
    else:
        flags += ["--base-directory", str(base)]
        config = {"comfyui": str(peer.checkout), "comfyui_arguments": flags}
        config |= {"python": str(comfyrail_peer_python(peer))}
    async with serving(FileServer(CONTENT)) as server, host_context(tmp_path) as context:
        host = make_host(name, context, {**config, "models": [server.model()]})
        try:
            url = await host.start()
            async with context.http.get(f"{url}/models/checkpoints") as reply:
                assert await reply.json() == ["a.safetensors"]
        finally:
            await host.stop()
