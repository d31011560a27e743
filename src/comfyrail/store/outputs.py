"""Outputs as the store keeps track of them: all of a tenant's, and each through its life."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from comfyrail.clock import Instant
from comfyrail.ids import BatchId, JobId, OutputId, TenantId
from comfyrail.jobs.job import Output
from comfyrail.jobs.life_cycle import GoneReason, Step
from comfyrail.jobs.output_config import Tier


@dataclass(frozen=True, slots=True)
class OutputQuery:
    """Which outputs a list shows; None: whatever it is.

    `kinds`: as nodes say (images, audio …) or the beginning of a content type (image, video).
    `text` is in the texts of the graph that made it, all its words, or in its file's name;
    `workflow` is a name of the library with or without a version; `ids`: only these, if they fit
    the rest.
    """

    ids: frozenset[OutputId] = frozenset()
    kinds: frozenset[str] = frozenset()
    node_id: str | None = None
    workflow: str | None = None
    text: str | None = None
    created_from: Instant | None = None
    created_before: Instant | None = None
    job_id: JobId | None = None
    batch_id: BatchId | None = None
    tier: Tier | None = None
    with_temporary: bool = False
    with_gone: bool = False


@dataclass(frozen=True, slots=True)
class FoundOutput:
    output: Output
    workflow_id: str | None


@dataclass(frozen=True, slots=True)
class OutputPage:
    outputs: Sequence[FoundOutput]
    next_cursor: OutputId | None


DueMark = tuple[Instant, OutputId]
"""When one was due, and which it is."""


@dataclass(frozen=True, slots=True)
class DuePage:
    """`last` is None where there are no outputs."""

    outputs: Sequence[Output]
    last: DueMark | None


@dataclass(frozen=True, slots=True)
class JobToIndex:
    job_id: JobId
    tenant: TenantId
    prompt: bytes


class OutputStore(Protocol):
    async def search_outputs(
        self, tenant: TenantId, query: OutputQuery, after: OutputId | None, limit: int
    ) -> OutputPage:
        """Newest first."""
        ...

    async def jobs_to_index(self, limit: int) -> Sequence[JobToIndex]:
        """Jobs whose texts nobody has looked at yet, oldest first."""
        ...

    async def index_jobs(self, texts: Sequence[tuple[JobToIndex, str]]) -> None:
        """From now on their outputs are found by these texts."""
        ...

    async def due_outputs(self, now: Instant, after: DueMark | None, limit: int) -> DuePage:
        """Those whose tier has ended, of all tenants, the longest due first; `after`: where the
        page before has ended.
        """
        ...

    async def take_step(self, output: Output, step: Step) -> None:
        """Write down where an output is now; without a tier it is gone as expired."""
        ...

    async def end_outputs(self, outputs: Sequence[Output], reason: GoneReason) -> None:
        """From now on they are gone; what refers to their blobs is not counted any more."""
        ...

    async def warmest_other_tier(self, output: Output) -> Tier | None:
        """The first tier that anything else needs its blob in; None: nothing else has it."""
        ...

    async def oldest_outputs(self, after: OutputId | None, limit: int) -> Sequence[Output]:
        """Of all tenants, those that are not gone."""
        ...

    async def kept_bytes(self) -> int:
        """Of all outputs that are not gone; equal ones count once."""
        ...
