"""Driver `ssh`: a remote ComfyUI through a tunnel. Keys only, and the host's key is checked."""

import asyncio
import contextlib
import logging
import os
import re
import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any
from urllib.parse import urlsplit

import asyncssh
import msgspec
import structlog

from comfyrail.errors import DriverRefused, WorkerError, WorkerUnreachable
from comfyrail.fleet.credentials import secret_named
from comfyrail.fleet.drivers.foreign_log import ask_for_log
from comfyrail.fleet.drivers.interface import HostContext
from comfyrail.fleet.drivers.log_files import MOST_LINES, TAIL_BYTES, keep_last_lines
from comfyrail.fleet.drivers.readiness import answers_like_comfyui, wait_until_it_answers
from comfyrail.fleet.drivers.remote_program import NO_LOG, RemoteProgram
from comfyrail.fleet.drivers.settings import (
    DriverSettings,
    existing_path,
    plain_settings,
    read_settings,
    wrong_setting,
)
from comfyrail.ids import WorkerId

LOCAL = "127.0.0.1"
CONNECT_SECONDS = 20.0
CALL_SECONDS = 30.0
LOST_AFTER_KEEPALIVES = 3
FIRST_PAUSE_SECONDS = 0.2
LONGEST_PAUSE_SECONDS = 2.0
RECONNECT_TRY_SECONDS = 5.0
LONGEST_IN_MESSAGES = 2000

_HOST = re.compile(r"[A-Za-z0-9_:%.][A-Za-z0-9_:%.-]{0,252}")
_RUN_FOLDER = re.compile(r"run-[0-9a-f-]{36}")
_LOOPBACK = frozenset(("127.0.0.1", "localhost", "::1"))

log = structlog.get_logger(__name__)

# It tells of every channel otherwise, and each request of a job is one.
asyncssh.set_log_level(logging.WARNING)

Port = Annotated[int, msgspec.Meta(ge=1, le=65535)]


class SshSettings(DriverSettings, kw_only=True, frozen=True):
    host: str
    port: Port = 22
    user: str | None = None
    """Default: the name of the server's own user."""
    key_file: str | None = None
    """A private key (default: the usual ones in ~/.ssh, and those of a running ssh-agent)."""
    passphrase_secret: str | None = None
    """The name of the server's credential that opens the key."""
    known_hosts: str | None = None
    """Default: ~/.ssh/known_hosts."""
    remote_host: str = LOCAL
    """Where the worker listens, as seen from the remote machine."""
    remote_port: Port = 18188
    command: str | None = None
    """Starts the worker there, in a shell, when nothing answers. It is ended with the worker."""
    workdir: str | None = None
    output_folder: str | None = None
    """The worker's output folder there: what a run saves in it is removed once it is fetched."""
    keepalive: Annotated[float, msgspec.Meta(gt=0, le=3600)] = 2.0
    """Seconds between two signs of life; after three without an answer the line counts as lost."""
    grace_seconds: Annotated[float, msgspec.Meta(ge=0, le=3600)] = 30.0
    """How long the line may be gone, and is tried anew, before the worker counts as ended."""
    start_limit: Annotated[float, msgspec.Meta(gt=0, le=86400)] = 300.0
    """Seconds until a worker that `command` starts must answer."""


class SshDriver:
    name = "ssh"

    def check(self, config: Mapping[str, Any]) -> Mapping[str, Any]:
        settings = read_settings(SshSettings, config, self.name)
        for field in ("host", "remote_host"):
            text = getattr(settings, field)
            if not _HOST.fullmatch(text):
                raise wrong_setting(self.name, field, f"{text[:80]!r} is no name or address.")
        if settings.command is not None and not settings.command.strip():
            raise wrong_setting(self.name, "command", "it is empty.")
        if settings.workdir is not None and settings.command is None:
            raise wrong_setting(self.name, "workdir", "it is where 'command' runs: give both.")
        if settings.output_folder is not None and not settings.output_folder.startswith("/"):
            raise wrong_setting(self.name, "output_folder", "it is the whole path, from '/' on.")
        for field in ("command", "workdir", "user", "output_folder"):
            if "\0" in (getattr(settings, field) or ""):
                raise wrong_setting(self.name, field, "it has a null character in it.")
        key, known = settings.key_file, settings.known_hosts
        changed = {
            "host": settings.host.lower(),
            "remote_host": settings.remote_host.lower(),
            "key_file": key and existing_path(self.name, "key_file", key, folder=False),
            "known_hosts": known and str(Path(known).expanduser().absolute()),
        }
        return plain_settings(msgspec.structs.replace(settings, **changed))

    def host(
        self, worker_id: WorkerId, config: Mapping[str, Any], context: HostContext
    ) -> "SshHost":
        return SshHost(worker_id, read_settings(SshSettings, config, self.name), context)


class SshHost:
    """One connection with one forwarded port. The worker itself is found by its remote address."""

    driver = "ssh"
    shares_inputs = False

    def __init__(self, worker_id: WorkerId, settings: SshSettings, context: HostContext) -> None:
        self._settings = settings
        self._context = context
        self._connection: asyncssh.SSHClientConnection | None = None
        self._url: str | None = None
        self._program: RemoteProgram | None = None
        if settings.command is not None:
            self._program = RemoteProgram(
                worker_id, context.data, settings.command, settings.workdir
            )

    @property
    def place(self) -> str | None:
        settings = self._settings
        is_there = settings.remote_host in _LOOPBACK
        host = settings.host if is_there else settings.remote_host
        bracketed = f"[{host}]" if ":" in host else host
        return f"http://{bracketed}:{settings.remote_port}"

    async def start(self) -> str:
        await self._disconnect()
        connection = await self._connect()
        self._connection = connection
        try:
            url = await self._forward(connection)
            if not await answers_like_comfyui(self._context.http, url):
                await self._start_program(connection, url)
        except BaseException:
            await self._disconnect()
            raise
        self._url = url
        return url

    async def wait_ended(self) -> str:
        """A connection that breaks is made anew, and the worker found under the same URL as before:
        what it runs goes on meanwhile.
        """
        while self._connection is not None:
            cause = await self._wait_for_loss(self._connection)
            if cause is not None:
                return cause
            if not await self._reconnect():
                return f"the SSH connection to {self._settings.host} was lost"
        return "the SSH connection was closed"

    async def _wait_for_loss(self, connection: asyncssh.SSHClientConnection) -> str | None:
        """Until the connection is gone (None), or the worker has ended for another cause."""
        lost = asyncio.create_task(connection.wait_closed(), name="ssh-closed")
        ends = {lost}
        if self._program is not None:
            watching = self._run(connection, self._program.watch(), limit=None)
            ends.add(asyncio.create_task(_ignoring_errors(watching), name="ssh-watch"))
        try:
            await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
            if not lost.done() and not connection.is_closed():
                return f"the program on {self._settings.host} has ended"
        finally:
            for task in ends:
                task.cancel()
            await asyncio.gather(*ends, return_exceptions=True)
        return None

    async def _reconnect(self) -> bool:
        """Whether the worker can be reached again where it was."""
        url = self._url
        pause = FIRST_PAUSE_SECONDS
        with contextlib.suppress(TimeoutError, DriverRefused):  # `start` says then what is wrong
            async with asyncio.timeout(self._settings.grace_seconds):
                while url is not None:
                    try:
                        self._connection = await self._connect(RECONNECT_TRY_SECONDS)
                        await self._forward(self._connection, urlsplit(url).port or 0)
                    except WorkerUnreachable:
                        await self._disconnect()
                        await asyncio.sleep(pause)
                        pause = min(LONGEST_PAUSE_SECONDS, 2 * pause)
                    else:
                        self._url = url
                        log.info("ssh_reconnected", host=self._settings.host)
                        return True
        return False

    async def end_hung(self) -> bool:
        """Kill the program there, if it is ours."""
        connection = self._connection
        if self._program is None or connection is None or connection.is_closed():
            return False
        await self._run(connection, self._program.stop(), limit=CALL_SECONDS)
        return True

    @property
    def can_remove_outputs(self) -> bool:
        return self._settings.output_folder is not None

    async def remove_outputs(self, folder: str) -> bool:
        """Remove a folder below the worker's outputs; whether it can be done at all."""
        connection, outputs = self._connection, self._settings.output_folder
        if outputs is None or not _RUN_FOLDER.fullmatch(folder):
            return False
        if connection is None or connection.is_closed():
            raise self._unreachable("there is no connection now")
        path = shlex.quote(f"{outputs.rstrip('/')}/{folder}")
        code, text = await self._run(connection, f"rm -rf -- {path}\n", limit=CALL_SECONDS)
        if code != 0:
            raise WorkerError(
                f"{self._settings.host} does not let its files be removed: "
                f"{text[-LONGEST_IN_MESSAGES:].strip() or f'exit code {code}'}."
            )
        return True

    async def stop(self) -> None:
        try:
            if self._program is not None:
                connection = self._connection
                if connection is None or connection.is_closed():
                    connection = self._connection = await self._connect()
                await self._run(connection, self._program.stop(), limit=CALL_SECONDS)
        finally:
            await self._disconnect()

    async def release(self) -> None:
        """The worker goes on; the next server finds it where it is."""
        await self._disconnect()

    async def logs(self, lines: int) -> str:
        connection = self._connection
        if connection is None or connection.is_closed():
            raise WorkerUnreachable(
                f"There is no SSH connection to {self._settings.host} now, so no log."
            )
        if self._program is None:
            return await ask_for_log(self._context.http, self._url or "", lines)
        wanted = max(0, min(lines, MOST_LINES))
        code, text = await self._run(connection, self._program.log(wanted), limit=CALL_SECONDS)
        if code == NO_LOG:
            raise WorkerError(
                f"The program on {self._settings.host} was not started by this server, so its log "
                "is not known. See it there.",
                code="NO_WORKER_LOG",
            )
        return keep_last_lines(text, wanted)

    # The connection

    async def _connect(self, limit: float = CONNECT_SECONDS) -> asyncssh.SSHClientConnection:
        settings = self._settings
        known_hosts = self._known_hosts()
        options: dict[str, Any] = {}
        if settings.user is not None:
            options["username"] = settings.user
        if settings.key_file is not None:
            options |= {"client_keys": [settings.key_file], "agent_path": None}
        passphrase = self._passphrase()
        if passphrase is not None:
            options["passphrase"] = passphrase
        try:
            async with asyncio.timeout(limit):
                return await asyncssh.connect(
                    settings.host,
                    settings.port,
                    config=None,
                    known_hosts=str(known_hosts),
                    preferred_auth=("publickey",),
                    keepalive_interval=settings.keepalive,
                    keepalive_count_max=LOST_AFTER_KEEPALIVES,
                    **options,
                )
        except (asyncssh.HostKeyNotVerifiable, asyncssh.KeyExchangeFailed) as error:
            raise await self._host_key_refused(known_hosts, error) from error
        except asyncssh.PermissionDenied as error:
            raise self._key_refused() from error
        except (asyncssh.KeyImportError, asyncssh.KeyEncryptionError) as error:
            raise DriverRefused(
                f"The key {settings.key_file or 'in ~/.ssh'} cannot be used: {error}. If it has a "
                "passphrase, name the server's secret with it as 'passphrase_secret'.",
                code="SSH_KEY_UNUSABLE",
            ) from error
        except TimeoutError as error:
            raise self._unreachable(f"no answer in {limit:g} s") from error
        except (asyncssh.Error, OSError, UnicodeError) as error:
            raise self._unreachable(str(error)) from error

    def _known_hosts(self) -> Path:
        settings = self._settings
        path = Path(settings.known_hosts or Path.home() / ".ssh" / "known_hosts")
        if not os.access(path, os.R_OK):
            raise DriverRefused(
                f"The keys of known hosts cannot be read from {path}, so {settings.host} cannot "
                f"be told from an impostor. {self._how_to_trust(path)}",
                code="SSH_HOST_KEY_UNKNOWN",
            )
        return path

    def _passphrase(self) -> str | None:
        name = self._settings.passphrase_secret
        if name is None:
            return None
        return secret_named(self._context.secrets, name, "The SSH key")

    async def _host_key_refused(self, path: Path, error: asyncssh.Error) -> DriverRefused:
        settings = self._settings
        shown = settings.host if settings.port == 22 else f"[{settings.host}]:{settings.port}"
        if await asyncio.to_thread(_is_known, path, settings.host, settings.port):
            return DriverRefused(
                f"The host key of {shown} is not the one in {path} ({error.reason}). Either the "
                "machine was set up anew, or somebody sits in between. If you know why, forget the "
                f"old one with: ssh-keygen -R '{shown}' -f {path}, and then: "
                f"{self._how_to_trust(path)}",
                code="SSH_HOST_KEY_CHANGED",
                details={"host": settings.host},
            )
        if isinstance(error, asyncssh.KeyExchangeFailed):
            return DriverRefused(
                f"{shown} and this server have no way to talk in common: {error.reason}.",
                code="SSH_KEY_EXCHANGE",
            )
        return DriverRefused(
            f"The host key of {shown} is not in {path}. {self._how_to_trust(path)}",
            code="SSH_HOST_KEY_UNKNOWN",
            details={"host": settings.host},
        )

    def _how_to_trust(self, path: Path) -> str:
        settings = self._settings
        return (
            f"Fetch it with: ssh-keyscan -p {settings.port} {settings.host} >> {path}, and compare "
            "it with what the machine itself says: ssh-keygen -lf "
            "/etc/ssh/ssh_host_ed25519_key.pub"
        )

    def _key_refused(self) -> DriverRefused:
        settings = self._settings
        key = settings.key_file or "the keys in ~/.ssh"
        who = f"user {settings.user}" if settings.user else "the server's own user name"
        return DriverRefused(
            f"{settings.host} does not let in {who} with {key}. Put the public key into the "
            "file ~/.ssh/authorized_keys of that user there, or correct 'user' and 'key_file'.",
            code="SSH_KEY_REFUSED",
            details={"host": settings.host},
        )

    def _unreachable(self, why: str) -> WorkerUnreachable:
        settings = self._settings
        return WorkerUnreachable(
            f"{settings.host}, port {settings.port}, cannot be reached by SSH: {why}.",
            code="SSH_UNREACHABLE",
            details={"host": settings.host},
        )

    async def _forward(self, connection: asyncssh.SSHClientConnection, port: int = 0) -> str:
        """The URL under which the worker is reached from now on; `port` 0: a free one."""
        settings = self._settings
        try:
            listener = await connection.forward_local_port(
                LOCAL, port, settings.remote_host, settings.remote_port
            )
        except (asyncssh.Error, OSError) as error:
            raise self._unreachable(str(error)) from error
        return f"http://{LOCAL}:{listener.get_port()}"

    async def _disconnect(self) -> None:
        connection, self._connection, self._url = self._connection, None, None
        if connection is None:
            return
        connection.close()
        try:
            async with asyncio.timeout(CALL_SECONDS):
                await connection.wait_closed()
        except TimeoutError:
            connection.abort()

    # The program there

    async def _start_program(self, connection: asyncssh.SSHClientConnection, url: str) -> None:
        settings = self._settings
        where = f"{settings.remote_host}:{settings.remote_port}"
        program = self._program
        if program is None:
            raise WorkerUnreachable(
                f"{settings.host} is reached by SSH, but nothing there answers like a ComfyUI on "
                f"{where}. Start it there, correct 'remote_port', or give a 'command'."
            )
        code, text = await self._run(connection, program.start(), limit=CALL_SECONDS)
        if code != 0:
            raise DriverRefused(
                f"The command cannot be started on {settings.host}: "
                f"{text[-LONGEST_IN_MESSAGES:].strip() or f'exit code {code}'}. Is 'workdir' there?"
            )

        async def cause_of_end() -> str | None:
            code, _ = await self._run(connection, program.is_alive(), limit=CALL_SECONDS)
            return None if code == 0 else f"'{settings.command}' ended."

        try:
            await wait_until_it_answers(self._context.http, url, settings.start_limit, cause_of_end)
        except WorkerUnreachable as error:
            _, words = await self._run(connection, program.log(20), limit=CALL_SECONDS)
            await self._run(connection, program.stop(), limit=CALL_SECONDS)
            raise WorkerUnreachable(
                f"{error.message} Its log on {settings.host} ends with: "
                f"{words[-LONGEST_IN_MESSAGES:].strip() or 'nothing'}"
            ) from error

    async def _run(
        self, connection: asyncssh.SSHClientConnection, script: str, limit: float | None
    ) -> tuple[int, str]:
        """Exit code and output of a script in the remote machine's POSIX shell."""
        try:
            async with asyncio.timeout(limit):
                return await _run_bounded(connection, script)
        except TimeoutError as error:
            raise self._unreachable(f"a command there took more than {limit:g} s") from error
        except (asyncssh.Error, OSError) as error:
            raise self._unreachable(str(error)) from error


async def _run_bounded(connection: asyncssh.SSHClientConnection, script: str) -> tuple[int, str]:
    """Of the output the end is kept, however much there is."""
    text = ""
    async with connection.create_process(
        "sh -s", stderr=asyncssh.STDOUT, errors="replace"
    ) as process:
        process.stdin.write(script)
        process.stdin.write_eof()
        while piece := await process.stdout.read(1 << 16):
            text = (text + piece)[-TAIL_BYTES:]
        await process.wait_closed()
        code = process.exit_status
    return (-1 if code is None else code), text


async def _ignoring_errors(work: Any) -> None:
    with contextlib.suppress(WorkerError):
        await work


def _is_known(path: Path, host: str, port: int) -> bool:
    """Whether any key of the host is in the file."""
    try:
        found = asyncssh.read_known_hosts(str(path)).match(host, "", port if port != 22 else None)
    except (OSError, ValueError):
        return False
    return any(found)
