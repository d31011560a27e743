"""Pods: how a worker's is written, and what is to be read in one. Pure."""

import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from ipaddress import ip_address
from typing import Any, Literal

import msgspec

from comfyrail.fleet.drivers.kubernetes_settings import KubernetesSettings

MANAGED_LABEL = "app.kubernetes.io/managed-by"
WORKER_LABEL = "comfyrail.dev/worker"
SETTINGS_LABEL = "comfyrail.dev/settings"
ID_ANNOTATION = "comfyrail.dev/worker-id"
CONTAINER = "comfyui"

_ONLY_A_PERSON = {
    "ErrImagePull": "the image cannot be pulled",
    "ImagePullBackOff": "the image cannot be pulled",
    "ErrImageNeverPull": "the image is not on the node, and may not be pulled",
    "InvalidImageName": "the image's name is wrong",
    "ImageInspectError": "the image is broken",
    "CreateContainerConfigError": "the container's settings are wrong",
    "CreateContainerError": "the container cannot be made",
    "RunContainerError": "the container's program cannot be started",
    "StartError": "the container's program cannot be started",
}
_NOT_FOR_IDENTITY = {"start_limit", "stop_grace", "reach", "kubeconfig", "context"}
LONGEST_MESSAGE = 500


@dataclass(frozen=True, slots=True)
class PodState:
    """What a pod is, in the words of this driver. `why` is for people."""

    kind: Literal["waiting", "ready", "ended", "refused", "leaving"]
    uid: str
    why: str = ""
    address: str = ""
    is_unschedulable: bool = False


def pod_name(worker_id: str) -> str:
    """A name that Kubernetes takes, another one for every worker."""
    plain = re.sub(r"[^a-z0-9]+", "-", worker_id.lower()).strip("-")[:40].strip("-")
    if plain == worker_id:
        return f"comfyrail-{plain}"
    digest = hashlib.sha256(worker_id.encode()).hexdigest()[:10]
    return f"comfyrail-{plain}-{digest}" if plain else f"comfyrail-{digest}"


def fingerprint(settings: KubernetesSettings) -> str:
    """The same for settings that make the same pod."""
    fields = msgspec.to_builtins(settings)
    told = {key: value for key, value in fields.items() if key not in _NOT_FOR_IDENTITY}
    return hashlib.sha256(json.dumps(told, sort_keys=True).encode()).hexdigest()[:32]


def write_pod(settings: KubernetesSettings, worker_id: str) -> dict[str, Any]:
    name = pod_name(worker_id)
    container: dict[str, Any] = {
        "name": CONTAINER,
        "image": settings.image,
        "env": [{"name": key, "value": value} for key, value in settings.environment.items()],
        "ports": [{"name": "http", "containerPort": settings.port}],
        "resources": _resources(settings),
        # Ready means that it answers like a ComfyUI, which takes a while after its start.
        "readinessProbe": {
            "httpGet": {"path": "/system_stats", "port": settings.port},
            "periodSeconds": 2,
            "timeoutSeconds": 5,
            "failureThreshold": 3,
        },
    }
    if settings.command:
        container["command"] = settings.command
    if settings.arguments:
        container["args"] = settings.arguments
    spec: dict[str, Any] = {
        "containers": [container],
        # One that ends is started again by the server, which must know of it.
        "restartPolicy": "Never",
        "terminationGracePeriodSeconds": settings.stop_grace,
        # Nodes run what strangers wrote: no credential of the cluster unless one is asked for.
        "automountServiceAccountToken": bool(settings.service_account),
        "enableServiceLinks": False,
    }
    if settings.volumes:
        container["volumeMounts"] = [
            {
                "name": f"volume-{index}",
                "mountPath": volume.path,
                "readOnly": volume.read_only,
                **({"subPath": volume.sub_path} if volume.sub_path else {}),
            }
            for index, volume in enumerate(settings.volumes)
        ]
        spec["volumes"] = [
            {"name": f"volume-{index}", "persistentVolumeClaim": {"claimName": volume.claim}}
            for index, volume in enumerate(settings.volumes)
        ]
    if settings.node_selector:
        spec["nodeSelector"] = settings.node_selector
    if settings.tolerations:
        spec["tolerations"] = [
            {key: value for key, value in msgspec.to_builtins(each).items() if value}
            for each in settings.tolerations
        ]
    if settings.service_account:
        spec["serviceAccountName"] = settings.service_account
    if settings.image_pull_secrets:
        spec["imagePullSecrets"] = [{"name": each} for each in settings.image_pull_secrets]
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": name,
            "labels": {
                MANAGED_LABEL: "comfyrail",
                WORKER_LABEL: name,
                SETTINGS_LABEL: fingerprint(settings),
            },
            # A label may not have any text as its value.
            "annotations": {ID_ANNOTATION: worker_id},
        },
        "spec": spec,
    }


def _resources(settings: KubernetesSettings) -> dict[str, dict[str, str]]:
    requests: dict[str, str] = {}
    limits: dict[str, str] = {}
    if settings.cpu:
        requests["cpu"] = settings.cpu
    if settings.memory:
        requests["memory"] = limits["memory"] = settings.memory
    if settings.gpus:
        # Devices are asked for by their limit; a request must be the same.
        requests[settings.gpu_resource] = limits[settings.gpu_resource] = str(settings.gpus)
    return {name: each for name, each in (("requests", requests), ("limits", limits)) if each}


def is_ours(pod: Mapping[str, Any], worker_id: str) -> bool:
    """Whether this driver made the pod, for this worker."""
    metadata = _table(pod, "metadata")
    labels, notes = _table(metadata, "labels"), _table(metadata, "annotations")
    return labels.get(MANAGED_LABEL) == "comfyrail" and notes.get(ID_ANNOTATION) == worker_id


def has_settings(pod: Mapping[str, Any], settings: KubernetesSettings) -> bool:
    """Whether the pod was made by these settings and not by earlier ones."""
    labels = _table(_table(pod, "metadata"), "labels")
    return labels.get(SETTINGS_LABEL) == fingerprint(settings)


def read_state(pod: Mapping[str, Any]) -> PodState:
    """Whatever the server sent, some state comes out of it."""
    metadata, status = _table(pod, "metadata"), _table(pod, "status")
    uid = str(metadata.get("uid") or "")
    containers = [each for each in _list(status, "containerStatuses") if isinstance(each, dict)]
    phase = status.get("phase")
    if phase in {"Failed", "Succeeded"}:
        return PodState("ended", uid, _why_ended(status, containers))
    if metadata.get("deletionTimestamp"):
        return PodState("leaving", uid, "it is being deleted")
    stuck = _stuck(uid, containers)
    if stuck is not None:
        return stuck
    address = _address(status.get("podIP"))
    if _condition(status, "Ready").get("status") == "True" and address:
        return PodState("ready", uid, address=address)
    scheduled = _condition(status, "PodScheduled")
    if scheduled.get("status") == "False":
        why = f"no node has room for it ({scheduled.get('reason')}): {_message(scheduled)}"
        return PodState("waiting", uid, why, is_unschedulable=True)
    return PodState("waiting", uid, _why_waiting(containers))


def _stuck(uid: str, containers: list[dict[str, Any]]) -> PodState | None:
    """A container that will not run however long one waits."""
    for container in containers:
        waiting = _table(_table(container, "state"), "waiting")
        reason, message = str(waiting.get("reason") or ""), _message(waiting)
        if reason in _ONLY_A_PERSON:
            return PodState("refused", uid, f"{_ONLY_A_PERSON[reason]} ({reason}): {message}")
        if reason == "CrashLoopBackOff":
            last = _table(_table(container, "lastState"), "terminated")
            return PodState("ended", uid, f"its program ends again and again: {_exit(last)}")
    return None


def _why_waiting(containers: list[dict[str, Any]]) -> str:
    for container in containers:
        state = _table(container, "state")
        if "running" in state:
            return "it runs and does not answer yet"
        reason = _table(state, "waiting").get("reason")
        if reason:
            return f"its container waits ({reason})"
    return "it waits for a node"


def _why_ended(status: Mapping[str, Any], containers: list[dict[str, Any]]) -> str:
    for container in containers:
        terminated = _table(_table(container, "state"), "terminated")
        if terminated:
            return _exit(terminated)
    reason = status.get("reason") or status.get("phase")
    return f"{reason}: {_message(status)}".strip(": ")


def _exit(terminated: Mapping[str, Any]) -> str:
    reason = terminated.get("reason") or "ended"
    message = _message(terminated)
    return f"{reason}, exit code {terminated.get('exitCode')}{': ' if message else ''}{message}"


def _address(told: object) -> str:
    """The pod's address; "" while there is none."""
    try:
        return str(ip_address(str(told)))
    except ValueError:
        return ""


def _condition(status: Mapping[str, Any], kind: str) -> Mapping[str, Any]:
    for each in _list(status, "conditions"):
        if isinstance(each, dict) and each.get("type") == kind:
            return each
    return {}


def _message(table: Mapping[str, Any]) -> str:
    return str(table.get("message") or "")[:LONGEST_MESSAGE]


def _table(value: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    found = value.get(key)
    return found if isinstance(found, dict) else {}


def _list(value: Mapping[str, Any], key: str) -> list[Any]:
    found = value.get(key)
    return found if isinstance(found, list) else []
