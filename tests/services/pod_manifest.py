"""What the API server checks of a Pod, by the documentation of the core types."""

import re
from typing import Any

from tests.engine.distributed.kubernetes_manifest import (
    DNS_LABEL,
    LABEL_KEY,
    LABEL_VALUE,
    QUANTITY,
    VARIABLE,
    Invalid,
)

NAME = re.compile(r"[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?")
SPEC_FIELDS = {
    "containers",
    "restartPolicy",
    "terminationGracePeriodSeconds",
    "automountServiceAccountToken",
    "enableServiceLinks",
    "volumes",
    "nodeSelector",
    "tolerations",
    "serviceAccountName",
    "imagePullSecrets",
}
CONTAINER_FIELDS = {
    "name",
    "image",
    "command",
    "args",
    "env",
    "ports",
    "resources",
    "readinessProbe",
    "volumeMounts",
}


def check_pod(pod: Any) -> None:
    """Raises Invalid."""
    _fields(pod, {"apiVersion", "kind", "metadata", "spec"}, "pod")
    _need(pod["apiVersion"] == "v1" and pod["kind"] == "Pod", "apiVersion, kind")
    metadata = pod["metadata"]
    _fields(metadata, {"name", "labels", "annotations"}, "metadata")
    _need(NAME.fullmatch(metadata["name"]) and len(metadata["name"]) <= 63, "metadata.name")
    for key, value in metadata["labels"].items():
        _need(LABEL_KEY.fullmatch(key) and LABEL_VALUE.fullmatch(value), f"metadata.labels.{key}")
    for key, value in metadata["annotations"].items():
        _need(LABEL_KEY.fullmatch(key) and isinstance(value, str), f"metadata.annotations.{key}")
    spec = pod["spec"]
    _fields(spec, SPEC_FIELDS, "spec")
    _need(spec["restartPolicy"] in {"Always", "OnFailure", "Never"}, "spec.restartPolicy")
    grace = spec.get("terminationGracePeriodSeconds", 30)
    _need(type(grace) is int and grace >= 0, "spec.terminationGracePeriodSeconds")
    for flag in ("automountServiceAccountToken", "enableServiceLinks"):
        _need(type(spec.get(flag, True)) is bool, f"spec.{flag}")
    for key, value in spec.get("nodeSelector", {}).items():
        _need(LABEL_KEY.fullmatch(key) and LABEL_VALUE.fullmatch(value), "spec.nodeSelector")
    for secret in spec.get("imagePullSecrets", []):
        _fields(secret, {"name"}, "spec.imagePullSecrets")
    for toleration in spec.get("tolerations", []):
        _toleration(toleration)
    volumes = {_volume(volume) for volume in spec.get("volumes", [])}
    _need(isinstance(spec["containers"], list) and spec["containers"], "spec.containers")
    for container in spec["containers"]:
        _container(container, volumes)


def _toleration(toleration: Any) -> None:
    where = "spec.tolerations"
    _fields(toleration, {"key", "operator", "value", "effect", "tolerationSeconds"}, where)
    operator = toleration.get("operator", "Equal")
    _need(operator in {"Equal", "Exists"}, f"{where}.operator")
    _need(operator == "Equal" or not toleration.get("value"), f"{where}.value")
    _need(toleration.get("key") or operator == "Exists", f"{where}.key")
    effects = {None, "NoSchedule", "PreferNoSchedule", "NoExecute"}
    _need(toleration.get("effect") in effects, f"{where}.effect")


def _volume(volume: Any) -> str:
    _fields(volume, {"name", "persistentVolumeClaim"}, "spec.volumes")
    _need(DNS_LABEL.fullmatch(volume["name"]), "spec.volumes.name")
    _fields(volume["persistentVolumeClaim"], {"claimName", "readOnly"}, "spec.volumes")
    return str(volume["name"])


def _container(container: Any, volumes: set[str]) -> None:
    where = "spec.containers"
    _fields(container, CONTAINER_FIELDS, where)
    _need(DNS_LABEL.fullmatch(container["name"]), f"{where}.name")
    _need(isinstance(container["image"], str) and container["image"].strip(), f"{where}.image")
    for field in ("command", "args"):
        words = container.get(field, [])
        _need(all(isinstance(word, str) for word in words), f"{where}.{field}")
    for variable in container.get("env", []):
        _fields(variable, {"name", "value"}, f"{where}.env")
        _need(VARIABLE.fullmatch(variable["name"]), f"{where}.env.name")
        _need(isinstance(variable["value"], str), f"{where}.env.value")
    for port in container.get("ports", []):
        _fields(port, {"name", "containerPort", "protocol"}, f"{where}.ports")
        _need(type(port["containerPort"]) is int, f"{where}.ports.containerPort")
        _need(0 < port["containerPort"] < 65536, f"{where}.ports.containerPort")
    _resources(container.get("resources", {}), f"{where}.resources")
    probe = container.get("readinessProbe", {"httpGet": {"path": "/", "port": 1}})
    numbers = {"periodSeconds", "timeoutSeconds", "failureThreshold", "initialDelaySeconds"}
    _fields(probe, {"httpGet", *numbers}, f"{where}.readinessProbe")
    _fields(probe["httpGet"], {"path", "port", "scheme"}, f"{where}.readinessProbe.httpGet")
    for number in numbers & set(probe):
        _need(type(probe[number]) is int and probe[number] > 0, f"{where}.readinessProbe.{number}")
    for mount in container.get("volumeMounts", []):
        _fields(mount, {"name", "mountPath", "readOnly", "subPath"}, f"{where}.volumeMounts")
        _need(mount["name"] in volumes, f"{where}.volumeMounts.name: Not found")
        _need(":" not in mount["mountPath"], f"{where}.volumeMounts.mountPath")


def _resources(resources: Any, where: str) -> None:
    _fields(resources, {"requests", "limits"}, where)
    requests, limits = resources.get("requests", {}), resources.get("limits", {})
    for name, amount in [*requests.items(), *limits.items()]:
        _need(isinstance(amount, str) and QUANTITY.fullmatch(amount), f"{where}.{name}")
        if "/" in name:  # an extended resource is not overcommitted
            _need(name in limits and requests.get(name, limits[name]) == limits[name], where)


def _fields(value: Any, known: set[str], where: str) -> None:
    _need(isinstance(value, dict), where)
    for name in value:
        _need(name in known, f"{where}.{name} (unknown field)")


def _need(good: Any, where: str) -> None:
    if not good:
        raise Invalid(f"Pod is invalid: {where}")
