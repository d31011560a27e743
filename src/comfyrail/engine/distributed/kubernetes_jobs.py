"""Jobs of Kubernetes: how one is written, and what became of one."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from comfyrail.engine.distributed.settings import KubernetesSection
from comfyrail.engine.distributed.task import RemoteTask
from comfyrail.engine.resources.needs import ResourceNeeds

COORDINATOR_LABEL = "comfyrail.dev/coordinator"
TASK_LABEL = "comfyrail.dev/task"
GRACE_SECONDS = 60
"""For a pod to be placed and started, beside the time that its node may take."""


@dataclass(frozen=True, slots=True)
class JobEnd:
    state: Literal["complete", "failed", "deleted"]
    reason: str = ""
    message: str = ""


def write_job(
    section: KubernetesSection,
    task: RemoteTask,
    needs: ResourceNeeds,
    *,
    coordinator: str,
    environment: Mapping[str, str],
) -> dict[str, Any]:
    """A Job of batch/v1 that runs one task in one container."""
    labels = {
        "app.kubernetes.io/managed-by": "comfyrail",
        COORDINATOR_LABEL: coordinator,
        TASK_LABEL: task.id,
    }
    variables = {**section.env, **environment}
    container: dict[str, Any] = {
        "name": "node",
        "image": section.image,
        "command": section.command,
        "env": [{"name": name, "value": value} for name, value in variables.items()],
        "resources": write_resources(needs),
    }
    if section.volume_mounts:
        container["volumeMounts"] = section.volume_mounts
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {
            "generateName": "comfyrail-node-",
            "labels": labels,
            # Labels may not have any text as their value.
            "annotations": {
                "comfyrail.dev/execution": task.execution_id,
                "comfyrail.dev/node": task.node_id,
                "comfyrail.dev/node-type": task.node_type,
            },
        },
        "spec": {
            "backoffLimit": section.backoff_limit,
            "activeDeadlineSeconds": _deadline_of(section, task),
            "ttlSecondsAfterFinished": section.keep_seconds,
            "template": {
                "metadata": {"labels": labels},
                "spec": {**section.pod, "restartPolicy": "Never", "containers": [container]},
            },
        },
    }


def write_resources(needs: ResourceNeeds) -> dict[str, dict[str, str]]:
    """What a container asks for. A share of a GPU becomes a whole one: Kubernetes has no shares."""
    requests = {}
    if needs.cpu_cores > 0:
        requests["cpu"] = f"{math.ceil(needs.cpu_cores * 1000)}m"
    if needs.memory_mb > 0:
        requests["memory"] = f"{math.ceil(needs.memory_mb)}Mi"
    if needs.disk_space_mb > 0:
        requests["ephemeral-storage"] = f"{math.ceil(needs.disk_space_mb)}Mi"
    gpus = int(needs.gpu_count) or (1 if needs.gpu_memory_mb > 0 else 0)
    if not gpus:
        return {"requests": requests}
    # Devices are asked for by their limit; a request must be the same.
    return {
        "requests": {**requests, "nvidia.com/gpu": str(gpus)},
        "limits": {"nvidia.com/gpu": str(gpus)},
    }


def task_of_job(job: Mapping[str, Any]) -> str | None:
    """The id of the task that a Job runs."""
    found = ((job.get("metadata") or {}).get("labels") or {}).get(TASK_LABEL)
    return found if isinstance(found, str) else None


def end_of_job(job: Mapping[str, Any]) -> JobEnd | None:
    """How a Job has ended; None while it has not."""
    for condition in (job.get("status") or {}).get("conditions") or ():
        if condition.get("status") == "True" and condition.get("type") in {"Complete", "Failed"}:
            return JobEnd(
                "complete" if condition["type"] == "Complete" else "failed",
                str(condition.get("reason") or ""),
                str(condition.get("message") or ""),
            )
    return None


def _deadline_of(section: KubernetesSection, task: RemoteTask) -> int:
    if task.timeout is None:
        return section.deadline_seconds
    return math.ceil(task.timeout) + GRACE_SECONDS
