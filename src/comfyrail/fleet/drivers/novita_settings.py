"""The settings of a worker on a GPU instance of Novita AI."""

import re
from collections.abc import Iterator
from typing import Annotated, Literal

import msgspec

from comfyrail.fleet.drivers.settings import DriverSettings, wrong_setting

DRIVER_NAME = "novita"
BASE_URL = "https://api.novita.ai"
RESERVED_PORTS = {2222, 2223, 2224}
MOST_VARIABLES = 98
"""Novita takes 100; two are this driver's own."""

_SECRET = re.compile(r"[a-z][a-z0-9_]{0,62}")


class NetworkStorage(msgspec.Struct, kw_only=True, forbid_unknown_fields=True, frozen=True):
    id: str
    path: str


class NovitaSettings(DriverSettings, frozen=True):
    product_id: Annotated[str, msgspec.Meta(min_length=1, max_length=255)]
    image: Annotated[str, msgspec.Meta(min_length=1, max_length=500)]
    gpus: Annotated[int, msgspec.Meta(ge=1, le=8)] = 1
    disk_gb: Annotated[int, msgspec.Meta(ge=10, le=6144)] = 60
    command: Annotated[str, msgspec.Meta(max_length=2047)] = ""
    entrypoint: Annotated[str, msgspec.Meta(max_length=2047)] = ""
    environment: dict[str, str] = msgspec.field(default_factory=dict)
    port: Annotated[int, msgspec.Meta(ge=1, le=65535)] = 8188
    billing: Literal["onDemand", "spot"] = "onDemand"
    """Not `monthly`: a month would be paid for a worker that may be needed for an hour."""
    cluster_id: Annotated[str, msgspec.Meta(max_length=255)] = ""
    network_storages: list[NetworkStorage] = msgspec.field(default_factory=list)
    image_auth_id: Annotated[str, msgspec.Meta(max_length=255)] = ""
    image_auth_secret: str = ""
    """The name of a secret of the server: `username:password` for the image's registry."""
    min_cuda_version: Annotated[str, msgspec.Meta(max_length=20)] = ""
    start_limit: Annotated[float, msgspec.Meta(gt=0, le=86400)] = 1800.0
    poll_seconds: Annotated[float, msgspec.Meta(gt=0, le=600)] = 15.0
    base_url: str = BASE_URL


def check_settings(settings: NovitaSettings) -> None:
    """Raises WorkerRefused naming the field that is wrong."""
    for field, fault in _faults(settings):
        raise wrong_setting(DRIVER_NAME, field, fault)


def _faults(settings: NovitaSettings) -> Iterator[tuple[str, str]]:
    yield from _list_faults(settings)
    if settings.port in RESERVED_PORTS:
        yield "port", "Novita keeps 2222, 2223 and 2224 for itself."
    if settings.image_auth_secret and not _SECRET.fullmatch(settings.image_auth_secret):
        yield "image_auth_secret", "It is the name of a secret, such as novita_image_auth."
    if settings.image_auth_secret and settings.image_auth_id:
        yield "image_auth_secret", "Give it or image_auth_id, not both."
    if not settings.base_url.startswith(("https://", "http://127.0.0.1:", "http://localhost:")):
        yield "base_url", "It begins with https://, as the key goes there."


def _list_faults(settings: NovitaSettings) -> Iterator[tuple[str, str]]:
    if len(settings.environment) > MOST_VARIABLES:
        yield "environment", f"There can be {MOST_VARIABLES} variables at most."
    for name, value in settings.environment.items():
        if not name or len(name) > 511 or len(value) > 4095 or name.startswith("COMFYRAIL_WORKER"):
            yield "environment", f"{name[:80]!r} cannot be a variable, or its value is too long."
    if len(settings.network_storages) > 30:
        yield "network_storages", "There can be 30 at most."
    for storage in settings.network_storages:
        if not storage.id or not storage.path.startswith("/"):
            yield "network_storages", "Each has an id, and a path that begins with /."
