"""The values that rooms hand each other about jobs."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from comfyrail.clock import Instant
from comfyrail.ids import AssetId, AttemptToken, BatchId, JobId, OutputId, TenantId, WorkerId
from comfyrail.jobs.faults import Fault
from comfyrail.jobs.life_cycle import GoneReason
from comfyrail.jobs.needs import JobNeeds
from comfyrail.jobs.output_config import AS_IT_IS, OutputConfig, Tier
from comfyrail.jobs.priority import DEFAULT_PRIORITY, QueueClass, Standing
from comfyrail.jobs.quotas import JobQuota
from comfyrail.jobs.recovery import MAXIMUM_RETRIES, RecoveryKind
from comfyrail.jobs.states import AttemptState, JobState
from comfyrail.jobs.webhooks import JobWebhook

SURFACES = frozenset({"v1", "v2", "comfyui", "comfy_v2", "tasks", "runs", "runpod"})
"""The doors through which jobs come."""


@dataclass(frozen=True, slots=True)
class Origin:
    """Through which door a job came, and what that door must remember of it."""

    surface: str = "v1"
    key: str | None = None
    """What its jobs are found by there: ComfyUI's client id, a run's connection."""
    data: bytes | None = None
    """JSON that only that surface reads."""
    alias: str | None = None
    """The caller's own id of the job; no two jobs of a tenant and a surface have the same."""
    is_followed: bool = False
    """The server has something to do when the job ends: it is remembered until that is done."""


OWN_DOOR = Origin()


@dataclass(frozen=True, slots=True)
class NewJob:
    """A checked submission, ready to be stored. `prompt` is the graph in ComfyUI's API format, as
    JSON: encoded where it was checked, not in the one thread that writes.
    """

    id: JobId
    tenant: TenantId
    prompt: bytes
    node_count: int
    needs: JobNeeds
    priority: int
    standing: Standing
    timeout_seconds: float
    expected_seconds: float
    submitted_at: Instant
    execution_config: bytes | None = None
    """How the engine carries it out, as JSON; None where nothing is asked for."""
    estimated_cost: float | None = None
    """US dollars, as expected before it runs."""
    max_retries: int = MAXIMUM_RETRIES
    not_before: Instant | None = None
    """It is held back until then."""
    queue_timeout: float | None = None
    """Seconds that it may wait from when it could first start; None: as long as it takes."""
    idempotency: "IdempotencyKey | None" = None
    batch: "BatchPlace | None" = None
    origin: Origin = OWN_DOOR
    extra_data: bytes | None = None
    """JSON that goes to the worker beside the graph; see `Attempt`."""
    inputs: "tuple[JobInput, ...]" = ()
    quota: JobQuota | None = None
    """What the caller may use in a month. Jobs of a batch are counted with the batch."""
    output_config: OutputConfig = AS_IT_IS
    webhook: JobWebhook | None = None
    workflow_id: str | None = None
    """Of the library, with its version; or a label of the caller's."""
    layout: bytes | None = None
    """Where its nodes stand in the editor, as JSON."""

    @property
    def rank(self) -> int:
        return self.standing.rank(max(self.submitted_at, self.not_before or self.submitted_at))


@dataclass(frozen=True, slots=True)
class JobInput:
    """A file that a job needs: kept in the blob store, and in the input folder under `name`."""

    name: str
    blob_key: str
    asset_id: AssetId | None = None
    output: tuple[JobId, OutputId] | None = None
    """It is an output of an earlier job."""


def kept_key(user_id: str, key: str) -> str:
    """Under what a user's key is kept; no id of a user has a colon."""
    return f"{user_id}:{key}"


@dataclass(frozen=True, slots=True)
class IdempotencyKey:
    """The caller's name for a request; `fingerprint` tells the same request from another one."""

    key: str
    fingerprint: str
    user_id: str = ""
    """Whose name it is: users of a tenant do not get each other's answers."""

    @property
    def kept_as(self) -> str:
        return kept_key(self.user_id, self.key)


@dataclass(frozen=True, slots=True)
class BatchPlace:
    """Which of a batch's jobs it is."""

    batch_id: BatchId
    index: int
    name: str | None = None


@dataclass(frozen=True, slots=True)
class Progress:
    fraction: float = 0.0
    current_node: str | None = None
    completed_nodes: int = 0
    total_nodes: int = 0


@dataclass(frozen=True, slots=True)
class Job:
    id: JobId
    tenant: TenantId
    state: JobState
    reason: str | None
    priority: int
    rank: int
    timeout_seconds: float
    expected_seconds: float
    submitted_at: Instant
    started_at: Instant | None
    completed_at: Instant | None
    attempts: int
    retries: int
    worker_id: WorkerId | None
    cancel_requested: bool
    progress: Progress
    fault: Fault | None
    last_event: int
    queue_class: QueueClass = QueueClass.MEDIUM
    effective_priority: float = float(DEFAULT_PRIORITY)
    not_before: Instant | None = None
    expires_at: Instant | None = None
    """When it fails if it is still queued."""
    batch_id: BatchId | None = None
    batch_index: int | None = None
    estimated_cost: float | None = None
    cost: float | None = None
    """US dollars of all its attempts so far."""
    max_retries: int = MAXIMUM_RETRIES
    held_until: Instant | None = None
    """It is queued and may not start before."""
    bounces: int = 0
    """Its last attempts, so many in a row, went back to the queue before they began."""
    runs_alone: bool = False
    """It may be what a worker ended of: it has a worker to itself."""
    surface: str = "v1"
    origin_key: str | None = None
    alias: str | None = None
    is_hidden: bool = False
    """Its owner has taken it out of the history."""
    workflow_id: str | None = None
    """`name@version` in the library, or a label of the caller's."""
    webhook_delivered: bool | None = None
    """Whether its end has reached its own webhook; None: it has none, or nothing was due yet."""

    @property
    def is_held(self) -> bool:
        return self.held_until is not None

    @property
    def title(self) -> str | None:
        """What people call it: the name of its workflow in the library, without the version."""
        return None if self.workflow_id is None else self.workflow_id.partition("@")[0]


@dataclass(frozen=True, slots=True)
class Attempt:
    """One try of a job on one worker. Writes about it need its token."""

    job_id: JobId
    number: int
    worker_id: WorkerId
    token: AttemptToken
    prompt_id: str
    state: AttemptState
    started_at: Instant
    timeout_seconds: float
    expected_seconds: float
    tenant: TenantId
    prompt: Mapping[str, Any]
    progress: Progress
    cancel_requested: bool
    execution_config: Mapping[str, Any] = field(default_factory=dict)
    extra_data: Mapping[str, Any] = field(default_factory=dict)
    """What a client of ComfyUI gave beside the graph. Hostile: only some of it is for workers."""
    models: frozenset[str] = frozenset()
    """Their names, as its job was placed by them."""
    runs_alone: bool = False
    """Nothing else is to be on the worker with it."""
    output_config: OutputConfig = AS_IT_IS


@dataclass(frozen=True, slots=True)
class AttemptRecord:
    """One try of a job as its owner sees it afterwards."""

    number: int
    worker_id: WorkerId
    state: AttemptState
    started_at: Instant
    ended_at: Instant | None
    cause: str | None
    """Why it was lost."""
    fault: Fault | None
    """How it failed."""
    recovery: RecoveryKind | None
    """How the job was tried again after it."""
    retry_delay: float | None
    """Seconds that were waited before that."""
    prompt_id: str = ""
    """Under which the worker knew it."""


@dataclass(frozen=True, slots=True)
class Usage:
    """What an attempt took. `record` is for estimates of later jobs; None teaches nothing."""

    cost: float
    record: bytes | None = None
    seconds: float = 0.0
    """Of the worker."""


@dataclass(frozen=True, slots=True)
class NewOutput:
    """A file that a worker made, already in the blob store under `blob_key`."""

    id: OutputId
    node_id: str
    kind: str
    filename: str
    subfolder: str
    is_temporary: bool
    content_type: str
    size: int
    sha256: str
    blob_key: str
    blake3: str | None = None
    """None for those of earlier versions."""


@dataclass(frozen=True, slots=True)
class Output:
    job_id: JobId
    attempt: int
    position: int
    is_partial: bool
    created_at: Instant
    file: NewOutput
    tier: Tier = Tier.IMMEDIATE
    retention: Tier | None = None
    """The last tier that it sees; None: as the server is set up."""
    gone_at: Instant | None = None
    gone_reason: GoneReason | None = None
