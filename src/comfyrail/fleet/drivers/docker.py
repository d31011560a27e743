"""Driver `docker`: a container of the Docker Engine, or of what speaks its API. It outlives the
server and is found again by its name.
"""

import asyncio
import os
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any
from urllib.parse import urlsplit

import aiodocker
import aiohttp
from aiodocker.containers import DockerContainer
from aiodocker.exceptions import DockerError

from comfyrail.errors import DriverRefused, WorkerError, WorkerUnreachable
from comfyrail.fleet.credentials import secret_named
from comfyrail.fleet.drivers.docker_settings import (
    DEFAULT_ENGINE,
    LOOPBACK,
    SERVER_LABEL,
    SETTINGS_LABEL,
    WORKER_LABEL,
    DockerSettings,
    check_docker_settings,
    container_name,
    container_of,
    is_remote,
    labels_of,
    published_port,
)
from comfyrail.fleet.drivers.interface import HostContext
from comfyrail.fleet.drivers.log_files import MOST_LINES, TAIL_BYTES, keep_last_lines
from comfyrail.fleet.drivers.readiness import wait_until_it_answers
from comfyrail.fleet.drivers.settings import plain_settings, read_settings
from comfyrail.fleet.drivers.worker_models import WorkerModels
from comfyrail.ids import WorkerId

CALL_SECONDS = 60.0
PULL_SECONDS = 3600.0
STOP_GRACE_SECONDS = 5
RECHECK_SECONDS = 2.0
LINES_IN_MESSAGES = 20
LONGEST_IN_MESSAGES = 2000
ANY_VERSION = "auto"
"""Of the engine's API: it is asked for its own, which some take half a second for."""
NOT_CONNECTED = 900
"""What aiodocker gives in place of an HTTP status."""
ONLY_A_PERSON = (
    "executable file not found",
    "no such file or directory",
    "could not select device driver",
    "permission denied",
    "invalid",
)
MAY_PASS = (
    "timeout",
    "timed out",
    "connection refused",
    "connection reset",
    "no such host",
    "temporary failure",
    "toomanyrequests",
    "too many requests",
    "unexpected eof",
)


class DockerDriver:
    name = "docker"

    def check(self, config: Mapping[str, Any]) -> Mapping[str, Any]:
        settings = read_settings(DockerSettings, config, self.name)
        return plain_settings(check_docker_settings(settings))

    def host(
        self, worker_id: WorkerId, config: Mapping[str, Any], context: HostContext
    ) -> "DockerHost":
        settings = read_settings(DockerSettings, config, self.name)
        return DockerHost(worker_id, settings, context)


class DockerHost:
    """One container, known by its name and labels, never by memory of this process."""

    driver = "docker"
    shares_inputs = False

    def __init__(self, worker_id: WorkerId, settings: DockerSettings, context: HostContext) -> None:
        self._settings = settings
        self._context = context
        self._name = container_name(worker_id)
        self._labels = labels_of(worker_id, context.data, settings)
        self._engine = settings.url or os.environ.get("DOCKER_HOST") or DEFAULT_ENGINE
        self._models = WorkerModels(settings, context)
        self._api_version = ANY_VERSION

    @property
    def place(self) -> str | None:
        """Known beforehand only where the container has no network of its own."""
        if self._settings.network != "host":
            return None
        return f"http://{self._machine()}:{self._settings.port}"

    async def start(self) -> str:
        models = self._models.folder if await self._models.fetch() else None
        async with self._connected() as engine:
            container = await self._find(engine)
            if container is not None and not self._is_usable(container):
                await self._remove(container)
                container = None
            if container is None:
                container = await self._create(
                    engine, container_of(self._settings, self._labels, models)
                )
            url = self._url_of(await self._show(container))
            try:
                limit = self._settings.start_limit
                await wait_until_it_answers(
                    self._context.http, url, limit, lambda: self._cause_of_end(container)
                )
            except WorkerUnreachable as error:
                words = await self._last_words(container)
                await self._remove(container)
                raise WorkerUnreachable(f"{error.message} Its log ends with: {words}") from error
        return url

    async def wait_ended(self) -> str:
        while True:
            try:
                async with self._connected() as engine:
                    container = await self._find(engine)
                    if container is None:
                        return f"the container {self._name} is gone"
                    if _is_running(container):
                        await container.wait()
                    cause = await self._cause_of_end(container)
                    if cause is not None:
                        return cause
            except WorkerError:
                # An engine that does not answer says nothing of the worker, which may go on.
                await asyncio.sleep(RECHECK_SECONDS)

    async def stop(self) -> None:
        async with self._connected() as engine:
            container = await self._find(engine)
            if container is not None:
                await self._remove(container)
        await self._models.let_go()

    async def release(self) -> None:
        """The container goes on. Its models are held again when the next server finds it."""
        await self._models.let_go()

    async def logs(self, lines: int) -> str:
        async with self._connected() as engine:
            container = await self._find(engine)
            if container is None:
                fetching = self._models.progress_text()
                if fetching:
                    return keep_last_lines(fetching, lines)
                raise WorkerError(
                    f"There is no container {self._name}, so there is no log.",
                    code="NO_WORKER_LOG",
                )
            return await _log_of(container, lines)

    # The engine

    @asynccontextmanager
    async def _connected(self) -> AsyncIterator[aiodocker.Docker]:
        """The engine, with its errors in our words."""
        try:
            async with aiodocker.Docker(self._engine, api_version=self._api_version) as engine:
                yield engine
                self._api_version = engine.api_version
        except DockerError as error:
            self._api_version = ANY_VERSION
            raise self._translated(error) from error
        except (TimeoutError, aiohttp.ClientError, OSError) as error:
            raise self._unreachable(str(error) or type(error).__name__) from error
        except (ValueError, KeyError) as error:
            raise WorkerUnreachable(
                f"What answers at {self._engine} is no container engine: {error!r}.",
                code="ENGINE_UNREACHABLE",
            ) from error

    async def _find(self, engine: aiodocker.Docker) -> DockerContainer | None:
        """The worker's container, with what the engine shows of it. Raises DriverRefused where
        another one has its name.
        """
        try:
            async with asyncio.timeout(CALL_SECONDS):
                container = await engine.containers.get(self._name)
        except DockerError as error:
            if error.status == 404:
                return None
            raise
        labels = _labels(container)
        if any(labels.get(key) != self._labels[key] for key in (WORKER_LABEL, SERVER_LABEL)):
            raise DriverRefused(
                f"There is a container {self._name} already, which is not of this server "
                f"({self._labels[SERVER_LABEL]}). Rename or remove it, or add the worker under "
                f"another id: docker rm -f {self._name}",
                code="CONTAINER_NAME_TAKEN",
                details={"container": self._name},
            )
        return container

    def _is_usable(self, container: DockerContainer) -> bool:
        same = _labels(container).get(SETTINGS_LABEL) == self._labels[SETTINGS_LABEL]
        return same and _is_running(container)

    async def _create(self, engine: aiodocker.Docker, body: dict[str, Any]) -> DockerContainer:
        await self._provide_image(engine)
        try:
            async with asyncio.timeout(CALL_SECONDS):
                container = await engine.containers.create(body, name=self._name)
                await container.start()
        except DockerError as error:
            if error.status == NOT_CONNECTED:
                raise
            await self._remove_half_made(engine)
            text = error.message[:LONGEST_IN_MESSAGES]
            message = f"The container {self._name} of {self._settings.image} cannot run: {text}"
            if error.status < 500 or any(word in text.lower() for word in ONLY_A_PERSON):
                raise DriverRefused(message, code="CONTAINER_REFUSED") from error
            raise WorkerUnreachable(message, code="CONTAINER_REFUSED") from error
        return container

    async def _remove_half_made(self, engine: aiodocker.Docker) -> None:
        container = await self._find(engine)
        if container is not None:
            await self._remove(container)

    async def _provide_image(self, engine: aiodocker.Docker) -> None:
        image, policy = self._settings.image, self._settings.pull
        if policy != "always" and await self._has_image(engine):
            return
        if policy == "never":
            raise DriverRefused(
                f"The image {image} is not on the machine of {self._engine}, and 'pull' is "
                f"'never'. Fetch it there with: docker pull {image}",
                code="IMAGE_MISSING",
                details={"image": image},
            )
        try:
            async with asyncio.timeout(PULL_SECONDS):
                await engine.images.pull(image, auth=self._registry_credential())
        except DockerError as error:
            if error.status == NOT_CONNECTED:
                raise
            text = error.message[:LONGEST_IN_MESSAGES]
            message = (
                f"The image {image} cannot be pulled: {text} Is the name right, and may it be "
                f"read? Try on the machine of {self._engine}: docker pull {image}"
            )
            kind = WorkerUnreachable if _may_pass(text) else DriverRefused
            raise kind(message, code="IMAGE_MISSING", details={"image": image}) from error

    async def _has_image(self, engine: aiodocker.Docker) -> bool:
        try:
            async with asyncio.timeout(CALL_SECONDS):
                await engine.images.inspect(self._settings.image)
        except DockerError as error:
            if error.status == 404:
                return False
            raise
        return True

    def _registry_credential(self) -> dict[str, str] | None:
        name = self._settings.registry_secret
        if name is None:
            return None
        secret = secret_named(self._context.secrets, name, f"The image {self._settings.image}")
        user, colon, password = secret.partition(":")
        if not colon:
            raise DriverRefused(
                f"The secret '{name}' is not of the form user:password.",
                code="SECRET_MISSING",
                details={"secret": name},
            )
        return {"username": user, "password": password}

    async def _show(self, container: DockerContainer) -> Mapping[str, Any]:
        async with asyncio.timeout(CALL_SECONDS):
            shown: Mapping[str, Any] = await container.show()
            return shown

    async def _cause_of_end(self, container: DockerContainer) -> str | None:
        """Why it does not run; None while it does."""
        try:
            shown = await self._show(container)
        except DockerError as error:
            if error.status == 404:
                return f"the container {self._name} was removed"
            raise
        if _is_running(container):
            return None
        state = shown.get("State") or {}
        memory = ", out of memory" if state.get("OOMKilled") else ""
        return f"the container {self._name} ended (exit code {state.get('ExitCode')}{memory})"

    async def _remove(self, container: DockerContainer) -> None:
        """End and remove it; one that is gone already is fine."""
        async with _already_so_is_fine(), asyncio.timeout(CALL_SECONDS):
            await container.stop(t=STOP_GRACE_SECONDS)
        async with _already_so_is_fine(), asyncio.timeout(CALL_SECONDS):
            await container.delete(force=True, v=True)

    async def _last_words(self, container: DockerContainer) -> str:
        try:
            text = await _log_of(container, LINES_IN_MESSAGES)
        except (DockerError, TimeoutError) as error:
            return f"nothing that can be read ({error})"
        return text[-LONGEST_IN_MESSAGES:].strip() or "nothing"

    # Addresses and messages

    def _machine(self) -> str:
        """Where published ports are reached from here."""
        if is_remote(self._engine):
            return urlsplit(self._engine).hostname or LOOPBACK
        address = self._settings.address
        return LOOPBACK if address in {"0.0.0.0", "localhost", "::"} else address  # noqa: S104 - compared

    def _url_of(self, shown: Mapping[str, Any]) -> str:
        port: int | None = self._settings.port
        if self._settings.network != "host":
            port = published_port(shown, self._settings.port)
        if port is None:
            raise DriverRefused(
                f"The engine has not published port {self._settings.port} of {self._name}. Choose "
                "a 'network' that can publish ports, or 'host'.",
                code="PORT_NOT_PUBLISHED",
            )
        host = self._machine()
        return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"

    def _translated(self, error: DockerError) -> WorkerError:
        if error.status == NOT_CONNECTED:
            return self._unreachable(error.message)
        return WorkerUnreachable(
            f"The container engine at {self._engine} answers {error.status}: "
            f"{error.message[:LONGEST_IN_MESSAGES]}",
            code="ENGINE_FAILED",
        )

    def _unreachable(self, why: str) -> WorkerError:
        return WorkerUnreachable(
            f"The container engine at {self._engine} cannot be reached: {why[:300]}. Is it "
            "running, and may the server's user open its socket? Another is named by the setting "
            "'url' or by DOCKER_HOST.",
            code="ENGINE_UNREACHABLE",
            details={"engine": self._engine},
        )


@asynccontextmanager
async def _already_so_is_fine() -> AsyncIterator[None]:
    try:
        yield
    except DockerError as error:
        if error.status not in {304, 404, 409}:
            raise


def _labels(container: DockerContainer) -> Mapping[str, Any]:
    config = container["Config"] if "Config" in container else None  # noqa: SIM401 - no dict
    labels = config.get("Labels") if isinstance(config, dict) else None
    return labels if isinstance(labels, dict) else {}


def _is_running(container: DockerContainer) -> bool:
    state = container["State"] if "State" in container else None  # noqa: SIM401 - no dict
    return isinstance(state, dict) and state.get("Running") is True


async def _log_of(container: DockerContainer, lines: int) -> str:
    wanted = max(0, min(lines, MOST_LINES))
    async with asyncio.timeout(CALL_SECONDS):
        # Podman 4 mixes up the last lines where a program writes them in pieces. The whole log is
        # bounded: the container was made so.
        is_podman = "Podman" in str((await container.docker.version()).get("Components"))
        which: dict[str, Any] = {} if is_podman else {"tail": wanted}
        pieces = await container.log(stdout=True, stderr=True, **which)
    return keep_last_lines("".join(pieces)[-TAIL_BYTES:], wanted)


def _may_pass(text: str) -> bool:
    return any(word in text.lower() for word in MAY_PASS)
