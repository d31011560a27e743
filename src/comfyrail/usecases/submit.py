"""Submitting a workflow: read, set parameters, validate, plan, store."""

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import msgspec

from comfyrail.access.principal import Principal
from comfyrail.clock import Clock, Instant
from comfyrail.engine.options import LONGEST_CHECKPOINT_NAME, RunOptions, read_run_options
from comfyrail.errors import ConfigurationError, MalformedRequest, MalformedWorkflow
from comfyrail.ids import JobId, new_job_id
from comfyrail.jobs.job import NewJob
from comfyrail.jobs.priority import (
    DEFAULT_PRIORITY,
    HIGHEST_PRIORITY,
    LOWEST_PRIORITY,
    queue_rank,
)
from comfyrail.planning.duration import expected_seconds
from comfyrail.store.interface import Store
from comfyrail.validation.findings import refuse_errors
from comfyrail.validation.validate import validate
from comfyrail.workflow.catalog import NodeCatalog
from comfyrail.workflow.graph import Workflow, parse_workflow
from comfyrail.workflow.parameters import apply_parameters

DEFAULT_TIMEOUT_SECONDS = 1800.0
MAXIMUM_TIMEOUT_SECONDS = 86400.0
SMALL_SUBMISSION = 1 << 16
"""Up to so many bytes of JSON the checks may run on the event loop: a few milliseconds."""


@dataclass(frozen=True, slots=True)
class Submission:
    workflow: object
    input_params: Mapping[str, Any] = field(default_factory=dict)
    priority: int = DEFAULT_PRIORITY
    timeout_seconds: float = DEFAULT_TIMEOUT_SECONDS
    execution_config: Mapping[str, Any] = field(default_factory=dict)
    """Options of Comfyrail's engine."""
    encoded_size: int | None = None
    """Bytes of JSON that it came as, where they are known."""


@dataclass(frozen=True, slots=True)
class Accepted:
    job_id: JobId
    submitted_at: Instant
    expected_seconds: float
    queue_position: int | None


class SubmitWorkflow:
    """Returns when the job is on disk, or raises with every fault that was found."""

    def __init__(self, store: Store, clock: Clock, catalog: Callable[[], NodeCatalog]) -> None:
        self._store = store
        self._clock = clock
        self._catalog = catalog

    async def __call__(self, principal: Principal, submission: Submission) -> Accepted:
        _check_limits(submission)
        if submission.encoded_size is not None and submission.encoded_size <= SMALL_SUBMISSION:
            workflow, prompt = self._prepare(submission)
        else:
            workflow, prompt = await asyncio.to_thread(self._prepare, submission)
        now = self._clock.now()
        job = NewJob(
            id=new_job_id(),
            tenant=principal.tenant,
            prompt=prompt,
            node_count=len(workflow.nodes),
            node_types=frozenset(node.class_type for node in workflow.nodes.values()),
            priority=submission.priority,
            rank=queue_rank(now, submission.priority),
            timeout_seconds=submission.timeout_seconds,
            expected_seconds=expected_seconds(workflow),
            submitted_at=now,
            execution_config=_execution_config(principal, submission),
        )
        position = await self._store.add_job(job)
        return Accepted(job.id, now, job.expected_seconds, position)

    def _prepare(self, submission: Submission) -> tuple[Workflow, bytes]:
        catalog = self._catalog()
        try:
            workflow = parse_workflow(submission.workflow)
            workflow = apply_parameters(workflow, submission.input_params, catalog).expanded()
            refuse_errors(validate(workflow, catalog))
            return workflow, msgspec.json.encode(workflow.to_prompt())
        except RecursionError as error:
            raise MalformedWorkflow("The workflow is nested too deeply.") from error


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
