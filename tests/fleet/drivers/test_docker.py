"""Driver `docker`: what is asked of the engine, and what is said when it does not work."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from comfyrail.errors import DriverRefused, WorkerError, WorkerUnreachable
from comfyrail.fleet.drivers.docker import DockerHost
from comfyrail.fleet.drivers.docker_settings import (
    DockerSettings,
    check_docker_settings,
    container_name,
    container_of,
    labels_of,
    published_port,
)
from comfyrail.fleet.drivers.interface import HostContext
from comfyrail.fleet.drivers.registry import driver_named
from comfyrail.fleet.places import one_spelling
from comfyrail.ids import WorkerId
from tests.fleet.drivers import podman
from tests.fleet.drivers.docker_setting import engine_worker_config, worker_config
from tests.fleet.drivers.picture_job import run_a_picture
from tests.fleet.drivers.setting import host_context
from tests.services.ports import free_ports

needs_engine = pytest.mark.skipif(
    podman.why_no_engine() is not None, reason=podman.why_no_engine() or ""
)


def make_host(context: HostContext, config: Mapping[str, Any], worker_id: str = "d1") -> DockerHost:
    driver = driver_named("docker")
    host = driver.host(WorkerId(worker_id), driver.check(config), context)
    assert isinstance(host, DockerHost)
    return host


def made(**settings: Any) -> dict[str, Any]:
    checked = check_docker_settings(DockerSettings(image="comfyui:1", **settings))
    return container_of(checked, {"a": "b"}, Path("/data/models"))


# What is asked of the engine


def test_all_graphics_cards_or_some_are_asked_for_as_docker_does() -> None:
    everything = made(gpus="all")["HostConfig"]["DeviceRequests"]
    assert everything == [{"Capabilities": [["gpu"]], "Count": -1}]
    some = made(gpus="0, GPU-ab12")["HostConfig"]["DeviceRequests"]
    assert some == [{"Capabilities": [["gpu"]], "DeviceIDs": ["0", "GPU-ab12"]}]
    assert "DeviceRequests" not in made()["HostConfig"]


def test_the_port_is_published_on_the_loopback_address_alone() -> None:
    bindings = made(port=9000)["HostConfig"]["PortBindings"]
    assert bindings == {"9000/tcp": [{"HostIp": "127.0.0.1", "HostPort": ""}]}
    assert "PortBindings" not in made(network="host")["HostConfig"]


def test_limits_volumes_and_variables_reach_the_container(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    body = made(
        memory="2g",
        shm_size=1 << 20,
        volumes=("./here:/there:ro", "named:/data"),
        environment={"A": "b=c"},
        command=("python", "main.py"),
        user="1000:1000",
        models_path="/comfyui/models",
    )
    machine = body["HostConfig"]
    assert (machine["Memory"], machine["ShmSize"]) == (2 << 30, 1 << 20)
    assert machine["Binds"] == [
        f"{tmp_path}/here:/there:ro",
        "named:/data",
        "/data/models:/comfyui/models:ro",
    ]
    assert body["Env"] == ["A=b=c"]
    assert body["Cmd"] == ["python", "main.py"]
    assert body["User"] == "1000:1000"
    assert "Entrypoint" not in body


def test_names_of_containers_are_those_of_workers_where_an_engine_takes_them() -> None:
    assert container_name("gpu-1") == "comfyrail-gpu-1"
    odd = {container_name("a/b"), container_name("a b"), container_name("a_b")}
    assert len(odd) == 3


def test_other_settings_have_other_labels() -> None:
    one = labels_of("w", Path("/d"), DockerSettings(image="a"))
    other = labels_of("w", Path("/d"), DockerSettings(image="a", port=1))
    assert one == labels_of("w", Path("/d"), DockerSettings(image="a"))
    assert one != other


@pytest.mark.parametrize(
    "shown",
    [
        {},
        {"NetworkSettings": None},
        {"NetworkSettings": {"Ports": []}},
        {"NetworkSettings": {"Ports": {"8188/tcp": None}}},
        {"NetworkSettings": {"Ports": {"8188/tcp": [5, {"HostPort": "x"}, {"HostPort": "0"}]}}},
    ],
)
def test_an_engine_that_shows_no_port_has_published_none(shown: Mapping[str, Any]) -> None:
    assert published_port(shown, 8188) is None


async def test_workers_without_a_network_of_their_own_meet_at_their_port(tmp_path: Path) -> None:
    async with host_context(tmp_path) as context:
        host = make_host(context, {"image": "a", "network": "host", "port": 8190})
        assert host.place is not None
        assert one_spelling(host.place) == one_spelling("http://localhost:8190")
        assert make_host(context, {"image": "a"}).place is None


# What is said when it does not work


@pytest.mark.parametrize("kind", ["unix", "tcp"])
async def test_an_engine_that_is_not_there_is_explained(tmp_path: Path, kind: str) -> None:
    where = (
        f"unix://{tmp_path}/no.sock" if kind == "unix" else f"tcp://127.0.0.1:{free_ports(1)[0]}"
    )
    async with host_context(tmp_path) as context:
        host = make_host(context, {"image": "a", "url": where})
        for call in (host.start, host.stop, lambda: host.logs(5)):
            with pytest.raises(WorkerUnreachable, match="DOCKER_HOST") as caught:
                await call()
            assert caught.value.code == "ENGINE_UNREACHABLE"
            assert where in caught.value.message


@needs_engine
async def test_a_missing_image_is_named_with_the_command_that_brings_it(tmp_path: Path) -> None:
    config = {"image": "localhost/nothing:1", "url": podman.engine().url}
    async with host_context(tmp_path) as context:
        for policy in ("never", "missing"):
            with pytest.raises(WorkerError, match="docker pull localhost/nothing:1") as caught:
                await make_host(context, {**config, "pull": policy}).start()
            assert caught.value.code == "IMAGE_MISSING"
            if policy == "never":
                assert isinstance(caught.value, DriverRefused)


@needs_engine
async def test_a_registrys_credential_must_be_among_the_servers_secrets(tmp_path: Path) -> None:
    config = {
        "image": "localhost/nothing:1",
        "url": podman.engine().url,
        "registry_secret": "hub",
    }
    for secrets, match in (({}, "COMFYRAIL_SECRET_HUB"), ({"hub": "no-colon"}, "user:password")):
        async with host_context(tmp_path, secrets=secrets) as context:
            with pytest.raises(DriverRefused, match=match):
                await make_host(context, config).start()


@needs_engine
async def test_a_program_that_is_not_in_the_image_is_for_a_person_to_mend(tmp_path: Path) -> None:
    config = {**worker_config(tmp_path), "command": ["/no/such/program"]}
    async with host_context(tmp_path) as context:
        with pytest.raises(DriverRefused, match="/no/such/program"):
            await make_host(context, config).start()
    assert "comfyrail-d1" not in podman.engine().podman("ps", "--all")


@needs_engine
async def test_one_that_ends_at_once_is_explained_by_its_own_words(tmp_path: Path) -> None:
    config = worker_config(tmp_path)
    config["command"] = [*config["command"], "--fail"]
    async with host_context(tmp_path) as context:
        with pytest.raises(WorkerUnreachable, match="no weights anywhere"):
            await make_host(context, config).start()


@needs_engine
async def test_a_container_of_somebody_else_is_left_alone(tmp_path: Path) -> None:
    config = worker_config(tmp_path)
    async with (
        host_context(tmp_path / "one") as context,
        host_context(tmp_path / "two") as other_context,
    ):
        host = make_host(context, config)
        url = await host.start()
        try:
            other = make_host(other_context, config)
            for call in (other.start, other.stop, lambda: other.logs(1)):
                with pytest.raises(DriverRefused, match="not of this server"):
                    await call()
            # A new server with the same data folder goes on with the same container.
            again = make_host(context, config)
            assert await again.start() == url
            # One with other settings is made anew.
            variables = {**config["environment"], "A": "b"}
            changed = make_host(context, {**config, "environment": variables})
            assert await changed.start() != url
            assert '"A": "b"' in await changed.logs(10)
        finally:
            await host.stop()
        assert "comfyrail-d1" not in podman.engine().podman("ps", "--all")


@needs_engine
async def test_a_removed_container_is_noticed(tmp_path: Path) -> None:
    async with host_context(tmp_path) as context:
        host = make_host(context, worker_config(tmp_path))
        await host.start()
        podman.engine().podman("rm", "--force", "--time", "0", "comfyrail-d1")
        assert "comfyrail-d1" in await host.wait_ended()
        with pytest.raises(WorkerError, match="no container"):
            await host.logs(5)


@needs_engine
async def test_a_job_runs_on_an_engine_worker_in_a_container(tmp_path: Path) -> None:
    async with host_context(tmp_path) as context:
        host = make_host(context, engine_worker_config())
        try:
            picture = await run_a_picture(await host.start(), context.http)
        finally:
            await host.stop()
    assert picture.startswith(b"\x89PNG")
