"""Driver `ssh`: a real SSH server that forwards to workers which were there before us."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from comfyrail.fleet.drivers.interface import WorkerHost
from tests.fleet.drivers.foreign_worker import foreign_worker
from tests.fleet.drivers.setting import Setting, host_context
from tests.fleet.drivers.ssh_server import SshServer, ssh_server


def why_skipped() -> str | None:
    return None


def tunnel_config(server: SshServer, worker_url: str) -> dict[str, Any]:
    return {
        "host": "127.0.0.1",
        "port": server.port,
        "user": "tester",
        "key_file": str(server.key_file),
        "known_hosts": str(server.known_hosts),
        "remote_port": int(worker_url.rpartition(":")[2]),
        "start_limit": 20,
    }


@asynccontextmanager
async def open_setting(folder: Path) -> AsyncIterator[Setting]:
    async with (
        host_context(folder) as context,
        ssh_server(folder / "ssh") as server,
        foreign_worker() as one,
        foreign_worker() as two,
    ):
        config = {**tunnel_config(server, one.url), "grace_seconds": 0}

        async def kill(_host: WorkerHost, _url: str) -> None:
            server.drop_connections()

        yield Setting(
            context=context,
            config=config,
            other_config=tunnel_config(server, two.url),
            kill=kill,
            stop_ends_it=False,
            released_lives_on=True,
            has_logs=False,
            bad_configs=[
                ("host", {}),
                ("host", {**config, "host": "-oProxyCommand=x"}),
                ("port", {**config, "port": 0}),
                ("key_file", {**config, "key_file": str(folder / "no-key")}),
                ("remote_port", {**config, "remote_port": "http"}),
                ("remote_host", {**config, "remote_host": "two words"}),
                ("command", {**config, "command": " "}),
                ("workdir", {**config, "workdir": "/srv"}),
                ("output_folder", {**config, "output_folder": "output"}),
                ("keepalive", {**config, "keepalive": 0}),
            ],
        )
