"""Running an ended job once more: a new job of the same graph and options."""

from dataclasses import dataclass
from typing import Any

import msgspec

from comfyrail.access.principal import Principal
from comfyrail.errors import Conflict
from comfyrail.ids import JobId, WorkerId
from comfyrail.jobs.job import IdempotencyKey, Job, Origin
from comfyrail.jobs.priority import QueueClass
from comfyrail.store.interface import JobWishes, Store
from comfyrail.usecases.checks import WorkflowRequest
from comfyrail.usecases.drawings import JobDrawings
from comfyrail.usecases.submit import Accepted, Submission, SubmitWorkflow

RETRYING_SURFACES = frozenset({"v1", "v2"})
"""Doors whose origin key is the job that was run once more."""

_decode_config = msgspec.json.Decoder(dict[str, Any]).decode


@dataclass(frozen=True, slots=True)
class Changes:
    """What is to be other than it was; None: as it was."""

    priority: int | None = None
    timeout_seconds: float | None = None
    max_retries: int | None = None


class ResubmitJob:
    """The graph is checked anew: the fleet may be another one by now."""

    def __init__(self, store: Store, submit: SubmitWorkflow, drawings: JobDrawings) -> None:
        self._store = store
        self._drawings = drawings
        self._submit = submit

    async def __call__(
        self,
        principal: Principal,
        job_id: JobId,
        changes: Changes,
        surface: str,
        idempotency: IdempotencyKey | None = None,
    ) -> Accepted:
        """Raises Conflict for a job that has not ended."""
        job = await self._store.get_job(principal.tenant, job_id)
        if not job.state.is_final:
            raise Conflict(
                f"The job is {job.state}: only one that has ended can be run once more. Wait for "
                "its end, or cancel it.",
                code="EXECUTION_NOT_ENDED",
                details={"execution_id": job_id, "status": job.state},
            )
        drawing = await self._drawings.of(principal, job_id)
        wishes = await self._store.wishes_of(principal.tenant, job_id)
        needs = await self._store.needs_of(job_id)
        submission = Submission(
            request=WorkflowRequest(drawing.prompt),
            priority=_or(changes.priority, job.priority),
            timeout_seconds=_or(changes.timeout_seconds, job.timeout_seconds),
            execution_config=_execution_config(principal, wishes),
            labels=needs.labels,
            queue_timeout=wishes.queue_timeout,
            max_retries=_or(changes.max_retries, job.max_retries),
            is_batch=job.queue_class is QueueClass.BATCH,
            idempotency=idempotency,
            origin=Origin(surface, job_id),
            worker=WorkerId(needs.worker) if needs.worker else None,
            output_config=wishes.output_config,
            webhook=wishes.webhook,
            layout=drawing.layout,
        )
        return await self._submit(principal, submission)


def retry_of(job: Job) -> JobId | None:
    """The job that this one runs once more."""
    if job.surface not in RETRYING_SURFACES or job.origin_key is None:
        return None
    return JobId(job.origin_key)


def _execution_config(principal: Principal, wishes: JobWishes) -> dict[str, Any]:
    """As it was asked for: the name of a checkpoint is its owner's again."""
    config = _decode_config(wishes.execution_config or b"{}")
    checkpoint = config.get("checkpoint")
    if isinstance(checkpoint, str):
        config["checkpoint"] = checkpoint.removeprefix(f"{principal.tenant}/")
    return config


def _or(wanted: Any, given: Any) -> Any:
    return given if wanted is None else wanted
