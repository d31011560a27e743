"""Driver `ssh`: keys on both sides, lines that break, and programs that outlive them."""

import asyncio
import os
import signal
import sys
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import asyncssh
import pytest

from comfyrail.errors import DriverRefused, WorkerError, WorkerUnreachable
from comfyrail.faultlab.proxy import proxy_to
from comfyrail.fleet.comfyui.client import ComfyClient
from comfyrail.fleet.drivers.interface import HostContext
from comfyrail.fleet.drivers.readiness import answers_like_comfyui
from comfyrail.fleet.drivers.registry import driver_named
from comfyrail.fleet.drivers.ssh import SshHost
from comfyrail.fleet.places import one_spelling
from comfyrail.ids import WorkerId
from tests.fleet.drivers.checkout import make_checkout
from tests.fleet.drivers.foreign_worker import foreign_worker
from tests.fleet.drivers.picture_job import run_a_picture
from tests.fleet.drivers.process_state import is_running
from tests.fleet.drivers.setting import host_context
from tests.fleet.drivers.ssh_server import SshServer, ssh_server
from tests.fleet.drivers.ssh_setting import tunnel_config
from tests.processes import worker
from tests.services.ports import free_ports


@dataclass(frozen=True)
class Remote:
    """A machine that is reached by SSH, with a worker on it."""

    context: HostContext
    server: SshServer
    config: dict[str, Any]

    def host(self, **settings: Any) -> SshHost:
        return make_host(self.context, {**self.config, **settings})


def make_host(context: HostContext, config: Mapping[str, Any]) -> SshHost:
    driver = driver_named("ssh")
    host = driver.host(WorkerId("s1"), driver.check(config), context)
    assert isinstance(host, SshHost)
    return host


@asynccontextmanager
async def remote_machine(folder: Path) -> AsyncIterator[Remote]:
    async with (
        host_context(folder, secrets={"key-word": "open sesame"}) as context,
        ssh_server(folder / "ssh") as server,
        foreign_worker() as behind,
    ):
        yield Remote(context, server, tunnel_config(server, behind.url))


@asynccontextmanager
async def started(host: SshHost) -> AsyncIterator[str]:
    try:
        yield await host.start()
    finally:
        await host.stop()


def program_on(folder: Path, port: int, *flags: str) -> str:
    main = make_checkout(folder / "remote") / "main.py"
    words = [sys.executable, "-uS", str(main), "--listen", "127.0.0.1", "--port", str(port), *flags]
    return " ".join(words)


# Keys


@pytest.mark.parametrize("kind", ["ssh-ed25519", "ecdsa-sha2-nistp256"])
async def test_a_changed_host_key_is_refused_with_what_to_do(tmp_path: Path, kind: str) -> None:
    async with remote_machine(tmp_path) as remote:
        await remote.server.stop()
        remote.server.change_host_key(kind)
        await remote.server.start()
        with pytest.raises(DriverRefused, match="ssh-keygen -R") as caught:
            await remote.host().start()
        assert caught.value.code == "SSH_HOST_KEY_CHANGED"


async def test_an_unknown_host_is_refused_with_what_to_do(tmp_path: Path) -> None:
    async with remote_machine(tmp_path) as remote:
        remote.server.known_hosts.write_text("")
        with pytest.raises(DriverRefused, match="ssh-keyscan") as caught:
            await remote.host().start()
        assert caught.value.code == "SSH_HOST_KEY_UNKNOWN"
        with pytest.raises(DriverRefused, match="ssh-keyscan"):
            await remote.host(known_hosts=str(tmp_path / "no-file")).start()


async def test_a_key_that_is_not_let_in_is_for_a_person_to_mend(tmp_path: Path) -> None:
    wrong = tmp_path / "wrong_key"
    asyncssh.generate_private_key("ssh-ed25519").write_private_key(str(wrong))
    async with remote_machine(tmp_path) as remote:
        with pytest.raises(DriverRefused, match="authorized_keys") as caught:
            await remote.host(key_file=str(wrong)).start()
        assert caught.value.code == "SSH_KEY_REFUSED"


async def test_a_key_with_a_passphrase_is_opened_by_a_secret_of_the_server(tmp_path: Path) -> None:
    async with remote_machine(tmp_path) as remote:
        locked = tmp_path / "locked_key"
        remote.server.authorized.write_private_key(str(locked), passphrase="open sesame", rounds=50)
        async with started(remote.host(key_file=str(locked), passphrase_secret="key-word")):
            pass
        with pytest.raises(DriverRefused, match="passphrase"):
            await remote.host(key_file=str(locked)).start()
        with pytest.raises(DriverRefused, match="'other-word'"):
            await remote.host(key_file=str(locked), passphrase_secret="other-word").start()


async def test_a_file_that_is_no_key_is_refused(tmp_path: Path) -> None:
    nonsense = tmp_path / "nonsense"
    nonsense.write_text("no key at all")
    async with remote_machine(tmp_path) as remote:
        with pytest.raises(DriverRefused, match="cannot be used"):
            await remote.host(key_file=str(nonsense)).start()


# Lines


async def test_a_machine_that_is_not_there_may_come_back(tmp_path: Path) -> None:
    async with remote_machine(tmp_path) as remote:
        await remote.server.stop()
        with pytest.raises(WorkerUnreachable, match="cannot be reached by SSH"):
            await remote.host().start()
        await remote.server.start()
        async with started(remote.host()) as url:
            assert await answers_like_comfyui(remote.context.http, url)


async def test_a_line_that_goes_dead_without_a_word_is_noticed_and_made_again(
    tmp_path: Path,
) -> None:
    async with remote_machine(tmp_path) as remote:
        key = remote.server.known_hosts.read_text().partition(" ")[2]
        async with proxy_to(remote.server.port) as first, proxy_to(remote.server.port) as second:
            for relay in (first, second):
                with remote.server.known_hosts.open("a") as file:
                    file.write(f"[127.0.0.1]:{relay.port} {key}")
            host = remote.host(port=first.port, keepalive=0.05, grace_seconds=0)
            await host.start()
            first.fall_silent()
            async with asyncio.timeout(20):
                assert "was lost" in await host.wait_ended()
            await host.release()
            async with started(remote.host(port=second.port)) as url:
                assert await answers_like_comfyui(remote.context.http, url)


async def test_what_speaks_no_ssh_is_explained(tmp_path: Path) -> None:
    async with remote_machine(tmp_path) as remote, foreign_worker() as web:
        port = int(web.url.rpartition(":")[2])
        with pytest.raises(WorkerUnreachable, match="cannot be reached by SSH"):
            await remote.host(port=port).start()


async def test_a_machine_without_a_worker_says_where_one_was_looked_for(tmp_path: Path) -> None:
    port = free_ports(1)[0]
    async with remote_machine(tmp_path) as remote:
        with pytest.raises(WorkerUnreachable, match=f"127.0.0.1:{port}"):
            await remote.host(remote_port=port).start()


async def test_the_same_server_given_to_static_and_ssh_is_noticed(tmp_path: Path) -> None:
    async with remote_machine(tmp_path) as remote:
        place = remote.host().place
        assert place is not None
        port = remote.config["remote_port"]
        assert one_spelling(place) == one_spelling(f"http://127.0.0.1:{port}")
        elsewhere = remote.host(remote_host="10.0.0.7", remote_port=8188)
        assert elsewhere.place == "http://10.0.0.7:8188"
        assert "18188" in str(make_host(remote.context, {"host": "gpu"}).place)


async def test_a_job_of_a_real_worker_goes_through_the_tunnel(tmp_path: Path) -> None:
    async with remote_machine(tmp_path) as remote:
        with worker(tmp_path / "real") as real:
            port = int(real.url.rpartition(":")[2])
            async with started(remote.host(remote_port=port)) as url:
                assert (await run_a_picture(url, remote.context.http)).startswith(b"\x89PNG")


# Programs


async def test_a_command_starts_a_worker_that_outlives_the_line_and_is_ended_by_stop(
    tmp_path: Path,
) -> None:
    port = free_ports(1)[0]
    async with remote_machine(tmp_path) as remote:
        settings = {"remote_port": port, "command": program_on(tmp_path, port), "workdir": "~"}
        first = remote.host(**settings)
        await first.start()
        stats = await ComfyClient(await first.start(), remote.context.http).system_stats()
        assert "flags" in await first.logs(10)
        await first.release()
        second = remote.host(**settings)
        url = await second.start()
        found = await ComfyClient(url, remote.context.http).system_stats()
        assert found == stats
        ended = asyncio.create_task(second.wait_ended())
        os.kill(found["system"]["pid"], signal.SIGKILL)
        async with asyncio.timeout(20):
            assert "has ended" in await ended
        again = await ComfyClient(await second.start(), remote.context.http).system_stats()
        assert again != found
        assert not is_running(found["system"]["child"])
        await second.release()
        # A third server, which has no connection yet, ends what the others left.
        await remote.host(**settings).stop()
        assert not any(is_running(pid) for pid in again["system"].values())


async def test_stop_leaves_a_process_that_only_has_the_number_of_ours(tmp_path: Path) -> None:
    async with remote_machine(tmp_path) as remote:
        host = remote.host(command="true", workdir=str(tmp_path))
        other = await asyncio.create_subprocess_exec("sleep", "600", start_new_session=True)
        try:
            with pytest.raises(WorkerUnreachable):
                await remote.host(
                    command="sleep 600", remote_port=free_ports(1)[0], start_limit=0.3
                ).start()
            notes = next((remote.server.home / ".cache" / "comfyrail").iterdir())
            (notes / "pid").write_text(f"{other.pid}\n12345\n")
            await host.stop()
            assert other.returncode is None
        finally:
            other.kill()
            await other.wait()


async def test_a_command_that_ends_is_explained_by_its_own_words(tmp_path: Path) -> None:
    port = free_ports(1)[0]
    async with remote_machine(tmp_path) as remote:
        host = remote.host(remote_port=port, command=program_on(tmp_path, port, "--fail"))
        with pytest.raises(WorkerUnreachable, match="no weights anywhere"):
            await host.start()


async def test_a_folder_that_is_not_there_is_for_a_person_to_mend(tmp_path: Path) -> None:
    async with remote_machine(tmp_path) as remote:
        host = remote.host(remote_port=free_ports(1)[0], command="true", workdir="/no/such/place")
        with pytest.raises(DriverRefused, match="workdir"):
            await host.start()


async def test_texts_of_a_command_reach_the_shell_unchanged(tmp_path: Path) -> None:
    async with remote_machine(tmp_path) as remote:
        host = remote.host(
            remote_port=free_ports(1)[0],
            command="printf '%s\\n' \"it's @name@ \\$HOME\" `echo back`; exit 1",
        )
        with pytest.raises(WorkerUnreachable, match=r"it's @name@ \$HOME\nback"):
            await host.start()


async def test_without_a_line_there_is_no_log(tmp_path: Path) -> None:
    async with remote_machine(tmp_path) as remote:
        with pytest.raises(WorkerError, match="no SSH connection"):
            await remote.host(command="true").logs(5)
