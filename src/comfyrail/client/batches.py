"""Calls about batches: many jobs under one id."""

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from datetime import datetime
from typing import Any

import msgspec

from comfyrail.client.calls import Ask
from comfyrail.client.paths import quoted

WATCH_SECONDS = 1.0


class BatchCounts(msgspec.Struct):
    queued: int
    processing: int
    completed: int
    failed: int
    cancelled: int
    unmade: int
    awaiting_score: int

    @property
    def ended(self) -> int:
        return self.completed + self.failed + self.cancelled + self.unmade


class Trial(msgspec.Struct):
    index: int
    execution_id: str | None
    parameters: dict[str, Any]
    score: float


class BatchWarning(msgspec.Struct):
    index: int
    message: str


class Batch(msgspec.Struct):
    """`jobs` is how many it will have in the end; `best` is of a search."""

    batch_id: str
    name: str | None
    kind: str
    status: str
    jobs: int
    counts: BatchCounts
    progress: float
    stop_on_error: bool
    submitted_at: datetime
    started_at: datetime | None
    completed_at: datetime | None
    estimated_remaining: float | None
    cost: float | None
    best: Trial | None
    warnings: list[BatchWarning]

    @property
    def is_final(self) -> bool:
        return self.status in {"completed", "failed", "cancelled"}


class BatchFailure(msgspec.Struct):
    category: str
    code: str
    message: str


class BatchExecution(msgspec.Struct):
    index: int
    name: str | None
    execution_id: str | None
    status: str | None
    progress: float
    parameters: dict[str, Any]
    score: float | None
    started_at: datetime | None
    completed_at: datetime | None
    cost: float | None
    warning: str | None
    error: BatchFailure | None


class SubmittedBatch(msgspec.Struct):
    """`executions` names the first 1000."""

    batch_id: str
    name: str | None
    jobs: int
    submitted_at: datetime
    executions: list[str]


class _BatchList(msgspec.Struct):
    batches: list[Batch]
    next_cursor: str | None


class _ExecutionList(msgspec.Struct):
    executions: list[BatchExecution]
    next_cursor: str | None


class Batches:
    """`ComfyrailClient.batches`."""

    def __init__(self, ask: Ask) -> None:
        self._ask = ask

    async def submit(
        self,
        workflow: Mapping[str, Any] | str | None,
        input_params: Mapping[str, Any] | None = None,
        *,
        items: Sequence[Mapping[str, Any]] | None = None,
        grid: Mapping[str, Sequence[Any]] | None = None,
        variants: Mapping[str, Mapping[str, Any]] | None = None,
        search: Mapping[str, Any] | None = None,
        idempotency_key: str | None = None,
        **options: Any,
    ) -> SubmittedBatch:
        """Submit many jobs: exactly one of items, grid, variants and search.

        A text is the name of a workflow in the library; None where every variant has its own.
        Options: name, stop_on_error, seeds, priority, timeout, queue_timeout, max_retries,
        not_before, labels, auto_fix, optimize, execution_config.
        """
        plans = {"items": items, "grid": grid, "variants": variants, "search": search}
        body: dict[str, Any] = {name: plan for name, plan in plans.items() if plan is not None}
        if workflow is not None:
            body["workflow_id" if isinstance(workflow, str) else "workflow"] = workflow
        if input_params:
            body["input_params"] = input_params
        headers = {"Idempotency-Key": idempotency_key} if idempotency_key is not None else None
        return await self._ask(
            "POST", "/v1/batches", SubmittedBatch, {**body, **options}, headers=headers
        )

    async def show(self, batch_id: str) -> Batch:
        return await self._ask("GET", _path(batch_id), Batch)

    async def list(self, page_size: int = 20) -> AsyncIterator[Batch]:
        """Every batch, the newest first."""
        cursor: str | None = ""
        while cursor is not None:
            after = f"&cursor={quoted(cursor)}" if cursor else ""
            page = await self._ask("GET", f"/v1/batches?limit={page_size}{after}", _BatchList)
            for batch in page.batches:
                yield batch
            cursor = page.next_cursor

    async def executions(
        self, batch_id: str, page_size: int = 500, *, after: int = -1
    ) -> AsyncIterator[BatchExecution]:
        """Its jobs in order, each with its parameters and what became of it.

        `after` is the index of the last one that is not wanted.
        """
        cursor: str | None = str(after)
        while cursor is not None:
            path = _path(batch_id, f"/executions?limit={page_size}&cursor={quoted(cursor)}")
            page = await self._ask("GET", path, _ExecutionList)
            for execution in page.executions:
                yield execution
            cursor = page.next_cursor

    async def cancel(self, batch_id: str) -> Batch:
        return await self._ask("POST", _path(batch_id, "/cancel"), Batch)

    async def score(self, batch_id: str, execution_id: str, score: float) -> Batch:
        """Say what a trial is worth, in a search without a node that does."""
        body = {"execution_id": execution_id, "score": score}
        return await self._ask("POST", _path(batch_id, "/scores"), Batch, body)

    async def watch(self, batch_id: str, every: float = WATCH_SECONDS) -> AsyncIterator[Batch]:
        """The batch as it is now and then, until it is over."""
        while True:
            batch = await self.show(batch_id)
            yield batch
            if batch.is_final:
                return
            await asyncio.sleep(every)


def _path(batch_id: str, below: str = "") -> str:
    return f"/v1/batches/{quoted(batch_id)}{below}"
