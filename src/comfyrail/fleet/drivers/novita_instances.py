"""Instances of Novita: how a worker's is written, and what is to be read in one. Pure.

The contract is that of the documented API `gpu-instance/openapi/v1`; see docs/reference.
"""

import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal
from urllib.parse import urlsplit, urlunsplit

import msgspec

from comfyrail.fleet.drivers.novita_settings import NovitaSettings
from comfyrail.network.addresses import is_public_name, normal_host

WORKER_VARIABLE = "COMFYRAIL_WORKER_ID"
SETTINGS_VARIABLE = "COMFYRAIL_WORKER_SETTINGS"
LONGEST_MESSAGE = 500

Phase = Literal["starting", "running", "stopped", "leaving", "gone"]
_PHASES: dict[str, Phase] = {
    "toCreate": "starting",
    "creating": "starting",
    "pulling": "starting",
    "toStart": "starting",
    "starting": "starting",
    "toRestart": "starting",
    "restarting": "starting",
    "toReset": "starting",
    "resetting": "starting",
    "migrating": "starting",
    "running": "running",
    "toStop": "stopped",
    "stopping": "stopped",
    "exited": "stopped",
    "freezing": "stopped",
    "toRemove": "leaving",
    "removing": "leaving",
    "removed": "gone",
}
_NOT_FOR_IDENTITY = {"start_limit", "poll_seconds", "base_url", "image_auth_secret"}
_IMAGE_TROUBLE = re.compile(r"image|manifest|pull|registry|repository", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Instance:
    id: str
    name: str
    status: str
    phase: Phase
    worker: str | None
    """The worker that it was made for; None: not by this driver."""
    settings: str | None
    error: str
    endpoints: Mapping[int, tuple[str, str]]
    """By port: the address, and `http` or `tcp`."""
    log_address: str

    @property
    def needs_a_person(self) -> bool:
        """Whether what it says is wrong with it is its image."""
        return bool(_IMAGE_TROUBLE.search(self.error))


def instance_name(worker_id: str) -> str:
    """By which the instance of a worker is found again. Novita's names need not differ."""
    plain = re.sub(r"[^a-z0-9]+", "-", worker_id.lower()).strip("-")[:40].strip("-")
    if plain == worker_id:
        return f"comfyrail-{plain}"
    digest = hashlib.sha256(worker_id.encode()).hexdigest()[:10]
    return f"comfyrail-{plain}-{digest}" if plain else f"comfyrail-{digest}"


def fingerprint(settings: NovitaSettings) -> str:
    """The same for settings that make the same instance."""
    fields = msgspec.to_builtins(settings)
    told = {key: value for key, value in fields.items() if key not in _NOT_FOR_IDENTITY}
    return hashlib.sha256(json.dumps(told, sort_keys=True).encode()).hexdigest()[:32]


def write_instance(
    settings: NovitaSettings, worker_id: str, image_auth: str = ""
) -> dict[str, Any]:
    """The body of a request to create one."""
    variables = {
        **settings.environment,
        WORKER_VARIABLE: worker_id,
        SETTINGS_VARIABLE: fingerprint(settings),
    }
    body: dict[str, Any] = {
        "name": instance_name(worker_id),
        "productId": settings.product_id,
        "gpuNum": settings.gpus,
        "rootfsSize": settings.disk_gb,
        "imageUrl": settings.image,
        "ports": f"{settings.port}/http",
        "envs": [{"key": key, "value": value} for key, value in variables.items()],
        "kind": "gpu",
        "billingMode": settings.billing,
    }
    optional = {
        "command": settings.command,
        "entrypoint": settings.entrypoint,
        "clusterId": settings.cluster_id,
        "imageAuthId": settings.image_auth_id,
        "imageAuth": image_auth,
        "minCudaVersion": settings.min_cuda_version,
        "networkStorages": [
            {"Id": each.id, "mountPoint": each.path} for each in settings.network_storages
        ],
    }
    return {**body, **{key: value for key, value in optional.items() if value}}


def read_instance(raw: object) -> Instance | None:
    """None for what is no instance. A status that is not documented counts as starting."""
    if not isinstance(raw, dict):
        return None
    found, status = raw.get("id"), raw.get("status")
    if not isinstance(found, str) or not found or not isinstance(status, str):
        return None
    variables = {
        each["key"]: each["value"]
        for each in _list(raw, "envs")
        if isinstance(each, dict)
        and isinstance(each.get("key"), str)
        and isinstance(each.get("value"), str)
    }
    error = raw.get("statusError")
    error = error if isinstance(error, dict) else {}
    log = raw.get("connectComponentLog")
    log = log if isinstance(log, dict) else {}
    return Instance(
        id=found,
        name=str(raw.get("name") or ""),
        status=status[:63],
        phase=_PHASES.get(status, "starting"),
        worker=variables.get(WORKER_VARIABLE),
        settings=variables.get(SETTINGS_VARIABLE),
        error=_error(error),
        endpoints=dict(_endpoints(raw)),
        log_address=str(log.get("instanceLogAddress") or "")[:2000],
    )


def worker_url(instance: Instance, port: int, *, may_be_private: bool) -> str | None:
    """Where the worker answers; None until Novita has said it.

    What Novita says is where requests of this server go: only to the Internet, unless the API
    itself is on a private network.
    """
    if port not in instance.endpoints:
        return None
    address, kind = instance.endpoints[port]
    if "://" not in address:
        address = f"{'http' if kind == 'tcp' else 'https'}://{address}"
    return checked_url(address, may_be_private=may_be_private)


def checked_url(address: str, *, may_be_private: bool) -> str | None:
    """The address in one spelling; None when it is none that may be asked."""
    try:
        parts = urlsplit(address.strip())
        is_usable = parts.scheme in {"http", "https"} and parts.hostname and parts.port != 0
    except ValueError:
        return None
    host = normal_host(parts.hostname or "") if is_usable else None
    if host is None or parts.username or parts.password:
        return None
    if not may_be_private and not is_public_name(host):
        return None
    return urlunsplit((parts.scheme, parts.netloc, parts.path.rstrip("/"), parts.query, ""))


def _endpoints(raw: Mapping[str, Any]) -> list[tuple[int, tuple[str, str]]]:
    return [
        (each["port"], (each["endpoint"][:500], str(each.get("type") or "http")))
        for each in _list(raw, "portMappings")
        if isinstance(each, dict)
        and isinstance(each.get("port"), int)
        and isinstance(each.get("endpoint"), str)
        and each["endpoint"]
    ]


def _error(error: Mapping[str, Any]) -> str:
    parts = [str(error.get(key) or "") for key in ("state", "message")]
    return ": ".join(part for part in parts if part)[:LONGEST_MESSAGE]


def _list(raw: Mapping[str, Any], key: str) -> list[Any]:
    found = raw.get(key)
    return found[:1000] if isinstance(found, list) else []
