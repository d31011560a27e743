"""Batches: many jobs under one id, how a request becomes single ones, and how they add up [4.6]."""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from itertools import product
from typing import Any

from comfyrail.clock import Instant
from comfyrail.errors import RequestError
from comfyrail.ids import BatchId, JobId, TenantId
from comfyrail.jobs.faults import Fault
from comfyrail.jobs.job import NewJob
from comfyrail.jobs.parameter_search import Search, check_search
from comfyrail.jobs.quotas import JobQuota
from comfyrail.jobs.states import JobState
from comfyrail.workflow.nearest import shown

MOST_JOBS = 10_000
LONGEST_NAME = 200
MOST_AXES = 100


class BatchKind(StrEnum):
    LIST = "list"
    GRID = "grid"
    VARIANTS = "variants"
    SEARCH = "search"


class BatchState(StrEnum):
    RUNNING = "running"
    COMPLETED = "completed"
    FAILED = "failed"
    """It is over, and some of its jobs failed."""
    CANCELLED = "cancelled"


@dataclass(frozen=True, slots=True)
class WorkflowSource:
    """A workflow as JSON text, or the reference of one in the library."""

    workflow: bytes | None = None
    workflow_id: str | None = None


@dataclass(frozen=True, slots=True)
class BatchItem:
    """What one job has of its own; `source` stands in place of the batch's workflow."""

    parameters: Mapping[str, Any]
    name: str | None = None
    priority: int | None = None
    source: WorkflowSource | None = None


@dataclass(frozen=True, slots=True)
class ItemList:
    items: Sequence[BatchItem]


@dataclass(frozen=True, slots=True)
class Grid:
    """All combinations of the values; the last target changes fastest."""

    axes: Mapping[str, Sequence[Any]]


@dataclass(frozen=True, slots=True)
class Variant:
    parameters: Mapping[str, Any] = field(default_factory=dict)
    source: WorkflowSource | None = None
    repeat: int | None = None
    """How often it runs; None: once for every seed."""


@dataclass(frozen=True, slots=True)
class Variants:
    """Things to compare. The n-th run of each has the n-th of `seeds`, by target."""

    variants: Mapping[str, Variant]
    seeds: Mapping[str, Sequence[Any]] = field(default_factory=dict)


Plan = ItemList | Grid | Variants | Search


def kind_of(plan: Plan) -> BatchKind:
    match plan:
        case ItemList():
            return BatchKind.LIST
        case Grid():
            return BatchKind.GRID
        case Variants():
            return BatchKind.VARIANTS
        case Search():
            return BatchKind.SEARCH


def count_jobs(plan: Plan) -> int:
    """How many jobs a plan means, without making one of them."""
    match plan:
        case ItemList():
            return len(plan.items)
        case Grid():
            return math.prod(len(values) for values in plan.axes.values())
        case Variants():
            return sum(_repeats(plan, each) for each in plan.variants.values())
        case Search():
            return plan.trials


def check_plan(plan: Plan, most_jobs: int = MOST_JOBS) -> None:
    """Raise INVALID_BATCH or BATCH_TOO_LARGE for what must not be expanded."""
    match plan:
        case Search():
            check_search(plan)
        case Grid():
            _check_axes(plan.axes, "grid")
        case Variants():
            _check_variants(plan)
        case ItemList():
            pass
    names = [item.name for item in plan.items] if isinstance(plan, ItemList) else []
    names += list(plan.variants) if isinstance(plan, Variants) else []
    if any(name is not None and len(name) > LONGEST_NAME for name in names):
        raise _invalid(f"A name has {LONGEST_NAME} characters at most.")
    count = count_jobs(plan)
    if not count:
        raise _invalid("The batch has no jobs: give it at least one item.")
    if count > most_jobs:
        raise RequestError(
            f"The batch means {_written(count)} jobs; {most_jobs:,} at most. "
            "Take fewer values, or search instead of trying all of them.",
            code="BATCH_TOO_LARGE",
            details={"jobs": min(count, 1 << 53), "limit": most_jobs},
        )


def expand(plan: ItemList | Grid | Variants) -> Iterator[BatchItem]:
    """The jobs of a checked plan, in the order in which they are numbered."""
    match plan:
        case ItemList():
            yield from plan.items
        case Grid():
            for values in product(*plan.axes.values()):
                chosen = dict(zip(plan.axes, values, strict=True))
                yield BatchItem(chosen, describe_parameters(chosen))
        case Variants():
            yield from _expand_variants(plan)


def merge_parameters(base: Mapping[str, Any], own: Mapping[str, Any]) -> dict[str, Any]:
    """The batch's parameters with a job's own, which count more.

    Own ones come last: where two keys mean the same input of a node, the later one is set.
    """
    merged = {key: value for key, value in base.items() if key not in own}
    for key, value in own.items():
        given = base.get(key)
        if isinstance(given, Mapping) and isinstance(value, Mapping):
            merged[key] = {**given, **value}
        else:
            merged[key] = value
    return merged


def describe_parameters(parameters: Mapping[str, Any]) -> str:
    """A name for a job by what sets it apart."""
    text = ", ".join(f"{key}={shown(value, 40)}" for key, value in parameters.items())
    return text if len(text) <= LONGEST_NAME else text[: LONGEST_NAME - 1] + "…"


def _expand_variants(plan: Variants) -> Iterator[BatchItem]:
    """In turns, so that all of them are equally far whenever somebody looks."""
    turns = {name: _repeats(plan, each) for name, each in plan.variants.items()}
    for turn in range(max(turns.values())):
        seeds = {
            target: values[turn] for target, values in plan.seeds.items() if turn < len(values)
        }
        for name, variant in plan.variants.items():
            if turn < turns[name]:
                own = merge_parameters(variant.parameters, seeds)
                yield BatchItem(own, name, source=variant.source)


def _repeats(plan: Variants, variant: Variant) -> int:
    if variant.repeat is not None:
        return variant.repeat
    return min((len(values) for values in plan.seeds.values()), default=1)


def _check_axes(axes: Mapping[str, Sequence[Any]], field_name: str) -> None:
    if not 1 <= len(axes) <= MOST_AXES:
        raise _invalid(f"{field_name} has 1 to {MOST_AXES} targets.")
    for target, values in axes.items():
        if not values:
            raise _invalid(f"{field_name}[{target[:80]!r}] has no values.")


def _check_variants(plan: Variants) -> None:
    if plan.seeds:
        _check_axes(plan.seeds, "seeds")
        if len({len(values) for values in plan.seeds.values()}) > 1:
            raise _invalid("seeds: every target has as many values as the others.")
    seeds = min((len(values) for values in plan.seeds.values()), default=None)
    for name, variant in plan.variants.items():
        repeat = variant.repeat
        if repeat is None:
            continue
        if repeat < 1:
            raise _invalid(f"variants[{name[:80]!r}].repeat is 1 at least.")
        if seeds is not None and repeat > seeds:
            raise _invalid(
                f"variants[{name[:80]!r}].repeat is {_written(repeat)}, and there are only "
                f"{seeds} seeds."
            )


def _written(count: int) -> str:
    """Python refuses to write out numbers of thousands of digits."""
    return f"{count:,}" if count < 10**18 else f"about 10^{round(math.log2(count) * 0.30103)}"


def _invalid(message: str) -> RequestError:
    return RequestError(message, code="INVALID_BATCH")


@dataclass(frozen=True, slots=True)
class NewBatch:
    """A checked request, ready to be stored. `planned`: its jobs, those of a search to come too."""

    id: BatchId
    tenant: TenantId
    kind: BatchKind
    planned: int
    name: str | None = None
    tier: str = ""
    """Of the caller: a search makes jobs later."""
    stop_on_error: bool = False
    search: Search | None = None
    request: bytes | None = None
    """What a search makes its jobs of."""
    quota: JobQuota | None = None
    """What the caller may use in a month; all planned jobs count when the batch is taken."""


@dataclass(frozen=True, slots=True)
class BatchJob:
    """One job of a batch, to be stored. Without `job` it could not be made; `note` says why."""

    index: int
    parameters: bytes
    """Its own ones, as JSON."""
    name: str | None = None
    job: NewJob | None = None
    note: str | None = None


@dataclass(frozen=True, slots=True)
class Trial:
    """The best job of a search so far."""

    index: int
    job_id: JobId | None
    parameters: Mapping[str, Any]
    score: float


@dataclass(frozen=True, slots=True)
class BatchNote:
    index: int
    message: str


@dataclass(frozen=True, slots=True)
class BatchCounts:
    """How many jobs are in which state; `unmade` are trials that could not be submitted."""

    queued: int = 0
    processing: int = 0
    completed: int = 0
    failed: int = 0
    cancelled: int = 0
    unmade: int = 0
    awaiting_score: int = 0

    @property
    def active(self) -> int:
        return self.queued + self.processing

    @property
    def ended(self) -> int:
        return self.completed + self.failed + self.cancelled + self.unmade


@dataclass(frozen=True, slots=True)
class Batch:
    """A batch as it stands now."""

    id: BatchId
    tenant: TenantId
    name: str | None
    kind: BatchKind
    planned: int
    submitted_at: Instant
    stop_on_error: bool
    counts: BatchCounts
    cancelled_at: Instant | None = None
    stopped_at: Instant | None = None
    """When the first failure stopped it."""
    is_growing: bool = False
    """A search that may still make jobs or wait for scores."""
    search: Search | None = None
    best: Trial | None = None
    notes: Sequence[BatchNote] = ()
    started_at: Instant | None = None
    last_end: Instant | None = None
    cost: float | None = None
    running_progress: float = 0.0
    """The sum over the jobs that run."""
    expected_seconds: float = 0.0
    """What is left of the jobs that exist."""

    @property
    def is_over(self) -> bool:
        return not self.counts.active and not self.is_growing

    @property
    def completed_at(self) -> Instant | None:
        return self.last_end if self.is_over else None

    @property
    def state(self) -> BatchState:
        counts = self.counts
        if not self.is_over:
            return BatchState.RUNNING
        if counts.failed or counts.unmade:
            return BatchState.FAILED
        if self.cancelled_at is not None or (counts.cancelled and not counts.completed):
            return BatchState.CANCELLED
        return BatchState.COMPLETED

    @property
    def progress(self) -> float:
        """The mean over all jobs; one that has ended, in whatever way, is done."""
        if self.is_over:
            return 1.0
        return min(0.9999, (self.counts.ended + self.running_progress) / self.planned)


@dataclass(frozen=True, slots=True)
class BatchMember:
    """A job as its batch lists it. `state` is None for one that could not be made, or is gone."""

    index: int
    name: str | None
    job_id: JobId | None
    state: JobState | None
    progress: float
    parameters: Mapping[str, Any]
    score: float | None = None
    note: str | None = None
    started_at: Instant | None = None
    completed_at: Instant | None = None
    cost: float | None = None
    fault: Fault | None = None


def remaining_seconds(batch: Batch, now: Instant) -> float | None:
    """How long it will take, by how fast it went so far; before that by what is expected."""
    if batch.is_over or batch.started_at is None:
        return None
    left = batch.planned - batch.counts.ended - batch.running_progress
    elapsed = max(0, now - batch.started_at) / 1000
    if batch.counts.completed:
        return max(0.0, left) * elapsed / batch.counts.ended
    made = max(1, batch.counts.active)
    unmade = max(0, batch.planned - batch.counts.ended - batch.counts.active)
    work = batch.expected_seconds * (1 + unmade / made)
    return work / max(1, batch.counts.processing)
