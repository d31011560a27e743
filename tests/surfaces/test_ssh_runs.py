"""Runs on a machine that is reached by SSH: the worker comes with the run [10.4]."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.access.gate_parts import bearer, gated_server
from tests.fleet.drivers.ssh_server import SshServer, ssh_server
from tests.graphs import picture
from tests.processes import Comfyrail, server, wait_until, worker

EXECUTE = "/comfyui/workflow/execute"


@dataclass(frozen=True)
class Remote:
    ssh: SshServer
    worker: Comfyrail
    house: Comfyrail

    @property
    def connection(self) -> dict[str, Any]:
        return {
            "host": "127.0.0.1",
            "port": self.ssh.port,
            "username": "tester",
            "key_file": str(self.ssh.key_file),
            "known_hosts": str(self.ssh.known_hosts),
            "comfyui_port": int(self.worker.url.rpartition(":")[2]),
            "output_folder": str(self.worker.data / "output"),
        }

    async def call(self, *arguments: Any, **headers: str) -> tuple[int, Any]:
        return await asyncio.to_thread(self.house.call, *arguments, **headers)

    async def wait_run(self, run_id: str) -> Any:
        def look() -> Any:
            body = self.house.call("GET", f"/comfyui/workflow/{run_id}/progress")[1]
            return body if body["status"] in {"completed", "failed"} else None

        return await asyncio.to_thread(wait_until, look)


@asynccontextmanager
async def remote(tmp_path: Path) -> AsyncIterator[Remote]:
    """A server without workers, and a machine with one."""
    allowed = tmp_path / "allowed"
    allowed.mkdir()
    house = server(tmp_path / "data", workers=0, COMFYRAIL_RUN_FOLDERS=str(allowed))
    far = worker(tmp_path / "far")
    async with ssh_server(tmp_path / "ssh") as ssh:
        await asyncio.gather(asyncio.to_thread(house.start), asyncio.to_thread(far.start))
        try:
            yield Remote(ssh, far, house)
        finally:
            await asyncio.to_thread(house.stop)
            await asyncio.to_thread(far.stop)


async def test_connection_becomes_a_worker_and_its_files_come_over_and_are_removed_there(
    tmp_path: Path,
) -> None:
    async with remote(tmp_path) as far:
        kept = far.worker.data / "output" / "mine.png"
        kept.parent.mkdir(parents=True, exist_ok=True)
        kept.write_bytes(b"from before")
        for color in (1, 1):  # the same twice: what was removed there is made again
            body = {
                "ssh_connection": far.connection,
                "workflow": picture(color),
                "output_dir": "out",
            }
            status, reply = await far.call("POST", EXECUTE, body)
            assert status == 200, reply
            done = await far.wait_run(reply["workflow_id"])
            assert (done["status"], done["worker"]) == ("completed", "ssh-1")
        made = [path.read_bytes() for path in (tmp_path / "allowed" / "out").iterdir()]
        assert len(made) == 2
        assert all(each.startswith(b"\x89PNG") for each in made)
        await asyncio.to_thread(
            wait_until,
            lambda: [path for path in kept.parent.rglob("*") if path.is_file()] == [kept],
        )
        workers = (await far.call("GET", "/v1/workers"))[1]["workers"]
        assert [each["worker_id"] for each in workers] == ["ssh-1"]
        kept_text = (
            b"".join(path.read_bytes() for path in far.house.data.glob("comfyrail.db*"))
            + json.dumps(workers).encode()
        )
        assert far.ssh.key_file.read_bytes().splitlines()[1] not in kept_text


async def test_connection_that_does_not_work_is_told_at_once_and_leaves_no_worker(
    tmp_path: Path,
) -> None:
    async with remote(tmp_path) as far:
        far.ssh.known_hosts.write_text("")
        body = {"ssh_connection": far.connection, "workflow": picture()}
        status, reply = await far.call("POST", EXECUTE, body)
        assert (status, reply["success"]) == (422, False)
        assert reply["error"]["code"] == "SSH_HOST_KEY_UNKNOWN"
        assert (await far.call("GET", "/v1/workers"))[1]["workers"] == []


def test_connection_takes_the_permission_to_change_the_fleet(tmp_path: Path) -> None:
    with gated_server(tmp_path / "data") as house:
        body = {"ssh_connection": {"host": "127.0.0.1"}, "workflow": picture()}
        status, reply = house.call("POST", EXECUTE, body, **bearer())
        assert (status, reply["error"]["code"]) == (403, "PERMISSION_MISSING")
        assert "fleet:write" in reply["message"]
