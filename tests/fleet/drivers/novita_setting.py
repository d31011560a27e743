"""Driver `novita`: instances of a server that keeps to the documented contract and runs them."""

import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any
from unittest.mock import patch

from comfyrail.fleet.drivers.interface import WorkerHost
from tests.fleet.drivers.setting import Setting, host_context
from tests.services import tiny_worker
from tests.services.novita_api import NovitaCloud, serving_novita


def why_skipped() -> str | None:
    return None


def instance_config(url: str, **more: Any) -> dict[str, Any]:
    return {
        "product_id": "4090.16c96g",
        "image": "registry.example/comfyui:1",
        "command": f"{sys.executable} -S {tiny_worker.__file__} $PORT",
        "base_url": url,
        "start_limit": 20,
        "poll_seconds": 0.05,
        **more,
    }


@asynccontextmanager
async def open_setting(folder: Path) -> AsyncIterator[Setting]:
    cloud = NovitaCloud()
    secrets = {"novita_api_key": cloud.key}
    async with host_context(folder, secrets=secrets) as context, serving_novita(cloud) as url:

        async def kill(_host: WorkerHost, _url: str) -> None:
            (process,) = cloud.processes.values()
            process.kill()

        config = instance_config(url)
        with patch.multiple(
            "comfyrail.fleet.drivers.novita", FIRST_PAUSE_SECONDS=0.02, LOG_SILENCE_SECONDS=0.2
        ):
            yield Setting(
                context=context,
                config=config,
                other_config=config,
                kill=kill,
                released_lives_on=True,
                bad_configs=[
                    ("product_id", {"image": "x"}),
                    ("image", {"product_id": "x"}),
                    ("gpus", {**config, "gpus": 9}),
                    ("disk_gb", {**config, "disk_gb": 5}),
                    ("port", {**config, "port": 2222}),
                    ("billing", {**config, "billing": "monthly"}),
                    ("base_url", {**config, "base_url": "http://api.novita.ai"}),
                    ("network_storages", {**config, "network_storages": [{"id": "a"}]}),
                ],
            )
