"""Settings of the strategy `distributed`: where nodes are sent, and how."""

from pathlib import Path
from typing import Any, Literal

import msgspec

MOST_TASKS = 10_000


class _Section(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A field that is not known is a mistake, not a wish for later."""


class KubernetesSection(_Section, frozen=True):
    """One Job for each node.

    What is not set of address, token, authority and namespace comes from the pod that this
    process runs in.
    """

    image: str = ""
    """Has Comfyrail, the packs, and the configuration that the command names."""
    command: list[str] = msgspec.field(default_factory=lambda: ["comfyrail", "run-task"])
    namespace: str | None = None
    api_url: str | None = None
    token_file: Path | None = None
    """Read again for every request, as such tokens change."""
    ca_file: Path | None = None
    backoff_limit: int = 2
    """How often the cluster starts a pod again that ended without a reply."""
    deadline_seconds: int = 3600
    """How long a Job may take where its node type has no limit of its own."""
    keep_seconds: int = 300
    """How long a Job that has ended can be looked at."""
    env: dict[str, str] = msgspec.field(default_factory=dict)
    volume_mounts: list[dict[str, Any]] = msgspec.field(default_factory=list)
    pod: dict[str, Any] = msgspec.field(default_factory=dict)
    """More of the pod's spec: volumes, nodeSelector, tolerations, serviceAccountName …"""

    def __post_init__(self) -> None:
        _check_range("backoff_limit", self.backoff_limit, 0, 100)
        _check_range("deadline_seconds", self.deadline_seconds, 1, 7 * 24 * 3600)
        _check_range("keep_seconds", self.keep_seconds, 0, 7 * 24 * 3600)
        for name in ("containers", "restartPolicy"):
            if name in self.pod:
                raise ValueError(f"kubernetes.pod must not set {name}.")


class LambdaSection(_Section, frozen=True):
    """A function whose handler is `comfyrail.engine.distributed.lambda_handler.handle`.

    What is not set of region and credentials comes from the environment (`AWS_REGION`,
    `AWS_ACCESS_KEY_ID`, `AWS_SECRET_ACCESS_KEY`, `AWS_SESSION_TOKEN`).
    """

    function: str = ""
    """Its name or its ARN."""
    qualifier: str | None = None
    region: str | None = None
    endpoint_url: str | None = None
    access_key_id: str | None = None
    secret_access_key: str | None = None
    session_token: str | None = None
    most_attempts: int = 8
    """How often one task is sent when the service is busy or in trouble."""
    answer_seconds: float = 905.0
    """How long to wait for an answer: a little longer than the function may run."""

    def __post_init__(self) -> None:
        _check_range("most_attempts", self.most_attempts, 1, 100)
        _check_range("answer_seconds", self.answer_seconds, 1, 3600)

    def __repr__(self) -> str:
        return f"LambdaSection(function={self.function!r}, region={self.region!r}, …)"


class DistributedSection(_Section, frozen=True):
    """Where the strategy `distributed` runs nodes."""

    runner: Literal["celery", "kubernetes", "lambda"] = "celery"
    most_tasks: int = 64
    """How many nodes may be under way at once, here and elsewhere."""
    remote_types: list[str] = msgspec.field(default_factory=list)
    """Node types that may go elsewhere although they count as local. Classes of ComfyUI do: they
    cannot say themselves whether they read this machine's folders."""
    broker_url: str = "redis://127.0.0.1:6379/0"
    queue: str = "comfyrail-nodes"
    lease_seconds: float = 6.0
    """How long a machine that runs a node may be silent before the node is given to another."""
    most_attempts: int = 3
    """How many machines may be lost over one node before it counts as failed."""
    kubernetes: KubernetesSection = msgspec.field(default_factory=KubernetesSection)
    aws_lambda: LambdaSection = msgspec.field(default_factory=LambdaSection)

    def __post_init__(self) -> None:
        _check_range("most_tasks", self.most_tasks, 1, MOST_TASKS)
        _check_range("lease_seconds", self.lease_seconds, 0.3, 600)
        _check_range("most_attempts", self.most_attempts, 1, 100)
        if not self.queue:
            raise ValueError("distributed.queue must not be empty.")

    def __repr__(self) -> str:
        # A broker's URL may have a password in it.
        return f"DistributedSection(runner={self.runner!r}, queue={self.queue!r}, …)"


def _check_range(name: str, value: float, least: float, most: float) -> None:
    if not least <= value <= most:
        raise ValueError(f"distributed: {name} must be {least:g} to {most:g}, not {value:g}.")
