"""A real SSH server in the test's own process: it checks keys, forwards ports and runs commands."""

import asyncio
from asyncio.subprocess import PIPE, STDOUT
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import asyncssh


class SshServer:
    """It can be stopped and started again on its port, also with another key."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.home = folder / "home"
        self.home.mkdir(parents=True)
        self.port = 0
        self.key_file = folder / "client_key"
        self.known_hosts = folder / "known_hosts"
        self.connections: list[asyncssh.SSHServerConnection] = []
        self._acceptor: asyncssh.SSHAcceptor | None = None
        self._host_key = asyncssh.generate_private_key("ssh-ed25519")
        self.authorized = asyncssh.generate_private_key("ssh-ed25519")
        self.authorized.write_private_key(str(self.key_file))

    async def start(self) -> None:
        authorized = asyncssh.import_authorized_keys(self.authorized.export_public_key().decode())
        server = self

        class Doorkeeper(asyncssh.SSHServer):
            def connection_made(self, conn: asyncssh.SSHServerConnection) -> None:
                server.connections.append(conn)

            def connection_requested(
                self, dest_host: str, dest_port: int, orig_host: str, orig_port: int
            ) -> bool:
                del dest_host, dest_port, orig_host, orig_port
                return True

        self._acceptor = await asyncssh.listen(
            "127.0.0.1",
            self.port,
            server_factory=Doorkeeper,
            server_host_keys=[self._host_key],
            authorized_client_keys=authorized,
            process_factory=self._run,
            encoding=None,
        )
        self.port = self._acceptor.get_port()

    async def stop(self) -> None:
        self.drop_connections()
        if self._acceptor is not None:
            self._acceptor.close()
            await self._acceptor.wait_closed()

    def drop_connections(self) -> None:
        """As a network does: without a word."""
        connections, self.connections = self.connections, []
        for connection in connections:
            connection.abort()

    def trust(self) -> None:
        """Write the host's key to the file of known hosts."""
        key = self._host_key.export_public_key().decode().strip()
        self.known_hosts.write_text(f"[127.0.0.1]:{self.port} {key}\n")

    def change_host_key(self, kind: str = "ssh-ed25519") -> None:
        """From the next start on."""
        self._host_key = asyncssh.generate_private_key(kind)

    async def _run(self, process: "asyncssh.SSHServerProcess[bytes]") -> None:
        """A command of the client's, in a shell of this machine with another home."""
        command = await asyncio.create_subprocess_shell(
            process.command or "true",
            stdin=PIPE,
            stdout=PIPE,
            stderr=STDOUT,
            cwd=self.home,
            env={"HOME": str(self.home), "PATH": "/usr/local/bin:/usr/bin:/bin"},
            start_new_session=True,
        )
        assert command.stdin is not None
        assert command.stdout is not None
        try:
            command.stdin.write(await process.stdin.read())
            command.stdin.close()
            while piece := await command.stdout.read(1 << 16):
                if process.channel.is_closing():
                    break
                process.stdout.write(piece)
            else:
                process.exit(await command.wait())
        finally:
            # As sshd does it: what the command writes next has no reader.
            command._transport.close()  # type: ignore[attr-defined] # it has no public way
            await command.wait()


@asynccontextmanager
async def ssh_server(folder: Path) -> AsyncIterator[SshServer]:
    server = SshServer(folder)
    await server.start()
    server.trust()
    try:
        yield server
    finally:
        await server.stop()
