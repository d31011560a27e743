"""The bodies of batches in API v1."""

import re
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, Literal

import msgspec

from comfyrail.api.check_contract import FixBody, ParameterText, WorkflowText, given_text
from comfyrail.api.contract import dollars, instant_of, moment, rounded, time_of
from comfyrail.errors import Category, MalformedRequest, MalformedWorkflow, RequestError
from comfyrail.jobs.batches import (
    BatchItem,
    BatchMember,
    Grid,
    ItemList,
    Plan,
    Trial,
    Variant,
    Variants,
    WorkflowSource,
)
from comfyrail.jobs.output_config import AS_IT_IS, OutputConfig
from comfyrail.jobs.parameter_search import Goal, Method, Range, Scale, Search
from comfyrail.jobs.webhooks import JobWebhook
from comfyrail.store.interface import MemberPage
from comfyrail.usecases.batch_jobs import BatchBase
from comfyrail.usecases.batches import BatchAccepted, BatchStatus
from comfyrail.workflow.editor.strict_json import read_json
from comfyrail.workflow.nearest import did_you_mean, nearest_names

BATCHES = "/v1/batches"
BATCH = "/v1/batches/{batch_id}"

PLANS = ("items", "grid", "variants", "search")


class BatchItemBody(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """What one job has of its own."""

    input_params: ParameterText = msgspec.field(default_factory=msgspec.Raw)
    name: str | None = None
    priority: int | None = None


class VariantBody(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """One of the things to compare; its workflow stands in place of the batch's."""

    workflow: WorkflowText = msgspec.field(default_factory=msgspec.Raw)
    workflow_id: str | None = None
    input_params: ParameterText = msgspec.field(default_factory=msgspec.Raw)
    repeat: int | None = None


class RangeBody(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    minimum: float
    maximum: float
    step: float | None = None
    scale: Scale = "linear"
    integer: bool = False


class ScoreSource(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    node: str


class SearchBody(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """Values to find. Without `score` the caller says what each trial is worth."""

    parameters: dict[str, RangeBody | list[Any]]
    trials: int
    parallel: int = 4
    method: Method = "evolution"
    seed: int = 0
    goal: Goal = "maximize"
    score: ScoreSource | None = None


class BatchRequest(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """Many jobs: what they have in common, and one of `items`, `grid`, `variants` or `search`."""

    name: str | None = None
    workflow: WorkflowText = msgspec.field(default_factory=msgspec.Raw)
    workflow_id: str | None = None
    input_params: ParameterText = msgspec.field(default_factory=msgspec.Raw)
    auto_fix: bool = False
    optimize: bool = False
    priority: int | None = None
    timeout: float = 1800.0
    queue_timeout: float | None = None
    max_retries: int | None = None
    not_before: datetime | None = None
    labels: dict[str, str] = {}
    execution_config: dict[str, Any] = {}
    output_config: OutputConfig | None = None
    webhook_config: JobWebhook | None = None
    """Every job of the batch tells it."""
    stop_on_error: bool = False
    items: list[BatchItemBody] | None = None
    grid: dict[str, list[Any]] | None = None
    variants: dict[str, VariantBody] | None = None
    seeds: dict[str, list[Any]] | None = None
    search: SearchBody | None = None


class ScoreRequest(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    execution_id: str
    score: float


class BatchFix(msgspec.Struct, kw_only=True):
    index: int
    fix: FixBody


class BatchReply(msgspec.Struct, kw_only=True):
    """`executions` names the first 1000."""

    batch_id: str
    name: str | None
    jobs: int
    submitted_at: datetime
    executions: list[str]
    fixes: list[BatchFix]


class BatchCountsBody(msgspec.Struct, kw_only=True):
    queued: int
    processing: int
    completed: int
    failed: int
    cancelled: int
    unmade: int
    awaiting_score: int


class TrialBody(msgspec.Struct, kw_only=True):
    index: int
    execution_id: str | None
    parameters: Mapping[str, Any]
    score: float


class BatchWarning(msgspec.Struct, kw_only=True):
    index: int
    message: str


class BatchBody(msgspec.Struct, kw_only=True):
    batch_id: str
    name: str | None
    kind: Literal["list", "grid", "variants", "search"]
    status: Literal["running", "completed", "failed", "cancelled"]
    jobs: int
    counts: BatchCountsBody
    progress: float
    stop_on_error: bool
    stopped_at: datetime | None
    cancelled_at: datetime | None
    submitted_at: datetime
    started_at: datetime | None
    completed_at: datetime | None
    estimated_remaining: float | None
    cost: float | None
    goal: str | None
    best: TrialBody | None
    warnings: list[BatchWarning]


class BatchList(msgspec.Struct, kw_only=True):
    batches: list[BatchBody]
    next_cursor: str | None


class MemberError(msgspec.Struct, kw_only=True):
    category: Category
    code: str
    message: str


class BatchExecution(msgspec.Struct, kw_only=True):
    """A job as its batch lists it; `status` is null for a trial that could not be submitted."""

    index: int
    name: str | None
    execution_id: str | None
    status: str | None
    progress: float
    parameters: Mapping[str, Any]
    score: float | None
    started_at: datetime | None
    completed_at: datetime | None
    cost: float | None
    warning: str | None
    error: MemberError | None


class BatchExecutionList(msgspec.Struct, kw_only=True):
    batch_id: str
    executions: list[BatchExecution]
    next_cursor: str | None


def base_of(body: BatchRequest) -> BatchBase:
    return BatchBase(
        source=WorkflowSource(given_text(body.workflow), body.workflow_id),
        parameters=_parameters(body.input_params, "input_params"),
        auto_fix=body.auto_fix,
        optimize=body.optimize,
        priority=body.priority,
        timeout_seconds=body.timeout,
        queue_timeout=body.queue_timeout,
        labels=body.labels,
        execution_config=body.execution_config,
        not_before=instant_of(body.not_before, "not_before"),
        max_retries=body.max_retries,
        output_config=body.output_config or AS_IT_IS,
        webhook=body.webhook_config,
    )


def plan_of(body: BatchRequest) -> Plan:
    """What kind of batch it is. Raises INVALID_BATCH unless it is exactly one."""
    given = [name for name in PLANS if getattr(body, name) is not None]
    if len(given) != 1:
        said = f"it has {' and '.join(given)}" if given else "it has none of them"
        raise RequestError(
            f"A batch has one of items, grid, variants and search: {said}.", code="INVALID_BATCH"
        )
    if body.seeds is not None and body.variants is None:
        raise RequestError("seeds goes with variants only.", code="INVALID_BATCH")
    if body.items is not None:
        return ItemList([_item(each, index) for index, each in enumerate(body.items)])
    if body.grid is not None:
        return Grid(body.grid)
    if body.variants is not None:
        variants = {name: _variant(name, each) for name, each in body.variants.items()}
        return Variants(variants, body.seeds or {})
    return _search(body.search)


def _item(body: BatchItemBody, index: int) -> BatchItem:
    where = f"items[{index}].input_params"
    return BatchItem(_parameters(body.input_params, where), body.name, body.priority)


def _variant(name: str, body: VariantBody) -> Variant:
    text = given_text(body.workflow)
    source = None
    if text is not None or body.workflow_id is not None:
        source = WorkflowSource(text, body.workflow_id)
    where = f"variants[{name[:80]!r}].input_params"
    return Variant(_parameters(body.input_params, where), source, body.repeat)


def _search(body: SearchBody | None) -> Search:
    if body is None:
        raise AssertionError("one kind of batch was given")
    return Search(
        parameters={
            target: tuple(values)
            if isinstance(values, list)
            else Range(values.minimum, values.maximum, values.step, values.scale, values.integer)
            for target, values in body.parameters.items()
        },
        trials=body.trials,
        parallel=body.parallel,
        method=body.method,
        seed=body.seed,
        goal=body.goal,
        score_node=body.score.node if body.score else None,
    )


def _parameters(part: msgspec.Raw, where: str) -> Mapping[str, Any]:
    text = given_text(part)
    if text is None:
        return {}
    try:
        value = read_json(text)
    except MalformedWorkflow as error:
        raise MalformedRequest(f"{where}: {error.message}") from error
    if not isinstance(value, dict):
        raise MalformedRequest(f"{where} is an object: names and their values.")
    return value


# By the place that an error of the decoder names.
_OBJECTS: Mapping[str, type[msgspec.Struct]] = {
    "$": BatchRequest,
    "$.items[]": BatchItemBody,
    "$.variants[]": VariantBody,
    "$.search": SearchBody,
    "$.search.parameters[]": RangeBody,
    "$.search.score": ScoreSource,
}
_UNKNOWN_FIELD = re.compile(r"unknown field `(.*?)`(?:.* - at `([^`]*)`)?", re.DOTALL)


def explain_unknown_field(message: str) -> str:
    """What was meant, for an error of the decoder about a field that an object does not have."""
    found = _UNKNOWN_FIELD.search(message)
    if found is None:
        return ""
    name, place = found.groups()
    kind = _OBJECTS.get(re.sub(r"\[[^]]*\]", "[]", place or "$"))
    if kind is None:
        return ""
    fields = kind.__struct_fields__
    return did_you_mean(nearest_names(name, fields)) or f" There are: {', '.join(fields)}."


def reply_body(accepted: BatchAccepted) -> BatchReply:
    return BatchReply(
        batch_id=accepted.batch_id,
        name=accepted.name,
        jobs=accepted.planned,
        submitted_at=moment(accepted.submitted_at),
        executions=list(accepted.job_ids),
        fixes=[
            BatchFix(index=each.index, fix=FixBody(**each.fix.as_dict())) for each in accepted.fixes
        ],
    )


def batch_body(status: BatchStatus) -> BatchBody:
    batch = status.batch
    counts = batch.counts
    return BatchBody(
        batch_id=batch.id,
        name=batch.name,
        kind=batch.kind.value,
        status=batch.state.value,
        jobs=batch.planned,
        counts=BatchCountsBody(
            queued=counts.queued,
            processing=counts.processing,
            completed=counts.completed,
            failed=counts.failed,
            cancelled=counts.cancelled,
            unmade=counts.unmade,
            awaiting_score=counts.awaiting_score,
        ),
        progress=round(batch.progress, 4),
        stop_on_error=batch.stop_on_error,
        stopped_at=time_of(batch.stopped_at),
        cancelled_at=time_of(batch.cancelled_at),
        submitted_at=moment(batch.submitted_at),
        started_at=time_of(batch.started_at),
        completed_at=time_of(batch.completed_at),
        estimated_remaining=rounded(status.remaining_seconds),
        cost=dollars(batch.cost),
        goal=batch.search.goal if batch.search else None,
        best=None if batch.best is None else _trial_body(batch.best),
        warnings=[BatchWarning(index=each.index, message=each.message) for each in batch.notes],
    )


def batch_list(statuses: Sequence[BatchStatus], next_cursor: str | None) -> BatchList:
    return BatchList(batches=[batch_body(each) for each in statuses], next_cursor=next_cursor)


def member_list(batch_id: str, page: MemberPage) -> BatchExecutionList:
    cursor = None if page.next_cursor is None else str(page.next_cursor)
    return BatchExecutionList(
        batch_id=batch_id,
        executions=[_member_body(each) for each in page.members],
        next_cursor=cursor,
    )


def _trial_body(trial: Trial) -> TrialBody:
    return TrialBody(
        index=trial.index,
        execution_id=trial.job_id,
        parameters=trial.parameters,
        score=trial.score,
    )


def _member_body(member: BatchMember) -> BatchExecution:
    fault = member.fault
    return BatchExecution(
        index=member.index,
        name=member.name,
        execution_id=member.job_id,
        status=member.state,
        progress=round(member.progress, 4),
        parameters=member.parameters,
        score=member.score,
        started_at=time_of(member.started_at),
        completed_at=time_of(member.completed_at),
        cost=dollars(member.cost),
        warning=member.note,
        error=MemberError(category=fault.category, code=fault.code, message=fault.message)
        if fault
        else None,
    )
