"""The bodies of the RunPod-shaped surface."""

from collections.abc import Mapping, Sequence
from typing import Annotated, Any

import msgspec

from comfyrail.api.check_contract import ParameterText, WorkflowText, given_text
from comfyrail.api.contract import CallbackUrl
from comfyrail.api.runpod.words import JOB_COUNT_OF, LOW_PRIORITY, WORKER_COUNT_OF, status_of
from comfyrail.api.submissions import refuse_what_is_not_done_yet
from comfyrail.errors import MalformedRequest
from comfyrail.fleet.view import WorkerView
from comfyrail.jobs.job import Job
from comfyrail.jobs.output_config import OutputConfig
from comfyrail.jobs.priority import DEFAULT_PRIORITY
from comfyrail.jobs.states import JobState
from comfyrail.usecases.submit import DEFAULT_TIMEOUT_SECONDS

Milliseconds = Annotated[float, msgspec.Meta(gt=0)]


class PodImage(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """A picture that the workflow names: `image` is base64 or a `data:` URL."""

    name: str
    image: str


class PodInput(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    workflow: WorkflowText = msgspec.field(default_factory=msgspec.Raw)
    workflow_id: str | None = None
    input_params: ParameterText = msgspec.field(default_factory=msgspec.Raw)
    images: list[PodImage] | None = None
    comfy_org_api_key: str | None = None
    """For nodes that ask services of Comfy Org. It is never stored."""


class PodPolicy(msgspec.Struct, kw_only=True, rename="camel"):
    execution_timeout: Milliseconds | None = None
    ttl: Milliseconds | None = None
    low_priority: bool = False


class PodRequest(msgspec.Struct, kw_only=True):
    """What a RunPod endpoint takes, and `output_config` beside it; `s3Config` is refused."""

    input: PodInput
    policy: PodPolicy = msgspec.field(default_factory=PodPolicy)
    webhook: CallbackUrl | None = None
    output_config: OutputConfig | None = None
    s3Config: Any = None  # noqa: N815 - RunPod's name for it


class PodJob(msgspec.Struct, kw_only=True):
    id: str
    status: str


class PodFile(msgspec.Struct, kw_only=True):
    """`type` is `base64`, or `url` where all files together are large."""

    filename: str
    type: str
    data: str


class PodOutput(msgspec.Struct, kw_only=True):
    images: list[PodFile]
    files: list[PodFile] | msgspec.UnsetType = msgspec.UNSET
    """What is no picture: video, audio, text."""


class PodStatus(msgspec.Struct, kw_only=True, rename="camel"):
    """Times in milliseconds."""

    id: str
    status: str
    delay_time: int | msgspec.UnsetType = msgspec.UNSET
    execution_time: int | msgspec.UnsetType = msgspec.UNSET
    worker_id: str | msgspec.UnsetType = msgspec.UNSET
    output: PodOutput | msgspec.UnsetType = msgspec.UNSET
    error: str | msgspec.UnsetType = msgspec.UNSET


class PodPart(msgspec.Struct, kw_only=True):
    output: Any


class PodStream(msgspec.Struct, kw_only=True):
    status: str
    stream: list[PodPart]


class PodHealth(msgspec.Struct, kw_only=True):
    jobs: dict[str, int]
    workers: dict[str, int]


def check_request(body: PodRequest) -> None:
    """Refuse what would be left undone."""
    refuse_what_is_not_done_yet(s3Config=body.s3Config)
    if body.input.images and given_text(body.input.workflow) is None:
        raise MalformedRequest("input.images come with a workflow: give input.workflow too.")


def secrets_of(given: PodInput) -> dict[str, str]:
    key = given.comfy_org_api_key
    return {"api_key_comfy_org": key} if key else {}


def timeout_of(policy: PodPolicy) -> float:
    limit = policy.execution_timeout
    return DEFAULT_TIMEOUT_SECONDS if limit is None else limit / 1000


def patience_of(policy: PodPolicy) -> float | None:
    return None if policy.ttl is None else policy.ttl / 1000


def priority_of(policy: PodPolicy) -> int:
    return LOW_PRIORITY if policy.low_priority else DEFAULT_PRIORITY


def pod_status(job: Job, output: PodOutput | None = None) -> PodStatus:
    body = PodStatus(id=job.id, status=status_of(job))
    if job.started_at is not None:
        body.delay_time = max(0, job.started_at - job.submitted_at)
        if job.completed_at is not None:
            body.execution_time = max(0, job.completed_at - job.started_at)
    if job.worker_id is not None:
        body.worker_id = job.worker_id
    if output is not None:
        body.output = output
    if job.fault is not None:
        body.error = job.fault.message
    return body


def pod_health(
    counts: Mapping[JobState, int], retried: int, workers: Sequence[WorkerView]
) -> PodHealth:
    jobs = {word: counts.get(state, 0) for state, word in JOB_COUNT_OF.items()}
    shown = dict.fromkeys(("idle", "initializing", "ready", "running", "throttled", "unhealthy"), 0)
    for view in workers:
        word = "throttled" if view.is_cordoned else WORKER_COUNT_OF.get(view.status)
        if word is not None:
            shown[word] += 1
    shown["ready"] = shown["idle"] + shown["running"]
    return PodHealth(jobs={**jobs, "retried": retried}, workers=shown)
