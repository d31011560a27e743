"""Submitting a workflow: check, estimate, store."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec

from comfyrail.access.principal import Principal
from comfyrail.clock import Clock, Instant
from comfyrail.engine.options import LONGEST_CHECKPOINT_NAME, RunOptions, read_run_options
from comfyrail.errors import ConfigurationError, MalformedRequest
from comfyrail.ids import JobId, new_job_id
from comfyrail.jobs.job import NewJob
from comfyrail.jobs.priority import (
    DEFAULT_PRIORITY,
    HIGHEST_PRIORITY,
    LOWEST_PRIORITY,
    queue_rank,
)
from comfyrail.planning.analysis import Analysis
from comfyrail.store.interface import Store
from comfyrail.usecases.checks import Checked, WorkflowChecks, WorkflowRequest
from comfyrail.usecases.estimates import Estimates
from comfyrail.usecases.examination import refuse_unrunnable
from comfyrail.validation.fixes import Fix
from comfyrail.workflow.graph import Workflow

DEFAULT_TIMEOUT_SECONDS = 1800.0
MAXIMUM_TIMEOUT_SECONDS = 86400.0


@dataclass(frozen=True, slots=True)
class Submission:
    request: WorkflowRequest
    priority: int = DEFAULT_PRIORITY
    timeout_seconds: float = DEFAULT_TIMEOUT_SECONDS
    execution_config: Mapping[str, Any] = field(default_factory=dict)
    """Options of Comfyrail's engine."""


@dataclass(frozen=True, slots=True)
class Accepted:
    job_id: JobId
    submitted_at: Instant
    expected_seconds: float
    queue_position: int | None
    fixes: Sequence[Fix]


class SubmitWorkflow:
    """Returns when the job is on disk, or raises with every fault that was found."""

    def __init__(
        self, store: Store, clock: Clock, checks: WorkflowChecks, estimates: Estimates
    ) -> None:
        self._store = store
        self._clock = clock
        self._checks = checks
        self._estimates = estimates

    async def __call__(self, principal: Principal, submission: Submission) -> Accepted:
        _check_limits(submission)
        execution_config = _execution_config(principal, submission)
        checked = await self._checks.check(principal, submission.request)
        workflow, analysis = _accept(checked)
        prompt = await self._checks.run(_encoded_prompt, workflow, large=checked.is_large)
        prediction = self._estimates.predict(analysis)
        now = self._clock.now()
        job = NewJob(
            id=new_job_id(),
            tenant=principal.tenant,
            prompt=prompt,
            node_count=len(workflow.nodes),
            node_types=analysis.node_types,
            priority=submission.priority,
            rank=queue_rank(now, submission.priority),
            timeout_seconds=submission.timeout_seconds,
            expected_seconds=prediction.seconds,
            submitted_at=now,
            execution_config=execution_config,
            estimated_cost=self._estimates.cost(
                prediction.seconds, self._checks.likely_device, analysis
            ),
        )
        position = await self._store.add_job(job)
        return Accepted(job.id, now, job.expected_seconds, position, checked.examination.fixes)


def _accept(checked: Checked) -> tuple[Workflow, Analysis]:
    workflow = refuse_unrunnable(checked.examination)
    if checked.analysis is None:
        raise AssertionError("a workflow that can run was analysed")
    return workflow, checked.analysis


def _encoded_prompt(workflow: Workflow) -> bytes:
    return msgspec.json.encode(workflow.to_prompt())


def _execution_config(principal: Principal, submission: Submission) -> bytes | None:
    """The engine's options, checked. A checkpoint belongs to its tenant."""
    config = dict(submission.execution_config)
    if not config:
        return None
    try:
        options = read_run_options(config, RunOptions(), where="execution_config")
    except ConfigurationError as error:
        raise MalformedRequest(error.message, code="INVALID_EXECUTION_CONFIG") from error
    if options.checkpoint is not None:
        config["checkpoint"] = f"{principal.tenant}/{options.checkpoint}"
        if len(config["checkpoint"]) > LONGEST_CHECKPOINT_NAME:
            raise MalformedRequest(
                "execution_config.checkpoint is too long.", code="INVALID_EXECUTION_CONFIG"
            )
    return msgspec.json.encode(config)


def _check_limits(submission: Submission) -> None:
    if not LOWEST_PRIORITY <= submission.priority <= HIGHEST_PRIORITY:
        raise MalformedRequest(
            f"priority is 1 (lowest) to 10 (highest), not {submission.priority}.",
            code="INVALID_PRIORITY",
        )
    if not 0 < submission.timeout_seconds <= MAXIMUM_TIMEOUT_SECONDS:
        raise MalformedRequest(
            f"timeout is in seconds, more than 0 and at most {MAXIMUM_TIMEOUT_SECONDS:g}.",
            code="INVALID_TIMEOUT",
        )
