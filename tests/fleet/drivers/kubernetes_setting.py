"""Driver `kubernetes`: pods of a server that keeps to the documented API and really runs them."""

import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from comfyrail.fleet.drivers.interface import WorkerHost
from tests.fleet.drivers.setting import Setting, host_context
from tests.services import tiny_worker
from tests.services.kubernetes_api import PodCluster, serving_cluster
from tests.services.ports import free_ports


def why_skipped() -> str | None:
    return None


def pod_config(url: str, folder: Path, port: int, **more: Any) -> dict[str, Any]:
    token_file = folder / "token"
    token_file.write_text("s3cret\n")
    return {
        "image": "registry.example/comfyui:1",
        "command": [sys.executable, "-S", tiny_worker.__file__, str(port)],
        "namespace": "renders",
        "api_url": url,
        "token_file": str(token_file),
        "port": port,
        "start_limit": 20,
        "stop_grace": 5,
        **more,
    }


@asynccontextmanager
async def open_setting(folder: Path) -> AsyncIterator[Setting]:
    cluster = PodCluster()
    async with host_context(folder) as context, serving_cluster(cluster) as url:
        ports = free_ports(2)

        async def kill(_host: WorkerHost, _url: str) -> None:
            (pod,) = cluster.pods.values()
            cluster.processes[pod["metadata"]["uid"]].kill()

        config = pod_config(url, folder, ports[0])
        yield Setting(
            context=context,
            config=config,
            other_config=pod_config(url, folder, ports[1]),
            kill=kill,
            released_lives_on=True,
            bad_configs=[
                ("image", {}),
                ("memory", {**config, "memory": "much"}),
                ("port", {**config, "port": 0}),
                ("reach", {**config, "reach": "magic"}),
                ("volumes", {**config, "volumes": [{"claim": "models", "path": "here"}]}),
                ("tolerations", {**config, "tolerations": [{"operator": "Maybe"}]}),
                ("environment", {**config, "environment": {"A B": "c"}}),
                ("namespace", {**config, "namespace": "../kube-system"}),
            ],
        )
