"""What a worker in a container can be told, and the container that is made of it. Pure."""

import hashlib
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal
from urllib.parse import urlsplit

import msgspec

from comfyrail.fleet.drivers.settings import byte_count, plain_settings, wrong_setting
from comfyrail.fleet.drivers.worker_models import SettingsWithModels, check_models

DRIVER = "docker"
DEFAULT_ENGINE = "unix:///var/run/docker.sock"
LOOPBACK = "127.0.0.1"
WORKER_LABEL = "comfyrail.worker"
SERVER_LABEL = "comfyrail.server"
SETTINGS_LABEL = "comfyrail.settings"
LOG_OPTIONS = {"max-size": "10m"}

_IMAGE = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:/@+-]{0,500}")
_GPU = re.compile(r"[A-Za-z0-9-]{1,80}")
_VOLUME = re.compile(r"(?P<source>[^:]+):(?P<target>/[^:]*)(?P<options>:[a-zA-Z,]+)?")
_NOT_IN_NAMES = re.compile(r"[^a-zA-Z0-9_.-]")


class DockerSettings(SettingsWithModels, kw_only=True, frozen=True):
    image: str
    """An image whose container serves ComfyUI's protocol."""
    url: str | None = None
    """The engine: unix:///… or tcp://… (default: DOCKER_HOST, else /var/run/docker.sock)."""
    command: tuple[str, ...] | None = None
    """In place of the image's own; ComfyUI must listen on 0.0.0.0 in there."""
    entrypoint: tuple[str, ...] | None = None
    environment: dict[str, str] = msgspec.field(default_factory=dict)
    port: Annotated[int, msgspec.Meta(ge=1, le=65535)] = 8188
    """On which the worker listens inside the container."""
    address: str = LOOPBACK
    """The address of the engine's machine on which the port is published."""
    gpus: str | None = None
    """`all`, or ids with commas between them."""
    volumes: tuple[str, ...] = ()
    """`/on/the/machine:/in/the/container` or `name:/in/the/container`, with `:ro` where wanted."""
    network: str | None = None
    memory: int | str | None = None
    shm_size: int | str | None = None
    user: str | None = None
    pull: Literal["missing", "never", "always"] = "missing"
    registry_secret: str | None = None
    """The name of a credential of the server, `user:password`, for the image's registry."""
    models_path: str | None = None
    """Where the models folder appears in the container, read-only."""
    start_limit: Annotated[float, msgspec.Meta(gt=0, le=86400)] = 300.0
    """Seconds until it must answer; fetching the image and models is not counted."""


def check_docker_settings(settings: DockerSettings) -> DockerSettings:
    """In one spelling. Raises WorkerRefused."""
    settings = check_models(settings, DRIVER)
    if not _IMAGE.fullmatch(settings.image):
        raise wrong_setting(DRIVER, "image", f"{settings.image[:80]!r} is no name of an image.")
    if settings.registry_secret and "/" not in settings.image:
        raise wrong_setting(
            DRIVER, "registry_secret", "the image must be named with its registry for that."
        )
    _check_engine(settings)
    for name, value in settings.environment.items():
        if not name or "=" in name or "\0" in name + value:
            raise wrong_setting(DRIVER, "environment", f"{name!r} cannot be set.")
    if settings.models and not (settings.models_path or "").startswith("/"):
        raise wrong_setting(
            DRIVER, "models_path", "with 'models' it must be an absolute path in the container."
        )
    return msgspec.structs.replace(
        settings,
        gpus=_gpus(settings.gpus),
        volumes=tuple(_volume(text) for text in settings.volumes),
        memory=_bytes("memory", settings.memory),
        shm_size=_bytes("shm_size", settings.shm_size),
    )


def is_remote(engine: str) -> bool:
    """Whether the engine is on another machine: folders and loopback addresses are not ours."""
    parts = urlsplit(engine)
    return parts.scheme != "unix" and parts.hostname not in {LOOPBACK, "localhost", "::1"}


def container_name(worker_id: str) -> str:
    """The worker's id in it, in characters that an engine takes."""
    safe = _NOT_IN_NAMES.sub("_", worker_id)
    if safe != worker_id:
        safe = f"{safe}-{hashlib.sha256(worker_id.encode()).hexdigest()[:8]}"
    return f"comfyrail-{safe}"


def labels_of(worker_id: str, data: Path, settings: DockerSettings) -> dict[str, str]:
    """By which a container is known as this server's, and as made from these settings."""
    written = msgspec.json.encode(plain_settings(settings), order="sorted")
    return {
        WORKER_LABEL: worker_id,
        SERVER_LABEL: str(data.absolute()),
        SETTINGS_LABEL: hashlib.sha256(written).hexdigest()[:16],
    }


def container_of(
    settings: DockerSettings, labels: Mapping[str, str], models: Path | None
) -> dict[str, Any]:
    """The body of the engine's request to create the container."""
    port = f"{settings.port}/tcp"
    binds = list(settings.volumes)
    if models is not None and settings.models_path is not None:
        binds.append(f"{models}:{settings.models_path}:ro")
    machine: dict[str, Any] = {
        "Binds": binds,
        "LogConfig": {"Type": "json-file", "Config": LOG_OPTIONS},
    }
    if settings.network is not None:
        machine["NetworkMode"] = settings.network
    if settings.network != "host":
        machine["PortBindings"] = {port: [{"HostIp": settings.address, "HostPort": ""}]}
    if settings.memory is not None:
        machine["Memory"] = settings.memory
    if settings.shm_size is not None:
        machine["ShmSize"] = settings.shm_size
    if settings.gpus is not None:
        machine["DeviceRequests"] = [_device_request(settings.gpus)]
    body: dict[str, Any] = {
        "Image": settings.image,
        "Env": [f"{name}={value}" for name, value in settings.environment.items()],
        "Labels": dict(labels),
        "ExposedPorts": {port: {}},
        "HostConfig": machine,
    }
    optional = {
        "Cmd": settings.command and list(settings.command),
        "Entrypoint": settings.entrypoint and list(settings.entrypoint),
        "User": settings.user,
    }
    return body | {name: value for name, value in optional.items() if value is not None}


def published_port(shown: Mapping[str, Any], port: int) -> int | None:
    """Where the engine has put a port of the container, from what it shows of that one."""
    network = shown.get("NetworkSettings")
    ports = network.get("Ports") if isinstance(network, dict) else None
    bindings = ports.get(f"{port}/tcp") if isinstance(ports, dict) else None
    for binding in bindings if isinstance(bindings, list) else ():
        text = str(binding.get("HostPort", "")) if isinstance(binding, dict) else ""
        if text.isascii() and text.isdigit() and 0 < int(text) < 65536:
            return int(text)
    return None


def _check_engine(settings: DockerSettings) -> None:
    if settings.url is None:
        return
    parts = urlsplit(settings.url)
    is_socket = parts.scheme == "unix" and parts.path.startswith("/") and not parts.netloc
    if not is_socket and not (parts.scheme in {"tcp", "http", "https"} and parts.hostname):
        raise wrong_setting(
            DRIVER,
            "url",
            f"{settings.url[:200]!r} is no engine. Give unix:///path/of/the.sock or tcp://host:port.",
        )
    if not is_remote(settings.url):
        return
    if settings.models:
        raise wrong_setting(
            DRIVER, "models", "the engine is on another machine, whose disk is not ours."
        )
    if settings.address in {LOOPBACK, "localhost", "::1"} and settings.network != "host":
        raise wrong_setting(
            DRIVER,
            "address",
            "the engine is on another machine: give an address of that one which this server "
            "reaches. Whoever reaches it too can use the worker.",
        )


def _gpus(text: str | None) -> str | None:
    if text is None or text == "all":
        return text
    ids = [part.strip() for part in text.split(",")]
    if not all(_GPU.fullmatch(part) for part in ids):
        raise wrong_setting(
            DRIVER, "gpus", f"{text[:80]!r} is neither 'all' nor ids with commas between them."
        )
    return ",".join(ids)


def _device_request(gpus: str) -> dict[str, Any]:
    which: dict[str, Any] = {"Count": -1} if gpus == "all" else {"DeviceIDs": gpus.split(",")}
    return {"Capabilities": [["gpu"]], **which}


def _volume(text: str) -> str:
    found = _VOLUME.fullmatch(text)
    if found is None:
        raise wrong_setting(
            DRIVER, "volumes", f"{text[:200]!r} is not like /here:/there or /here:/there:ro."
        )
    source = found["source"]
    if source.startswith(("/", "~", ".")):
        source = str(Path(source).expanduser().absolute())
    return f"{source}:{found['target']}{found['options'] or ''}"


def _bytes(field: str, value: int | str | None) -> int | None:
    return None if value is None else byte_count(DRIVER, field, value)
