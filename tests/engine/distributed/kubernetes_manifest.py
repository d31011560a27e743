"""What the API server checks of a Job, by the documentation of batch/v1 and of the core types."""

import re
from typing import Any

LABEL_KEY = re.compile(
    r"([a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?/)?[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?"
)
LABEL_VALUE = re.compile(r"([A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?)?")
NAME_PREFIX = re.compile(r"[a-z0-9]([-a-z0-9.]*)")
DNS_LABEL = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")
VARIABLE = re.compile(r"[-._a-zA-Z][-._a-zA-Z0-9]*")
QUANTITY = re.compile(r"[0-9]+(\.[0-9]+)?(m|k|Ki|M|Mi|G|Gi|T|Ti)?")
JOB_FIELDS = {
    "parallelism",
    "completions",
    "backoffLimit",
    "activeDeadlineSeconds",
    "ttlSecondsAfterFinished",
    "template",
}
POD_FIELDS = {
    "containers",
    "restartPolicy",
    "volumes",
    "nodeSelector",
    "tolerations",
    "serviceAccountName",
}
CONTAINER_FIELDS = {"name", "image", "command", "args", "env", "resources", "volumeMounts"}


class Invalid(Exception):
    """The server refuses the object; the text says which field is wrong."""


def check_job(job: Any) -> None:
    """Raises Invalid."""
    _need(isinstance(job, dict), "object")
    _need(job.get("apiVersion") == "batch/v1" and job.get("kind") == "Job", "apiVersion, kind")
    _fields(job, {"apiVersion", "kind", "metadata", "spec"}, "")
    metadata = job["metadata"]
    _fields(metadata, {"name", "generateName", "labels", "annotations", "namespace"}, "metadata")
    prefix = metadata.get("generateName")
    _need(isinstance(prefix, str) and NAME_PREFIX.fullmatch(prefix), "metadata.generateName")
    _labels(metadata.get("labels", {}), "metadata.labels")
    for key, value in metadata.get("annotations", {}).items():
        _need(LABEL_KEY.fullmatch(key) and isinstance(value, str), f"metadata.annotations.{key}")
    spec = job["spec"]
    _fields(spec, JOB_FIELDS, "spec")
    _whole(spec.get("backoffLimit", 6), 0, "spec.backoffLimit")
    _whole(spec.get("activeDeadlineSeconds", 1), 1, "spec.activeDeadlineSeconds")
    _whole(spec.get("ttlSecondsAfterFinished", 0), 0, "spec.ttlSecondsAfterFinished")
    _need("template" in spec, "spec.template")
    _fields(spec["template"], {"metadata", "spec"}, "spec.template")
    _labels(spec["template"].get("metadata", {}).get("labels", {}), "spec.template.metadata.labels")
    _pod(spec["template"]["spec"])


def _pod(pod: Any) -> None:
    where = "spec.template.spec"
    _fields(pod, POD_FIELDS, where)
    _need(pod.get("restartPolicy") in {"Never", "OnFailure"}, f"{where}.restartPolicy")
    containers = pod.get("containers")
    _need(isinstance(containers, list) and containers, f"{where}.containers")
    for container in containers:
        _container(container, f"{where}.containers")


def _container(container: Any, where: str) -> None:
    _fields(container, CONTAINER_FIELDS, where)
    _need(DNS_LABEL.fullmatch(str(container.get("name"))), f"{where}.name")
    _need(isinstance(container.get("image"), str) and container["image"], f"{where}.image")
    command = container.get("command", [])
    _need(all(isinstance(word, str) for word in command), f"{where}.command")
    for variable in container.get("env", []):
        _fields(variable, {"name", "value"}, f"{where}.env")
        _need(VARIABLE.fullmatch(variable["name"]), f"{where}.env.name")
        _need(isinstance(variable["value"], str), f"{where}.env.{variable['name']}")
    resources = container.get("resources", {})
    _fields(resources, {"requests", "limits"}, f"{where}.resources")
    for section in resources.values():
        for name, amount in section.items():
            good = isinstance(amount, str) and QUANTITY.fullmatch(amount)
            _need(good, f"{where}.resources.{name}")
    requests, limits = resources.get("requests", {}), resources.get("limits", {})
    for name in {*requests, *limits}:
        if "/" in name:  # an extended resource is not overcommitted
            _need(name in limits, f"{where}.resources.limits.{name}")
            _need(requests.get(name, limits[name]) == limits[name], f"{where}.resources.{name}")


def _labels(labels: Any, where: str) -> None:
    for key, value in labels.items():
        good = LABEL_KEY.fullmatch(key) and isinstance(value, str) and LABEL_VALUE.fullmatch(value)
        _need(good, f"{where}.{key}")


def _fields(value: Any, known: set[str], where: str) -> None:
    _need(isinstance(value, dict), where)
    for name in value:
        _need(name in known, f"{where}.{name} (unknown field)")


def _whole(value: Any, least: int, where: str) -> None:
    _need(type(value) is int and value >= least, where)


def _need(good: Any, where: str) -> None:
    if not good:
        raise Invalid(f"Job is invalid: {where}")
