"""Blobs in several places, by the tier of their life cycle that they are in."""

import asyncio
from collections.abc import AsyncIterator, Collection, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import structlog

from comfyrail.errors import OutputNotFound, StoreUnavailable
from comfyrail.results.blob_keys import blob_gone
from comfyrail.results.blob_store import BlobStore, OpenBlob, StoredBlob, StoredFile

log = structlog.get_logger(__name__)

READERS_SECONDS = 2.0
"""So long a move waits for those who read the file by its name."""
LOOK_SECONDS = 0.1


@dataclass(frozen=True, slots=True)
class TieredBlob:
    """One that may be moved while it is read."""

    key: str
    found: OpenBlob
    places: Sequence[BlobStore]

    @property
    def size(self) -> int:
        return self.found.size

    @property
    def path(self) -> Path | None:
        return self.found.path

    async def chunks(self, start: int = 0, stop: int | None = None) -> AsyncIterator[bytes]:
        blob = self.found
        for _ in self.places:
            try:
                async for chunk in blob.chunks(start, stop):
                    start += len(chunk)
                    yield chunk
            except OutputNotFound:
                blob = await _find(self.places, self.key)
            else:
                return
        raise blob_gone()


class TieredBlobStore:
    """What is saved goes to `main`; `tiers` are the stores of other tiers by their names. Tiers
    without one are in `main`. Whoever reads a blob need not know where it is.
    """

    def __init__(self, main: BlobStore, tiers: Mapping[str, BlobStore]) -> None:
        self._main = main
        self._tiers = dict(tiers)
        others = {id(store): store for store in self._tiers.values() if store is not main}
        self._places: tuple[BlobStore, ...] = (main, *others.values())

    async def save(self, chunks: AsyncIterator[bytes]) -> StoredBlob:
        return await self._main.save(chunks)

    def settle(self, keys: Collection[str], *, are_kept: bool) -> None:
        self._main.settle(keys, are_kept=are_kept)

    def doubt(self, keys: Collection[str]) -> None:
        self._main.doubt(keys)

    # Reading

    async def open(self, key: str) -> TieredBlob:
        return TieredBlob(key, await _find(self._places, key), self._places)

    @asynccontextmanager
    async def local(self, key: str) -> AsyncIterator[Path]:
        async with AsyncExitStack() as stack:
            yield await self._enter_local(key, stack)

    async def _enter_local(self, key: str, stack: AsyncExitStack) -> Path:
        for place in (*self._places, self._main):  # it may be on its way to where we have looked
            try:
                return await stack.enter_async_context(place.local(key))
            except OutputNotFound:
                continue
        raise blob_gone()

    async def signed_url(
        self, key: str, seconds: float, *, filename: str, content_type: str, is_inline: bool
    ) -> str | None:
        place = await self._place_of(key)
        return await place.signed_url(
            key, seconds, filename=filename, content_type=content_type, is_inline=is_inline
        )

    async def _place_of(self, key: str) -> BlobStore:
        for place in self._places:
            try:
                await place.open(key)
            except OutputNotFound:
                continue
            return place
        raise blob_gone()

    # Moving

    async def move(self, key: str, tier: str) -> None:
        """Copies come first, and what is too many is removed then: there is always one. One that
        somebody uses by its name, or has just saved again, stays where it is besides.
        """
        target = self._tiers.get(tier, self._main)
        sources = [place for place in self._places if place is not target]
        # What is saved again after this look is another file: it is not removed.
        looked = [(place, await place.look_at([key])) for place in sources]
        if not any(files for _, files in looked):
            await target.open(key)
            return
        # Also where one lies there already: it may have been looked at, and be about to go.
        blob = await target.save((await self.open(key)).chunks())
        try:
            _check_same(blob, key)
            for place, files in looked:
                if files:
                    await _remove_when_unused(place, files)
        finally:
            target.settle([blob.key], are_kept=blob.key == key)

    # What the sweeper asks

    def take_doubtful(self) -> Sequence[str]:
        found = {key for place in self._places for key in place.take_doubtful()}
        return sorted(found)

    async def look_at(self, keys: Sequence[str]) -> Sequence[StoredFile]:
        return [
            _of_place(number, file)
            for number, place in enumerate(self._places)
            for file in await place.look_at(keys)
        ]

    async def files(self) -> AsyncIterator[Sequence[StoredFile]]:
        for number, place in enumerate(self._places):
            async for files in place.files():
                yield [_of_place(number, file) for file in files]

    async def remove(self, files: Sequence[StoredFile]) -> int:
        removed = 0
        for number, place in enumerate(self._places):
            own = [file for file in files if _place_in(file) == number]
            if own:
                removed += await place.remove([_plain(file) for file in own])
        return removed

    async def close(self) -> None:
        for place in self._places:
            await place.close()


async def _find(places: Sequence[BlobStore], key: str) -> OpenBlob:
    for place in (*places, places[0]):  # it may be on its way to where we have looked already
        try:
            return await place.open(key)
        except OutputNotFound:
            continue
    raise blob_gone()


def _check_same(blob: StoredBlob, key: str) -> None:
    if blob.key != key:
        log.error("blob_has_other_bytes", key=key, size=blob.size)
        raise StoreUnavailable(
            "The file is damaged where it lies: its bytes are not those that were saved.",
            details={"key": key},
        )


async def _remove_when_unused(place: BlobStore, files: Sequence[StoredFile]) -> None:
    end = asyncio.get_running_loop().time() + READERS_SECONDS
    while not await place.remove(files):
        keys = [file.key for file in files]
        if asyncio.get_running_loop().time() > end or not await place.look_at(keys):
            return
        await asyncio.sleep(LOOK_SECONDS)


def _of_place(number: int, file: StoredFile) -> StoredFile:
    return replace(file, version=f"{number}:{file.version}")


def _place_in(file: StoredFile) -> int:
    return int(file.version.partition(":")[0])


def _plain(file: StoredFile) -> StoredFile:
    return replace(file, version=file.version.partition(":")[2])
