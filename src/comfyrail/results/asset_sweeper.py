"""Removes what users' files leave behind: expired assets, uploads that nobody went on with, and
files of jobs that have ended.
"""

import asyncio
from collections.abc import Awaitable, Callable, Collection, Sequence
from itertools import count
from typing import Protocol

import structlog

from comfyrail.errors import StoreUnavailable
from comfyrail.results.input_files import InputFiles

log = structlog.get_logger(__name__)

SWEEP_SECONDS = 60.0
ROUNDS_BETWEEN_INPUTS = 10
"""To look through the input folder takes longer than all else."""
AT_ONCE = 500


class AssetReferences(Protocol):
    """The side of the store that is needed here."""

    async def remove_expired_assets(self, limit: int) -> Sequence[str]: ...

    async def needed_inputs(self, names: Sequence[str]) -> frozenset[str]: ...

    async def kept_contents(self, starts: Sequence[str]) -> frozenset[str]: ...


class Doubts(Protocol):
    def doubt(self, keys: Collection[str]) -> None: ...


class AssetSweeper:
    """`run` goes on until it is cancelled."""

    def __init__(
        self,
        store: AssetReferences,
        blobs: Doubts,
        inputs: InputFiles,
        area: str,
        sweep_uploads: Callable[[], Awaitable[int]],
    ) -> None:
        """`area`: the part of the input folder that has files by their content."""
        self._store = store
        self._blobs = blobs
        self._inputs = inputs
        self._area = area
        self._sweep_uploads = sweep_uploads

    async def run(self) -> None:
        for number in count():
            try:
                await self.sweep(inputs=number % ROUNDS_BETWEEN_INPUTS == 0)
            except (StoreUnavailable, OSError) as error:
                log.warning("assets_not_swept", error=str(error))
            except Exception:  # the next round may do better
                log.exception("asset_sweep_failed")
            await asyncio.sleep(SWEEP_SECONDS)

    async def sweep(self, *, inputs: bool = True) -> None:
        """One round; `inputs`: also through the input folder."""
        while keys := await self._store.remove_expired_assets(AT_ONCE):
            log.info("assets_expired", assets=len(keys))
            self._blobs.doubt(keys)
        await self._sweep_uploads()
        if not inputs:
            return
        names = await asyncio.to_thread(self._inputs.names, self._area)
        for start in range(0, len(names), AT_ONCE):
            await self._sweep_inputs(names[start : start + AT_ONCE])

    async def _sweep_inputs(self, names: Sequence[str]) -> None:
        kept = await self._store.kept_contents(sorted({_shelf(name) for name in names}))
        others = [name for name in names if _shelf(name) not in kept]
        if not others:
            return
        needed = await self._store.needed_inputs(others)
        unneeded = [name for name in others if name not in needed]
        removed = await asyncio.to_thread(self._inputs.remove, unneeded)
        if removed:
            log.info("input_files_removed", removed=removed)


def _shelf(name: str) -> str:
    return name.split("/")[1]
