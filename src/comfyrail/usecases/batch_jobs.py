"""Making the jobs of a batch: every one checked, none stored."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec

from comfyrail.access.principal import Principal
from comfyrail.clock import Instant
from comfyrail.errors import InvalidWorkflow, MalformedRequest, RequestError
from comfyrail.ids import BatchId
from comfyrail.jobs.batches import (
    BatchItem,
    BatchJob,
    WorkflowSource,
    describe_parameters,
    merge_parameters,
)
from comfyrail.jobs.job import BatchPlace
from comfyrail.jobs.output_config import AS_IT_IS, OutputConfig
from comfyrail.jobs.priority import DEFAULT_PRIORITY
from comfyrail.jobs.webhooks import JobWebhook
from comfyrail.usecases.batch_turns import Making
from comfyrail.usecases.checks import WorkflowRequest
from comfyrail.usecases.examination import findings_of
from comfyrail.usecases.submit import (
    DEFAULT_TIMEOUT_SECONDS,
    Prepared,
    Submission,
    SubmitWorkflow,
)
from comfyrail.validation.findings import FINDING_LIMIT
from comfyrail.validation.fixes import Fix

MOST_BYTES = 256 << 20
"""Of all workflows of a batch together: they are in memory until the last one is checked."""
MOST_BAD_ITEMS = 20
"""After so many there is enough to mend."""


@dataclass(frozen=True, slots=True)
class BatchBase:
    """What the jobs of a batch have in common. Without a priority they wait for quiet times."""

    source: WorkflowSource = field(default_factory=WorkflowSource)
    parameters: Mapping[str, Any] = field(default_factory=dict)
    auto_fix: bool = False
    optimize: bool = False
    priority: int | None = None
    timeout_seconds: float = DEFAULT_TIMEOUT_SECONDS
    queue_timeout: float | None = None
    labels: Mapping[str, str] = field(default_factory=dict)
    execution_config: Mapping[str, Any] = field(default_factory=dict)
    not_before: Instant | None = None
    max_retries: int | None = None
    output_config: OutputConfig = AS_IT_IS
    webhook: JobWebhook | None = None

    def encode(self) -> bytes:
        return msgspec.json.encode(self)

    @classmethod
    def decode(cls, content: bytes) -> "BatchBase":
        return msgspec.json.decode(content, type=cls)


@dataclass(frozen=True, slots=True)
class ItemFix:
    """What was mended in one job's workflow."""

    index: int
    fix: Fix


@dataclass(frozen=True, slots=True)
class MadeJobs:
    jobs: Sequence[BatchJob]
    fixes: Sequence[ItemFix]


class BatchJobs:
    """Makes jobs through the same checks that a single submission goes through."""

    def __init__(self, submit: SubmitWorkflow) -> None:
        self._submit = submit
        self.admit = submit.admit

    async def make(
        self, principal: Principal, batch_id: BatchId, base: BatchBase, index: int, item: BatchItem
    ) -> tuple[BatchJob, Sequence[Fix]]:
        """One job. Raises InvalidWorkflow with every fault that was found."""
        place = BatchPlace(batch_id, index, item.name)
        prepared = await self._prepare(principal, base, item, place)
        own = msgspec.json.encode(item.parameters)
        return BatchJob(index, own, item.name, prepared.job), prepared.fixes

    async def make_all(
        self,
        principal: Principal,
        batch_id: BatchId,
        base: BatchBase,
        items: Iterable[BatchItem],
        making: Making,
    ) -> MadeJobs:
        """Every job, or one error with the faults of all: the findings name their items."""
        jobs: list[BatchJob] = []
        fixes: list[ItemFix] = []
        faults = _Faults()
        size = 0
        for index, item in enumerate(items):
            await making.pause()
            try:
                job, mended = await self.make(principal, batch_id, base, index, item)
            except InvalidWorkflow as error:
                jobs.clear()
                called = f" ({item.name})" if item.name else ""
                if faults.add(index, f"Item {index}{called}", error):
                    break
                continue
            except MalformedRequest as error:
                if item.priority is None and item.source is None:
                    raise  # it is not the item's own fault
                raise _of_item(error, index) from error
            if faults.bad_items:
                continue
            prompt_size = len(job.job.prompt) + len(job.job.layout or b"") if job.job else 0
            size += prompt_size
            if size > MOST_BYTES:
                raise _too_large(index + 1)
            making.keep(prompt_size)
            jobs.append(job)
            fixes += [ItemFix(index, fix) for fix in mended]
        faults.refuse()
        return MadeJobs(jobs, fixes)

    async def check(
        self,
        principal: Principal,
        base: BatchBase,
        samples: Iterable[Mapping[str, Any]],
        making: Making,
    ) -> None:
        """Raise InvalidWorkflow unless the workflow can run with each of these parameters."""
        faults = _Faults()
        for index, parameters in enumerate(samples):
            await making.pause()
            try:
                await self._prepare(principal, base, BatchItem(parameters), None)
            except InvalidWorkflow as error:
                if faults.add(index, f"With {describe_parameters(parameters)}", error):
                    break
        faults.refuse()

    async def _prepare(
        self, principal: Principal, base: BatchBase, item: BatchItem, place: BatchPlace | None
    ) -> Prepared:
        source = item.source or base.source
        priority = base.priority if item.priority is None else item.priority
        parameters = merge_parameters(base.parameters, item.parameters)
        return await self._submit.prepare(
            principal,
            Submission(
                WorkflowRequest(
                    source.workflow,
                    source.workflow_id,
                    msgspec.json.encode(parameters) if parameters else None,
                    base.auto_fix,
                    base.optimize,
                ),
                DEFAULT_PRIORITY if priority is None else priority,
                base.timeout_seconds,
                base.execution_config,
                base.labels,
                base.not_before,
                base.queue_timeout,
                base.max_retries,
                is_batch=priority is None,
                batch=place,
                output_config=base.output_config,
                webhook=base.webhook,
            ),
        )


def trial_item(parameters: Mapping[str, Any]) -> BatchItem:
    """A trial of a search, named after its parameters."""
    return BatchItem(parameters, describe_parameters(parameters))


def unmade_job(index: int, item: BatchItem, why: str) -> BatchJob:
    """In place of a job that cannot be submitted."""
    return BatchJob(index, msgspec.json.encode(item.parameters), item.name, None, why)


class _Faults:
    """What is wrong with which items, as one error."""

    def __init__(self) -> None:
        self._findings: list[dict[str, Any]] = []
        self._first: InvalidWorkflow | None = None
        self.bad_items: list[int] = []

    def add(self, index: int, where: str, error: InvalidWorkflow) -> bool:
        """Whether that is enough."""
        self._first = self._first or error
        self.bad_items.append(index)
        for finding in findings_of(error):
            named = finding.as_dict()
            named["message"] = f"{where}: {finding.message}"
            named["details"] = {**finding.details, "item": index}
            self._findings.append(named)
        return len(self.bad_items) >= MOST_BAD_ITEMS or len(self._findings) >= FINDING_LIMIT

    def refuse(self) -> None:
        if self._first is None:
            return
        errors = [each for each in self._findings if each["severity"] == "error"]
        more = f" And {len(errors) - 1} more: see the findings." if len(errors) > 1 else ""
        raise InvalidWorkflow(
            f"{errors[0]['message'] if errors else self._first.message}{more}",
            code=self._first.code,
            findings=self._findings[:FINDING_LIMIT],
            details={"errors": len(errors), "items": self.bad_items},
        ) from self._first


def _of_item(error: MalformedRequest, index: int) -> RequestError:
    return MalformedRequest(
        f"Item {index}: {error.message}", code=error.code, details={**error.details, "item": index}
    )


def _too_large(made: int) -> RequestError:
    return RequestError(
        f"The workflows of the batch are too large together: the first {made:,} of them have more "
        f"than {MOST_BYTES >> 20} MiB. Submit several smaller batches.",
        code="BATCH_TOO_LARGE",
        details={"limit": MOST_BYTES},
    )
