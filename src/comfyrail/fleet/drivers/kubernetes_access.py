"""Where a cluster is, and how a request shows who asks.

In a pod the address comes as for the engine's Jobs (comfyrail.engine.distributed); elsewhere from
the settings, or from a kubeconfig with a token, a token file, a client certificate, or a program
that gives credentials (as the clouds' clusters have).
"""

import asyncio
import base64
import json
import os
import ssl
import tempfile
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any

import yaml

from comfyrail.engine.distributed.kubernetes_address import ClusterAddress, find_cluster
from comfyrail.engine.distributed.settings import KubernetesSection
from comfyrail.errors import ConfigurationError, DriverRefused
from comfyrail.fleet.drivers.kubernetes_settings import KubernetesSettings

LARGEST_KUBECONFIG = 1 << 20
PROGRAM_SECONDS = 60.0
EARLY_SECONDS = 60.0
"""Credentials are asked for anew so long before they end."""


@dataclass(slots=True)
class _Program:
    """A program that gives credentials (`exec` in a kubeconfig), and what it gave."""

    command: list[str]
    environment: dict[str, str]
    api_version: str
    token: str = ""
    good_until: float = 0.0
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)


class ClusterAccess:
    """One cluster as one user. Raises DriverRefused from every method where it cannot be had."""

    def __init__(
        self,
        address: ClusterAddress,
        tls: ssl.SSLContext | bool,
        *,
        token: str = "",
        program: _Program | None = None,
    ) -> None:
        self.url = address.url
        self.namespace = address.namespace
        self.tls = tls
        self._address = address
        self._token = token
        self._program = program

    async def headers(self) -> dict[str, str]:
        """The header that shows who asks; read anew each time, as tokens are replaced."""
        if self._program is not None:
            return {"Authorization": f"Bearer {await _token_of(self._program)}"}
        if self._token:
            return {"Authorization": f"Bearer {self._token}"}
        try:
            return await asyncio.to_thread(self._address.authorization)
        except OSError as error:
            raise DriverRefused(
                f"The token of the cluster {self.url} cannot be read: {error}.",
                code="KUBERNETES_ACCESS",
            ) from error


def open_access(settings: KubernetesSettings) -> ClusterAccess:
    """Reads files: for a thread. Raises DriverRefused."""
    try:
        if settings.kubeconfig:
            return _from_kubeconfig(Path(settings.kubeconfig).expanduser(), settings)
        section = KubernetesSection(
            api_url=settings.api_url or None,
            namespace=settings.namespace or None,
            token_file=Path(settings.token_file) if settings.token_file else None,
            ca_file=Path(settings.ca_file) if settings.ca_file else None,
        )
        address = find_cluster(section)
        return ClusterAccess(address, address.ssl_context())
    except ConfigurationError as error:
        raise DriverRefused(
            "This server runs in no Kubernetes cluster: give the worker a kubeconfig or an "
            "api_url.",
            code="KUBERNETES_ACCESS",
        ) from error
    except (OSError, ValueError, KeyError, TypeError, yaml.YAMLError) as error:
        where = settings.kubeconfig or settings.api_url or "the pod's own account"
        raise DriverRefused(
            f"The access to the cluster ({where}) cannot be read: {_plain(error)}.",
            code="KUBERNETES_ACCESS",
        ) from error


def _from_kubeconfig(path: Path, settings: KubernetesSettings) -> ClusterAccess:
    if path.stat().st_size > LARGEST_KUBECONFIG:
        raise ValueError("it is too large to be a kubeconfig")
    config = yaml.safe_load(path.read_text("utf-8"))
    if not isinstance(config, dict):
        raise TypeError("it is no kubeconfig")
    wanted = settings.context or config.get("current-context") or ""
    context = _named(config, "contexts", "context", str(wanted))
    cluster = _named(config, "clusters", "cluster", str(context["cluster"]))
    user = _named(config, "users", "user", str(context["user"]))
    if cluster.get("insecure-skip-tls-verify"):
        raise ValueError("insecure-skip-tls-verify is not supported: name the authority's file")
    token_file = _beside(path, user.get("tokenFile"))
    address = ClusterAddress(
        str(cluster["server"]).rstrip("/"),
        settings.namespace or str(context.get("namespace") or "default"),
        token_file,
    )
    return ClusterAccess(
        address,
        _tls(path, cluster, user),
        token=str(user.get("token") or ""),
        program=_program(path, user.get("exec")),
    )


def _named(config: Mapping[str, Any], many: str, one: str, name: str) -> Mapping[str, Any]:
    for entry in config.get(many) or ():
        if entry.get("name") == name:
            found: Mapping[str, Any] = entry[one]
            return found
    raise ValueError(f"it has no {one} {name!r}")


def _tls(path: Path, cluster: Mapping[str, Any], user: Mapping[str, Any]) -> ssl.SSLContext | bool:
    if str(cluster["server"]).startswith("http://"):
        return True
    authority = cluster.get("certificate-authority-data")
    context = ssl.create_default_context(
        cafile=_text(_beside(path, cluster.get("certificate-authority"))),
        cadata=base64.b64decode(authority).decode() if authority else None,
    )
    if user.get("client-certificate-data"):
        both = base64.b64decode(user["client-certificate-data"]) + b"\n"
        both += base64.b64decode(user["client-key-data"])
        _load_certificate(context, both)
    elif user.get("client-certificate"):
        context.load_cert_chain(
            str(_beside(path, user["client-certificate"])),
            _text(_beside(path, user.get("client-key"))),
        )
    return context


def _load_certificate(context: ssl.SSLContext, both: bytes) -> None:
    """Python takes a certificate from a file only: one that nobody else can read, for a moment."""
    descriptor, name = tempfile.mkstemp(prefix="comfyrail-")
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(both)
        context.load_cert_chain(name)
    finally:
        Path(name).unlink()


def _program(path: Path, section: Any) -> _Program | None:
    if not section:
        return None
    command = str(section["command"])
    if "/" in command and not Path(command).is_absolute():
        command = str(path.parent / command)
    return _Program(
        [command, *(str(word) for word in section.get("args") or ())],
        {str(each["name"]): str(each["value"]) for each in section.get("env") or ()},
        str(section.get("apiVersion") or "client.authentication.k8s.io/v1"),
    )


async def _token_of(program: _Program) -> str:
    async with program.lock:
        if time.time() < program.good_until:
            return program.token
        said = await _run(program)
        try:
            status = json.loads(said)["status"]
            program.token = str(status["token"])
            ends = status.get("expirationTimestamp")
            moment = datetime.fromisoformat(ends) if ends else None
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise DriverRefused(
                f"{program.command[0]} gave no credentials for the cluster: {_plain(error)}.",
                code="KUBERNETES_ACCESS",
            ) from error
        until = time.time() + 600 if moment is None else moment.timestamp()
        program.good_until = until - EARLY_SECONDS
        return program.token


async def _run(program: _Program) -> bytes:
    info = {
        "apiVersion": program.api_version,
        "kind": "ExecCredential",
        "spec": {"interactive": False},
    }
    environment = {
        **os.environ,
        **program.environment,
        "KUBERNETES_EXEC_INFO": json.dumps(info),
    }
    try:
        process = await asyncio.create_subprocess_exec(
            *program.command,
            env=environment,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )
    except OSError as error:
        raise DriverRefused(
            f"{program.command[0]}, which the kubeconfig names for credentials, cannot be run: "
            f"{error}.",
            code="KUBERNETES_ACCESS",
        ) from error
    try:
        async with asyncio.timeout(PROGRAM_SECONDS):
            said, errors = await process.communicate()
    except TimeoutError as error:
        raise DriverRefused(
            f"{program.command[0]} gave no credentials in {PROGRAM_SECONDS:g} s.",
            code="KUBERNETES_ACCESS",
        ) from error
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    if process.returncode:
        why = errors[-300:].decode(errors="replace").strip()
        raise DriverRefused(
            f"{program.command[0]} gave no credentials: {why}.", code="KUBERNETES_ACCESS"
        )
    return said


def _beside(path: Path, name: Any) -> Path | None:
    """A file that a kubeconfig names, by the folder of the kubeconfig."""
    return path.parent / str(name) if name else None


def _text(path: Path | None) -> str | None:
    return None if path is None else str(path)


def _plain(error: BaseException) -> str:
    missing = isinstance(error, KeyError)
    return f"it lacks {error}" if missing else str(error) or type(error).__name__
