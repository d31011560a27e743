"""The settings of a worker in a Kubernetes pod."""

import re
from collections.abc import Iterator
from typing import Annotated, Literal

import msgspec

from comfyrail.fleet.drivers.settings import DriverSettings, wrong_setting

DRIVER_NAME = "kubernetes"

Port = Annotated[int, msgspec.Meta(ge=1, le=65535)]
Seconds = Annotated[float, msgspec.Meta(gt=0, le=86400)]

_LABEL = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")
_VARIABLE = re.compile(r"[-._a-zA-Z][-._a-zA-Z0-9]*")
_QUANTITY = re.compile(r"[0-9]+(\.[0-9]+)?(m|k|Ki|M|Mi|G|Gi|T|Ti)?")
_LABEL_KEY = re.compile(r"([a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?/)?[A-Za-z0-9]([-\w.]{0,61}\w)?")


class Toleration(msgspec.Struct, kw_only=True, forbid_unknown_fields=True, frozen=True):
    key: str = ""
    operator: Literal["Equal", "Exists"] = "Equal"
    value: str = ""
    effect: Literal["", "NoSchedule", "PreferNoSchedule", "NoExecute"] = ""


class Volume(msgspec.Struct, kw_only=True, forbid_unknown_fields=True, frozen=True):
    """A persistent volume claim, and where the worker finds it."""

    claim: str
    path: str
    read_only: bool = False
    sub_path: str = ""


class KubernetesSettings(DriverSettings, frozen=True):
    image: Annotated[str, msgspec.Meta(min_length=1, max_length=500)]
    namespace: str = ""
    """Empty: that of the kubeconfig's context or of the server's own pod, else `default`."""
    command: list[str] = msgspec.field(default_factory=list)
    arguments: list[str] = msgspec.field(default_factory=list)
    environment: dict[str, str] = msgspec.field(default_factory=dict)
    gpus: Annotated[int, msgspec.Meta(ge=0, le=64)] = 1
    gpu_resource: str = "nvidia.com/gpu"
    memory: str = ""
    cpu: str = ""
    node_selector: dict[str, str] = msgspec.field(default_factory=dict)
    tolerations: list[Toleration] = msgspec.field(default_factory=list)
    service_account: str = ""
    image_pull_secrets: list[str] = msgspec.field(default_factory=list)
    volumes: list[Volume] = msgspec.field(default_factory=list)
    port: Port = 8188
    reach: Literal["pod_ip", "proxy"] = "pod_ip"
    kubeconfig: str = ""
    context: str = ""
    api_url: str = ""
    token_file: str = ""
    ca_file: str = ""
    start_limit: Seconds = 900.0
    stop_grace: Annotated[int, msgspec.Meta(ge=0, le=3600)] = 30


def check_settings(settings: KubernetesSettings) -> None:
    """Raises WorkerRefused naming the field that is wrong."""
    for field, fault in _faults(settings):
        raise wrong_setting(DRIVER_NAME, field, fault)


def _faults(settings: KubernetesSettings) -> Iterator[tuple[str, str]]:
    yield from _name_faults(settings)
    for field, amount in (("memory", settings.memory), ("cpu", settings.cpu)):
        if amount and not _QUANTITY.fullmatch(amount):
            yield field, f"{amount!r} is no amount such as 8Gi or 500m."
    for volume in settings.volumes:
        if not volume.claim or not volume.path.startswith("/") or ":" in volume.path:
            yield "volumes", "Each has a claim, and a path that begins with /."
    if settings.api_url and not settings.api_url.startswith(("http://", "https://")):
        yield "api_url", "It begins with https:// or http://."
    if settings.kubeconfig and settings.api_url:
        yield "api_url", "Give it or a kubeconfig, not both."
    if settings.context and not settings.kubeconfig:
        yield "context", "It names a context of a kubeconfig."


def _name_faults(settings: KubernetesSettings) -> Iterator[tuple[str, str]]:
    for field, value in (
        ("namespace", settings.namespace),
        ("service_account", settings.service_account),
        *(("image_pull_secrets", secret) for secret in settings.image_pull_secrets),
        *(("volumes", volume.claim) for volume in settings.volumes),
    ):
        if value and not _LABEL.fullmatch(value.replace(".", "-")):
            yield field, f"{value!r} cannot be a name in Kubernetes."
    for name in settings.environment:
        if not _VARIABLE.fullmatch(name):
            yield "environment", f"{name!r} cannot be a variable."
    for key in settings.node_selector:
        if not _LABEL_KEY.fullmatch(key):
            yield "node_selector", f"{key!r} cannot be a label."
    if not _LABEL_KEY.fullmatch(settings.gpu_resource):
        yield "gpu_resource", f"{settings.gpu_resource!r} cannot be a resource."
