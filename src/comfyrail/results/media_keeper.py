"""Looks at files that have come: finds out what they are, and makes what there is to look at of
them. Nobody waits for it; what it was not done with when the server ended it begins anew.
"""

import asyncio
from collections.abc import Iterator, Sequence
from pathlib import Path, PurePosixPath
from typing import Protocol

import structlog

from comfyrail.errors import OutputNotFound, StoreUnavailable
from comfyrail.results.blob_store import BlobReads, BlobWrites, StoredBlob
from comfyrail.results.media.messages import Looked, MadeFile
from comfyrail.results.media.processes import MediaProcessEnded, MediaProcesses
from comfyrail.results.media.unusable import Unusable
from comfyrail.results.media_files import chunks_of
from comfyrail.store.media import (
    LookedAt,
    MediaFacts,
    MediaFile,
    MediaStore,
    Variant,
    WaitingMedia,
    kind_of,
)
from comfyrail.store.signals import MEDIA, Signals

log = structlog.get_logger(__name__)

MOST_ATTEMPTS = 3
NEWEST, OLDEST = 12, 4
"""Of a round, by turns: whoever has made something wants to see it, and nothing waits for ever."""
ROUND_SECONDS = 3.0
"""After so long it is asked anew what waits."""
WRITE_SECONDS = 0.25
PAUSE_SECONDS = 10.0
"""After the store has refused something."""
TIDY_SECONDS = 60.0
TIDY_AT_ONCE = 500


class Blobs(BlobReads, BlobWrites, Protocol):
    """The sides of a blob store that are needed here."""


class MediaKeeper:
    """`run` goes on until it is cancelled."""

    def __init__(
        self,
        store: MediaStore,
        signals: Signals,
        blobs: Blobs,
        processes: MediaProcesses,
        lanes: int = 1,
    ) -> None:
        self._store = store
        self._signals = signals
        self._blobs = blobs
        self._processes = processes
        self._lanes = lanes
        self._tidied_to = ""

    async def run(self) -> None:
        loop = asyncio.get_running_loop()
        next_tidying = loop.time() + TIDY_SECONDS
        with self._signals.subscribe(MEDIA) as news:
            while True:
                is_done = True
                try:
                    is_done = not await self.look_at_some()
                    if loop.time() >= next_tidying:
                        next_tidying = loop.time() + TIDY_SECONDS
                        await self.tidy()
                except (StoreUnavailable, OSError) as error:
                    log.warning("media_not_looked_at", error=str(error))
                    await asyncio.sleep(PAUSE_SECONDS)
                    is_done = False
                except Exception:  # the next round may do better
                    log.exception("media_round_failed")
                    await asyncio.sleep(PAUSE_SECONDS)
                if is_done:
                    await news.wait(TIDY_SECONDS)

    async def look_at_some(self) -> int:
        """One round; how many files waited. Raises StoreUnavailable."""
        waiting = await self._store.waiting_media(NEWEST, OLDEST)
        round_ = _Round(waiting, asyncio.get_running_loop().time())
        lanes = [
            asyncio.create_task(self._look_at_each(round_), name="media-lane")
            for _ in range(min(self._lanes, len(waiting)))
        ]
        try:
            await asyncio.gather(*lanes)
        finally:
            for lane in lanes:
                lane.cancel()
            await asyncio.gather(*lanes, return_exceptions=True)
            self._settle(round_.take(), are_kept=False)
        return len(waiting)

    async def tidy(self) -> None:
        """Forget a part of what belongs to files that nobody has any more."""
        next_, left_over = await self._store.forget_media(self._tidied_to, TIDY_AT_ONCE)
        self._tidied_to = next_ or ""
        self._blobs.doubt(left_over)

    async def _look_at_each(self, round_: "_Round") -> None:
        loop = asyncio.get_running_loop()
        for each in round_.waiting:
            found = await self._look_at(each)
            if found is not None:
                round_.found.append(found)
            if loop.time() - round_.written_at > WRITE_SECONDS:
                await self._write(round_)
            if loop.time() - round_.began_at > ROUND_SECONDS:
                break
        await self._write(round_)

    async def _write(self, round_: "_Round") -> None:
        found = round_.take()
        round_.written_at = asyncio.get_running_loop().time()
        if not found:
            return
        try:
            gone = await self._store.save_media(found)
        except BaseException:
            self._settle(found, are_kept=False)
            raise
        self._settle([each for each in found if each.file in gone], are_kept=False)
        self._settle([each for each in found if each.file not in gone], are_kept=True)

    def _settle(self, found: Sequence[LookedAt], *, are_kept: bool) -> None:
        keys = [variant.blob_key for each in found for variant in each.variants]
        if keys:
            self._blobs.settle(keys, are_kept=are_kept)

    async def _look_at(self, waiting: WaitingMedia) -> LookedAt | None:
        """None: it is to be tried again."""
        file = waiting.file
        try:
            async with (
                self._blobs.local(file.blob_key) as path,
                self._processes.look(path, file.content_type) as (looked, folder),
            ):
                return await self._keep(file, looked, folder)
        except OutputNotFound:
            return _failed(waiting, "The file is gone.")
        except Unusable as error:
            return _failed(waiting, str(error))
        except MediaProcessEnded as error:
            log.warning("media_attempt_failed", blob=file.blob_key, error=str(error))
            if waiting.attempts + 1 < MOST_ATTEMPTS:
                await self._store.count_media_attempt(file)
                return None
            return _failed(waiting, f"{error} That happened {MOST_ATTEMPTS} times.")

    async def _keep(self, file: MediaFile, looked: Looked, folder: Path) -> LookedAt:
        variants: list[Variant] = []
        try:
            for made in looked.variants:
                blob = await self._blobs.save(chunks_of(folder / PurePosixPath(made.file).name))
                variants.append(_variant(made, blob))
        except BaseException:
            self._settle([LookedAt(file, looked.facts, variants)], are_kept=False)
            raise
        return LookedAt(file, looked.facts, variants)


class _Round:
    """What waits, and what was found and is not written yet."""

    def __init__(self, waiting: Sequence[WaitingMedia], now: float) -> None:
        self.waiting: Iterator[WaitingMedia] = iter(waiting)
        self.found: list[LookedAt] = []
        self.began_at = self.written_at = now

    def take(self) -> list[LookedAt]:
        found, self.found = self.found, []
        return found


def _failed(waiting: WaitingMedia, error: str) -> LookedAt:
    kind = kind_of(waiting.file.content_type)
    return LookedAt(waiting.file, MediaFacts(kind=kind, error=error))


def _variant(made: MadeFile, blob: StoredBlob) -> Variant:
    return Variant(
        made.name, blob.key, made.content_type, blob.size, width=made.width, height=made.height
    )
