"""Brings outputs from tier to tier as they grow old, and removes what is too old or too much."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Sequence
from typing import Protocol

import structlog

from comfyrail.clock import Clock
from comfyrail.errors import OutputNotFound, StoreUnavailable
from comfyrail.ids import OutputId
from comfyrail.jobs.job import Output
from comfyrail.jobs.life_cycle import ORDER, GoneReason, Step, step_at
from comfyrail.jobs.output_config import Tier
from comfyrail.results.clock_watch import ClockWatch
from comfyrail.results.put_off import PutOff
from comfyrail.store.outputs import OutputStore

log = structlog.get_logger(__name__)

ROUND_SECONDS = 60.0
AT_ONCE = 200
MOST_BETWEEN_LOOKS = 5_000
"""So many outputs may go for the quota before their bytes are summed up anew."""
MOVING_SECONDS = 600.0
"""So long a round moves blobs: the next one begins with what must not wait."""
FAILURES_IN_A_ROW = 3
"""After so many the storage itself is taken to be away."""
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
        self._watch = ClockWatch(clock)
        self._put_off = PutOff(clock)

    async def run(self) -> None:
        while True:
            await self.go_round()
            await asyncio.sleep(ROUND_SECONDS)

    async def go_round(self) -> None:
        """Everything that is due now, and what is too much. What moves comes last: a storage that
        is away or slow keeps nothing else waiting. By a clock that has just jumped nothing ages.
        """
        is_steady = self._watch.is_steady()
        if is_steady:
            await _attempt(self._age)
        await _attempt(self._keep_within_quota)
        if is_steady:
            await _attempt(self._move)

    async def _age(self) -> None:
        """All that is due and needs no move."""
        async for output in self._due():
            step = self._step_of(output)
            if not _may_move(step):
                await self._take(output, step)

    async def _move(self) -> None:
        end = self._clock.monotonic() + MOVING_SECONDS
        failures = 0
        async for output in self._due():
            if self._put_off.has(output.file.id):
                continue
            if failures == FAILURES_IN_A_ROW or self._clock.monotonic() > end:
                return
            step = self._step_of(output)
            if not await self._is_placed(output, step):
                failures += 1
                continue
            failures = 0
            # Its row follows its blob: after a crash in between it is done again.
            await self._take(output, step)

    async def _is_placed(self, output: Output, step: Step) -> bool:
        """One that cannot be moved is put off, and does not stop the others."""
        about = {"job_id": output.job_id, "output_id": output.file.id}
        try:
            if step.tier is not None:
                await self._place(output, step.tier)
        except (StoreUnavailable, OSError) as error:
            again = self._put_off.add(output.file.id)
            log.warning("output_not_moved", **about, error=str(error), again_in=again)
            return False
        except Exception:  # a later round may do better
            again = self._put_off.add(output.file.id)
            log.exception("output_not_moved", **about, again_in=again)
            return False
        self._put_off.drop(output.file.id)
        return True

    async def _due(self) -> AsyncIterator[Output]:
        """Each once, whatever becomes of it."""
        now = self._clock.now()
        page = await self._store.due_outputs(now, None, AT_ONCE)
        while page.last is not None:
            for output in page.outputs:
                yield output
            page = await self._store.due_outputs(now, page.last, AT_ONCE)

    def _step_of(self, output: Output) -> Step:
        return step_at(output.created_at, output.retention or self._retention, self._clock.now())

    async def _take(self, output: Output, step: Step) -> None:
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
        while (excess := await self._store.kept_bytes() - self._quota) > 0:
            # Equal files count once: what has gone is known only by looking again.
            if not await self._end_oldest(excess):
                return

    async def _end_oldest(self, excess: int) -> int:
        """As few of the oldest as may do; how many."""
        ended = 0
        seen: set[str] = set()
        last: OutputId | None = None
        while excess > 0 and ended < MOST_BETWEEN_LOOKS:
            oldest = await self._store.oldest_outputs(last, AT_ONCE)
            if not oldest:
                break
            ending, excess = _enough_of(oldest, excess, seen)
            await self._store.end_outputs(ending, GoneReason.QUOTA)
            self._blobs.doubt([each.file.blob_key for each in ending])
            ended += len(ending)
            last = ending[-1].file.id
        log.info("outputs_removed_for_quota", outputs=ended)
        return ended


def _may_move(step: Step) -> bool:
    return step.tier is not None and ORDER.index(step.tier) >= COLD


def _enough_of(oldest: Sequence[Output], excess: int, seen: set[str]) -> tuple[list[Output], int]:
    """Those that have to go, and what is too much without them. `seen`: blobs that count no more,
    and those that have been counted now.
    """
    taken: list[Output] = []
    for output in oldest:
        if excess <= 0:
            break
        taken.append(output)
        if output.file.blob_key not in seen:
            seen.add(output.file.blob_key)
            excess -= output.file.size
    return taken, excess


async def _attempt(part: Callable[[], Awaitable[None]]) -> None:
    """The other parts of a round, and the next round, may do better."""
    try:
        await part()
    except (StoreUnavailable, OSError) as error:
        log.warning("outputs_not_aged", error=str(error))
    except Exception:  # see above
        log.exception("life_cycle_failed")
