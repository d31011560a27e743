"""Driver `docker`: containers of a real engine."""

import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from comfyrail.fleet.drivers.interface import WorkerHost
from tests.fleet.drivers import podman
from tests.fleet.drivers.checkout import make_checkout
from tests.fleet.drivers.setting import Setting, host_context


def why_skipped() -> str | None:
    return podman.why_no_engine()


def worker_config(folder: Path) -> dict[str, Any]:
    """A small worker in a container."""
    worker = make_checkout(folder / "worker")
    command = [podman.python_of_this_machine(), "-S", "/worker/main.py"]
    return {
        "image": podman.IMAGE,
        "url": podman.engine().url,
        "command": [*command, "--listen", "0.0.0.0", "--port", "8188"],
        "environment": {"PYTHONUNBUFFERED": "1"},
        "volumes": [*podman.mounts_of_this_machine(), f"{worker}:/worker:ro"],
        "pull": "never",
        "start_limit": 30,
    }


def engine_worker_config() -> dict[str, Any]:
    """A real engine worker in a container."""
    repository = Path(__file__).parents[3]
    seen = [sys.prefix, str(repository / "src")]
    command = [sys.executable, "-m", "comfyrail", "worker", "--host", "0.0.0.0"]
    return {
        "image": podman.IMAGE,
        "url": podman.engine().url,
        "command": [*command, "--port", "8188", "--data", "/tmp/worker", "--metrics-port", "0"],
        "environment": {"HOME": "/tmp", "PYTHONPATH": str(repository / "src")},
        "volumes": [*podman.mounts_of_this_machine(), *(f"{each}:{each}:ro" for each in seen)],
        "pull": "never",
        "start_limit": 60,
    }


@asynccontextmanager
async def open_setting(folder: Path) -> AsyncIterator[Setting]:
    config = worker_config(folder)

    async def kill(_host: WorkerHost, _url: str) -> None:
        podman.engine().podman("kill", "comfyrail-first")

    async with host_context(folder) as context:
        yield Setting(
            context=context,
            config=config,
            other_config=config,
            kill=kill,
            released_lives_on=True,
            bad_configs=[
                ("image", {}),
                ("image", {**config, "image": "two words"}),
                ("url", {**config, "url": "docker.sock"}),
                ("address", {**config, "url": "tcp://10.0.0.9:2375"}),
                ("port", {**config, "port": 0}),
                ("gpus", {**config, "gpus": "0;1"}),
                ("volumes", {**config, "volumes": ["/only-one"]}),
                ("memory", {**config, "memory": "lots"}),
                ("shm_size", {**config, "shm_size": "-1"}),
                ("pull", {**config, "pull": "sometimes"}),
                ("registry_secret", {**config, "image": "bare", "registry_secret": "x"}),
                ("models[0].name", {**config, "models": [model("../../etc/passwd")]}),
                ("models_path", {**config, "models": [model("a.safetensors")]}),
            ],
        )


def model(name: str) -> dict[str, Any]:
    return {
        "name": name,
        "folder": "checkpoints",
        "url": "http://127.0.0.1/a",
        "sha256": "0" * 64,
        "size": 1,
    }
