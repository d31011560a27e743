"""Submitting a workflow: check, estimate, store."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import msgspec

from comfyrail.access.principal import Principal
from comfyrail.clock import Clock, Instant, after
from comfyrail.engine.options import LONGEST_CHECKPOINT_NAME, RunOptions, read_run_options
from comfyrail.errors import ConfigurationError, MalformedRequest
from comfyrail.fleet.prompt_secrets import PromptSecrets
from comfyrail.ids import JobId, WorkerId, new_job_id
from comfyrail.jobs.job import OWN_DOOR, BatchPlace, IdempotencyKey, NewJob, Origin
from comfyrail.jobs.needs import JobNeeds
from comfyrail.jobs.output_config import AS_IT_IS, OutputConfig
from comfyrail.jobs.priority import DEFAULT_PRIORITY, HIGHEST_PRIORITY, LOWEST_PRIORITY
from comfyrail.jobs.quotas import JobQuota
from comfyrail.jobs.recovery import MAXIMUM_RETRIES, MOST_RETRIES
from comfyrail.jobs.states import JobState
from comfyrail.jobs.webhooks import JobWebhook
from comfyrail.planning.analysis import Analysis
from comfyrail.results.input_files import InputFiles
from comfyrail.store.interface import Enqueued, Store
from comfyrail.usecases.checks import Checked, WorkflowChecks, WorkflowRequest
from comfyrail.usecases.estimates import Estimates
from comfyrail.usecases.examination import refuse_unrunnable
from comfyrail.usecases.standing import Standings, needs_of
from comfyrail.usecases.waits import WaitForecast
from comfyrail.validation.fixes import Fix
from comfyrail.workflow.graph import Workflow
from comfyrail.workflow.layouts import encode_layout
from comfyrail.workflow.output_folders import saving_into

DEFAULT_TIMEOUT_SECONDS = 1800.0
MAXIMUM_TIMEOUT_SECONDS = 86400.0
DEFAULT_QUEUE_TIMEOUT_SECONDS = 1800.0
MAXIMUM_QUEUE_TIMEOUT_SECONDS = 30 * 86400.0
MAXIMUM_DELAY_SECONDS = 366 * 86400.0
MOST_LABELS = 20
LONGEST_LABEL = 100


@dataclass(frozen=True, slots=True)
class Submission:
    request: WorkflowRequest
    priority: int = DEFAULT_PRIORITY
    timeout_seconds: float = DEFAULT_TIMEOUT_SECONDS
    execution_config: Mapping[str, Any] = field(default_factory=dict)
    """Options of Comfyrail's engine."""
    labels: Mapping[str, str] = field(default_factory=dict)
    """What the worker's labels must be."""
    not_before: Instant | None = None
    queue_timeout: float | None = None
    """Seconds; None: as the server is set up."""
    max_retries: int | None = None
    """None: as the server is set up."""
    is_batch: bool = False
    """It may wait for quiet times."""
    idempotency: IdempotencyKey | None = None
    batch: BatchPlace | None = None
    origin: Origin = OWN_DOOR
    extra_data: bytes | None = None
    """JSON that goes to the worker beside the graph."""
    secrets: Mapping[str, str] = field(default_factory=dict, repr=False)
    """Keys for its nodes, which go to the worker too and are stored nowhere."""
    worker: WorkerId | None = None
    """The only worker that it may go to."""
    output_config: OutputConfig = AS_IT_IS
    webhook: JobWebhook | None = None
    workflow_label: str | None = None
    """What the caller calls its workflow, where it is none of the library."""
    output_folder: str | None = None
    """A folder below the worker's outputs, into which nodes that take a prefix save their files."""
    layout: bytes | None = None
    """Where the nodes of a graph in API format stand, as it is known from elsewhere."""


@dataclass(frozen=True, slots=True)
class Accepted:
    job_id: JobId
    submitted_at: Instant
    expected_seconds: float
    queue_position: int | None
    predicted_wait: float | None
    fixes: Sequence[Fix]
    is_replay: bool = False
    """The same request had been accepted before under its idempotency key."""
    state: JobState = JobState.QUEUED


async def _admit_all(principal: Principal) -> JobQuota | None:
    del principal
    return None


class SubmitWorkflow:
    """Returns when the job is on disk, or raises with every fault that was found."""

    def __init__(
        self,
        store: Store,
        clock: Clock,
        checks: WorkflowChecks,
        estimates: Estimates,
        standings: Standings,
        waits: WaitForecast,
        queue_timeout: float = DEFAULT_QUEUE_TIMEOUT_SECONDS,
        max_retries: int = MAXIMUM_RETRIES,
        *,
        refuse_new_work: Callable[[], None] = lambda: None,
        admit: Callable[[Principal], Awaitable[JobQuota | None]] = _admit_all,
        secrets: PromptSecrets | None = None,
        input_files: InputFiles | None = None,
    ) -> None:
        """`queue_timeout` and `max_retries`: of jobs that do not say; a timeout of 0 is as long as
        it takes. `refuse_new_work` raises while nothing new can be kept. `admit` raises for a
        caller who has used up what she may, and says what is left to be checked with the store.
        """
        self.admit = admit
        self.check_told: Callable[[JobWebhook | None, OutputConfig], None] = lambda *_: None
        """Raises InvalidWebhook for a webhook or an upload that could never be sent."""
        self._secrets = secrets or PromptSecrets()
        self._input_files = input_files
        self._store = store
        self._clock = clock
        self._checks = checks
        self._estimates = estimates
        self._standings = standings
        self._waits = waits
        self._queue_timeout = queue_timeout
        self._refuse_new_work = refuse_new_work
        self._max_retries = max_retries

    async def __call__(self, principal: Principal, submission: Submission) -> Accepted:
        if submission.idempotency is not None:
            replayed = await self._store.find_by_key(principal.tenant, submission.idempotency)
            if replayed is not None:
                return self._accepted(replayed, None, ())
        quota = await self.admit(principal)
        prepared = await self.prepare(principal, submission)
        self._waits.look()
        if submission.secrets:
            self._secrets.put(prepared.job.id, submission.secrets)
        enqueued = await self._store.add_job(replace(prepared.job, quota=quota))
        return self._accepted(enqueued, prepared.job.needs, prepared.fixes)

    def _accepted(
        self, enqueued: Enqueued, needs: JobNeeds | None, fixes: Sequence[Fix]
    ) -> Accepted:
        place = enqueued.place
        return Accepted(
            enqueued.job_id,
            enqueued.submitted_at,
            enqueued.expected_seconds,
            place.position if place else None,
            self._waits.predict(place, needs) if place else None,
            fixes,
            enqueued.is_replay,
            enqueued.state,
        )

    async def prepare(self, principal: Principal, submission: Submission) -> "Prepared":
        """Everything but the store: a checked job, or every fault that was found, raised."""
        self._refuse_new_work()
        now = self._clock.now()
        _check_limits(submission, now)
        self.check_told(submission.webhook, submission.output_config)
        execution_config = _execution_config(principal, submission)
        checked = await self._checks.check(principal, submission.request)
        workflow, analysis = _accept(checked)
        if checked.examination.inputs and self._input_files is not None:
            await self._input_files.put(checked.examination.inputs)
        if submission.output_folder is not None:
            workflow = saving_into(workflow, submission.output_folder)
        prompt, layout = await self._checks.run(_encoded, workflow, large=checked.is_large)
        prediction = self._estimates.predict(analysis)
        needs = needs_of(analysis, submission.labels, submission.worker or "")
        now = self._clock.now()
        job = NewJob(
            id=new_job_id(),
            tenant=principal.tenant,
            prompt=prompt,
            node_count=len(workflow.nodes),
            needs=needs,
            priority=submission.priority,
            standing=self._standings.of(
                principal,
                submission.priority,
                needs,
                prediction.seconds,
                is_batch=submission.is_batch,
            ),
            timeout_seconds=submission.timeout_seconds,
            expected_seconds=prediction.seconds,
            submitted_at=now,
            execution_config=execution_config,
            estimated_cost=self._estimates.cost(
                prediction.seconds, self._checks.likely_device, analysis
            ),
            not_before=_later(submission.not_before, now),
            queue_timeout=self._patience(submission),
            max_retries=self._retries(submission),
            idempotency=submission.idempotency,
            batch=submission.batch,
            origin=submission.origin,
            extra_data=submission.extra_data,
            inputs=checked.examination.inputs,
            output_config=submission.output_config,
            webhook=submission.webhook,
            workflow_id=checked.workflow_id or submission.workflow_label,
            layout=layout or submission.layout,
        )
        return Prepared(job, checked.examination.fixes)

    def _retries(self, submission: Submission) -> int:
        wanted = submission.max_retries
        return self._max_retries if wanted is None else wanted

    def _patience(self, submission: Submission) -> float | None:
        """What may wait for quiet times may wait long, unless it says otherwise."""
        if submission.queue_timeout is not None:
            return submission.queue_timeout
        return None if submission.is_batch else self._queue_timeout or None


@dataclass(frozen=True, slots=True)
class Prepared:
    """A job that is ready to be stored."""

    job: NewJob
    fixes: Sequence[Fix]


def _accept(checked: Checked) -> tuple[Workflow, Analysis]:
    workflow = refuse_unrunnable(checked.examination)
    if checked.analysis is None:
        raise AssertionError("a workflow that can run was analysed")
    return workflow, checked.analysis


def _encoded(workflow: Workflow) -> tuple[bytes, bytes | None]:
    """The graph, and where its nodes stand."""
    return msgspec.json.encode(workflow.to_prompt()), encode_layout(workflow)


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


def _later(moment: Instant | None, now: Instant) -> Instant | None:
    """A time that has passed is no time to wait for."""
    return moment if moment is not None and moment > now else None


def check_priority(priority: int) -> None:
    if not LOWEST_PRIORITY <= priority <= HIGHEST_PRIORITY:
        raise MalformedRequest(
            f"priority is 1 (lowest) to 10 (highest), not {priority}.",
            code="INVALID_PRIORITY",
        )


def _check_limits(submission: Submission, now: Instant) -> None:
    check_priority(submission.priority)
    if not 0 < submission.timeout_seconds <= MAXIMUM_TIMEOUT_SECONDS:
        raise MalformedRequest(
            f"timeout is in seconds, more than 0 and at most {MAXIMUM_TIMEOUT_SECONDS:g}.",
            code="INVALID_TIMEOUT",
        )
    patience = submission.queue_timeout
    if patience is not None and not 0 < patience <= MAXIMUM_QUEUE_TIMEOUT_SECONDS:
        raise MalformedRequest(
            "queue_timeout is in seconds, more than 0 and at most "
            f"{MAXIMUM_QUEUE_TIMEOUT_SECONDS:g}.",
            code="INVALID_TIMEOUT",
        )
    retries = submission.max_retries
    if retries is not None and not 0 <= retries <= MOST_RETRIES:
        raise MalformedRequest(
            f"max_retries is 0 to {MOST_RETRIES}, not {retries}.", code="INVALID_RETRIES"
        )
    start = submission.not_before
    if start is not None and start > after(now, MAXIMUM_DELAY_SECONDS):
        raise MalformedRequest(
            "not_before is more than a year ahead. Is the date right?", code="INVALID_NOT_BEFORE"
        )
    if len(submission.labels) > MOST_LABELS or any(
        len(text) > LONGEST_LABEL for pair in submission.labels.items() for text in pair
    ):
        raise MalformedRequest(
            f"labels has {MOST_LABELS} entries of {LONGEST_LABEL} characters at most.",
            code="INVALID_LABELS",
        )
