"""Brings outputs from tier to tier as they grow old, and removes what is too old or too much."""

import asyncio
from collections.abc import Collection, Sequence
from typing import Protocol

import structlog

from comfyrail.clock import Clock
from comfyrail.errors import OutputNotFound, StoreUnavailable
from comfyrail.jobs.job import Output
from comfyrail.jobs.life_cycle import ORDER, GoneReason, Step, step_at
from comfyrail.jobs.output_config import Tier
from comfyrail.store.outputs import OutputStore

log = structlog.get_logger(__name__)

ROUND_SECONDS = 60.0
AT_ONCE = 200
COLD = ORDER.index(Tier.ARCHIVE)
"""From this tier on blobs may be kept elsewhere."""


class MovableBlobs(Protocol):
    async def move(self, key: str, tier: str) -> None: ...

    def doubt(self, keys: Collection[str]) -> None: ...


class LifeCycleKeeper:
    """`run` goes on until it is cancelled. `retention`: the last tier of outputs that do not say;
    `quota`: bytes of all outputs together, 0 for as many as there are.
    """

    def __init__(
        self,
        store: OutputStore,
        blobs: MovableBlobs,
        clock: Clock,
        retention: Tier = Tier.GLACIER,
        quota: int = 0,
    ) -> None:
        self._store = store
        self._blobs = blobs
        self._clock = clock
        self._retention = retention
        self._quota = quota

    async def run(self) -> None:
        while True:
            try:
                await self.go_round()
            except (StoreUnavailable, OSError) as error:
                log.warning("outputs_not_aged", error=str(error))
            except Exception:  # the next round may do better
                log.exception("life_cycle_failed")
            await asyncio.sleep(ROUND_SECONDS)

    async def go_round(self) -> None:
        """Everything that is due now, and what is too much."""
        now = self._clock.now()
        while due := await self._store.due_outputs(now, AT_ONCE):
            for output in due:
                await self._advance(output)
        await self._keep_within_quota()

    async def _advance(self, output: Output) -> None:
        """Its blob moves first and its row follows: after a crash in between it is done again."""
        retention = output.retention or self._retention
        step = step_at(output.created_at, retention, self._clock.now())
        if step.tier is not None:
            await self._place(output, step.tier)
        await self._store.take_step(output, step)
        if step.tier is None:
            self._blobs.doubt([output.file.blob_key])
            log.info("output_expired", job_id=output.job_id, output_id=output.file.id)

    async def _place(self, output: Output, tier: Tier) -> None:
        """Bring its blob to the tier, unless something else needs it in a warmer one."""
        other = await self._store.warmest_other_tier(output)
        place = tier if other is None else min(tier, other, key=ORDER.index)
        if ORDER.index(place) < COLD:
            return
        try:
            await self._blobs.move(output.file.blob_key, place)
        except OutputNotFound:
            log.warning("output_without_blob", job_id=output.job_id, output_id=output.file.id)

    async def _keep_within_quota(self) -> None:
        if not self._quota:
            return
        excess = await self._store.kept_bytes() - self._quota
        while excess > 0:
            oldest = await self._store.oldest_outputs(None, AT_ONCE)
            if not oldest:
                return
            ending = _enough_of(oldest, excess)
            await self._store.end_outputs(ending, GoneReason.QUOTA)
            self._blobs.doubt([each.file.blob_key for each in ending])
            log.info("outputs_removed_for_quota", outputs=len(ending))
            # Equal files count once: what has gone is known only by looking again.
            excess = await self._store.kept_bytes() - self._quota


def _enough_of(oldest: Sequence[Output], excess: int) -> list[Output]:
    """As few of the oldest as may do."""
    taken: list[Output] = []
    freed = 0
    for output in oldest:
        taken.append(output)
        freed += output.file.size
        if freed >= excess:
            break
    return taken


def where_it_is(output: Output, retention: Tier, clock: Clock) -> Step:
    """The tier of an output by its age, and until when; also before anybody has moved it."""
    return step_at(output.created_at, output.retention or retention, clock.now())
